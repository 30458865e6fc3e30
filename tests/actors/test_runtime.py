"""The runtime itself: which one is current, its books, its end; the registry; what an actor costs."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import pykka
import pytest

from greenroom.actors import (
    Actor,
    ActorRegistry,
    Runtime,
    RuntimeClosed,
    current_runtime,
    default_runtime,
)
from tests.actors.actors import PATIENCE, Gate, Recorder, all_at_once, in_thread, join_all


def test_actors_start_on_the_runtime_that_was_entered_and_on_the_handlers() -> None:
    class Starter(Actor):
        def start_another(self) -> Runtime:
            return Recorder.start().actor_inbox.runtime

    with Runtime() as outer:
        assert current_runtime() is outer
        with Runtime() as inner:
            assert Recorder.start().actor_inbox.runtime is inner
        assert current_runtime() is outer
        elsewhere = outer.start(Starter)

        with Runtime():
            assert elsewhere.proxy().start_another().get() is outer
    assert current_runtime() is not outer


def test_the_default_runtime_is_made_anew_after_it_was_closed() -> None:
    first = default_runtime()
    ref = Recorder.start()
    assert ref.actor_inbox.runtime is first

    first.close()

    assert not ref.is_alive()
    assert default_runtime() is not first
    default_runtime().close()


def test_closing_stops_all_actors_last_started_first_and_starts_no_more() -> None:
    order: list[int] = []

    class Numbered(Actor):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

        def on_stop(self) -> None:
            order.append(self.n)

    runtime = Runtime()
    refs = [runtime.start(Numbered, n) for n in range(4)]

    runtime.close()
    runtime.close()

    assert order == [3, 2, 1, 0]
    assert not any(ref.is_alive() for ref in refs)
    with pytest.raises(RuntimeClosed, match="closed"):
        runtime.start(Numbered, 5)
    with pytest.raises(RuntimeClosed):
        runtime.call_later(1.0, print)


def test_closing_does_not_wait_for_a_stuck_handler_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime()
    ref, gate = runtime.start(Recorder), Gate()
    runner = in_thread(lambda: ref.tell(gate))
    gate.wait_reached()

    runtime.close(timeout=0.05)

    assert "did not stop in time" in caplog.text
    gate.open()
    join_all([runner])
    assert ref.actor_stopped.wait(20)


@pytest.mark.parametrize(
    "limits", [{"batch": 0}, {"helpers": 0}, {"workers": -1}, {"batch": 1.5}, {"slow_handler": 0}]
)
def test_limits_that_make_no_sense_are_refused_where_they_enter(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        Runtime(**limits)


def test_stats_count_actors_that_came_and_went(runtime: Runtime) -> None:
    refs = [runtime.start(Recorder) for _ in range(3)]
    refs[0].stop()

    stats = runtime.stats()

    assert (stats.actors, stats.started) == (2, 3)


def test_counts_are_exact_under_threads(runtime: Runtime) -> None:
    def come_and_go() -> None:
        for _ in range(200):
            runtime.start(Recorder).stop()

    all_at_once([come_and_go] * 4)

    assert runtime.stats().started == 800
    assert runtime.stats().actors == 0


def test_actor_stopped_waits_for_the_end(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)
    assert not ref.actor_stopped.is_set()
    assert ref.actor_stopped.wait(0) is False

    stopper = in_thread(ref.stop)
    assert ref.actor_stopped.wait(20) is True
    assert ref.actor_stopped.is_set()
    join_all([stopper])


def test_an_actor_that_did_not_call_super_is_told_so(runtime: Runtime) -> None:
    class Forgetful(Actor):
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError, match="super"):
        runtime.start(Forgetful)


def test_a_constructor_that_starts_an_actor_first_keeps_its_own_place(runtime: Runtime) -> None:
    class Inner(Actor):
        pass

    class Outer(Actor):
        def __init__(self) -> None:
            self.inner = runtime.start(Inner)
            super().__init__()

    class Parent(Actor):
        def give_birth(self) -> Any:
            return self.start_child(Outer)

    parent = runtime.start(Parent)
    child = parent.proxy().give_birth().get()

    assert child.actor_inbox.parent is parent.actor_inbox
    assert child.proxy().inner.get().actor_inbox.parent is None


def test_the_inbox_takes_envelopes_of_pykka_and_gives_none_out(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)
    from pykka._envelope import Envelope

    ref.actor_inbox.put(Envelope("by hand"))

    assert ref.proxy().received.get() == ["by hand"]
    assert ref.actor_inbox.empty()
    with pytest.raises(TypeError, match="only the runtime"):
        ref.actor_inbox.get()


def test_urns_are_the_same_for_whoever_is_first_to_ask(runtime: Runtime) -> None:
    for _ in range(100):
        ref = runtime.start(Recorder)
        urns: list[str] = []
        all_at_once([lambda: urns.append(ref.actor_urn)] * 3)  # noqa: B023  # used at once
        assert len(set(urns)) == 1
        assert ActorRegistry.get_by_urn(urns[0]) is ref


def test_the_registry_has_parents_before_their_children(runtime: Runtime) -> None:
    class Parent(Recorder):
        def on_receive(self, message: Any) -> Any:
            return self.start_child(Parent)

    before = set(ActorRegistry.get_all())
    first, second = runtime.start(Parent), runtime.start(Recorder)
    child, other = first.ask("a child"), first.ask("another")
    grandchild = child.ask("its child")

    found = [ref for ref in ActorRegistry.get_all() if ref not in before]

    assert found == [first, child, grandchild, other, second]
    child.stop()
    assert [ref for ref in ActorRegistry.get_all() if ref not in before] == [first, other, second]
    first.stop()
    assert [ref for ref in ActorRegistry.get_all() if ref not in before] == [second]


def test_a_child_that_is_busy_is_registered_when_its_parent_has_stopped(runtime: Runtime) -> None:
    class Parent(Recorder):
        def give_birth(self) -> Any:
            return self.start_child(Recorder)

    parent, gate = runtime.start(Parent), Gate()
    child = parent.proxy().give_birth().get()
    runner = in_thread(lambda: child.tell(gate))
    gate.wait_reached()
    stopped = parent.stop(block=False)
    assert not parent.is_alive()

    assert child in ActorRegistry.get_all()
    assert parent not in ActorRegistry.get_all()

    gate.open()
    assert stopped.get(timeout=PATIENCE) is True
    join_all([runner])
    assert child not in ActorRegistry.every()
    assert parent not in ActorRegistry.every()


def test_ours_are_not_in_the_registry_of_pykka(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    pykka.ActorRegistry.stop_all()

    assert ref.is_alive()
    assert ref not in pykka.ActorRegistry.get_all()


def test_leaving_the_registry_looks_at_no_other_actor() -> None:
    """pykka compares with every actor that was started before: 100,000 actors, 100,000 looks."""
    looks = 0

    class Ref(pykka.ActorRef[Any]):
        def __init__(self) -> None:
            pass

        def __str__(self) -> str:
            return "ref"

        def __eq__(self, other: object) -> bool:
            nonlocal looks
            looks += 1
            return self is other

        def __hash__(self) -> int:
            return id(self)

    refs = [Ref() for _ in range(1000)]
    for ref in refs:
        ActorRegistry.register(ref)
    for ref in reversed(refs):
        ActorRegistry.unregister(ref)

    assert looks < 100


def test_an_idle_actor_costs_about_half_a_kilobyte_and_no_thread(runtime: Runtime) -> None:
    class Plain(Actor):
        pass

    runtime.start(Plain)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        refs = [runtime.start(Plain) for _ in range(2000)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (after - before) / len(refs) < 600
    assert runtime.stats().helpers == 0


def test_a_stopped_actor_is_gone_without_the_garbage_collector(runtime: Runtime) -> None:
    class Plain(Actor):
        pass

    gc.disable()
    try:
        ref = runtime.start(Plain)
        actor = ref.actor_inbox.actor
        assert actor is not None
        traces: list[weakref.ref[Any]] = [weakref.ref(actor), weakref.ref(ref)]
        ref.stop()
        del ref, actor
        assert [trace() for trace in traces] == [None, None]
    finally:
        gc.enable()
