"""A short step on an actor, on the caller's thread and without a message."""

from __future__ import annotations

import threading

from greenroom.actors import Actor, Runtime
from tests.actors.actors import Gate


class Register(Actor):
    """Keeps names, and stops at a gate when it is told to."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.names: list[str] = []
        self.threads: list[str] = []
        self._gate = gate

    def on_receive(self, message: str) -> None:
        self._gate.wait()
        self.names.append(message)


def note(register: Register, name: list[str]) -> str:
    register.names += name
    register.threads.append(threading.current_thread().name)
    return "noted"


def names(register: Register, _: list[str]) -> list[str]:
    return register.names


def test_a_step_is_taken_on_the_callers_thread_at_once() -> None:
    with Runtime() as runtime:
        reference = runtime.start(Register, Gate())

        assert reference.step(note, ["anna"]) == "noted"

        assert reference.step(names, []) == ["anna"]
        assert reference.proxy().threads.get() == [threading.current_thread().name]


def test_no_step_is_taken_while_the_actor_is_at_work() -> None:
    gate = Gate()
    with Runtime() as runtime:
        reference = runtime.start(Register, gate)
        telling = threading.Thread(target=reference.tell, args=("anna",))
        telling.start()
        gate.wait_reached()

        assert reference.step(note, ["berta"]) is None

        gate.open()
        telling.join()
        assert reference.proxy().names.get() == ["anna"]


def test_no_step_is_taken_on_an_actor_that_has_stopped() -> None:
    with Runtime() as runtime:
        reference = runtime.start(Register, Gate())
        reference.stop()

        assert reference.step(note, ["anna"]) is None
