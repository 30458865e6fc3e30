"""What happens when a handler raises: to the actor, its parent, its children, its messages."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

import pykka
import pytest

from greenroom.actors import (
    Actor,
    ActorRef,
    ActorRegistry,
    ManualClock,
    Reply,
    RestartPolicy,
    Runtime,
)
from greenroom.actors.simulation import Simulation
from tests.actors.actors import Gate, Recorder, in_thread, join_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.messages import ChildFailed


class Child(Recorder):
    """Keeps what it has received in its successor."""

    def __init__(self, received: list[Any] | None = None) -> None:
        super().__init__()
        self.received = received or []
        self.stopped = False

    def hand_over(self) -> list[Any]:
        return self.received

    def on_receive(self, message: Any) -> Any:
        if message == "later":
            self.received.append(self.defer_reply())
            return None
        return super().on_receive(message)


class Parent(Actor):
    """Restarts its children as its policy says."""

    def __init__(self, policy: RestartPolicy | None = None) -> None:
        super().__init__()
        self.policy = policy or RestartPolicy()
        self.past: tuple[float, ...] = ()
        self.failures: list[ChildFailed] = []

    def give_birth(self) -> ActorRef[Child]:
        return self.start_child(Child)

    def on_child_failed(self, failure: ChildFailed) -> None:
        self.failures.append(failure)
        again, self.past = self.policy.decide(self.past, self.runtime.clock())
        if again:
            self.restart_child(failure, failure.state)
        else:
            self.give_up_child(failure)


def family(runtime: Runtime, parent_class: type[Actor] = Parent, *args: Any) -> tuple[Any, Any]:
    parent = runtime.start(parent_class, *args)
    child = parent.proxy().give_birth().get()
    return parent, child


def test_a_tell_that_raises_ends_an_actor_that_has_no_parent(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    ref.tell(ValueError("boom"))

    assert not ref.is_alive()
    assert ref not in ActorRegistry.get_all()
    assert runtime.stats().failures == 1


def test_an_ask_that_raises_gives_the_exception_to_the_asker_only(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    with pytest.raises(ValueError, match="boom"):
        ref.ask(ValueError("boom"))

    assert ref.is_alive()


def test_the_parent_is_told_what_it_needs_to_restart_without_losing_a_message(
    runtime: Runtime,
) -> None:
    parent, child = family(runtime)
    gate = Gate()
    child.ask("before")
    runner = in_thread(lambda: child.tell(gate))
    gate.wait_reached()
    child.tell(error := ValueError("boom"))
    child.tell("waiting")
    asked = child.ask("asked", block=False)
    gate.open()
    join_all([runner])

    assert asked.get(timeout=20) == "asked"
    (failure,) = parent.proxy().failures.get()
    assert failure.ref == child
    assert failure.exception is error
    assert failure.message is error
    assert failure.waiting == ("waiting", "asked")
    assert child.proxy().received.get() == ["before", gate, error, "waiting", "asked"]
    assert runtime.stats().restarts == 1


def test_a_reference_stays_good_across_a_restart(runtime: Runtime) -> None:
    _, child = family(runtime)
    proxy = child.proxy()

    child.tell(ValueError("boom"))

    assert child.is_alive()
    assert child.ask("after") == "after"
    assert child in ActorRegistry.get_all()
    assert proxy.actor_ref is child


def test_a_deferred_reply_survives_a_restart(runtime: Runtime) -> None:
    _, child = family(runtime)
    asked = child.ask("later", block=False)

    child.tell(ValueError("boom"))

    (reply, _) = child.proxy().received.get()
    assert isinstance(reply, Reply)
    assert reply.set("answered after all")
    assert asked.get(timeout=0) == "answered after all"


def test_after_too_many_failures_the_child_is_given_up_and_its_messages_are_answered(
    runtime: Runtime,
) -> None:
    parent, child = family(runtime, Parent, RestartPolicy(limit=2, within=1000))

    for _ in range(2):
        child.tell(ValueError("boom"))
        assert child.is_alive()
    gate = Gate()
    runner = in_thread(lambda: child.tell(gate))
    gate.wait_reached()
    child.tell(ValueError("the last"))
    asked = child.ask("never", block=False)
    gate.open()
    join_all([runner])

    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=20)
    assert not child.is_alive()
    assert parent.is_alive()


class Undecided(Parent):
    def on_child_failed(self, failure: ChildFailed) -> None:
        self.failures.append(failure)

    def decide(self) -> None:
        self.restart_child(self.failures[0], self.failures[0].state)


def test_until_the_parent_decides_the_child_takes_messages_and_handles_none(runtime: Runtime) -> None:
    parent, child = family(runtime, Undecided)
    child.tell(ValueError("boom"))

    asked = child.ask("waiting", block=False)
    assert child.is_alive()
    assert not asked.done()
    parent.proxy().decide().get()

    assert asked.get(timeout=20) == "waiting"
    with pytest.raises(ValueError, match="does not wait for a decision"):
        parent.proxy().decide().get()


def test_a_parent_that_stops_undecided_takes_the_failed_child_along(runtime: Runtime) -> None:
    parent, child = family(runtime, Undecided)
    child.tell(ValueError("boom"))
    asked = child.ask("waiting", block=False)

    assert parent.stop(timeout=20) is True

    assert not child.is_alive()
    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=0)


def test_a_failed_child_that_is_stopped_by_somebody_else_stops(runtime: Runtime) -> None:
    _, child = family(runtime, Undecided)
    child.tell(ValueError("boom"))

    assert child.stop(timeout=20) is True
    assert not child.is_alive()


def test_a_parent_that_does_not_care_loses_the_child(runtime: Runtime) -> None:
    class Careless(Actor):
        def give_birth(self) -> ActorRef[Child]:
            return self.start_child(Child)

    parent, child = family(runtime, Careless)

    child.tell(ValueError("boom"))

    assert not child.is_alive()
    assert parent.is_alive()


def test_a_successor_that_cannot_be_made_fails_the_parent_too(runtime: Runtime) -> None:
    class Clumsy(Parent):
        def on_child_failed(self, failure: ChildFailed) -> None:
            self.restart_child(failure, 1, 2, 3, "arguments nobody takes")

    parent, child = family(runtime, Clumsy)

    child.tell(ValueError("boom"))

    assert not parent.is_alive()
    assert not child.is_alive()


def test_on_start_that_raises_is_a_failure_the_parent_hears_of(runtime: Runtime) -> None:
    class Stillborn(Child):
        def on_start(self) -> None:
            msg = "no"
            raise ValueError(msg)

    class Hopeful(Parent):
        def give_birth(self) -> Any:
            return self.start_child(Stillborn)

    parent, child = family(runtime, Hopeful, RestartPolicy(limit=2, within=1000))

    failures = parent.proxy().failures.get()
    assert len(failures) == 3
    assert all(failure.message is None for failure in failures)
    assert not child.is_alive()


def test_hand_over_that_raises_hands_nothing_over(runtime: Runtime) -> None:
    class Secretive(Child):
        def hand_over(self) -> list[Any]:
            msg = "no"
            raise ValueError(msg)

    class SecretsParent(Parent):
        def give_birth(self) -> Any:
            return self.start_child(Secretive)

    parent, child = family(runtime, SecretsParent)
    child.tell(ValueError("boom"))

    assert parent.proxy().failures.get()[0].state is None
    assert child.ask("after") == "after"


def test_children_go_with_their_parent_and_stop_answers_when_all_have(runtime: Runtime) -> None:
    class Node(Actor):
        def grow(self, depth: int, gate: Gate) -> list[Any]:
            leaf = self.start_child(Recorder)
            if depth == 0:
                return [leaf]
            child = self.start_child(Node)
            return [leaf, child, child.proxy().grow(depth - 1, gate)]

    gate = Gate()
    root = runtime.start(Node)
    leaf, child, below = root.proxy().grow(1, gate).get()
    (deepest,) = below.get()
    runner = in_thread(lambda: deepest.tell(gate))
    gate.wait_reached()

    stopped = root.stop(block=False)
    assert not stopped.done()
    gate.open()

    assert stopped.get(timeout=20) is True
    join_all([runner])
    assert not any(ref.is_alive() for ref in (root, leaf, child, deepest))
    assert runtime.stats().actors == 0


def test_a_child_that_stops_by_itself_is_forgotten_by_its_parent(runtime: Runtime) -> None:
    parent, child = family(runtime)

    child.stop()

    assert not parent.actor_inbox.children


class Unstartable(Child):
    starts: ClassVar[list[float]] = []
    fails_until = 1000

    def on_start(self) -> None:
        self.starts.append(round(self.runtime.clock(), 6))
        if len(self.starts) < self.fails_until:
            raise ValueError("boom")


class Tireless(Parent):
    """Restarts a child whatever happens, up to a bound for the sake of the test."""

    def give_birth(self) -> ActorRef[Child]:
        Unstartable.starts.clear()
        return self.start_child(Unstartable)

    def on_child_failed(self, failure: ChildFailed) -> None:
        self.failures.append(failure)
        if len(self.failures) < 50:
            self.restart_child(failure)

    def restart_last(self) -> None:
        self.restart_child(self.failures[-1])

    def give_up_last(self) -> None:
        self.give_up_child(self.failures[-1])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def unstartable(clock: ManualClock) -> Iterator[tuple[Any, Any]]:
    """A parent, and a child that has failed in `on_start()` three times and pauses."""
    with Runtime(clock=clock) as runtime:
        yield family(runtime, Tireless)


@pytest.mark.usefixtures("unstartable")
def test_a_child_that_fails_in_on_start_again_and_again_pauses_longer_and_longer(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Else parent and child would keep a core busy for good."""
    assert Unstartable.starts == [0.0, 0.0, 0.0]
    clock.advance(0.8)
    assert "in 0.2 s: its on_start() fails again and again" in caplog.text
    assert Unstartable.starts == [0.0, 0.0, 0.0, 0.1, 0.3, 0.7]

    clock.advance(600.0)

    pauses = [after - before for before, after in itertools.pairwise(Unstartable.starts)]
    assert max(pauses) == pytest.approx(30.0)
    assert len(Unstartable.starts) < 40


