"""Rooms of these conversations: what is made and closed, committed, and seen of other processes."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from anthropic import Anthropic, AnthropicBedrock, AsyncAnthropic  # pyright: ignore[reportAttributeAccessIssue]  # not from this folder

from greenroom import AgentHooks, AgentSpec, BuildFailed, Greenroom, Policy
from greenroom.integrations.anthropic import conversations, follow
from greenroom.testing import evict_now


def client_of(running: Any) -> Any:
    return AsyncAnthropic(base_url=running.url, api_key="none", max_retries=0, timeout=240)


async def said(agent: Any, session_id: str | None = None) -> list[str]:
    """What the user said, in the conversation that is gone on with."""
    messages = await agent.history(session_id)
    return [message["content"] for message in messages if message["role"] == "user"]


def test_session_ids_that_alternate_under_one_key_have_their_own_histories(
    url: str, endpoint: Any
) -> None:
    """H3"""

    async def chat() -> None:
        async with (
            endpoint(*([text] for text in "1234")) as running,
            client_of(running) as client,
            Greenroom(conversations(client, model="claude"), prepare=follow, store=url) as room,
        ):
            for text, session_id in [("w", "x"), ("o", "y"), ("r", "x"), ("d", "y")]:
                async with room.turn("a", session_id=session_id) as turn:
                    await turn.agent.run(text)
                    assert turn.reused == (text != "w")
                    heard = await said(turn.agent)
            assert heard == ["o", "d"]
            assert len(running.requests[3]["messages"]) == 3
            async with room.turn("a", session_id="x") as turn:
                assert await said(turn.agent) == ["w", "r"]

    asyncio.run(chat())


def test_the_agent_after_an_eviction_sends_the_same_beginning_of_the_prompt(
    url: str, endpoint: Any, patience: float
) -> None:
    """S3"""

    def clock(zone: str) -> str:
        """Tell the time."""
        return f"noon in {zone}"

    async def chat() -> None:
        call = {"type": "tool_use", "id": "c1", "name": "clock", "input": {"zone": "CET"}}
        async with (
            endpoint(["Let me see.", call], ["Noon."], ["Yes."], ["Still."]) as running,
            client_of(running) as client,
        ):
            build = conversations(
                client,
                model="claude",
                tools=[clock],
                system="Be brief.",
                cache_control={"type": "ephemeral"},
            )
            async with Greenroom(build, prepare=follow, store=url) as room:
                for text in ("What time is it?", "Sure?", "And now?"):
                    async with room.turn("a") as turn:
                        assert turn.reused == (text == "Sure?")
                        await turn.agent.run(text)
                    if text == "Sure?":
                        assert await asyncio.to_thread(evict_now, room, "a", patience)
            requests = running.requests
            assert len(requests) == 4
            for before, after in itertools.pairwise(requests):
                for name in ("model", "system", "tools", "cache_control"):
                    assert before[name] == after[name]
                assert after["messages"][: len(before["messages"])] == before["messages"]
            assert requests[0]["cache_control"] == {"type": "ephemeral"}

    asyncio.run(chat())


def test_own_turns_keep_the_agent_and_those_of_another_process_do_not(
    url: str, endpoint: Any, another_process: Any, patience: float
) -> None:
    """H1, H2"""

    async def chat() -> None:
        async with (
            endpoint(["one"], ["two"], ["Said elsewhere."], ["three"]) as running,
            client_of(running) as client,
            Greenroom(conversations(client, model="claude"), store=url) as room,
        ):
            for text in ("1", "2"):
                async with room.turn("a") as turn:
                    await turn.agent.run(text)
            assert turn.reused
            child = another_process(url, running.url, "answer")
            assert await asyncio.to_thread(child.wait, patience) == 0
            async with room.turn("a") as turn:
                assert not turn.reused
                assert await said(turn.agent) == ["1", "2", "From afar"]
                assert await turn.agent.run("3") == "three"
            assert len(running.requests[3]["messages"]) == 7

    asyncio.run(chat())


def test_a_process_that_is_killed_in_a_turn_leaves_whole_exchanges(
    url: str, endpoint: Any, another_process: Any, patience: float
) -> None:
    async def chat() -> None:
        call = {"type": "tool_use", "id": "c1", "name": "hang", "input": {}}
        async with (
            endpoint(["Said elsewhere."], ["One moment.", call], ["Here I am."]) as running,
            client_of(running) as client,
        ):
            child = another_process(url, running.url, "hang")
            assert await asyncio.to_thread(child.stdout.readline) == "in a tool\n"
            child.kill()
            await asyncio.to_thread(child.wait, patience)
            build = conversations(client, model="claude")
            async with (
                Greenroom(build, store=url, policy=Policy(lease_ttl=1.0)) as room,
                room.turn("a", timeout=patience) as turn,
            ):
                assert await said(turn.agent) == ["From afar"]
                assert await turn.agent.run("Hello?") == "Here I am."
                assert await said(turn.agent) == ["From afar", "Hello?"]

    asyncio.run(chat())


def test_a_commit_reads_what_was_said_and_has_the_same_number_on_every_try(
    url: str, endpoint: Any, patience: float
) -> None:
    """G4"""
    tries: list[tuple[str, int, list[str]]] = []

    async def remember(agent: Any, generation: Any) -> None:
        users = await said(agent, generation.session_id)
        tries.append((generation.session_id, int(generation), users))
        if len(tries) == 1:
            raise LookupError("the memory provider is away")

    async def chat() -> None:
        async with endpoint(["one"], ["two"]) as running, client_of(running) as client:
            build, hooks = conversations(client, model="claude"), AgentHooks(commit=remember)
            async with Greenroom(build, prepare=follow, hooks=hooks, store=url) as room:
                for text in ("1", "2"):
                    async with room.turn("a", session_id="x") as turn:
                        await turn.agent.run(text)
                assert not await asyncio.to_thread(room.commit, "a", timeout=patience)
                assert await asyncio.to_thread(room.commit, "a", timeout=patience)

    asyncio.run(chat())
    assert tries == [("x", 2, ["1", "2"])] * 2


def test_the_spec_chooses_the_model_and_the_tools(endpoint: Any) -> None:
    def tools_for(context: Any) -> list[Any]:
        async def whoami() -> str:
            """Tell who is asking."""
            return str(context.key)

        return [whoami] if context.spec.toolsets else []

    async def chat() -> None:
        async with endpoint(["one"], ["two"]) as running, client_of(running) as client:
            build = conversations(client, model=lambda context: context.spec.model, tools=tools_for)
            async with Greenroom(build) as room:
                for spec in (AgentSpec("small"), AgentSpec("large", toolsets=("people",))):
                    async with room.turn("a", spec) as turn:
                        await turn.agent.run("Hello")
            assert [request["model"] for request in running.requests] == ["small", "large"]
            assert "tools" not in running.requests[0]
            assert [tool["name"] for tool in running.requests[1]["tools"]] == ["whoami"]

    asyncio.run(chat())


def test_a_client_made_for_a_session_is_closed_with_its_agent_and_a_shared_one_is_not(
    endpoint: Any, patience: float
) -> None:
    """S1"""
    made: list[Any] = []

    async def chat() -> None:
        async with endpoint(["one"], ["two"]) as running, client_of(running) as shared:

            async def client_for(_: Any) -> Any:
                async with client_of(running) as client:
                    made.append(client)
                    yield client

            for client in (client_for, shared):
                async with Greenroom(conversations(client, model="claude")) as room:
                    async with room.turn("a") as turn:
                        await turn.agent.run("Hello")
                        assert not turn.agent.client.is_closed()
                    await asyncio.to_thread(evict_now, room, "a", patience)
                    assert made[0].is_closed()
            assert not shared.is_closed()
            assert len(made) == 1

    asyncio.run(chat())


@pytest.mark.parametrize(
    "client",
    ["claude", Anthropic(api_key="none"), AnthropicBedrock(aws_region="nowhere")],
    ids=["text", "sync", "another platform's"],
)
def test_what_is_no_client_for_an_event_loop_is_told_at_once(client: Any) -> None:
    async def chat() -> None:
        async with Greenroom(conversations(client, model="claude")) as room:
            with pytest.raises(BuildFailed) as failed:
                async with room.turn("a"):
                    pass
            assert "needs an AsyncAnthropic" in str(failed.value.__cause__)

    asyncio.run(chat())


@pytest.mark.parametrize("option", ["messages", "stream"])
def test_a_second_place_for_the_conversation_is_refused(option: str) -> None:
    options: dict[str, Any] = {option: []}
    with pytest.raises(TypeError, match=f"{option} cannot be given"):
        conversations(None, model="claude", **options)


def test_fewer_than_no_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="max_rounds must be 0 or more, not -1"):
        conversations(None, model="claude", max_rounds=-1)
