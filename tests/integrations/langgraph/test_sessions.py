"""Rooms of these conversations: what is made and closed, committed, and seen of other processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from greenroom import AgentHooks, AgentSpec, BuildFailed, Greenroom, Policy
from greenroom.integrations.langgraph import conversations, follow
from greenroom.testing import evict_now


async def agent(state: MessagesState) -> Any:
    return {"messages": [AIMessage(f"Heard {state['messages'][-1].content}.")]}


def graph_of(saving: Any, node: Any = agent) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("agent", node)
    builder.add_edge(START, "agent")
    return builder.compile(checkpointer=saving)


async def said(agent: Any, session_id: str | None = None) -> list[str]:
    """What the user said, in the conversation that is gone on with."""
    messages = await agent.history(session_id)
    return [message.content for message in messages if message.type == "human"]


def test_session_ids_that_alternate_under_one_key_have_their_own_threads(saver: Any, url: str) -> None:
    """H3"""

    async def chat() -> None:
        async with saver() as saving:
            build = conversations(graph_of(saving))
            async with Greenroom(build, prepare=follow, store=url) as room:
                for text, session_id in [("w", "x"), ("o", "y"), ("r", "x"), ("d", "y")]:
                    async with room.turn("a", session_id=session_id) as turn:
                        await turn.agent.run(text)
                        assert turn.reused == (text != "w")
                        heard = await said(turn.agent)
                assert heard == ["o", "d"]
                async with room.turn("a", session_id="x") as turn:
                    assert await said(turn.agent) == ["w", "r"]

    asyncio.run(chat())


def test_the_agent_after_an_eviction_goes_on_with_the_conversation(
    saver: Any, url: str, patience: float
) -> None:
    """S3"""

    async def chat() -> None:
        async with saver() as saving, Greenroom(conversations(graph_of(saving)), store=url) as room:
            async with room.turn("a") as turn:
                await turn.agent.run("1")
            assert await asyncio.to_thread(evict_now, room, "a", patience)
            async with room.turn("a") as turn:
                assert not turn.reused
                await turn.agent.run("2")
                assert await said(turn.agent) == ["1", "2"]

    asyncio.run(chat())


def test_what_another_process_said_is_known_to_the_agent_that_is_there(
    tmp_path: Path, url: str, another_process: Any, patience: float
) -> None:
    """H1: and no agent is built anew for it, since none remembers anything."""
    threads = str(tmp_path / "threads.db")

    async def chat() -> None:
        async with (
            AsyncSqliteSaver.from_conn_string(threads) as saving,
            Greenroom(conversations(graph_of(saving)), store=url) as room,
        ):
            for text in ("1", "2"):
                async with room.turn("a") as turn:
                    await turn.agent.run(text)
            assert turn.reused
            child = another_process(url, threads, "From afar")
            assert await asyncio.to_thread(child.wait, patience) == 0
            async with room.turn("a") as turn:
                await turn.agent.run("3")
                assert await said(turn.agent) == ["1", "2", "From afar", "3"]

    asyncio.run(chat())


@pytest.mark.parametrize("node", [None, START], ids=["after the last node", "as an input"])
@pytest.mark.parametrize("before", [[], ["Hi"]], ids=["first turn", "later turn"])
def test_what_is_put_into_a_thread_between_turns_is_gone_on_from(
    saver: Any, before: list[str], node: str | None
) -> None:
    async def chat() -> None:
        async with saver() as saving:
            graph = graph_of(saving)
            async with Greenroom(conversations(graph)) as room, room.turn("a") as turn:
                for text in before:
                    await turn.agent.run(text)
                news: Any = {"messages": [HumanMessage("News!")]}
                await graph.aupdate_state({"configurable": {"thread_id": "a"}}, news, as_node=node)
                assert await said(turn.agent) == [*before, "News!"]
                await turn.agent.run("Hello")
                assert await said(turn.agent) == [*before, "News!", "Hello"]

    asyncio.run(chat())


@pytest.mark.parametrize("before", [[], ["Hi"]], ids=["first turn", "later turn"])
def test_a_process_that_is_killed_in_a_turn_leaves_whole_exchanges(
    tmp_path: Path, url: str, another_process: Any, patience: float, before: list[str]
) -> None:
    threads = str(tmp_path / "threads.db")
    child = another_process(url, threads, *before, "hang")
    assert child.stdout.readline() == "in a node\n"
    child.kill()
    child.wait(patience)

    async def chat() -> None:
        async with AsyncSqliteSaver.from_conn_string(threads) as saving:
            policy = Policy(lease_ttl=1.0)
            async with (
                Greenroom(conversations(graph_of(saving)), store=url, policy=policy) as room,
                room.turn("a", timeout=patience) as turn,
            ):
                assert await said(turn.agent) == before
                assert await turn.agent.run("Hello?") == "Heard Hello?."
                assert await said(turn.agent) == [*before, "Hello?"]

    asyncio.run(chat())


@pytest.mark.parametrize("before", [[], ["Hi"]], ids=["first turn", "later turn"])
def test_wherever_a_process_is_killed_between_two_writes_there_are_whole_exchanges(
    tmp_path: Path, before: list[str]
) -> None:
    """What was written last is taken away, one piece after the other, as if it had never been."""

    async def call(state: MessagesState) -> Any:
        if state["messages"][-1].content != "Weather?":
            return await agent(state)
        calls = [{"name": "weather", "args": {}, "id": "call-1"}]
        return {"messages": [AIMessage("Let me look.", tool_calls=calls)]}

    async def tools(state: MessagesState) -> Any:
        if state["messages"][-1].content == "Let me look.":
            raise LookupError("no such city")

    async def chat() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saving:
            builder = StateGraph(MessagesState).add_sequence([call, tools]).add_edge(START, "call")
            build = conversations(builder.compile(checkpointer=saving), durability="sync")
            await saving.setup()
            async with Greenroom(build) as room, room.turn("a", ephemeral=True) as turn:
                for text in before:
                    await turn.agent.run(text)
                (written,) = await rows_of(saving, "SELECT count(*) FROM checkpoints")
                with pytest.raises(LookupError):
                    await turn.agent.run("Weather?")
                newest = "(SELECT max(checkpoint_id) FROM checkpoints)"
                looks = 0
                while (await rows_of(saving, "SELECT count(*) FROM checkpoints")) != (written,):
                    for table in ("writes", "checkpoints"):
                        assert await said(turn.agent) == before, f"{looks} {table}"
                        looks += 1
                        await rows_of(saving, f"DELETE FROM {table} WHERE checkpoint_id = {newest}")
                assert await said(turn.agent) == before
                assert looks >= 6
                await turn.agent.run("Hello?")
                assert await said(turn.agent) == [*before, "Hello?"]

    async def rows_of(saving: Any, statement: str) -> Any:
        async with saving.conn.execute(statement) as cursor:
            return await cursor.fetchone()

    asyncio.run(chat())


def test_a_commit_reads_what_was_said_and_has_the_same_number_on_every_try(
    saver: Any, url: str, patience: float
) -> None:
    """G4"""
    tries: list[tuple[str, int, list[str]]] = []

    async def remember(agent: Any, generation: Any) -> None:
        users = await said(agent, generation.session_id)
        tries.append((generation.session_id, int(generation), users))
        if len(tries) == 1:
            raise LookupError("the memory provider is away")

    async def chat() -> None:
        hooks = AgentHooks(commit=remember)
        async with saver() as saving:
            build = conversations(graph_of(saving))
            async with Greenroom(build, prepare=follow, hooks=hooks, store=url) as room:
                for text in ("1", "2"):
                    async with room.turn("a", session_id="x") as turn:
                        await turn.agent.run(text)
                assert not await asyncio.to_thread(room.commit, "a", timeout=patience)
                assert await asyncio.to_thread(room.commit, "a", timeout=patience)

    asyncio.run(chat())
    assert tries == [("x", 2, ["1", "2"])] * 2


def test_the_spec_chooses_the_graph_and_the_context_its_config() -> None:
    async def chat() -> None:
        saving = InMemorySaver()

        def graph_for(context: Any) -> Any:
            async def agent(_: MessagesState, config: RunnableConfig) -> Any:
                user = config.get("configurable", {})["user"]
                return {"messages": [AIMessage(f"I am {context.spec.model}, you are {user}.")]}

            return graph_of(saving, agent)

        build = conversations(graph_for, config=lambda context: {"configurable": {"user": context.key}})
        async with Greenroom(build) as room:
            for model in ("small", "large"):
                async with room.turn("a", AgentSpec(model=model)) as turn:
                    assert await turn.agent.run("Who?") == f"I am {model}, you are a."

    asyncio.run(chat())


def test_a_checkpointer_made_for_a_session_is_closed_with_its_agent(
    tmp_path: Path, patience: float
) -> None:
    """S1"""
    closed: list[str] = []

    async def graph_for(context: Any) -> Any:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saving:
            yield graph_of(saving)
        closed.append(context.key)

    async def chat() -> None:
        async with Greenroom(conversations(graph_for)) as room:
            for count in range(2):
                async with room.turn("a") as turn:
                    await turn.agent.run("Hello")
                    assert await said(turn.agent) == ["Hello"] * (count + 1)
                    assert len(closed) == count
                await asyncio.to_thread(evict_now, room, "a", patience)
                assert len(closed) == count + 1

    asyncio.run(chat())


@pytest.mark.parametrize("given", ["graph", "uncompiled"])
def test_a_graph_without_a_checkpointer_is_told_at_once(given: str) -> None:
    async def chat() -> None:
        graph = graph_of(None) if given == "graph" else StateGraph(MessagesState)
        async with Greenroom(conversations(graph)) as room:
            with pytest.raises(BuildFailed) as failed:
                async with room.turn("a"):
                    pass
            assert "compiled with a checkpointer" in str(failed.value.__cause__)

    asyncio.run(chat())


@pytest.mark.parametrize("option", ["stream_mode", "input"])
def test_what_a_conversation_settles_itself_is_refused_as_an_option(option: str) -> None:
    options: dict[str, Any] = {option: "values"}
    with pytest.raises(TypeError, match=f"{option} cannot be given"):
        conversations(graph_of(None), **options)
