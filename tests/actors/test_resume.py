"""What the next incarnation of a failed actor goes on with."""

from __future__ import annotations

import gc
import logging
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pykka
import pytest

from greenroom.actors import Actor, ActorRef, Future, ReplyDropped, Runtime
from greenroom.actors.runtime import _life
from greenroom.actors.simulation import InjectedFault, Simulation
from tests.actors.actors import PATIENCE, Gate, in_thread, join_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from greenroom.messages import ChildFailed


class Worker(Actor):
    """Does what it is told, and fails as often as it was told to."""

    def __init__(self, log: list[Any], failures: dict[Any, int], **_: Any) -> None:
        super().__init__()
        self.log = log
        self.failures = failures
        self.dropped: list[Any] = []

    def hand_over(self) -> tuple[list[Any], dict[Any, int]]:
        return self.log, self.failures

    def on_start(self) -> None:
        self.log.append("start")
        self.maybe_fail("start")

    def on_dropped(self, dropped: Any, exception: BaseException) -> None:
        assert isinstance(exception, ValueError)
        self.log.append(("dropped", dropped))

    def maybe_fail(self, on: Any) -> None:
        if self.failures.get(on, 0):
            self.failures[on] -= 1
            raise ValueError(on)

    def on_receive(self, message: Any) -> Any:
        kind, what, *rest = message
        self.log.append(what)
        if kind == "later":
            self.log.append(self.defer_reply())
        if kind == "answer":
            self.defer_reply().set("answered")
        if kind == "do":
            self.do(rest[0])
            if rest[1:]:
                self.maybe_fail(rest[1])
            return what
        if kind == "wait":
            rest[0].wait()
        self.maybe_fail(what)
        if kind == "later":
            self.log.pop().set(what)
        return what

    def perform(self, effect: Any) -> Iterable[Any] | None:
        self.maybe_fail(effect)
        self.log.append(effect)
        return effect if isinstance(effect, tuple) else None


