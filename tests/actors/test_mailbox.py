"""Who runs an actor, in which order, and that nothing is lost."""

from __future__ import annotations

import dis
import functools
import signal
import sys
import threading
import time
from typing import Any

import pykka
import pytest

from greenroom.actors import Actor, Call, MailboxFull, ManualClock, Runtime, WouldBlock
from greenroom.actors.runtime._mailbox import Mailbox
from greenroom.actors.runtime._threads import LOCAL
from tests.actors.actors import Gate, Recorder, all_at_once, in_thread, join_all
from tests.room.agents import until


def test_the_thread_that_brings_a_message_runs_the_actor(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    assert ref.ask(threading.get_ident) == threading.get_ident()
    assert runtime.stats().helpers == 0


def test_an_actor_that_rests_keeps_no_table_for_its_baton(runtime: Runtime) -> None:
    """There may be a million of them."""
    ref = runtime.start(Recorder)
    ref.ask("asked")
    ref.tell("told")

    assert sys.getsizeof(ref.actor_inbox.baton) == sys.getsizeof({})


def test_whoever_runs_the_actor_takes_what_arrives_meanwhile(runtime: Runtime) -> None:
    ref, gate = runtime.start(Recorder), Gate()
    runner = in_thread(lambda: ref.tell(gate))
    gate.wait_reached()

    handled_on = ref.ask(threading.current_thread, block=False)
    assert not handled_on.done()
    gate.open()

    assert handled_on.get(timeout=20) is runner
    join_all([runner])


def test_messages_of_one_sender_are_handled_in_order(runtime: Runtime) -> None:
    ref = runtime.start(Recorder)

    def send(sender: int) -> None:
        for i in range(500):
            ref.tell((sender, i))

    all_at_once([functools.partial(send, sender) for sender in range(6)])

    received = ref.proxy().received.get()
    assert len(received) == 3000
    for n in range(6):
        assert [i for sender, i in received if sender == n] == list(range(500))


def test_a_message_to_self_waits_for_the_handler_to_end(runtime: Runtime) -> None:
    class Nested(Actor):
        depth = 0

        def on_receive(self, message: int) -> int:
            assert self.depth == 0
            self.depth += 1
            if message:
                self.actor_ref.tell(message - 1)
            self.depth -= 1
            return message

    assert runtime.start(Nested).ask(1000) == 1000


class Link(Actor):
    def __init__(self, following: Any, done: pykka.Future[int], gate: Gate | None = None) -> None:
        super().__init__()
        self.following = following
        self.done = done
        self.gate = gate

    def on_receive(self, message: int) -> None:
        if self.gate is not None:
            self.gate.wait()
        if self.following is None:
            self.done.set(message)
        else:
            self.following.tell(message + 1)


def test_a_chain_of_100000_actors_neither_recurses_nor_starves_the_others(runtime: Runtime) -> None:
    done: pykka.ThreadingFuture[int] = pykka.ThreadingFuture()
    gate = Gate()
    first: Any = runtime.start(Link, None, done, gate)  # the last one, at which it is not done yet
    for _ in range(99_999):
        first = runtime.start(Link, first, done)
    other = runtime.start(Recorder)

    first.tell(1)

    # The sender ran a batch and was free again; helpers took the rest, in batches too.
    assert not done_already(done)
    assert other.ask("served meanwhile") == "served meanwhile"
    gate.open()
    assert done.get(timeout=30) == 100_000
    assert runtime.stats().hand_overs > 100


def done_already(future: pykka.Future[Any]) -> bool:
    try:
        future.get(timeout=0)
    except pykka.Timeout:
        return False
    return True


def test_a_thread_runs_no_more_than_a_batch_for_others() -> None:
    with Runtime(batch=10) as runtime:
        ref, gate = runtime.start(Recorder), Gate()
        runner = in_thread(lambda: ref.tell(gate))
        gate.wait_reached()
        handled_on = [ref.ask(threading.current_thread, block=False) for _ in range(50)]
        gate.open()

        threads = [future.get(timeout=20) for future in handled_on]

        join_all([runner])
        assert threads[:9] == [runner] * 9
        assert runner not in threads[9:]


def test_an_actor_that_never_stops_telling_itself_holds_up_nobody() -> None:
    with Runtime(batch=5) as runtime:

        class Restless(Actor):
            count = 0

            def on_receive(self, message: str) -> int:
                self.count += 1
                if message == "on" and not self.over:
                    self.actor_ref.tell("on")
                return self.count

            over = False

            def end(self) -> int:
                self.over = True
                return self.count

        ref = runtime.start(Restless)
        ref.tell("on")
        assert ref.ask("how many?", timeout=20) >= 1
        ref.proxy().end().get(timeout=20)


def test_waiting_in_a_handler_raises_at_once_and_says_what_to_do(runtime: Runtime) -> None:
    other = runtime.start(Recorder)

    class Waiting(Actor):
        def on_receive(self, message: Any) -> Any:
            return other.ask("hello")

    with pytest.raises(WouldBlock, match="pipe_to_self") as raised:
        runtime.start(Waiting).ask("go")
    assert "Waiting" in str(raised.value)


def test_a_future_that_is_ready_may_be_read_in_a_handler(runtime: Runtime) -> None:
    class Reading(Actor):
        def on_receive(self, message: pykka.Future[str]) -> str:
            return message.get()

    ready = runtime.start(Recorder).ask("ready", block=False)

    assert runtime.start(Reading).ask(ready) == "ready"


def test_a_long_queue_is_set_aside_so_that_each_message_costs_the_same(runtime: Runtime) -> None:
    """Taking the first of a list moves all the others."""
    ref, gate = runtime.start(Recorder), Gate()
    queue, lengths = ref.actor_inbox.queue, list[int]()
    runner = in_thread(lambda: ref.tell(gate))
    gate.wait_reached()
    for _ in range(1000):
        ref.tell(lambda: lengths.append(len(queue)))
    last = ref.ask("the last one", block=False)
    assert len(queue) == 1001
    gate.open()

    last.get(timeout=20)
    assert lengths == [0] * 1000
    ref.ask("behind the backlog, which is gone by then")
    assert ref.actor_inbox._backlog is None
    join_all([runner])


def test_what_comes_while_a_long_queue_is_handled_comes_behind_it(runtime: Runtime) -> None:
    ref, first, second = runtime.start(Recorder), Gate(), Gate()
    runner = in_thread(lambda: ref.tell(first))
    first.wait_reached()
    for i in range(1000):
        ref.tell(i if i != 500 else second)
    first.open()
    second.wait_reached()
    ref.tell(1000)
    second.open()

    assert ref.ask(lambda: "done") == "done"

    numbers = [n for n in ref.proxy().received.get() if isinstance(n, int)]
    assert numbers == [n for n in range(1001) if n != 500]
    join_all([runner])


@pytest.mark.parametrize(("function"), [Mailbox._run_queue, Mailbox._next])
def test_no_signal_strikes_between_taking_a_message_and_deleting_it(function: Any) -> None:
    """Signals are delivered at calls and backward jumps only, and there is none between the two."""
    names = [step.opname for step in dis.get_instructions(function)]
    deleted = names.index("DELETE_SUBSCR")
    between = names[deleted - names[deleted::-1].index("STORE_ATTR") : deleted]
    assert not [name for name in between if name.startswith(("CALL", "PRECALL", "JUMP_BACKWARD"))]


def test_a_full_mailbox_refuses_the_next_message_and_tells_the_sender(runtime: Runtime) -> None:
    class Small(Recorder):
        mailbox_bound = 2

    ref, gate = runtime.start(Small), Gate()
    runner = in_thread(lambda: ref.tell(gate))
    gate.wait_reached()
    ref.tell(1)
    asked = ref.ask(2, block=False)

    with pytest.raises(MailboxFull, match="bound"):
        ref.tell(3)
    with pytest.raises(MailboxFull):
        ref.ask(4, block=False).get()
    stopped = ref.stop(block=False)
    gate.open()

    assert asked.get(timeout=20) == 2
    assert stopped.get(timeout=20) is True
    join_all([runner])


class _HeldInbox:
    """pykka's inbox, with a pause between the liveness check and the put."""

    def __init__(self, inbox: Any, gate: Gate) -> None:
        self._inbox, self._gate = inbox, gate

    def put(self, envelope: Any) -> None:
        self._gate.wait()
        self._inbox.put(envelope)


def test_pykka_loses_an_ask_that_races_a_stop() -> None:
    """The interleaving that ours is free of: alive? yes | stop | put."""

    class Plain(pykka.ThreadingActor):
        use_daemon_thread = True

        def on_start(self) -> None:
            threads.append(threading.current_thread())

        def on_receive(self, message: Any) -> Any:
            return message

    threads: list[threading.Thread] = []
    ref, gate = Plain.start(), Gate()
    actor = ref._actor_weakref()
    assert actor is not None
    racing = pykka.ActorRef(actor)
    racing.actor_inbox = _HeldInbox(ref.actor_inbox, gate)  # type: ignore[assignment]  # a stand-in
    futures: list[pykka.Future[Any]] = []
    asker = in_thread(lambda: futures.append(racing.ask("lost", block=False)))
    gate.wait_reached()
    ref.stop()
    join_all(threads)  # only its thread refuses what waits, and does so after it has answered the stop
    gate.open()
    join_all([asker])

    with pytest.raises(pykka.Timeout):
        futures[0].get(timeout=0.2)


def test_an_ask_that_races_a_stop_is_refused(runtime: Runtime) -> None:
    """The same interleaving here: alive? yes | stop | put."""
    ref, gate = runtime.start(Recorder), Gate()
    mailbox = ref.actor_inbox

    class HeldQueue(list[Any]):
        def append(self, item: Any) -> None:
            gate.wait()
            super().append(item)

    mailbox.queue = HeldQueue()
    futures: list[pykka.Future[Any]] = []
    told: list[str] = []

    def race() -> None:
        LOCAL.state.driving = True  # as inside a handler: the message goes through the queue
        futures.append(ref.ask("late", block=False))
        LOCAL.state.driving = False
        drive = LOCAL.state.drive
        assert drive is not None
        told.extend("knocked" for _ in drive.ready)
        while drive.ready:
            drive.ready.popleft().wake()

    asker = in_thread(race)
    gate.wait_reached()
    assert ref.stop() is True
    gate.open()
    join_all([asker])

    assert told == ["knocked"]
    with pytest.raises(pykka.ActorDeadError, match="stopped before handling"):
        futures[0].get(timeout=20)


def test_every_ask_that_races_a_stop_is_answered_or_refused(runtime: Runtime) -> None:
    for _ in range(200):
        ref = runtime.start(Recorder)
        answers: list[str] = []

        def ask(ref: Any = ref, answers: list[str] = answers) -> None:
            for _ in range(20):
                try:
                    answers.append(ref.ask("answered", timeout=20))
                except pykka.ActorDeadError:
                    answers.append("refused")

        all_at_once([ask, ask, ref.stop])

        assert len(answers) == 40
        assert set(answers) <= {"answered", "refused"}


def test_a_tell_behind_a_stop_is_reported_as_a_dead_letter() -> None:
    letters: list[tuple[str, Any]] = []
    with Runtime(on_dead_letter=lambda who, what: letters.append((str(who), what))) as runtime:
        ref, gate = runtime.start(Recorder), Gate()
        runner = in_thread(lambda: ref.tell(gate))
        gate.wait_reached()
        stopped = ref.stop(block=False)
        ref.tell("too late")
        gate.open()
        assert stopped.get(timeout=20)
        join_all([runner])

        assert letters == [(str(ref), "too late")]
        assert runtime.stats().dead_letters == 1


def work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Slow(Recorder):
    def on_receive(self, message: Any) -> Any:
        work(0.002)
        return super().on_receive(message)


def test_a_slow_handler_is_logged_with_actor_and_message(caplog: pytest.LogCaptureFixture) -> None:
    with Runtime(slow_handler=1e-9) as runtime:
        ref = runtime.start(Slow)
        ref.ask({"secret": "do not log"})

        assert runtime.stats().slow_handlers >= 1
    assert f"{ref} worked" in caplog.text
    assert "dict" in caplog.text
    assert "do not log" not in caplog.text


def test_slow_handlers_are_logged_once_a_second_and_then_with_how_many_there_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    with Runtime(slow_handler=1e-9, clock=clock) as runtime:
        ref = runtime.start(Slow)
        for _ in range(3):
            ref.ask("slow")
        assert caplog.text.count(" worked ") == 1
        untold = runtime.stats().slow_handlers - 1
        clock.advance(1.0)
        ref.ask("slow")
        assert caplog.text.count(" worked ") == 2
    assert untold == 2
    assert f"({untold} other handlers were slow since the last warning)" in caplog.text


def test_a_handler_that_waits_for_the_interpreter_is_not_called_slow(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """On a busy machine handlers take long by the clock, and are not to blame."""
    with Runtime(slow_handler=0.1) as runtime:
        waiting, working = runtime.start(Recorder), runtime.start(Recorder)
        waiting.ask(functools.partial(threading.Event().wait, 0.2))
        working.ask(functools.partial(work, 0.2))

        assert runtime.stats().slow_handlers == 1
    assert f"{working} worked" in caplog.text
    assert str(waiting) not in caplog.text


def test_ctrl_c_in_a_handler_reaches_the_thread_and_the_actor_goes_on(runtime: Runtime) -> None:
    """K1"""
    ref, other = runtime.start(Recorder), runtime.start(Recorder)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            ref.tell(lambda: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)

    assert ref.ask("still here") == "still here"
    assert other.ask("here, too") == "here, too"
    assert runtime.stats().failures == 0


def test_another_base_exception_stops_all_actors_as_in_pykka(runtime: Runtime) -> None:
    ref, other = runtime.start(Recorder), runtime.start(Recorder)

    def leave() -> None:
        raise SystemExit

    with pytest.raises(pykka.ActorDeadError, match="SystemExit"):
        ref.ask(leave)

    assert not ref.is_alive()
    assert not other.is_alive()


class Begin:
    """A message."""


class BeginAgain(Begin):
    """One that is for the same method."""


class LookTwice:
    """One with a method of its own."""


class Named(Actor):
    """Handles each message in the method that is called like it."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    def on_begin(self, message: Begin) -> str:
        return type(message).__name__

    def on_look_twice(self, _: LookTwice) -> str:
        self.actor_ref.tell(Call(self.note, "told"))
        self.call_later(0.0, Call(self.note, "later"))
        return "looked"

    def note(self, what: str) -> None:
        self.called.append(what)


def test_a_message_goes_to_the_method_that_is_called_like_it_or_like_a_base_of_it(
    runtime: Runtime,
) -> None:
    named = runtime.start(Named)

    assert named.ask(Begin()) == "Begin"
    assert named.ask(BeginAgain()) == "BeginAgain"
    assert named.ask(LookTwice()) == "looked"


def test_a_message_without_a_method_is_logged_as_in_pykka(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    class Stop:
        """Not for `on_stop()`."""

    named = runtime.start(Named)

    assert named.ask("whatever") is None
    assert named.ask(Stop()) is None

    assert caplog.text.count("Unexpected message received by") == 2


def test_an_actor_tells_itself_to_call_a_method_at_once_or_later(runtime: Runtime) -> None:
    named = runtime.start(Named)

    named.ask(LookTwice())

    until(lambda: named.proxy().called.get() == ["told", "later"])
    assert str(Call(named.proxy)) == "proxy()"
