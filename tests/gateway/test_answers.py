"""An agent's answer, whatever kind of function it is."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from greenroom.gateway import ChatRequest, Finish, Usage
from greenroom.gateway._answers import answer_of
from tests.actors.actors import PATIENCE

REQUEST = ChatRequest(messages=({"role": "user", "content": "hello"},))
USAGE = Usage(prompt_tokens=1, completion_tokens=2)

where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


class Agent:
    """Answers with a function of the test's."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer


async def pieces(answer: Any) -> list[Any]:
    """All pieces of an answer."""
    iterator = answer_of(Agent(answer), REQUEST)
    try:
        return [piece async for piece in iterator]
    finally:
        await iterator.aclose()  # type: ignore[attr-defined]  # all that are made here have it


async def async_generator(request: ChatRequest) -> AsyncIterator[Any]:
    yield request.messages[0]["content"]
    yield USAGE


async def coroutine(request: ChatRequest) -> Any:
    return [request.messages[0]["content"], USAGE]


async def coroutine_of_generator(request: ChatRequest) -> Any:
    return async_generator(request)


def generator(request: ChatRequest) -> Iterator[Any]:
    yield request.messages[0]["content"]
    yield USAGE


def function(request: ChatRequest) -> Any:
    return (request.messages[0]["content"], USAGE)


ALL = [async_generator, coroutine, coroutine_of_generator, generator, function]


@pytest.mark.parametrize("answer", ALL)
def test_all_kinds_of_answers_give_their_pieces(answer: Callable[..., Any]) -> None:
    assert asyncio.run(pieces(answer)) == ["hello", USAGE]


@pytest.mark.parametrize("answer", ALL)
def test_a_function_with_some_arguments_given_is_of_the_same_kind(answer: Callable[..., Any]) -> None:
    assert asyncio.run(pieces(functools.partial(answer))) == ["hello", USAGE]


@pytest.mark.parametrize("answer", [lambda _: "all", lambda _: ["al", "l"]])
def test_a_function_may_return_the_whole_answer(answer: Callable[..., Any]) -> None:
    assert "".join(asyncio.run(pieces(answer))) == "all"


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(TypeError, match="returned int, neither text nor pieces"):
        asyncio.run(pieces(lambda _: 3))


def test_an_agent_that_cannot_answer_is_named() -> None:
    async def ask() -> None:
        answer_of(object(), REQUEST)

    with pytest.raises(TypeError, match=r"needs a method answer\(request\), and object has none"):
        asyncio.run(ask())


@pytest.mark.parametrize("error", [OSError("broken"), StopIteration("x"), asyncio.CancelledError()])
def test_what_a_thread_raises_comes_out_and_ends_the_answer(error: BaseException) -> None:
    def fail(_: ChatRequest) -> str:
        raise error

    async def ask() -> None:
        with pytest.raises((OSError, RuntimeError), match=r"broken|answer\(\) raised"):
            await pieces(fail)

    asyncio.run(ask())


def test_a_function_runs_on_a_daemon_thread_with_the_context_of_its_request() -> None:
    seen: list[tuple[str, bool]] = []

    def look(_: ChatRequest) -> str:
        seen.append((where.get(), threading.current_thread().daemon))
        return ""

    async def ask() -> None:
        where.set("here")
        await pieces(look)

    asyncio.run(ask())
    assert seen == [("here", True)]


def test_a_generator_makes_no_piece_before_it_is_wanted() -> None:
    made: list[int] = []

    def count(_: ChatRequest) -> Iterator[str]:
        for number in range(100):
            made.append(number)
            yield str(number)

    async def ask() -> None:
        answer: Any = answer_of(Agent(count), REQUEST)
        assert [await anext(answer), await anext(answer)] == ["0", "1"]
        await answer.aclose()

    asyncio.run(ask())
    assert made == [0, 1]