class Undecided(Actor):
    """Restarts its child when it is told to, or at once."""

    how: dict[str, Any] | None = None

    def __init__(self, how: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.how = how
        self.failures: list[ChildFailed] = []

    def give_birth(self, *args: Any) -> ActorRef[Worker]:
        return self.start_child(Worker, *args)

    def on_child_failed(self, failure: ChildFailed) -> None:
        self.failures.append(failure)
        if self.how is not None:
            self.restart(**self.how)

    def restart(self, **how: Any) -> None:
        self.restart_child(self.failures[-1], *self.failures[-1].state, **how)


class Family:
    """A worker, its parent, what the worker did, and how often it still fails on what."""

    def __init__(self, runtime: Runtime, letters: list[Any], *args: Any) -> None:
        self.log: list[Any] = []
        self.failing: dict[Any, int] = {}
        self.letters = letters
        self.parent = runtime.start(Undecided, *args)
        self.child = self.parent.proxy().give_birth(self.log, self.failing).get()
        self.log.clear()

    def failures(self) -> list[ChildFailed]:
        return self.parent.proxy().failures.get()  # type: ignore[no-any-return]


@pytest.fixture
def letters() -> list[Any]:
    return []


@pytest.fixture
def runtime(letters: list[Any]) -> Iterator[Runtime]:
    with Runtime(on_dead_letter=lambda _, message: letters.append(message)) as made:
        yield made


@pytest.fixture
def family(runtime: Runtime, letters: list[Any]) -> Family:
    """A parent that restarts at once, and lets its child go on."""
    return Family(runtime, letters, {"replay": True})


@pytest.fixture
def undecided(runtime: Runtime, letters: list[Any]) -> Family:
    """A parent that waits to be told."""
    return Family(runtime, letters)


@pytest.fixture
def nothing_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What is logged is kept, and with the exception all frames that it went through."""
    caplog.set_level(logging.CRITICAL + 1, "greenroom.actors")


# The message.


def test_the_message_comes_again_behind_on_start_and_before_what_waits(undecided: Family) -> None:
    child, gate = undecided.child, Gate()
    undecided.failing["a"] = 1
    runner = in_thread(lambda: child.tell(("wait", "a", gate)))
    gate.wait_reached()
    child.tell(("tell", "b"))
    gate.open()
    join_all([runner])
    asked = child.ask(("tell", "c"), block=False)

    assert undecided.failures()[0].waiting == (("tell", "b"),)
    undecided.parent.proxy().restart(replay=True).get()

    assert asked.get(timeout=PATIENCE) == "c"
    assert undecided.log == ["a", "start", "a", "b", "c"]
    assert undecided.letters == []


def test_without_replay_the_message_does_not_come_again(undecided: Family) -> None:
    undecided.failing["a"] = 1
    undecided.child.tell(("tell", "a"))

    undecided.parent.proxy().restart().get()

    assert undecided.child.ask(("tell", "b")) == "b"
    assert undecided.log == ["a", "start", "b"]
    assert undecided.letters == []


def test_a_proxy_call_that_nobody_waits_for_comes_again(family: Family) -> None:
    family.failing["a"] = 1

    family.child.proxy().maybe_fail.defer("a")

    assert family.child.ask(("tell", "b")) == "b"
    assert family.failing["a"] == 0
    assert family.log == ["start", "b"]


def test_an_asker_that_got_the_exception_does_not_see_its_message_again(family: Family) -> None:
    family.failing["a"] = 1

    with pytest.raises(ValueError, match="a"):
        family.child.ask(("tell", "a"))

    assert family.child.ask(("tell", "b")) == "b"
    assert family.log == ["a", "b"]


@pytest.mark.parametrize("failures", [3, 4], ids=["just not dropped", "dropped"])
def test_a_message_is_dropped_after_so_many_strikes(
    family: Family, failures: int, caplog: pytest.LogCaptureFixture
) -> None:
    family.failing["a"] = failures
    message = ("tell", "a")

    with caplog.at_level(logging.ERROR, "greenroom.actors"):
        family.child.tell(message)

    assert family.child.ask(("tell", "b")) == "b"
    told = [record.getMessage() for record in caplog.records if "again and again" in record.getMessage()]
    if failures == 4:
        assert family.log == [*["a", "start"] * 3, "a", ("dropped", message), "start", "b"]
        assert family.letters == [message]
        assert family.letters[0] is message
        assert len(told) == 1
        assert "fails on tuple again and again: it is dropped" in told[0]
    else:
        assert family.log == [*["a", "start"] * 3, "a", "b"]
        assert family.letters == told == []


def test_at_most_can_be_chosen(runtime: Runtime, letters: list[Any]) -> None:
    family = Family(runtime, letters, {"replay": True, "at_most": 0})
    family.failing["a"] = 1

    family.child.tell(("tell", "a"))

    assert family.child.ask(("tell", "b")) == "b"
    assert letters == [("tell", "a")]


def test_at_most_refuses_nonsense(undecided: Family) -> None:
    undecided.failing["a"] = 1
    undecided.child.tell(("tell", "a"))

    with pytest.raises(ValueError, match="at_most"):
        undecided.parent.proxy().restart(replay=True, at_most=-1).get()
    undecided.parent.proxy().restart(replay=True).get()

    assert undecided.child.ask(("tell", "b")) == "b"


def test_strikes_are_counted_for_the_same_message_and_in_a_row(family: Family) -> None:
    family.failing["a"] = 100
    first, second = ("tell", "a"), ("tell", "a")

    for message in (first, second):
        family.child.tell(message)

    assert family.child.ask(("tell", "b")) == "b"
    assert family.letters == [first, second]
    assert family.failing["a"] == 100 - 8


def test_a_message_that_was_handled_after_all_begins_anew(family: Family) -> None:
    message = ("tell", "a")
    for _ in range(5):
        family.failing["a"] = 3
        family.child.tell(message)

    assert family.letters == []
    assert family.child.ask(("tell", "b")) == "b"


@pytest.mark.usefixtures("nothing_logged")
def test_what_a_message_held_is_let_go_when_it_was_handled_after_all(family: Family) -> None:
    class Content:
        pass

    content = Content()
    known = weakref.ref(content)
    family.failing["a"] = 2
    family.child.tell(("tell", "a", content))
    assert family.child.ask(("tell", "b")) == "b"

    family.parent.proxy().failures.get().clear()
    del content
    gc.collect()

    assert known() is None


def test_a_child_whose_parent_fails_while_it_decides_is_decided_by_the_next(
    runtime: Runtime,
) -> None:
    class Shaky(Undecided):
        tries = 0

        def on_child_failed(self, failure: ChildFailed) -> None:
            Shaky.tries += 1
            if Shaky.tries == 1:
                raise RuntimeError("planted")
            super().on_child_failed(failure)

    class Grandparent(Actor):
        def give_birth(self) -> ActorRef[Shaky]:
            return self.start_child(Shaky, {"replay": True})

        def on_child_failed(self, failure: ChildFailed) -> None:
            self.restart_child(failure, {"replay": True}, replay=True)

    parent = runtime.start(Grandparent).proxy().give_birth().get()
    log: list[Any] = []
    child = parent.proxy().give_birth(log, {"a": 1}).get()

    child.tell(("tell", "a"))

    assert child.ask(("tell", "b"), timeout=PATIENCE) == "b"
    assert log == ["start", "a", "start", "a", "b"]


def test_a_child_that_nobody_can_decide_about_is_given_up_in_the_end(runtime: Runtime) -> None:
    class Helpless(Undecided):
        def on_child_failed(self, failure: ChildFailed) -> None:
            raise RuntimeError("planted")

    class Grandparent(Actor):
        def give_birth(self) -> ActorRef[Helpless]:
            return self.start_child(Helpless)

        def on_child_failed(self, failure: ChildFailed) -> None:
            self.restart_child(failure, replay=True)

    parent = runtime.start(Grandparent).proxy().give_birth().get()
    child = parent.proxy().give_birth([], {"a": 1}).get()

    child.tell(("tell", "a"))

    assert parent.is_alive()
    assert not child.is_alive()


# Its asker.


@pytest.mark.parametrize("short", [True, False], ids=["the short way", "through the queue"])
def test_an_asker_whose_reply_was_deferred_is_answered_by_the_next_incarnation(
    family: Family, short: bool
) -> None:
    family.failing["a"] = 3
    asked = partial(family.child.ask, ("later", "a"))
    if not short:
        asked = asked(block=False).get

    assert asked(timeout=PATIENCE) == "a"
    # The replies of those that failed are void: their end answers nobody.
    replies = [entry for entry in family.log if not isinstance(entry, str)]
    assert len(replies) == 3
    assert not any(reply.wanted for reply in replies)
    assert not any(reply.set("too late") for reply in replies)


@pytest.mark.usefixtures("nothing_logged")
def test_the_end_of_a_void_reply_answers_nobody(undecided: Family) -> None:
    undecided.failing["a"] = 1
    asked = undecided.child.ask(("later", "a"), block=False)
    undecided.failing["a"] = 1
    undecided.parent.proxy().restart(replay=True).get()
    # All that holds the reply of the first incarnation, and whatever is logged:
    assert not undecided.log.pop(1).wanted
    undecided.parent.proxy().failures.get().pop(0)
    gc.collect()
    assert not asked.done()

    undecided.parent.proxy().restart(replay=True).get()

    assert asked.get(timeout=PATIENCE) == "a"


def test_a_deferred_reply_of_a_message_that_does_not_come_again_stays_good(undecided: Family) -> None:
    undecided.failing["a"] = 1
    asked = undecided.child.ask(("later", "a"), block=False)

    undecided.parent.proxy().restart().get()

    assert not asked.done()
    assert undecided.log[1].set("after all")
    assert asked.get(timeout=0) == "after all"


def test_an_asker_that_was_answered_before_the_failure_is_not_answered_again(family: Family) -> None:
    family.failing["a"] = 1

    assert family.child.ask(("answer", "a"), timeout=PATIENCE) == "answered"

    assert family.child.ask(("tell", "b")) == "b"
    assert family.log == ["a", "start", "a", "b"]


def test_an_asker_whose_message_is_dropped_gets_the_exception(family: Family) -> None:
    family.failing["a"] = 4

    with pytest.raises(ValueError, match="a"):
        family.child.ask(("later", "a"), timeout=PATIENCE)

    assert family.child.is_alive()
    assert family.letters == [("later", "a")]


def test_an_asker_that_has_left_is_no_hindrance(undecided: Family) -> None:
    undecided.failing["a"] = 1
    with pytest.raises(pykka.Timeout):
        undecided.child.ask(("later", "a"), timeout=0.01)

    undecided.parent.proxy().restart(replay=True).get()

    assert undecided.child.ask(("tell", "b")) == "b"
    assert undecided.log[-2:] == ["a", "b"]


# Ends.


def test_a_child_that_is_stopped_before_it_is_restarted_refuses_the_asker(undecided: Family) -> None:
    undecided.failing["a"] = 1
    asked = undecided.child.ask(("later", "a"), block=False)

    assert undecided.child.stop(timeout=PATIENCE) is True

    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=0)
    assert undecided.letters == []


def test_a_stop_that_waits_is_handled_behind_what_comes_again(undecided: Family) -> None:
    undecided.failing["a"] = 1
    gate = Gate()
    runner = in_thread(lambda: undecided.child.tell(("wait", "a", gate)))
    gate.wait_reached()
    stopped = undecided.child.stop(block=False)
    gate.open()
    join_all([runner])

    undecided.parent.proxy().restart(replay=True).get()

    assert stopped.get(timeout=PATIENCE) is True
    assert undecided.log == ["a", "start", "a"]


def test_a_child_that_stops_in_on_start_refuses_what_would_come_again(
    undecided: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    undecided.failing.update(a=1, e=1)
    asked = undecided.child.ask(("later", "a"), block=False)
    monkeypatch.setattr(Worker, "on_start", Worker.stop_now)

    undecided.parent.proxy().restart(replay=True).get()

    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=PATIENCE)


def test_an_outbox_goes_with_a_child_that_stops_in_on_start(
    undecided: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    undecided.failing["e"] = 1
    undecided.child.tell(("do", "a", ["e"]))
    monkeypatch.setattr(Worker, "on_start", Worker.stop_now)

    undecided.parent.proxy().restart(replay=True).get()

    assert not undecided.child.is_alive()
    assert undecided.letters == []


@pytest.mark.parametrize("message", [("tell", "a"), ("do", "b", ["a"])], ids=["message", "outbox"])
def test_on_start_that_raises_is_no_strike(
    family: Family, message: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_life, "FIRST_PAUSE", 0.0)
    family.failing.update(start=10, a=1)

    family.child.tell(message)

    assert family.child.ask(("tell", "c")) == "c"
    assert family.log[1:] == [*["start"] * 11, "a", "c"]
    assert family.letters == []
    assert all(failure.waiting == () for failure in family.failures() if message[0] == "do")
    assert family.failures()[-1].message is None


# What was decided.


def test_effects_are_performed_in_order_and_what_one_adds_comes_next(family: Family) -> None:
    assert family.child.ask(("do", "a", ["e", ("f", "g"), "h"])) == "a"

    assert family.log == ["a", "e", ("f", "g"), "f", "g", "h"]


def test_the_next_incarnation_goes_on_with_the_effect_that_failed(undecided: Family) -> None:
    undecided.failing["f"] = 1
    undecided.child.tell(("do", "a", ["e", "f", "g"]))
    asked = undecided.child.ask(("tell", "b"), block=False)

    assert undecided.failures()[0].message == ("do", "a", ["e", "f", "g"])
    undecided.parent.proxy().restart(replay=True).get()

    assert asked.get(timeout=PATIENCE) == "b"
    assert undecided.log == ["a", "e", "start", "f", "g", "b"]


def test_without_replay_the_rest_of_a_decision_is_dropped(undecided: Family) -> None:
    undecided.failing["f"] = 1
    undecided.child.tell(("do", "a", ["e", "f", "g"]))

    undecided.parent.proxy().restart().get()

    assert undecided.child.ask(("do", "b", ["h"])) == "b"
    assert undecided.log == ["a", "e", "start", "b", "h"]


def test_an_effect_is_dropped_after_so_many_strikes_and_the_rest_is_done(family: Family) -> None:
    family.failing["f"] = 4

    family.child.tell(("do", "a", ["e", "f", "g"]))

    assert family.child.ask(("tell", "b")) == "b"
    assert family.log == ["a", "e", *["start"] * 3, ("dropped", "f"), "start", "g", "b"]
    assert family.letters == ["f"]
    assert [failure.message for failure in family.failures()[1:]] == [None] * 3


def test_each_effect_has_its_own_strikes(family: Family) -> None:
    family.failing.update(e=3, f=3, g=3)

    family.child.tell(("do", "a", ["e", "f", "g"]))

    assert family.child.ask(("tell", "b")) == "b"
    assert [entry for entry in family.log if entry != "start"] == ["a", "e", "f", "g", "b"]
    assert family.letters == []


@pytest.mark.parametrize("short", [True, False], ids=["the short way", "through the queue"])
def test_an_asker_gets_the_exception_and_the_effects_are_done_all_the_same(
    family: Family, short: bool
) -> None:
    family.failing["f"] = 1
    message = ("do", "a", ["e", "f", "g"])

    asked = partial(family.child.ask, message)
    if not short:
        asked = asked(block=False).get

    with pytest.raises(ValueError, match="f"):
        asked(timeout=PATIENCE)

    assert family.log == ["a", "e", "f", "g"]  # on the same instance, before anything else
    assert family.failures() == []


def test_effects_that_go_on_failing_behind_the_answer_end_the_incarnation(family: Family) -> None:
    family.failing["f"] = 2

    with pytest.raises(ValueError, match="f"):
        family.child.ask(("do", "a", ["e", "f", "g"]), timeout=PATIENCE)

    assert family.child.ask(("tell", "b")) == "b"
    assert family.log == ["a", "e", "start", "f", "g", "b"]


def test_a_message_that_was_decided_does_not_come_again_even_if_all_is_done(family: Family) -> None:
    family.failing["behind"] = 1

    family.child.tell(("do", "a", ["e"], "behind"))

    assert family.child.ask(("tell", "b")) == "b"
    assert family.log == ["a", "e", "start", "b"]


@pytest.mark.parametrize("how", ["told", "asked", "asked, the short way"])
def test_a_decision_of_the_message_before_is_not_taken_for_this_ones(family: Family, how: str) -> None:
    child = family.child
    family.failing["b"] = 1
    assert child.ask(("do", "a", ["e"])) == "a"

    if how == "told":
        child.tell(("tell", "b"))
    elif how == "asked":
        assert child.ask(("later", "b"), block=False).get(timeout=PATIENCE) == "b"
    else:
        assert child.ask(("later", "b"), timeout=PATIENCE) == "b"

    assert child.ask(("tell", "c")) == "c"
    assert family.log.count("b") == 2


def test_a_simulated_message_before_is_no_decision_of_this_one() -> None:
    class Clumsy(Simulation):
        failures = 0

        def fault_point(self, name: str) -> None:
            if name == "handler" and self.failures:
                self.failures -= 1
                raise InjectedFault(name)

    with Clumsy() as sim:
        family = Family(sim, [], {"replay": True})
        family.child.tell(("do", "a", ["e"]))
        sim.run()
        sim.failures = 1
        family.child.tell(("tell", "b"))
        sim.run()

        assert family.log == ["start", "a", "e", "start", "b"]


def test_on_start_may_go_on_with_the_outbox_itself(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on(worker: Worker) -> None:
        worker.log.append("start")
        worker.do(["new"])

    monkeypatch.setattr(Worker, "on_start", go_on)
    family.failing["f"] = 4

    family.child.tell(("do", "a", ["e", "f", "g"]))

    assert family.child.ask(("tell", "b")) == "b"
    # Each start adds one more behind; a failure in there is a strike against the effect.
    assert family.log == ["a", "e", *["start"] * 3, ("dropped", "f"), "start", "g", *["new"] * 4, "b"]


def test_an_actor_that_cannot_perform_says_so(runtime: Runtime) -> None:
    class Unable(Actor):
        def on_receive(self, message: Any) -> None:
            self.do([message])

    with pytest.raises(NotImplementedError, match="override perform"):
        runtime.start(Unable).ask("something")


def test_an_actor_without_a_parent_takes_its_outbox_along(runtime: Runtime) -> None:
    worker = runtime.start(Worker, [], {"e": 1})

    worker.tell(("do", "a", ["e"]))

    assert not worker.is_alive()
    assert worker.actor_inbox.outbox is None


def test_an_actor_at_rest_keeps_nothing_of_all_this(family: Family) -> None:
    family.failing.update(a=2, e=2)
    family.child.tell(("tell", "a"))
    family.child.tell(("do", "b", ["e"]))
    assert family.child.ask(("tell", "c")) == "c"

    mailbox = family.child.actor_inbox
    assert (mailbox.outbox, mailbox.rare.unfinished, mailbox._backlog) == (None, None, None)


@pytest.mark.usefixtures("nothing_logged")
def test_a_reply_that_is_dropped_with_its_incarnation_is_still_noticed(undecided: Family) -> None:
    """What is not handed over and does not come again has no one else to answer it."""
    undecided.failing["a"] = 1
    asked: Future[Any] = undecided.child.ask(("later", "a"), block=False)
    undecided.parent.proxy().restart().get()

    undecided.log.clear()
    undecided.parent.proxy().failures.get().clear()
    gc.collect()

    with pytest.raises(ReplyDropped):
        asked.get(timeout=PATIENCE)
