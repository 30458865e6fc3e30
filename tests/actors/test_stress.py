"""What is claimed about threads, shown with threads."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import Any

import pykka
import pytest

from greenroom.actors import Actor, ActorRef, Future, RestartPolicy, Runtime
from greenroom.actors.runtime import _courtesy as courtesy
from greenroom.actors.runtime._threads import LOCAL, ThreadState, in_flight
from greenroom.messages import ChildFailed
from tests.actors.actors import PATIENCE, Counter, Recorder, all_at_once, in_thread, join_all


def test_one_message_of_an_actor_at_a_time_and_none_lost(runtime: Runtime) -> None:
    counter = runtime.start(Counter)

    def ask_and_tell() -> None:
        for _ in range(300):
            counter.ask("count")
            counter.tell("count")

    all_at_once([ask_and_tell] * 8)

    assert counter.proxy().count.get() == 8 * 600


def test_answers_are_never_mixed_up(runtime: Runtime) -> None:
    echo = runtime.start(Recorder)

    def ask(n: int) -> None:
        for i in range(300):
            assert echo.ask((n, i), timeout=PATIENCE) == (n, i)

    all_at_once([lambda n=n: ask(n) for n in range(8)])  # type: ignore[misc]  # mypy cannot infer a lambda with defaults


def test_actors_that_tell_each_other_on_all_threads_handle_everything() -> None:
    with Runtime(batch=7) as runtime:

        class Node(Actor):
            def __init__(self) -> None:
                super().__init__()
                self.peers: list[ActorRef[Any]] = []
                self.seen = 0

            def on_receive(self, message: int) -> None:
                self.seen += 1
                if message:
                    self.peers[self.seen % len(self.peers)].tell(message - 1)

        nodes = [runtime.start(Node) for _ in range(16)]
        for node in nodes:
            node.proxy().peers = nodes

        all_at_once([lambda node=node: [node.tell(50) for _ in range(20)] for node in nodes])  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

        def seen() -> int:
            return sum(node.proxy().seen.get(timeout=PATIENCE) for node in nodes)

        # Helpers may still be at it: whoever asks a node waits behind what is in its mailbox, so after
        # as many rounds as a message has hops nothing is on its way any more.
        for _ in range(51):
            seen()
        assert seen() == 16 * 20 * 51


class Fragile(Counter):
    def __init__(self, count: int = 0) -> None:
        super().__init__()
        self.count = count

    def hand_over(self) -> int:
        return self.count

    def on_receive(self, message: Any) -> int:
        if message == "break":
            msg = "as asked"
            raise ValueError(msg)
        return super().on_receive(message)


class Keeper(Actor):
    policy = RestartPolicy(limit=10**6, within=1.0)

    def keep(self) -> ActorRef[Fragile]:
        return self.start_child(Fragile)

    def on_child_failed(self, failure: ChildFailed) -> None:
        self.restart_child(failure, failure.state)


def test_an_actor_that_fails_all_the_time_loses_no_message(runtime: Runtime) -> None:
    fragile = runtime.start(Keeper).proxy().keep().get()

    def use(breaks: bool) -> None:
        for i in range(100):
            assert fragile.ask("count", timeout=PATIENCE) > 0
            if breaks and i % 10 == 0:
                fragile.tell("break")

    all_at_once([lambda breaks=breaks: use(breaks) for breaks in (True, False) * 3])  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

    assert fragile.proxy().count.get(timeout=PATIENCE) == 600
    assert runtime.stats().restarts == 30


def test_whatever_races_a_parents_end_every_ask_is_answered(runtime: Runtime) -> None:
    for _ in range(100):
        keeper = runtime.start(Keeper)
        fragile = keeper.proxy().keep().get()
        outcomes: list[str] = []

        def ask(fragile: Any = fragile, outcomes: list[str] = outcomes) -> None:
            for i in range(10):
                try:
                    fragile.ask("count", timeout=PATIENCE)
                    if i == 5:
                        fragile.tell("break")
                    outcomes.append("answered")
                except pykka.ActorDeadError:
                    outcomes.append("refused")

        all_at_once([ask, ask, lambda keeper=keeper: keeper.stop(timeout=PATIENCE)])  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

        assert len(outcomes) == 20
        assert not fragile.is_alive()
    assert runtime.stats().actors == 0


def test_spawning_and_stopping_on_all_threads_leaves_nothing(runtime: Runtime) -> None:
    def live() -> None:
        for _ in range(100):
            ref = runtime.start(Counter)
            assert ref.ask("count") == 1
            assert ref.stop(timeout=PATIENCE) is True

    all_at_once([live] * 6)

    assert runtime.stats().actors == 0


@pytest.mark.skipif(not courtesy._has_gil(), reason="needs a GIL: nobody gives way without one")
def test_threads_that_ask_without_pause_give_way_and_leave_the_line(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courtesy, "SHORTEST", 10)
    monkeypatch.setattr(courtesy, "LONGEST", 10)
    monkeypatch.setattr(courtesy, "PATIENCE", 0.0)
    monkeypatch.setattr(courtesy, "PACE", PATIENCE)
    stood_in_line: list[int] = []
    real = courtesy._stand_in_line

    def count(thread: ThreadState, patience: float) -> None:
        stood_in_line.append(threading.get_ident())
        # A wait is as long as the slice before it, times the crowd. PACE bounds that, and does not here:
        # on a busy machine long slices made waits of seconds.
        real(thread, min(patience, 0.001))

    monkeypatch.setattr(courtesy, "_stand_in_line", count)
    counter = runtime.start(Counter)
    somebody = ThreadState()  # always in flight, so that there is always somebody to give way to
    somebody.waking = True
    LOCAL.state.answers_left, LOCAL.state.slice_began = 0, perf_counter()
    try:
        for _ in range(111):
            counter.ask("count")
        assert len(stood_in_line) == 11  # the first, and each 11th after it
        all_at_once([lambda: [counter.ask("count") for _ in range(100)]] * 8)
    finally:
        somebody.waking = False

    assert counter.ask("count") == 912
    assert len(set(stood_in_line)) > 1
    assert not courtesy._line
    assert in_flight() == 0


def test_without_a_gil_nobody_gives_way(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("somebody stands in line")

    monkeypatch.setattr(courtesy, "_has_gil", lambda: False)
    monkeypatch.setattr(courtesy, "_stand_in_line", fail)
    monkeypatch.setattr(courtesy, "PACE", PATIENCE)
    counter = runtime.start(Counter)
    somebody = ThreadState()
    somebody.waking = True
    LOCAL.state.answers_left, LOCAL.state.slice_began = 0, perf_counter()
    try:
        for _ in range(300):
            counter.ask("count")
    finally:
        somebody.waking = False
        LOCAL.state.answers_left = 0

    assert counter.ask("count") == 301


def test_a_thread_that_only_waits_makes_nobody_give_way(runtime: Runtime) -> None:
    """It does not want the interpreter: whoever stood in line for it would stand there in vain."""
    never: Future[int] = Future()
    waiting = [in_thread(lambda: never.get(timeout=PATIENCE)) for _ in range(4)]
    counter = runtime.start(Counter)
    for _ in range(500):
        counter.ask("count")

    assert in_flight() == 0
    never.set(1)
    join_all(waiting)
    assert in_flight() == 0


def test_one_in_line_whom_nobody_lets_go_goes_on_by_itself() -> None:
    somebody = ThreadState()  # who runs, and never gives way
    somebody.waking = True
    try:
        courtesy._stand_in_line(LOCAL.state, patience=0.01)
    finally:
        somebody.waking = False

    assert not courtesy._line
    assert in_flight() == 0


def test_the_only_thread_in_flight_does_not_wait_for_anybody() -> None:
    courtesy._stand_in_line(LOCAL.state, patience=PATIENCE)

    assert not courtesy._line
