"""The offline agent: what it says, how slow it can be, and what it remembers in a room with a store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from greenroom import Generation, Greenroom, Policy
from greenroom.gateway._agent import BadRequest
from greenroom.gateway.agents import OfflineAgent, OfflineOptions, offline
from greenroom.gateway.agents.memory import memory_of
from greenroom.store import open_store
from tests.actors.actors import PATIENCE
from tests.gateway.agents.plays import Context, Heard, assistant, listen, on_a_loop, request, user
from tests.room.agents import until


async def ask(agent: OfflineAgent, text: str, **more: Any) -> Heard:
    return await listen(agent.answer(request(text, **more)))


# What it says


@on_a_loop
async def test_it_tells_which_turn_of_which_session_this_is_and_what_it_heard() -> None:
    agent = await offline(Context(key="local/kitchen").it)
    first = await ask(agent, "hello  there")
    assert first.text == "Turn 1 of local/kitchen. We have just begun. You said: hello  there"
    assert len(first.pieces) == 12
    assert first.finish == "stop"
    assert first.usage is not None
    assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (2, 12)

    second = await ask(agent, "again")
    assert second.text == "Turn 2 of local/kitchen. I remember 2 messages. You said: again"


@on_a_loop
async def test_it_says_the_same_again_to_a_session_like_it() -> None:
    said = [(await ask(await offline(Context().it), "hello")).pieces for _ in range(2)]
    assert said[0] == said[1]


@on_a_loop
async def test_it_tells_what_was_said() -> None:
    agent = await offline(Context().it)
    assert (await ask(agent, "/history")).text == "Nothing was said yet."
    agent = await offline(Context().it)
    await ask(agent, "hello")
    said = (await ask(agent, "/history")).text
    assert said == "user: hello\nassistant: Turn 1 of a. We have just begun. You said: hello"


@on_a_loop
async def test_it_tells_which_commands_there_are() -> None:
    said = (await ask(await offline(Context().it), "/help")).text
    for command in ("/facts", "/history", "/slow", "/long", "/fail", "/refuse"):
        assert command in said


@on_a_loop
async def test_a_long_answer_has_as_many_words_as_were_asked_for() -> None:
    heard = await ask(await offline(Context().it), "/long 2000")
    assert len(heard.pieces) == len(heard.text.split()) == 2000


@on_a_loop
async def test_no_more_words_than_the_client_wants() -> None:
    agent = await offline(Context().it)
    heard = await ask(agent, "/long 10", options={"max_tokens": 3})
    assert heard.text == "word1 word2 word3 "
    assert heard.finish == "length"
    assert (await ask(agent, "/long 3", options={"max_completion_tokens": 3})).finish == "stop"


@on_a_loop
async def test_it_fails_in_the_middle_of_its_answer_and_leaves_nothing() -> None:
    agent = await offline(Context().it)
    answer = agent.answer(request("/fail"))
    assert [await anext(answer) for _ in range(3)] == ["Turn ", "1 ", "of "]
    with pytest.raises(RuntimeError, match="told to fail"):
        await anext(answer)
    assert len(agent.transcript) == 0


@pytest.mark.parametrize("text", ["/refuse", "/slow soon", "/slow -1", "/long 1e9", "/slow nan"])
@on_a_loop
async def test_it_refuses_what_is_the_clients_fault(text: str) -> None:
    agent = await offline(Context().it)
    with pytest.raises(BadRequest, match="/"):
        await ask(agent, text)
    assert len(agent.transcript) == 0


@on_a_loop
async def test_what_only_looks_like_a_command_is_echoed() -> None:
    assert (await ask(await offline(Context().it), "/etc/passwd")).text.endswith("You said: /etc/passwd")


# Ending early


@on_a_loop
async def test_who_hangs_up_leaves_nothing() -> None:
    agent = await offline(Context().it)
    async with aclosing(agent.answer(request("hello"))) as answer:
        await anext(answer)
    assert len(agent.transcript) == 0


@on_a_loop
async def test_who_is_cancelled_leaves_nothing() -> None:
    agent = await offline(Context().it)
    task = asyncio.ensure_future(ask(agent, "/slow 3600"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(agent.transcript) == 0


@on_a_loop
async def test_an_interrupted_answer_is_what_was_said_until_then() -> None:
    agent = await offline(Context().it, word_seconds=3600.0)
    heard = Heard()
    async for piece in agent.answer(request("hello")):
        heard.take(piece)
        if len(heard.pieces) == 1 and heard.finish is None:
            thread = threading.Thread(target=agent.interrupt)
            thread.start()
            thread.join()
    assert heard.text == "Turn "
    assert heard.finish == "stop"
    assert agent.transcript.messages == (user("hello"), assistant("Turn "))


@on_a_loop
async def test_an_answer_that_is_interrupted_before_its_first_word_leaves_nothing() -> None:
    agent = await offline(Context().it)
    task = asyncio.ensure_future(ask(agent, "/slow 3600"))
    await asyncio.sleep(0)
    agent.interrupt()
    heard = await task
    assert heard.text == ""
    assert len(agent.transcript) == 0
    assert (await ask(agent, "hello")).text.startswith("Turn 1")


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"build_seconds": -1}, "build_seconds must be a number of seconds from 0 to 86400, not -1"),
        ({"word_seconds": "fast"}, "word_seconds must be a number .* not 'fast'"),
        ({"close_seconds": float("nan")}, "close_seconds"),
        ({"commit_seconds": True}, "commit_seconds"),
        ({"fail_commits": -1}, "fail_commits must be a whole number, 0 or more, not -1"),
        ({"fail_commits": 1.5}, "fail_commits"),
        ({"fail_commits": True}, "fail_commits"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OfflineOptions(**options)
    with pytest.raises(ValueError, match=message):
        asyncio.run(offline(Context().it, **options))


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="sleep_seconds"):
        offline.options(sleep_seconds=1)  # type: ignore[attr-defined]  # the server finds it by name


@on_a_loop
async def test_each_step_takes_as_long_as_the_options_say() -> None:
    async def lasts(step: Any) -> bool:
        """Whether a step is still at it after it was given a chance to end."""
        task = asyncio.ensure_future(step)
        done, _ = await asyncio.wait([task], timeout=0.05)
        task.cancel()
        await asyncio.wait([task])
        return not done

    slow = OfflineAgent(Context().it, OfflineOptions(commit_seconds=60.0, release_seconds=60.0))
    assert await lasts(offline(Context().it, build_seconds=60.0))
    assert await lasts(slow.commit_memory_session(Generation(1, None)))
    assert await lasts(slow.release_clients())
    await asyncio.wait_for(slow.close(), PATIENCE)
    assert await lasts(OfflineAgent(Context().it, OfflineOptions(close_seconds=60.0)).close())
    assert await lasts(ask(OfflineAgent(Context().it, OfflineOptions(answer_seconds=60.0)), "x"))
    assert await lasts(ask(OfflineAgent(Context().it, OfflineOptions(word_seconds=60.0)), "x"))
    await asyncio.wait_for(ask(OfflineAgent(Context().it), "x"), PATIENCE)


# In a room


@asynccontextmanager
async def open_room(url: str | None, **options: Any) -> AsyncIterator[Greenroom]:
    """A room of offline agents, as the gateway has it."""

    def build(context: Any) -> Any:
        return offline(context, **options)

    async with Greenroom(build, store=url, durability="normal", policy=Policy(lease_ttl=1.0)) as room:
        yield room


async def turn(room: Greenroom, text: str, session_id: str = "a") -> str:
    async with room.turn("a", session_id=session_id) as now:
        heard = await listen(now.agent.answer(request(text)))
    return heard.text


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'greenroom.db'}"


@on_a_loop
async def test_a_released_session_goes_on_where_it_was(url: str) -> None:
    async with open_room(url) as room:
        await turn(room, "hello")
        await room.session("a").evict()
        await asyncio.to_thread(room.settle, 10.0)
        assert "a" not in room
        assert await turn(room, "again") == "Turn 2 of a. I remember 2 messages. You said: again"


@on_a_loop
async def test_writing_to_transcript_and_memory_never_costs_an_agent(url: str) -> None:
    """H1"""
    async with open_room(url) as room:
        for number in range(4):
            await turn(room, f"I like number {number}")
            assert await room.session("a").commit()
        assert room.stats().builds == 1
        assert room.stats().rebuilds == 0
        assert room.stats().commits == 4
        assert room.stats().commit_failures == 0
        assert "number 0, and that you like number 1" in await turn(room, "/facts")


@on_a_loop
async def test_what_was_committed_is_known_to_later_agents_of_the_key(url: str) -> None:
    async with open_room(url) as room:
        await turn(room, "my name is Ada")
        await room.session("a").evict()
        await asyncio.to_thread(room.settle, 10.0)
        assert await turn(room, "/facts") == "I know that your name is Ada."
        await turn(room, "I like tea")

    async with open_room(url) as room:  # after a restart: closing the room committed
        assert "your name is Ada, and that you like tea" in await turn(room, "hello")


@on_a_loop
async def test_what_another_agent_of_the_key_finds_meanwhile_is_told_when_asked_for(url: str) -> None:
    with open_store(url, durability="off") as store:
        store.create_session("a", key="a")
        agent = await offline(Context(store, "a", "a#2").it)
        store.append("a", role="user", content="my name is Ada")
        earlier = await offline(Context(store).it)
        await earlier.commit_memory_session(Generation(1, "a"))
        assert (await ask(agent, "/facts")).text == "I know that your name is Ada."


@on_a_loop
async def test_what_was_committed_is_known_after_the_conversation_was_begun_anew(url: str) -> None:
    async with open_room(url) as room:
        await turn(room, "my name is Ada")
        assert await room.session("a").commit()
        with open_store(url, durability="off") as store:
            store.end_session("a")
        assert await turn(room, "hello", "a#2") == (
            "Turn 1 of a#2. We have just begun. I know that your name is Ada. You said: hello"
        )
        await turn(room, "I like tea", "a#2")
        assert await room.session("a").commit()
        assert "you like tea" in await turn(room, "/facts", "a#2")


@on_a_loop
async def test_commits_that_fail_are_tried_again_and_keep_each_fact_once(url: str) -> None:
    async with open_room(url, fail_commits=2) as room:
        await turn(room, "my name is Ada")
        assert not await room.session("a").commit()
        assert not await room.session("a").commit()
        assert await room.session("a").commit()
        assert room.stats().commit_failures == 2
    with open_store(url, durability="off") as store:
        assert [row.content["facts"] for row in store.messages(memory_of("a"))] == [  # type: ignore[index]  # JSON
            ["your name is Ada"]
        ]


@on_a_loop
async def test_what_one_process_could_not_commit_the_next_one_does(url: str) -> None:
    async with open_room(url, fail_commits=1000) as room:
        await turn(room, "my name is Ada")
        report = await asyncio.to_thread(room.drain, 1.0)
        assert report.committed == ()

    async with open_room(url) as room:
        # Not by an event: it may have happened before anybody could listen.
        await asyncio.to_thread(until, lambda: room.stats().recovered == 1, "the recovery")
        assert await turn(room, "/facts") == "I know that your name is Ada."


@on_a_loop
async def test_without_a_store_a_session_remembers_what_it_was_told_until_it_ends() -> None:
    async with open_room(None) as room:
        await turn(room, "my name is Ada")
        await room.session("a").evict()
        await asyncio.to_thread(room.settle, 10.0)
        assert await turn(room, "/facts") == "I know that your name is Ada."
        await room.session("a").end()
        await asyncio.to_thread(room.settle, 10.0)
        assert await turn(room, "/facts") == "I know nothing about you yet."
