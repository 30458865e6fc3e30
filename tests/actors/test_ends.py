"""Ends of life that once left somebody waiting. Each was a defect; each is a plain test."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pykka
import pytest
from pykka.messages import ProxyCall

from greenroom.actors import (
    Actor,
    ActorRef,
    ActorRegistry,
    Future,
    ManualClock,
    Reply,
    Runtime,
    RuntimeClosed,
    WorkTimedOut,
    WouldBlock,
    current_runtime,
)
from greenroom.actors.runtime import _mailbox as mailbox_module
from greenroom.actors.runtime._timers import Timer, TimerQueue
from tests.actors.actors import PATIENCE, Gate, Recorder, all_at_once, in_thread, join_all

if TYPE_CHECKING:
    from greenroom.messages import ChildFailed

user: contextvars.ContextVar[str] = contextvars.ContextVar("user")


class Undecided(Actor):
    """A parent that decides when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[ChildFailed] = []

    def give_birth(self) -> ActorRef[Recorder]:
        return self.start_child(Recorder)

    def on_child_failed(self, failure: ChildFailed) -> None:
        self.failures.append(failure)

    def restart(self, *args: Any) -> None:
        self.restart_child(self.failures[-1], *args)


def test_a_restart_that_fails_on_a_waiting_message_keeps_what_waits_behind(runtime: Runtime) -> None:
    parent = runtime.start(Undecided)
    child = parent.proxy().give_birth().get()
    gate = Gate()
    runner = in_thread(lambda: child.tell(gate))
    gate.wait_reached()
    child.tell(ValueError("first"))
    child.tell(ValueError("second"))
    gate.open()
    join_all([runner])
    asked = child.ask("still there?", block=False)

    parent.proxy().restart().get()
    assert not asked.done()
    parent.proxy().restart().get()

    assert asked.get(timeout=PATIENCE) == "still there?"


def test_a_stop_that_races_a_restart_is_handled_by_the_next_incarnation(runtime: Runtime) -> None:
    gate = Gate()

    class Slow(Recorder):
        incarnations = 0

        def __init__(self) -> None:
            super().__init__()
            Slow.incarnations += 1
            if Slow.incarnations == 2:
                gate.wait()

    class Parent(Undecided):
        def give_birth(self) -> ActorRef[Recorder]:
            return self.start_child(Slow)

    parent = runtime.start(Parent)
    child = parent.proxy().give_birth().get()
    child.tell(ValueError("boom"))
    restarting = in_thread(lambda: parent.proxy().restart().get(timeout=PATIENCE))
    gate.wait_reached()

    stopped = child.stop(block=False)
    assert not stopped.done()
    gate.open()

    assert stopped.get(timeout=PATIENCE) is True
    assert not child.is_alive()
    assert child not in ActorRegistry.get_all()
    join_all([restarting])


def test_a_restart_whose_constructor_raises_can_be_tried_again(runtime: Runtime) -> None:
    parent = runtime.start(Undecided)
    child = parent.proxy().give_birth().get()
    child.tell(ValueError("boom"))

    with pytest.raises(TypeError):
        parent.proxy().restart("an argument that nobody takes").get()
    parent.proxy().restart().get()

    assert child.ask("again") == "again"


def test_a_parent_that_fails_while_it_decides_gives_the_child_up(runtime: Runtime) -> None:
    class Helpless(Undecided):
        def on_child_failed(self, failure: ChildFailed) -> None:
            msg = "I cannot decide"
            raise RuntimeError(msg)

    class Grandparent(Undecided):
        def give_birth(self) -> Any:
            return self.start_child(Helpless)

        def on_child_failed(self, failure: ChildFailed) -> None:
            self.restart_child(failure)

    parent = runtime.start(Grandparent).proxy().give_birth().get()
    child = parent.proxy().give_birth().get()

    child.tell(ValueError("boom"))

    assert parent.is_alive()
    assert not child.is_alive()


