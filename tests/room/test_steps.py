"""Steps: what is asked of actors, one after the other, by threads and by tasks alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from greenroom import Actor, Runtime
from greenroom._steps import Steps, take, take_async
from greenroom.actors import ActorRef


class Answerer(Actor):
    """Answers a number with the next one. Anything else raises."""

    def on_receive(self, message: Any) -> Any:
        return message + 1


@pytest.fixture
def answerer() -> Iterator[ActorRef[Answerer]]:
    runtime = Runtime(name="steps")
    yield runtime.start(Answerer)
    runtime.close()


@pytest.fixture(params=["thread", "task"])
def drive(request: pytest.FixtureRequest) -> Callable[[Steps[Any]], Any]:
    return take if request.param == "thread" else lambda steps: asyncio.run(take_async(steps))


def test_each_answer_is_sent_in_and_the_last_word_is_returned(
    drive: Callable[[Steps[Any]], Any], answerer: ActorRef[Answerer]
) -> None:
    def count_up() -> Steps[list[int]]:
        one = yield answerer, 0
        two = yield answerer, one
        return [one, two]

    assert drive(count_up()) == [1, 2]


def test_steps_may_ask_nothing(drive: Callable[[Steps[Any]], Any], answerer: ActorRef[Answerer]) -> None:
    def ask(wanted: bool) -> Steps[str]:
        if wanted:
            yield answerer, 0
        return "nothing to ask"

    assert drive(ask(False)) == "nothing to ask"


def test_a_failure_is_raised_where_it_was_asked_and_the_steps_may_go_on(
    drive: Callable[[Steps[Any]], Any], answerer: ActorRef[Answerer]
) -> None:
    def try_again() -> Steps[int]:
        try:
            answer: int = yield answerer, "no number"
        except TypeError:
            answer = yield answerer, 1
        return answer

    assert drive(try_again()) == 2


def test_a_failure_that_the_steps_leave_alone_reaches_the_caller(
    drive: Callable[[Steps[Any]], Any], answerer: ActorRef[Answerer]
) -> None:
    def ask() -> Steps[Any]:
        return (yield answerer, "no number")

    with pytest.raises(TypeError):
        drive(ask())


def test_a_cancelled_task_is_cancelled_inside_the_steps() -> None:
    """So that they can tell the actor."""

    class Silent(Actor):
        def on_receive(self, message: Any) -> None:
            owed.append(self.defer_reply())

    owed: list[Any] = []
    seen: list[str] = []

    async def run(silent: ActorRef[Silent]) -> None:
        def ask() -> Steps[None]:
            try:
                yield silent, "a question"
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        task = asyncio.ensure_future(take_async(ask()))
        await asyncio.sleep(0)  # it asks, and waits
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    runtime = Runtime(name="steps")
    try:
        asyncio.run(run(runtime.start(Silent)))
    finally:
        runtime.close()
    assert len(owed) == 1
    assert seen == ["cancelled"]
