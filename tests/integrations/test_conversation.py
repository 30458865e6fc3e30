"""A conversation in a room, whatever the framework: how a run is left, interrupted, and kept or not."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from greenroom import Greenroom
from greenroom.gateway import ChatRequest
from greenroom.integrations._conversation import follow
from greenroom.store import StoreError, open_store
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
        said = [{"content": "before"}, {"role": "user", "content": content}]
        request = ChatRequest(messages=tuple(said))
        async with Greenroom(telling(echo)) as room, room.turn("a") as turn:
            pieces = [piece async for piece in turn.agent.answer(request)]
            assert pieces == ["You said ", "Hello."]

    asyncio.run(chat())


@pytest.mark.parametrize("content", ["", None, [], [{"type": "image"}]])
def test_nothing_is_refused_as_a_question(content: Any) -> None:
    async def chat() -> None:
        request = ChatRequest(messages=({"content": content},))
        async with Greenroom(telling(echo)) as room, room.turn("a", ephemeral=True) as turn:
            with pytest.raises(ValueError, match="nothing to answer"):
                [piece async for piece in turn.agent.answer(request)]

    asyncio.run(chat())


def test_of_a_request_whose_session_ends_with_it_nothing_is_kept() -> None:
    async def chat() -> None:
        request = ChatRequest(messages=({"role": "user", "content": "Hello"},), ephemeral=True)
        async with Greenroom(telling(echo)) as room:
            async with room.turn("a") as turn:
                assert [piece async for piece in turn.agent.answer(request)] == ["You said ", "Hello."]
            assert await told_of(room) == []

    asyncio.run(chat())


def test_of_an_answer_that_is_not_to_be_kept_nothing_is_however_it_ends() -> None:
    async def stop(text: str) -> AsyncGenerator[str, None]:
        yield text
        room.session("a").end(interrupt=True)
        await asyncio.sleep(PATIENCE)

    async def chat() -> None:
        async with room, room.turn("a") as turn:
            assert await turn.agent.run("Hello", keep=False) == "Hello"
            assert turn.agent.interrupted
            assert await turn.agent.history() == []

    room = Greenroom(telling(stop))
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


def test_a_stream_whose_run_was_over_when_it_was_left_is_not_kept_in_the_place_of_the_next() -> None:
    async def chat() -> None:
        over = asyncio.Event()

        async def tell(text: str) -> AsyncGenerator[str, None]:
            async for piece in echo(text):
                yield piece
            over.set()

        async with Greenroom(telling(tell)) as room, room.turn("a") as turn:
            left = turn.agent.stream("Hello")
            assert await anext(left) == "You said "
            await over.wait()
            turn.agent.script = Silence()
            async with aclosing(turn.agent.stream("Again")) as new:
                assert await anext(new) == "Let me "
                with pytest.raises(RuntimeError, match="another answer"):
                    [piece async for piece in left]
                assert await turn.agent.history() == []
                turn.agent.interrupt()
                assert [piece async for piece in new] == ["think"]
            assert await turn.agent.history() == ["Again", "Let me think", "…"]

    asyncio.run(chat())


@pytest.mark.parametrize("running", [True, False])
def test_a_stream_that_was_left_on_another_loop_does_not_stop_the_next(running: bool) -> None:
    loop = asyncio.new_event_loop()

    async def leave(room: Greenroom) -> Any:
        async with room.turn("a", ephemeral=True) as turn:
            left = turn.agent.stream("Hello")
            assert await anext(left) == "Let me "
            return left

    async def chat(room: Greenroom) -> None:
        async with room.turn("a", ephemeral=True) as turn:
            turn.agent.script = echo
            assert await turn.agent.run("Again") == "You said Again."
            assert turn.agent.ended == (["Hello", "Again"] if running else ["Again"])

    with Greenroom(telling(Silence())) as room:
        left = loop.run_until_complete(leave(room))
        if running:
            thread = in_thread(loop.run_forever)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE)
            asyncio.run(chat(room))
            loop.call_soon_threadsafe(loop.stop)
            thread.join(PATIENCE)
        else:
            asyncio.run(chat(room))
        loop.run_until_complete(left.aclose())
    loop.close()


def test_a_stream_that_was_left_is_ended_before_its_agent_is_released() -> None:
    """S1"""

    async def chat() -> None:
        async with Greenroom(telling(Silence())) as room:
            async with room.turn("a", ephemeral=True) as turn:
                agent = turn.agent
                left = agent.stream("Hello")
                assert await anext(left) == "Let me "
            assert await asyncio.to_thread(evict_now, room, "a", PATIENCE)
            assert agent.ended == ["Hello"]
            with pytest.raises(RuntimeError, match="the agent released"):
                [piece async for piece in left]

    asyncio.run(chat())


class _Steps:
    """A store that takes a step of the loop before and after whatever it does."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    async def messages_soon(self, session_id: str) -> list[Any]:
        await asyncio.sleep(0)
        return [SimpleNamespace(role="told", content=content) for content in self.rows]

    async def append_soon(self, session_id: str, *, role: str, content: Any) -> None:
        await asyncio.sleep(0)
        self.rows.append(content)
        await asyncio.sleep(0)


