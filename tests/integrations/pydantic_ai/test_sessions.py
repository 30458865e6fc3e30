"""Rooms of these conversations: what is made and closed, committed, and seen of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai.agent import Agent
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from greenroom import AgentHooks, AgentSpec, BuildFailed, Greenroom, Policy
from greenroom.integrations.pydantic_ai import conversations, follow
from greenroom.testing import evict_now


def host(*texts: str) -> Any:
    answers = list(texts)

    async def model(_: Any, __: Any) -> AsyncIterator[str]:
        yield answers.pop(0)

    return Agent(FunctionModel(stream_function=model))


async def said(agent: Any, session_id: str | None = None) -> list[str]:
    """What the user said in a conversation."""
    parts = [part for message in await agent.messages(session_id) for part in message.parts]
    return [part.content for part in parts if part.part_kind == "user-prompt"]


def test_session_ids_that_alternate_under_one_key_have_their_own_histories(url: str) -> None:
    """H3"""

    async def chat() -> None:
        async with Greenroom(conversations(host(*"1234")), prepare=follow, store=url) as room:
            for text, session_id in [("w", "x"), ("o", "y"), ("r", "x"), ("d", "y")]:
                async with room.turn("a", session_id=session_id) as turn:
                    await turn.agent.run(text)
                    assert turn.reused == (text != "w")
                    heard = await said(turn.agent)
            assert heard == ["o", "d"]
            async with room.turn("a", session_id="x") as turn:
                assert await said(turn.agent) == ["w", "r"]

    asyncio.run(chat())


def test_the_agent_after_an_eviction_goes_on_with_the_conversation(url: str, patience: float) -> None:
    """S3"""

    async def chat() -> None:
        async with Greenroom(conversations(host("one", "two")), store=url) as room:
            async with room.turn("a") as turn:
                await turn.agent.run("1")
            assert await asyncio.to_thread(evict_now, room, "a", patience)
            async with room.turn("a") as turn:
                assert not turn.reused
                await turn.agent.run("2")
                assert await said(turn.agent) == ["1", "2"]

    asyncio.run(chat())


def test_own_turns_keep_the_agent_and_those_of_another_process_do_not(
    url: str, another_process: Any, patience: float
) -> None:
    """H1, H2"""

    async def chat() -> None:
        async with Greenroom(conversations(host("one", "two")), store=url) as room:
            for text in ("1", "2"):
                async with room.turn("a") as turn:
                    await turn.agent.run(text)
            assert turn.reused
            child = another_process(url, "answer")
            assert await asyncio.to_thread(child.wait, patience) == 0
            async with room.turn("a") as turn:
                assert not turn.reused
                assert await said(turn.agent) == ["1", "2", "From afar"]

    asyncio.run(chat())


def test_a_process_that_is_killed_in_a_turn_leaves_whole_exchanges(
    url: str, another_process: Any, patience: float
) -> None:
    child = another_process(url, "hang")
    assert child.stdout.readline() == "in a tool\n"
    child.kill()
    child.wait(patience)

    async def chat() -> None:
        policy = Policy(lease_ttl=1.0)
        async with (
            Greenroom(conversations(host("Here I am.")), store=url, policy=policy) as room,
            room.turn("a", timeout=patience) as turn,
        ):
            assert await said(turn.agent) == ["From afar"]
            assert await turn.agent.run("Hello?") == "Here I am."
            assert await said(turn.agent) == ["From afar", "Hello?"]

    asyncio.run(chat())


def test_a_commit_reads_what_was_said_and_has_the_same_number_on_every_try(
    url: str, patience: float
) -> None:
    """G4"""
    tries: list[tuple[str, int, list[str]]] = []

    async def remember(agent: Any, generation: Any) -> None:
        users = await said(agent, generation.session_id)
        tries.append((generation.session_id, int(generation), users))
        if len(tries) == 1:
            raise LookupError("the memory provider is away")

    async def chat() -> None:
        build, hooks = conversations(host("one", "two")), AgentHooks(commit=remember)
        async with Greenroom(build, prepare=follow, hooks=hooks, store=url) as room:
            for text in ("1", "2"):
                async with room.turn("a", session_id="x") as turn:
                    await turn.agent.run(text)
            assert not await asyncio.to_thread(room.commit, "a", timeout=patience)
            assert await asyncio.to_thread(room.commit, "a", timeout=patience)

    asyncio.run(chat())
    assert tries == [("x", 2, ["1", "2"])] * 2


def test_the_spec_chooses_the_model() -> None:
    def agent_for(context: Any) -> Any:
        return host(f"I am {context.spec.model}.")

    async def chat() -> None:
        async with Greenroom(conversations(agent_for)) as room:
            for model in ("small", "large"):
                async with room.turn("a", AgentSpec(model=model)) as turn:
                    assert await turn.agent.run("Who are you?") == f"I am {model}."

    asyncio.run(chat())


def test_a_client_made_for_a_session_is_closed_with_its_agent(endpoint: Any, patience: float) -> None:
    """S1"""
    clients: list[AsyncOpenAI] = []

    async def chat() -> None:
        async with endpoint(["Hel", "lo."]) as running:

            async def agent_for(_: Any) -> Any:
                async with AsyncOpenAI(base_url=running.url, api_key="none") as client:
                    clients.append(client)
                    provider = OpenAIProvider(openai_client=client)
                    yield Agent(OpenAIChatModel("model", provider=provider))

            async with Greenroom(conversations(agent_for)) as room:
                async with room.turn("a") as turn:
                    assert await turn.agent.run("Hello") == "Hello."
                    assert not clients[0].is_closed()
                await asyncio.to_thread(evict_now, room, "a", patience)
                assert clients[0].is_closed()

    asyncio.run(chat())


def test_what_is_no_agent_is_told_at_once() -> None:
    async def chat() -> None:
        async with Greenroom(conversations("openai:gpt-5")) as room:
            with pytest.raises(BuildFailed) as failed:
                async with room.turn("a"):
                    pass
            assert "needs an Agent" in str(failed.value.__cause__)

    asyncio.run(chat())


@pytest.mark.parametrize("option", ["message_history", "conversation_id", "conversation"])
def test_a_second_place_for_the_conversation_is_refused(option: str) -> None:
    with pytest.raises(TypeError, match=f"{option} cannot be given"):
        conversations(host(), **{option: "elsewhere"})