def test_a_child_that_starts_in_the_end_has_lost_nothing_and_begins_anew(
    clock: ManualClock, unstartable: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, child = unstartable
    asked = child.ask("waiting", block=False)
    monkeypatch.setattr(Unstartable, "fails_until", 5)
    clock.advance(0.4)
    assert asked.get(timeout=20) == "waiting"

    monkeypatch.setattr(Unstartable, "fails_until", 8)
    child.tell(ValueError("boom"))

    assert Unstartable.starts[4:] == [0.3, 0.4, 0.4, 0.4]  # two that fail do not make a pause
    assert child.ask("next", timeout=20) == "next"


def test_a_child_that_pauses_stops_at_once(unstartable: tuple[Any, Any]) -> None:
    _, child = unstartable
    asked = child.ask("waiting", block=False)

    assert child.stop(timeout=20) is True

    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=20)


def test_a_child_that_pauses_can_be_given_up_but_not_restarted_twice(
    clock: ManualClock, unstartable: tuple[Any, Any]
) -> None:
    parent, child = unstartable
    with pytest.raises(ValueError, match="does not wait for a decision"):
        parent.proxy().restart_last().get()

    parent.proxy().give_up_last().get()

    assert not child.is_alive()
    clock.advance(600.0)
    assert Unstartable.starts == [0.0, 0.0, 0.0]