async def walk(text: str) -> AsyncGenerator[str, None]:
    """Answer in two pieces, with a step before, between and after them, and two to end."""
    try:
        for piece in ("You said ", f"{text}."):
            await asyncio.sleep(0)
            yield piece
        await asyncio.sleep(0)
    finally:
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def told_in(store: Any) -> Told:
    context: Any = SimpleNamespace(key="a", session_id="a", store=store)
    told = Told(context, walk)
    await told.open(context)
    return told


def test_an_answer_whose_agent_is_released_by_force_is_ended_and_told_so() -> None:
    """A room that closes waits for its turns until its deadline, and not longer."""

    async def chat() -> None:
        silence, store = Silence(), _Steps()
        told = await told_in(store)
        told.script = silence
        answering = asyncio.create_task(told.run("Hello"))
        await silence.reached.wait()
        await told.release_clients()
        assert told.ended == ["Hello"]
        with pytest.raises(RuntimeError, match="the agent released"):
            await answering
        assert store.rows == []

    asyncio.run(chat())


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
def test_an_answer_that_is_ended_at_any_step_leaves_a_whole_history_and_no_run(how: str) -> None:
    async def end_after(steps: int) -> bool:
        """Whether it was over before."""
        store = _Steps()
        told = await told_in(store)
        answering = asyncio.create_task(told.run("Hello"))
        for _ in range(steps):
            await asyncio.sleep(0)
        over = answering.done()
        (answering.cancel if how == "cancel" else told.interrupt)()
        if over or how == "interrupt":
            said = await answering
            if told.interrupted:
                assert store.rows == [{"items": ["Hello", said, "…"]}]
            else:
                assert store.rows == [{"items": ["Hello", "You said ", "Hello."]}]
        else:
            with pytest.raises(asyncio.CancelledError):
                await answering
            assert store.rows in ([], [{"items": ["Hello", "You said ", "Hello."]}])
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await told.history() == [item for row in store.rows for item in row["items"]]
        assert await told.run("Again") == "You said Again."
        assert (await told.history())[-3:] == ["Again", "You said ", "Again."]
        return over

    async def end_everywhere() -> int:
        steps = 0
        while not await end_after(steps):
            steps += 1
        return steps

    assert asyncio.run(end_everywhere()) > 8


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


def test_an_answer_that_cannot_be_kept_is_an_error_and_the_turn_does_not_count(tmp_path: Path) -> None:
    """T4"""
    file = tmp_path / "chats.db"

    def change(statement: str) -> None:
        connection = sqlite3.connect(file)
        connection.execute(statement)
        connection.commit()
        connection.close()

    async def chat() -> None:
        async with Greenroom(telling(echo), store=f"sqlite:///{file}") as room:
            async with room.turn("a") as turn:
                await turn.agent.run("1")
            change(
                "CREATE TRIGGER full BEFORE INSERT ON greenroom_messages "
                "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
            )
            turn = room.turn("a")
            heard: list[str] = []

            async def talk() -> None:
                async with turn:
                    async for piece in turn.agent.stream("2"):
                        heard.append(piece)

            with pytest.raises(StoreError):
                await talk()
            assert heard == ["You said ", "2."]
            assert not turn.completed
            change("DROP TRIGGER full")
            async with room.turn("a") as turn:
                await turn.agent.run("3")
                assert await turn.agent.history() == ["1", "You said ", "1.", "3", "You said ", "3."]

    asyncio.run(chat())


def test_a_write_that_failed_and_was_made_all_the_same_is_seen_in_the_next_answer() -> None:
    class Unsure(_Steps):
        async def append_soon(self, session_id: str, *, role: str, content: Any) -> None:
            await super().append_soon(session_id, role=role, content=content)
            if len(self.rows) == 1:
                raise ConnectionError("gone before it could say that it was written")

    async def chat() -> None:
        told = await told_in(Unsure())
        with pytest.raises(ConnectionError):
            await told.run("1")
        await told.run("2")
        assert await told.history() == ["1", "You said ", "1.", "2", "You said ", "2."]

    asyncio.run(chat())


def test_an_exchange_that_is_whole_is_kept_though_its_turn_does_not_count() -> None:
    """T4"""

    async def chat() -> None:
        async with Greenroom(telling(echo)) as room:
            turn = room.turn("a")
            async with turn:
                await turn.agent.run("Hello")
                turn.cancel()
            assert not turn.completed
            assert await told_of(room) == ["Hello", "You said ", "Hello."]

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