def test_children_of_a_constructor_that_raises_are_stopped(runtime: Runtime) -> None:
    born: list[ActorRef[Recorder]] = []

    class Failing(Actor):
        def __init__(self) -> None:
            super().__init__()
            born.append(self.start_child(Recorder))
            msg = "no"
            raise ValueError(msg)

    with pytest.raises(ValueError, match="no"):
        runtime.start(Failing)

    assert not born[0].is_alive()


def test_a_stopped_actor_can_have_no_children(runtime: Runtime) -> None:
    class Exposed(Actor):
        def me(self) -> Exposed:
            return self

    ref = runtime.start(Exposed)
    actor = ref.proxy().me().get()
    ref.stop()

    with pytest.raises(pykka.ActorDeadError, match="no children"):
        actor.start_child(Recorder)


def test_the_second_of_two_stops_waits_for_the_children_too(runtime: Runtime) -> None:
    parent, parents_gate, gate = runtime.start(Undecided), Gate(), Gate()
    child = parent.proxy().give_birth().get()
    childs_runner = in_thread(lambda: child.tell(gate))
    gate.wait_reached()
    parent.proxy().failures = [parents_gate]

    hold_up = ProxyCall(("failures", "sort"), (), {"key": _wait})
    runner = in_thread(lambda: parent.ask(hold_up))
    parents_gate.wait_reached()
    first, second = parent.stop(block=False), parent.stop(block=False)
    parents_gate.open()
    join_all([runner])

    assert not first.done()
    assert not second.done()
    gate.open()
    assert first.get(timeout=PATIENCE) is True
    assert second.get(timeout=PATIENCE) is True
    join_all([childs_runner])


def _wait(gate: Gate) -> int:
    gate.wait()
    return 0


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt(), asyncio.CancelledError()])
def test_hooks_that_raise_anything_leave_nobody_waiting(error: BaseException) -> None:
    class Rude(Actor):
        def __init__(self) -> None:
            super().__init__()
            self.owed: list[Reply] = []

        def on_receive(self, message: Any) -> None:
            self.owed.append(self.defer_reply())

        def give_birth(self) -> ActorRef[Recorder]:
            return self.start_child(Recorder)

        def on_stop(self) -> None:
            raise error

    with Runtime() as runtime:
        ref = runtime.start(Rude)
        asked = ref.ask("later", block=False)
        child = ref.proxy().give_birth().get()

        stopper = in_thread(lambda: ref.stop(timeout=PATIENCE))  # not on the main thread: see below
        join_all([stopper])

        assert not ref.is_alive()
        assert not child.is_alive()
        with pytest.raises(pykka.ActorDeadError):
            asked.get(timeout=0)


def test_ctrl_c_in_a_hook_is_raised_on_the_main_thread_and_all_is_in_order(runtime: Runtime) -> None:
    class Interrupted(Actor):
        def give_birth(self) -> ActorRef[Recorder]:
            return self.start_child(Recorder)

        def on_stop(self) -> None:
            called.append(threading.current_thread())
            if len(called) == 1:
                raise KeyboardInterrupt

    called: list[threading.Thread] = []
    ref = runtime.start(Interrupted)
    child = ref.proxy().give_birth().get()

    with pytest.raises(KeyboardInterrupt):
        ref.stop()

    assert not ref.is_alive()
    assert child.actor_stopped.wait(PATIENCE)
    assert runtime.stats().failures == 0
    assert len(called) == 2  # it was interrupted, and is called once more where nothing strikes


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt()])
def test_on_start_that_raises_anything_ends_the_actor(runtime: Runtime, error: BaseException) -> None:
    class Stillborn(Actor):
        def on_start(self) -> None:
            raise error

    refs: list[ActorRef[Stillborn]] = []
    join_all([in_thread(lambda: refs.append(runtime.start(Stillborn)))])

    assert not refs[0].is_alive()
    assert runtime.stats().actors == 0


