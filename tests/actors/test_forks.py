"""Runtimes and actors in a process that was forked from theirs: they stay there."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pykka

from greenroom.actors import ActorRegistry, Runtime, RuntimeClosed, default_runtime
from greenroom.actors.runtime import _life, _runtime
from greenroom.actors.runtime._threads import in_flight
from tests.actors.actors import PATIENCE, Counter, Gate, Recorder, in_thread, join_all
from tests.forks import in_a_fork

if TYPE_CHECKING:
    from collections.abc import Callable


def use_everything(runtime: Runtime) -> str:
    """Ask an actor, let a timer call, have work done on a worker and on an event loop."""
    called = threading.Event()
    runtime.call_later(0.0, called.set)

    async def work() -> str:
        return "done"

    assert runtime.start(Counter).ask("count") == 1
    assert called.wait(PATIENCE), "no timer called"
    assert runtime.submit(lambda: "done").get(timeout=PATIENCE) == "done"
    return str(runtime.submit(work).get(timeout=PATIENCE))


def refusal(call: Callable[[], object]) -> str:
    try:
        return f"it returned {call()!r}"
    except (RuntimeClosed, pykka.ActorDeadError) as error:
        return str(error)


def test_a_forked_child_has_a_default_runtime_of_its_own() -> None:
    """K2"""
    parents = default_runtime()
    assert use_everything(parents) == "done"
    try:
        assert in_a_fork(lambda: use_everything(default_runtime())) == "done"
        assert use_everything(parents) == "done"
    finally:
        parents.close()


def test_a_runtime_of_the_parent_starts_nothing_in_a_forked_child_and_closes_at_once(
    runtime: Runtime,
) -> None:
    """K2"""
    use_everything(runtime)
    stuck = runtime.submit((gate := Gate()).wait)
    gate.wait_reached()

    def answers() -> list[str]:
        said = [
            refusal(lambda: runtime.start(Counter)),
            refusal(lambda: runtime.call_later(1.0, print)),
            refusal(lambda: runtime.submit(print)),
        ]
        runtime.close()
        return said

    assert [said for said in in_a_fork(answers) if "belongs to the parent process" not in said] == []
    gate.open()
    stuck.get(timeout=PATIENCE)


def test_an_actor_of_the_parent_is_dead_in_a_forked_child(runtime: Runtime) -> None:
    """K2: and the registry there has only the child's own."""
    ref = runtime.start(Recorder)

    def answers() -> list[str]:
        own = default_runtime().start(Recorder)
        assert ActorRegistry.get_all() == [own]
        ActorRegistry.broadcast("to all")
        assert own.proxy().received.get() == ["to all"]
        assert ref.actor_stopped.wait(PATIENCE)
        assert ref.stop() is False
        return [refusal(lambda: ref.tell("a")), refusal(ref.ask("a", block=False).get)]

    assert [said for said in in_a_fork(answers) if "in the parent process" not in said] == []
    assert ref.ask("b") == "b"


def test_a_child_that_was_forked_in_a_handler_is_in_none(runtime: Runtime) -> None:
    """K2"""

    def fork() -> str:
        return in_a_fork(lambda: use_everything(default_runtime()))

    assert runtime.start(Recorder).ask(fork) == "done"


def locked_by_another_thread(*locks: Any) -> contextlib.ExitStack:
    """Have a thread hold these until the block is left."""
    gate = Gate()

    def hold() -> None:
        with contextlib.ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            gate.wait()

    thread = in_thread(hold)
    gate.wait_reached()
    block = contextlib.ExitStack()
    block.callback(join_all, [thread])
    block.callback(gate.open)
    return block


def test_what_other_threads_had_locked_at_the_fork_does_not_stop_the_child(runtime: Runtime) -> None:
    """K2"""
    use_everything(runtime)
    ref = runtime.start(Recorder)
    timers: Any = runtime._timers
    lanes = [lane.crew._lock for lane in runtime._workers.values()]

    def work() -> str:
        assert runtime.stats().timers == 0
        assert "not found here" in refusal(lambda: ref.tell("a"))
        return use_everything(default_runtime())

    with locked_by_another_thread(
        _life._lock, _runtime._default_lock, runtime._helpers._lock, timers._lock, *lanes
    ):
        assert in_a_fork(work) == "done"


def test_threads_that_a_forked_child_does_not_have_are_not_given_way_to(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)
    gate = Gate()
    thread = in_thread(lambda: ref.ask(gate))
    gate.wait_reached()

    assert in_flight() == 1
    assert in_a_fork(in_flight) == 0

    gate.open()
    join_all([thread])
