"""Rooms of these conversations: what is made and closed, committed, and seen of other processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunContextWrapper, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI

from greenroom import AgentHooks, AgentSpec, BuildFailed, Greenroom, Policy
from greenroom.integrations.openai_agents import conversations, follow
from greenroom.testing import evict_now


def host(*texts: str) -> Any:
    return Agent(name="host", model=ScriptedModel([[assistant_message(text)] for text in texts]))


async def said(agent: Any) -> list[str]:
    """What the user said, in the conversation that is gone on with."""
    return [item["content"] for item in await agent.history() if item.get("role") == "user"]


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
        items = await agent.history(generation.session_id)
        users = [item["content"] for item in items if item.get("role") == "user"]
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
                    yield Agent(name="host", model=OpenAIChatCompletionsModel("model", client))

            async with Greenroom(conversations(agent_for)) as room:
                async with room.turn("a") as turn:
                    assert await turn.agent.run("Hello") == "Hello."
                    assert not clients[0].is_closed()
                await asyncio.to_thread(evict_now, room, "a", patience)
                assert clients[0].is_closed()

    asyncio.run(chat())


def test_tools_get_the_context_that_was_made_for_their_session() -> None:
    heard: list[Any] = []

    async def whoami(run: RunContextWrapper[Any]) -> str:
        """Tell who is asking."""
        heard.append(run.context)
        return str(run.context)

    async def chat() -> None:
        call = function_call("whoami", {}, call_id="call-1")
        model = ScriptedModel([[call], [assistant_message("You.")]] * 2)
        agent = Agent(name="host", model=model, tools=[function_tool(whoami)])
        build = conversations(agent, context=lambda context: f"user of {context.key}")
        async with Greenroom(build) as room:
            for key in ("a", "b"):
                async with room.turn(key) as turn:
                    await turn.agent.run("Who am I?")

    asyncio.run(chat())
    assert heard == ["user of a", "user of b"]


def test_what_is_no_agent_is_told_at_once() -> None:
    async def chat() -> None:
        async with Greenroom(conversations("gpt-5")) as room:
            with pytest.raises(BuildFailed) as failed:
                async with room.turn("a"):
                    pass
            assert "needs an Agent" in str(failed.value.__cause__)

    asyncio.run(chat())


@pytest.mark.parametrize("option", ["session", "conversation_id", "previous_response_id"])
def test_a_second_place_for_the_conversation_is_refused(option: str) -> None:
    with pytest.raises(TypeError, match=f"{option} cannot be given"):
        conversations(host(), **{option: "elsewhere"})
