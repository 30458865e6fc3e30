"""Deferred replies."""

from __future__ import annotations

import gc
from typing import Any

import pykka
import pytest

from greenroom.actors import Actor, Reply, ReplyDropped, Runtime
from tests.actors.actors import all_at_once


class Clerk(Actor):
    """Takes every reply along; `answer` gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Reply] = []

    def on_receive(self, message: Any) -> str:
        self.replies.append(self.defer_reply())
        return "ignored"

    def answer(self, value: Any) -> list[bool]:
        return [reply.set(value) for reply in self.replies]

    def lose(self) -> None:
        self.replies.clear()

    def take(self) -> list[Reply]:
        return self.replies


def test_a_handler_may_answer_later_from_another_message(runtime: Runtime) -> None:
    clerk = runtime.start(Clerk)
    asked = [clerk.ask(n, block=False) for n in range(3)]
    assert not any(future.done() for future in asked)

    assert clerk.proxy().answer("done").get() == [True, True, True]

    assert [future.get(timeout=0) for future in asked] == ["done"] * 3


def test_an_answer_may_be_an_exception_and_come_from_any_thread(runtime: Runtime) -> None:
    clerk = runtime.start(Clerk)
    asked = clerk.ask("a", block=False)
    (reply,) = clerk.proxy().take().get()

    all_at_once([lambda: reply.set_exception(KeyError("no"))])

    with pytest.raises(KeyError, match="no"):
        asked.get(timeout=20)


def test_only_the_first_answer_counts(runtime: Runtime) -> None:
    clerk = runtime.start(Clerk)
    asked = clerk.ask("a", block=False)
    (reply,) = clerk.proxy().take().get()
    assert reply.wanted

    assert reply.set(1) is True
    assert reply.set(2) is False

    assert not reply.wanted
    assert asked.get(timeout=0) == 1


def test_the_reply_to_a_tell_has_nobody_to_answer(runtime: Runtime) -> None:
    clerk = runtime.start(Clerk)
    clerk.tell("a")

    assert clerk.proxy().answer("x").get() == [False]


def test_a_dropped_reply_answers_with_an_error(runtime: Runtime) -> None:
    clerk = runtime.start(Clerk)
    asked = clerk.ask("a", block=False)

    clerk.proxy().lose().get()
    gc.collect()

    with pytest.raises(ReplyDropped, match="without an answer"):
        asked.get(timeout=20)


def test_a_reply_whose_actor_stops_answers_with_an_error(runtime: Runtime) -> None:
    clerk = runtime.start(Clerk)
    asked = clerk.ask("a", block=False)
    kept = clerk.proxy().take().get()

    clerk.stop()

    with pytest.raises(pykka.ActorDeadError, match="stopped before it answered"):
        asked.get(timeout=0)
    assert kept[0].set("too late") is False


def test_an_answer_that_races_the_end_of_the_actor_is_one_or_the_other(runtime: Runtime) -> None:
    for _ in range(200):
        clerk = runtime.start(Clerk)
        asked = clerk.ask("a", block=False)
        reply = clerk.proxy().take().get()[0]
        answered: list[bool] = []

        all_at_once([lambda: answered.append(reply.set("yes")), clerk.stop])  # noqa: B023  # used at once

        try:
            assert asked.get(timeout=20) == "yes"
            assert answered == [True]
        except pykka.ActorDeadError:
            assert answered == [False]


def test_defer_reply_outside_a_handler_says_so(runtime: Runtime) -> None:
    class Exposed(Actor):
        def me(self) -> Exposed:
            return self

    actor = runtime.start(Exposed).proxy().me().get()

    with pytest.raises(RuntimeError, match="outside its handlers"):
        actor.defer_reply()


def test_the_outcome_of_another_ask_can_be_the_answer(runtime: Runtime) -> None:
    """An actor that asks another without blocking: defer, pipe, answer."""
    clerk = runtime.start(Clerk)

    class Front(Actor):
        def on_receive(self, message: Any) -> None:
            if isinstance(message, tuple):
                reply, value = message
                reply.set(value)
            else:
                reply = self.defer_reply()
                answer = clerk.ask(message, block=False)
                self.pipe_to_self(answer, lambda v: (reply, v), lambda e: (reply, repr(e)))

    asked = runtime.start(Front).ask("question", block=False)
    assert not asked.done()
    clerk.proxy().answer(42).get()

    assert asked.get(timeout=20) == 42