def test_an_interrupt_between_taking_the_baton_and_running_leaves_the_actor_usable(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler that raises may do so between any two steps."""
    ref = runtime.start(Recorder)
    real = mailbox_module.Mailbox.run

    def interrupted(*_: Any) -> None:
        monkeypatch.setattr(mailbox_module.Mailbox, "run", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(mailbox_module.Mailbox, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ref.tell("lost with its sender")

    assert ref.ask("next", timeout=PATIENCE) == "next"


def test_an_interrupt_with_a_message_in_hand_refuses_it_and_goes_on(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, gate = runtime.start(Recorder), Gate()
    outcome: list[BaseException] = []

    def run_into_it() -> None:
        try:
            ref.tell(gate)
        except KeyboardInterrupt as error:
            outcome.append(error)

    runner = in_thread(run_into_it)
    gate.wait_reached()
    in_hand = ref.ask("in hand", block=False)
    behind = ref.ask("behind", block=False)
    real = mailbox_module.Mailbox.handle

    def interrupted(*_: Any) -> None:
        monkeypatch.setattr(mailbox_module.Mailbox, "handle", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(mailbox_module.Mailbox, "handle", interrupted)
    gate.open()

    with pytest.raises(pykka.ActorDeadError, match="interrupted"):
        in_hand.get(timeout=PATIENCE)
    assert behind.get(timeout=PATIENCE) == "behind"
    join_all([runner])
    assert len(outcome) == 1


def test_cancelled_work_is_delivered_and_harms_no_actor(runtime: Runtime) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    ref, other = runtime.start(Recorder), runtime.start(Recorder)
    work = runtime.submit(cancelled)
    delivered: Future[str] = Future()
    work.map(str).on_done(lambda _: delivered.set("called back"))

    assert delivered.get(timeout=PATIENCE) == "called back"
    with pytest.raises(asyncio.CancelledError):
        ref.ask(work.get)
    assert ref.is_alive()
    assert other.is_alive()


def test_async_work_that_cannot_begin_or_exits_ends_itself_only(runtime: Runtime) -> None:
    async def takes_nothing() -> str:
        return "fine"

    async def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(TypeError):
        runtime.submit(takes_nothing, "too", "much").get(timeout=PATIENCE)
    with pytest.raises(SystemExit):
        runtime.submit(leaves).get(timeout=PATIENCE)
    assert runtime.submit(takes_nothing).get(timeout=PATIENCE) == "fine"


def test_async_work_that_timed_out_before_it_began_does_not_cost_the_loop() -> None:
    clock = ManualClock()
    with Runtime(clock=clock) as runtime:
        gate = Gate()

        async def hold_up() -> None:
            gate.wait()

        async def quick() -> str:
            return "quick"

        holding = runtime.submit(hold_up)
        gate.wait_reached()
        late = runtime.submit(quick, timeout=1.0)
        clock.advance(1.0)
        with pytest.raises(WorkTimedOut):
            late.get(timeout=PATIENCE)
        gate.open()
        holding.get(timeout=PATIENCE)
        assert runtime.submit(quick).get(timeout=PATIENCE) == "quick"
        clock.advance(1.0)

        assert runtime.stats().workers_lost == 0


def test_calls_that_raise_anything_cost_no_thread(runtime: Runtime) -> None:
    def leave(*_: Any) -> None:
        raise SystemExit

    done = threading.Event()
    runtime.call_later(0.0, leave)
    runtime.call_later(0.0, done.set)
    assert done.wait(PATIENCE)
    for _ in range(40):
        runtime.submit(int).on_done(leave)
        runtime._run_soon(leave)
    handed_over: Future[str] = Future()
    runtime._run_soon(lambda: handed_over.set("run"))

    assert handed_over.get(timeout=PATIENCE) == "run"
    assert runtime.submit(lambda: "done").get(timeout=PATIENCE) == "done"


def test_closing_answers_for_work_that_is_still_running() -> None:
    runtime = Runtime()
    gate = Gate()
    stuck = runtime.submit(gate.wait, timeout=3600.0, name="wedged")
    gate.wait_reached()

    runtime.close(timeout=0.01)

    with pytest.raises(RuntimeClosed, match="wedged was still running"):
        stuck.get(timeout=PATIENCE)
    assert runtime.stats().stuck == ("wedged",)
    gate.open()


def test_closing_answers_for_async_work_that_blocks_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.actors.runtime._loops.GRACE", 0.01)
    runtime = Runtime()
    gate = Gate()

    async def blocks() -> None:
        gate.wait()

    async def behind() -> None:
        raise AssertionError

    stuck = runtime.submit(blocks, name="bad citizen")
    gate.wait_reached()
    waiting = runtime.submit(behind, timeout=3600.0)

    runtime.close(timeout=0.01)

    for future in (stuck, waiting):
        with pytest.raises(RuntimeClosed, match="still running"):
            future.get(timeout=PATIENCE)
    gate.open()


def test_closing_inside_a_handler_is_refused_and_can_be_done_after(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    with pytest.raises(WouldBlock, match="handler"):
        ref.ask(runtime.close)

    assert ref.is_alive()


def test_a_handler_sees_the_context_of_its_sender_on_whatever_thread_it_runs(runtime: Runtime) -> None:
    ref, gate = runtime.start(Recorder), Gate()

    def who() -> Future[str]:
        return runtime.submit(user.get)

    def first() -> None:
        user.set("alice")
        ref.tell(gate)

    alice = in_thread(first)
    gate.wait_reached()
    user.set("bob")
    seen_by_handler = ref.ask(user.get, block=False)
    seen_by_work = ref.ask(who, block=False)
    gate.open()

    assert seen_by_handler.get(timeout=PATIENCE) == "bob"
    assert seen_by_work.get(timeout=PATIENCE).get(timeout=PATIENCE) == "bob"
    join_all([alice])


def test_timers_of_an_incarnation_end_with_it() -> None:
    clock = ManualClock()

    class Ticking(Recorder):
        def on_start(self) -> None:
            self.call_every(1.0, "tick")

    class Parent(Undecided):
        def give_birth(self) -> ActorRef[Recorder]:
            return self.start_child(Ticking)

        def on_child_failed(self, failure: ChildFailed) -> None:
            self.restart_child(failure)

    with Runtime(clock=clock) as runtime:
        child = runtime.start(Parent).proxy().give_birth().get()
        for _ in range(3):
            child.tell(ValueError("boom"))
        clock.advance(1.0)

        assert child.proxy().received.get() == ["tick"]
        assert runtime.stats().timers == 1


def test_cancelled_timers_do_not_pile_up() -> None:
    queue = TimerQueue()
    queue.push(Timer(1e9, None, print, ()))
    for n in range(10_000):
        timer = Timer(1e6 + n, None, print, ())
        queue.push(timer)
        timer.cancel()

    assert len(queue) == 1
    assert len(queue._heap) < 200


def test_two_runtimes_share_a_clock_and_close_apart() -> None:
    clock = ManualClock()
    calls: list[str] = []
    with Runtime(clock=clock) as outer:
        with Runtime(clock=clock) as inner:
            outer.call_later(1.0, calls.append, "outer")
            inner.call_later(1.0, calls.append, "inner")
        clock.advance(1.0)

    assert calls == ["outer"]


def test_runtimes_may_be_left_in_any_order() -> None:
    outer, inner = Runtime(), Runtime()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert current_runtime() is inner
    inner.__exit__(None, None, None)

    assert current_runtime() not in (outer, inner)


def test_a_join_of_very_many_futures_calls_back() -> None:
    futures: list[Future[int]] = [Future() for _ in range(3000)]
    joined = futures[0].join(*futures[1:])
    for future in futures:
        future.set(1)
    sums: list[int] = []

    joined.map(sum).on_done(lambda done: sums.append(done.get()))

    assert sums == [3000]


def test_a_callback_on_a_derived_future_can_be_taken_back() -> None:
    source: Future[int] = Future()
    doubled = source.map(lambda n: n * 2)
    calls: list[Any] = []
    doubled.on_done(calls.append)

    assert doubled.forget(calls.append) is True
    source.set(1)

    assert calls == []


def test_futures_of_another_kind_are_refused_with_a_reason(runtime: Runtime) -> None:
    theirs: pykka.ThreadingFuture[int] = pykka.ThreadingFuture()
    ours: Future[int] = Future()

    with pytest.raises(TypeError, match="another kind"):
        ours.join(theirs).on_done(print)
    with pytest.raises(TypeError, match="future of ours"):
        runtime.start(Recorder).ask(lambda: Actor.pipe_to_self(_any(), theirs, str, str))


def _any() -> Any:
    return Recorder()


@pytest.mark.parametrize("bound", [0, -1, 1.5])
def test_a_mailbox_bound_that_makes_no_sense_is_refused(runtime: Runtime, bound: Any) -> None:
    class Bounded(Actor):
        mailbox_bound = bound

    with pytest.raises(ValueError, match="mailbox_bound"):
        runtime.start(Bounded)


def test_a_flood_to_one_actor_is_one_entry_on_the_ready_list(runtime: Runtime) -> None:
    target = runtime.start(Recorder)

    class Flooder(Actor):
        def on_receive(self, message: int) -> None:
            for n in range(message):
                target.tell(n)

    runtime.start(Flooder).ask(10_000)

    assert len(target.ask(lambda: target.actor_inbox.actor.received[:10_000])) == 10_000  # type: ignore[union-attr]  # it is alive
    assert runtime.stats().hand_overs < 200


def test_finalisers_may_drop_replies_while_a_helper_is_being_started() -> None:
    threshold = gc.get_threshold()

    class Holder(Actor):
        def on_receive(self, message: Any) -> None:
            cycle: list[Any] = [self.defer_reply()]
            cycle.append(cycle)  # only the garbage collector can find it

    gc.set_threshold(1)
    try:
        with Runtime(helpers=4) as runtime:
            holder = runtime.start(Holder)
            asked = []
            for _ in range(200):
                asked.append(holder.ask("drop it", block=False))
                runtime._run_soon(int)
            gc.collect()
            for future in asked:
                with pytest.raises(pykka.ActorDeadError):
                    future.get(timeout=PATIENCE)
    finally:
        gc.set_threshold(*threshold)


@pytest.mark.long
def test_a_reply_that_is_alive_at_the_end_of_the_program_does_not_keep_it() -> None:
    script = (
        "from greenroom.actors import Actor\n"
        "class Clerk(Actor):\n"
        "    def on_receive(self, message):\n"
        "        self.reply = self.defer_reply()\n"
        "clerk = Clerk.start()\n"
        "asked = clerk.ask('never answered', block=False)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], timeout=PATIENCE, check=False)
    assert ended.returncode == 0


def test_answers_that_race_the_end_of_their_actor_do_not_break_its_stop(runtime: Runtime) -> None:
    class Keeper(Actor):
        def __init__(self, replies: list[Reply]) -> None:
            super().__init__()
            self.replies = replies

        def on_receive(self, message: Any) -> None:
            self.replies.append(self.defer_reply())

    for _ in range(100):
        replies: list[Reply] = []
        ref = runtime.start(Keeper, replies)
        asked = [ref.ask(n, block=False) for n in range(5)]

        all_at_once([lambda replies=replies: [reply.set(1) for reply in replies], ref.stop])  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

        assert not ref.is_alive()
        assert all(future.done() for future in asked)
