"""A conversation in a room, whatever the framework: how a run is left, interrupted, and kept or not."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from greenroom import Greenroom
from greenroom.integrations._conversation import follow
from greenroom.store import open_store
from greenroom.testing import evict_now
from tests.actors.actors import PATIENCE, in_thread
from tests.integrations.framework import Silence, Told, echo, telling

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


async def told_of(room: Greenroom, key: str = "a", session_id: str | None = None) -> list[Any]:
    """What is remembered of a conversation."""
    async with room.turn(key, session_id=session_id, ephemeral=True) as turn:
        return await turn.agent.history()


def test_an_answer_comes_in_pieces_and_is_kept_when_it_is_whole() -> None:
    async def chat() -> None:
        async with Greenroom(telling(echo)) as room:
            async with room.turn("a") as turn:
                pieces = [piece async for piece in turn.agent.stream("Hello")]
                assert not turn.agent.interrupted
            assert pieces == ["You said ", "Hello."]
            assert await told_of(room) == ["Hello", "You said ", "Hello."]

    asyncio.run(chat())


def test_an_answer_comes_in_one_piece_if_that_is_asked_for() -> None:
    async def chat() -> None:
        async with Greenroom(telling(echo)) as room, room.turn("a") as turn:
            assert await turn.agent.run("Hello") == "You said Hello."

    asyncio.run(chat())


@pytest.mark.parametrize(
    "content", ["Hello", [{"type": "text", "text": "Hello"}, {"type": "image"}, "odd"]]
)
def test_a_client_of_the_gateway_is_answered_to_its_last_message(content: Any) -> None:
    async def chat() -> None:
        request = SimpleNamespace(messages=[{"content": "before"}, {"role": "user", "content": content}])
        async with Greenroom(telling(echo)) as room, room.turn("a") as turn:
            pieces = [piece async for piece in turn.agent.answer(request)]
            assert pieces == ["You said ", "Hello."]

    asyncio.run(chat())


@pytest.mark.parametrize("content", ["", None, [], [{"type": "image"}]])
def test_nothing_is_refused_as_a_question(content: Any) -> None:
    async def chat() -> None:
        request = SimpleNamespace(messages=[{"content": content}])
        async with Greenroom(telling(echo)) as room, room.turn("a", ephemeral=True) as turn:
            with pytest.raises(ValueError, match="nothing to answer"):
                [piece async for piece in turn.agent.answer(request)]

    asyncio.run(chat())


def test_a_run_that_fails_tells_its_error_and_is_not_kept() -> None:
    """T4"""

    async def fail(text: str) -> AsyncGenerator[str, None]:
        yield "Well, "
        raise LookupError(text)

    async def chat() -> None:
        async with Greenroom(telling(fail)) as room:
            heard: list[str] = []
            turn = room.turn("a")

            async def talk() -> None:
                async with turn:
                    async for piece in turn.agent.stream("Hello"):
                        heard.append(piece)

            with pytest.raises(LookupError, match="Hello"):
                await talk()
            assert heard == ["Well, "]
            assert not turn.completed
            assert await told_of(room) == []

    asyncio.run(chat())


def test_a_turn_that_is_cancelled_ends_its_run_first_and_keeps_nothing() -> None:
    """T4"""

    async def chat() -> None:
        silence = Silence()
        async with Greenroom(telling(silence)) as room:
            ended: list[str] = []

            async def talk() -> None:
                async with room.turn("a") as turn:
                    try:
                        await turn.agent.run("Hello")
                    finally:
                        ended.extend(turn.agent.ended)

            talking = asyncio.create_task(talk())
            await silence.reached.wait()
            talking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await talking
            assert ended == ["Hello"]
            assert room.stats().in_turn == 0
            assert not room.has_uncommitted("a")
            assert await told_of(room) == []

    asyncio.run(chat())


def test_who_leaves_a_stream_and_closes_it_has_ended_the_run() -> None:
    async def chat() -> None:
        async with Greenroom(telling(Silence())) as room, room.turn("a") as turn:
            async with aclosing(turn.agent.stream("Hello")) as pieces:
                async for _ in pieces:
                    break
            assert turn.agent.ended == ["Hello"]
            assert await turn.agent.history() == []

    asyncio.run(chat())


def test_a_stream_that_was_left_and_not_closed_does_not_stop_the_next() -> None:
    async def chat() -> None:
        async with Greenroom(telling(Silence())) as room:
            async with room.turn("a") as turn:
                left = turn.agent.stream("Hello")
                assert await anext(left) == "Let me "
            async with room.turn("a") as turn:
                turn.agent.script = echo
                assert await turn.agent.run("Again") == "You said Again."
                assert turn.agent.ended == ["Hello", "Again"]
                with pytest.raises(RuntimeError, match="another answer"):
                    [piece async for piece in left]
                assert await turn.agent.history() == ["Again", "You said ", "Again."]

    asyncio.run(chat())


def test_the_end_of_an_old_stream_is_not_the_end_of_the_new() -> None:
    async def chat() -> None:
        silence = Silence()
        async with Greenroom(telling(silence)) as room, room.turn("a") as turn:
            left = turn.agent.stream("Hello")
            await anext(left)
            new = turn.agent.stream("Again")
            await anext(new)
            await left.aclose()
            turn.agent.interrupt()
            assert [piece async for piece in new] == ["think"]
            assert turn.agent.interrupted

    asyncio.run(chat())


@pytest.mark.parametrize("first", ["cancel", "interrupt"])
def test_who_leaves_a_run_that_is_ending_already_does_not_cut_that_short(first: str) -> None:
    async def chat() -> None:
        may_end, reached = asyncio.Event(), Silence()
        cleared_up: list[str] = []

        async def slow_to_end(text: str) -> AsyncGenerator[str, None]:
            try:
                async for piece in reached(text):
                    yield piece
            finally:
                await may_end.wait()
                cleared_up.append(text)

        async with Greenroom(telling(slow_to_end)) as room, room.turn("a") as turn:
            talking = asyncio.create_task(turn.agent.run("Hello"))
            await reached.reached.wait()
            for end in (talking.cancel if first == "cancel" else turn.agent.interrupt, talking.cancel):
                end()
                for _ in range(5):
                    await asyncio.sleep(0)
            assert not talking.done()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await talking
            assert cleared_up == turn.agent.ended == ["Hello"]

    asyncio.run(chat())


def test_an_answer_that_is_interrupted_from_another_thread_ends_with_what_was_said() -> None:
    async def chat() -> None:
        silence = Silence()
        async with Greenroom(telling(silence)) as room:
            async with room.turn("a") as turn:
                answering = asyncio.create_task(turn.agent.run("Hello"))
                await silence.reached.wait()
                interrupting = in_thread(turn.agent.interrupt)
                assert await answering == "Let me think"
                assert turn.agent.interrupted
                interrupting.join(PATIENCE)
            assert turn.completed
            assert await told_of(room) == ["Hello", "Let me think", "…"]

    asyncio.run(chat())


def test_an_operator_who_ends_a_session_interrupts_its_answer() -> None:
    """T7"""

    async def chat() -> None:
        silence = Silence()
        async with Greenroom(telling(silence)) as room, room.turn("a") as turn:
            answering = asyncio.create_task(turn.agent.run("Hello"))
            await silence.reached.wait()
            assert room.end("a", interrupt=True)
            assert await answering == "Let me think"

    asyncio.run(chat())


def test_an_interruption_between_answers_does_nothing_to_the_next() -> None:
    async def chat() -> None:
        async with Greenroom(telling(echo)) as room, room.turn("a") as turn:
            turn.agent.interrupt()
            assert await turn.agent.run("Hello") == "You said Hello."
            turn.agent.interrupt()
            assert await turn.agent.run("Bye") == "You said Bye."
            assert not turn.agent.interrupted

    asyncio.run(chat())


def test_an_interruption_while_a_whole_answer_is_written_comes_too_late() -> None:
    async def chat() -> None:
        writing, may_go_on = asyncio.Event(), asyncio.Event()

        class Slow(Told):
            async def _finish(self) -> None:
                writing.set()
                await may_go_on.wait()
                await super()._finish()

        async def build(context: Any) -> Slow:
            told = Slow(context, echo)
            await told.open(context)
            return told

        async with Greenroom(build) as room, room.turn("a") as turn:
            answering = asyncio.create_task(turn.agent.run("Hello"))
            await writing.wait()
            turn.agent.interrupt()
            may_go_on.set()
            assert await answering == "You said Hello."
            assert not turn.agent.interrupted
            assert await turn.agent.history() == ["Hello", "You said ", "Hello."]

    asyncio.run(chat())


def test_an_interruption_after_the_loop_has_gone_is_no_error() -> None:
    async def chat() -> None:
        silence = Silence()
        async with Greenroom(telling(silence)) as room, room.turn("a") as turn:
            pieces = turn.agent.stream("Hello")
            await anext(pieces)
            gone = asyncio.new_event_loop()
            gone.close()
            turn.agent._run._loop = gone
            turn.agent.interrupt()
            await pieces.aclose()

    asyncio.run(chat())


def test_a_run_has_the_context_variables_of_whoever_began_it() -> None:
    async def tell(text: str) -> AsyncGenerator[str, None]:
        yield f"{text} {who.get()}"

    async def chat() -> None:
        async with Greenroom(telling(tell)) as room, room.turn("a") as turn:
            who.set("Ada")
            assert await turn.agent.run("You are") == "You are Ada"

    asyncio.run(chat())


@pytest.mark.parametrize("stored", [True, False])
def test_session_ids_that_alternate_under_one_key_have_their_own_histories(
    stored: bool, tmp_path: Path
) -> None:
    """H3"""

    async def chat() -> None:
        store = f"sqlite:///{tmp_path}/chats.db" if stored else None
        async with Greenroom(telling(echo), prepare=follow, store=store) as room:
            for text, session_id in [("1", "x"), ("2", "y"), ("3", "x")]:
                async with room.turn("a", session_id=session_id) as turn:
                    await turn.agent.run(text)
                    assert turn.reused == (text != "1")
            assert await told_of(room, session_id="x") == [
                "1",
                "You said ",
                "1.",
                "3",
                "You said ",
                "3.",
            ]
            assert await told_of(room, session_id="y") == ["2", "You said ", "2."]

    asyncio.run(chat())


def test_the_history_of_another_session_id_can_be_read_and_changes_nothing(tmp_path: Path) -> None:
    async def chat() -> None:
        room = Greenroom(telling(echo), prepare=follow, store=f"sqlite:///{tmp_path}/chats.db")
        async with room:
            for text, session_id in [("1", "x"), ("2", "y")]:
                async with room.turn("a", session_id=session_id) as turn:
                    await turn.agent.run(text)
            async with room.turn("a", session_id="y", ephemeral=True) as turn:
                assert await turn.agent.history("x") == ["1", "You said ", "1."]
                assert await turn.agent.history() == ["2", "You said ", "2."]

    asyncio.run(chat())


def test_the_next_agent_goes_on_with_the_conversation_of_a_released_one(tmp_path: Path) -> None:
    """S3"""

    async def chat() -> None:
        async with Greenroom(telling(echo), store=f"sqlite:///{tmp_path}/chats.db") as room:
            async with room.turn("a") as turn:
                await turn.agent.run("Hello")
            assert await asyncio.to_thread(evict_now, room, "a", PATIENCE)
            async with room.turn("a") as turn:
                assert not turn.reused
                assert await turn.agent.history() == ["Hello", "You said ", "Hello."]

    asyncio.run(chat())


def test_what_an_agent_writes_keeps_it_and_what_another_process_writes_does_not(tmp_path: Path) -> None:
    """H1, H2. The other process is a store of its own on the same file."""
    url = f"sqlite:///{tmp_path}/chats.db"

    async def chat() -> None:
        async with Greenroom(telling(echo), store=url) as room:
            for text in ("1", "2"):
                async with room.turn("a") as turn:
                    await turn.agent.run(text)
            assert turn.reused
            with open_store(url) as other:
                other.append("a", role="told", content={"items": ["from afar"]})
            async with room.turn("a") as turn:
                assert not turn.reused
                assert (await turn.agent.history())[-1] == "from afar"

    asyncio.run(chat())


def test_interrupting_from_many_threads_at_any_moment_ends_an_answer_once() -> None:
    async def chat() -> None:
        silence = Silence()
        async with Greenroom(telling(silence)) as room, room.turn("a") as turn:
            answering = asyncio.create_task(turn.agent.run("Hello"))
            await silence.reached.wait()
            start = threading.Barrier(8)

            def interrupt() -> None:
                start.wait(PATIENCE)
                turn.agent.interrupt()

            threads = [in_thread(interrupt) for _ in range(8)]
            assert await answering == "Let me think"
            for thread in threads:
                thread.join(PATIENCE)
            turn.agent.script = echo
            assert await turn.agent.run("Again") == "You said Again."

    asyncio.run(chat())