def test_a_child_that_pauses_outlives_the_failure_of_its_parent(clock: ManualClock) -> None:
    """It was restarted: nobody has to decide about it any more."""

    class Fragile(Tireless):
        def on_child_failed(self, failure: ChildFailed) -> None:
            super().on_child_failed(failure)
            if len(self.failures) == 3:
                raise LookupError("behind the decision")

    class Root(Parent):
        def give_birth(self) -> ActorRef[Any]:
            return self.start_child(Fragile)

        def on_child_failed(self, failure: ChildFailed) -> None:
            self.restart_child(failure)

    with Runtime(clock=clock) as runtime:
        _, parent = family(runtime, Root)
        child = parent.proxy().give_birth().get()

        clock.advance(0.1)

        assert child.is_alive()
        assert len(Unstartable.starts) > 3


def test_a_simulation_lets_time_pass_between_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Unstartable, "fails_until", 6)
    with Simulation(seed=5) as simulation:
        _, child = family(simulation, Tireless)

        assert child.ask("started") == "started"

        assert Unstartable.starts == [0.0, 0.0, 0.0, 0.1, 0.3, 0.7]


@pytest.mark.parametrize(("limit", "within"), [(-1, 5.0), (1.5, 5.0), (3, 0), (3, -1.0)])
def test_a_restart_policy_refuses_nonsense(limit: Any, within: float) -> None:
    with pytest.raises(ValueError, match="not"):
        RestartPolicy(limit=limit, within=within)


def test_a_restart_policy_allows_so_many_in_any_window() -> None:
    policy = RestartPolicy(limit=3, within=5.0)
    past: tuple[float, ...] = ()
    decisions = []
    for now in (0.0, 1.0, 2.0, 3.0, 5.0, 5.5, 6.0, 7.0):
        again, past = policy.decide(past, now)
        decisions.append(again)

    assert decisions == [True, True, True, False, True, False, True, True]
    assert policy.decide((), 0.0) == (True, (0.0,))
    assert RestartPolicy(limit=0).decide((), 0.0) == (False, ())