def test_a_generator_that_is_closed_early_can_clean_up_on_its_own_thread() -> None:
    cleaned: list[bool] = []

    def answer(_: ChatRequest) -> Iterator[str]:
        thread = threading.current_thread()
        try:
            yield "one"
            yield "two"
        finally:
            cleaned.append(threading.current_thread() is thread)

    async def ask() -> None:
        answer_: Any = answer_of(Agent(answer), REQUEST)
        await anext(answer_)
        await answer_.aclose()

    asyncio.run(ask())
    assert cleaned == [True]


def test_whoever_stops_waiting_for_a_thread_can_still_wait_for_its_end() -> None:
    gate = threading.Event()

    def slow(_: ChatRequest) -> str:
        assert gate.wait(PATIENCE)
        return "late"

    async def ask() -> bool:
        answer: Any = answer_of(Agent(slow), REQUEST)
        task = asyncio.ensure_future(anext(answer))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        closing = asyncio.ensure_future(answer.aclose())
        await asyncio.sleep(0)
        before: bool = closing.done()
        gate.set()
        await closing
        return before

    assert asyncio.run(ask()) is False


def test_a_loop_that_ends_first_is_no_concern_of_the_thread() -> None:
    gate, over = threading.Event(), threading.Event()

    def slow(_: ChatRequest) -> Iterator[str]:
        try:
            assert gate.wait(PATIENCE)
            yield "late"
        finally:
            over.set()

    async def ask() -> Any:
        answer: Any = answer_of(Agent(slow), REQUEST)
        task = asyncio.ensure_future(anext(answer))
        await asyncio.sleep(0)
        task.cancel()
        closing = asyncio.ensure_future(answer.aclose())
        await asyncio.sleep(0)
        closing.cancel()

    asyncio.run(ask())
    gate.set()
    assert over.wait(PATIENCE)


@pytest.mark.parametrize("answer", ALL)
def test_a_function_that_a_decorator_has_hidden_is_of_the_same_kind(answer: Callable[..., Any]) -> None:
    @functools.wraps(answer)
    def hidden(request: ChatRequest) -> Any:
        return answer(request)

    assert asyncio.run(pieces(hidden)) == ["hello", USAGE]


@pytest.mark.parametrize("hide", [False, True])
def test_a_generator_that_a_coroutine_returned_is_closed_with_the_answer(hide: bool) -> None:
    closed: list[bool] = []

    async def words() -> AsyncIterator[str]:
        try:
            yield "one"
            yield "two"
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    async def answer(_: ChatRequest) -> Any:
        return words()

    async def ask() -> None:
        given: Any = (lambda request: answer(request)) if hide else answer
        answer_: Any = answer_of(Agent(given), REQUEST)
        assert await anext(answer_) == "one"
        await answer_.aclose()
        assert closed == [True]

    asyncio.run(ask())


def test_nothing_in_the_place_of_a_piece_is_not_the_end() -> None:
    def answer(_: ChatRequest) -> Iterator[Any]:
        yield "one"
        yield None
        yield "two"

    assert asyncio.run(pieces(answer)) == ["one", None, "two"]  # and refused by whoever sends them


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_generator_that_cannot_be_closed_leaves_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(_: ChatRequest) -> Iterator[str]:
        try:
            yield "one"
        finally:
            raise OSError("cannot clean up")

    async def ask() -> None:
        answer_: Any = answer_of(Agent(answer), REQUEST)
        await anext(answer_)
        await answer_.aclose()

    asyncio.run(ask())
    assert "An answer could not be closed" in caplog.text


def test_pieces_that_could_not_be_written_down_are_refused_where_they_are_made() -> None:
    wrong: Any = None
    with pytest.raises(TypeError, match="completion_tokens must be a whole number, not None"):
        Usage(prompt_tokens=1, completion_tokens=wrong)
    with pytest.raises(TypeError, match="must be text, not None"):
        Finish(wrong)
