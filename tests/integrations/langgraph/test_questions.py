"""A graph that asks its user something: the turn ends with the question, and the next one answers it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from greenroom import Greenroom, Policy
from greenroom.integrations.langgraph import conversations, follow
from greenroom.testing import evict_now


def asking(saving: Any, *nodes: Any) -> Any:
    """A graph of nodes that follow each other."""
    builder = StateGraph(MessagesState)
    builder.add_sequence(nodes)
    builder.add_edge(START, nodes[0].__name__)
    return builder.compile(checkpointer=saving)


async def agent(state: MessagesState) -> Any:
    if state["messages"][-1].content == "delete it":
        return {"messages": [AIMessage("I am about to delete it.")]}
    return {}


async def approve(state: MessagesState) -> Any:
    if state["messages"][-1].content == "I am about to delete it.":
        answer = interrupt({"question": "Really?"})
        return {"messages": [AIMessage(f"You said {answer}.")]}
    return {"messages": [AIMessage("Fine.")]}


async def texts(agent: Any) -> list[str]:
    return [message.content for message in await agent.history()]


def test_a_turn_ends_with_a_question_and_the_next_one_answers_it(
    saver: Any, url: str, patience: float
) -> None:
    """S3: also if the agent has gone meanwhile."""

    async def chat() -> None:
        async with saver() as saving:
            build = conversations(
                asking(saving, agent, approve),
                to_question=lambda value: value["question"],
                to_resume=lambda text: text.upper(),
            )
            async with Greenroom(build, prepare=follow, store=url) as room:
                async with room.turn("a") as turn:
                    assert await turn.agent.run("delete it") == "I am about to delete it.\n\nReally?"
                    assert [question.value for question in turn.agent.questions] == [
                        {"question": "Really?"}
                    ]
                assert turn.completed
                assert await asyncio.to_thread(evict_now, room, "a", patience)
                async with room.turn("a") as turn:
                    assert await turn.agent.run("yes") == "You said YES."
                    assert turn.agent.questions == ()
                    said = ["delete it", "I am about to delete it.", "You said YES."]
                    assert await texts(turn.agent) == said
                async with room.turn("a") as turn:
                    assert await turn.agent.run("Thanks") == "Fine."

    asyncio.run(chat())


def test_a_question_is_told_as_text_or_as_json(saver: Any) -> None:
    async def plain(_: MessagesState) -> Any:
        interrupt("Really?")
        interrupt({"tool": "delete"})

    async def chat() -> None:
        async with (
            saver() as saving,
            Greenroom(conversations(asking(saving, plain))) as room,
            room.turn("a") as turn,
        ):
            assert await turn.agent.run("Hello") == "Really?"
            assert await turn.agent.run("yes") == '{"tool": "delete"}'

    asyncio.run(chat())


def test_questions_that_come_at_once_are_asked_one_after_the_other(saver: Any) -> None:
    async def left(_: MessagesState) -> Any:
        return {"messages": [AIMessage(f"Left {interrupt('Left?')}.")]}

    async def right(_: MessagesState) -> Any:
        return {"messages": [AIMessage(f"Right {interrupt('Right?')}.")]}

    async def chat() -> None:
        async with saver() as saving:
            builder = StateGraph(MessagesState)
            for node in (left, right):
                builder.add_node(node)
                builder.add_edge(START, node.__name__)
            graph = builder.compile(checkpointer=saving)
            async with Greenroom(conversations(graph)) as room, room.turn("a") as turn:
                assert await turn.agent.run("Hello") == "Left?"
                assert (await turn.agent.run("1")).endswith("Right?")
                assert (await turn.agent.run("2")).endswith("Right 2.")
                assert sorted(await texts(turn.agent)) == ["Hello", "Left 1.", "Right 2."]

    asyncio.run(chat())


@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_question_of_a_subgraph_is_asked_once_and_waits_on_if_its_answer_is_cut(
    saver: Any, subgraphs: bool
) -> None:
    async def chat() -> None:
        begun = asyncio.Event()

        async def ask(_: MessagesState) -> Any:
            answers = [interrupt("Really?"), interrupt("Sure?")]
            if "well" in answers:
                begun.set()
                await asyncio.get_running_loop().create_future()
            return {"messages": [AIMessage(" and ".join(answers))]}

        async with saver() as saving:
            builder = StateGraph(MessagesState).add_node("inner", asking(None, ask))
            graph = builder.add_edge(START, "inner").compile(checkpointer=saving)
            build = conversations(graph, subgraphs=subgraphs)
            async with Greenroom(build) as room, room.turn("a", ephemeral=True) as turn:
                assert await turn.agent.run("delete it") == "Really?"
                assert len(turn.agent.questions) == 1
                assert await turn.agent.run("yes") == "Sure?"
                answering = asyncio.create_task(turn.agent.run("well"))
                await begun.wait()
                answering.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await answering
                assert await turn.agent.run("no") == "yes and no"
                assert await texts(turn.agent) == ["delete it", "yes and no"]

    asyncio.run(chat())


@pytest.mark.parametrize("how", ["cancelled", "cancelled later", "interrupted", "interrupted later"])
def test_a_question_waits_on_if_the_turn_that_answers_it_is_ended(saver: Any, how: str) -> None:
    """T4"""

    async def chat() -> None:
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.get_running_loop().create_future()

        async def ask(_: MessagesState) -> Any:
            answer = interrupt("Really?")
            if answer == "well" and not how.endswith("later"):
                await hang()
            return {"messages": [AIMessage(f"You said {answer}.")]}

        async def then(state: MessagesState) -> Any:
            if state["messages"][-1].content == "You said well.":
                await hang()

        async with (
            saver() as saving,
            Greenroom(conversations(asking(saving, ask, then)), prepare=follow) as room,
        ):
            async with room.turn("a") as turn:
                assert await turn.agent.run("delete it") == "Really?"

            async def talk() -> None:
                async with room.turn("a") as turn:
                    agents.append(turn.agent)
                    await turn.agent.run("well")

            agents: list[Any] = []
            talking = asyncio.create_task(talk())
            await begun.wait()
            if how.startswith("interrupted"):
                agents[0].interrupt()
                await talking
            else:
                talking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await talking
            async with room.turn("a") as turn:
                assert await turn.agent.run("yes") == "You said yes."
                assert await texts(turn.agent) == ["delete it", "You said yes."]

    asyncio.run(chat())


def test_a_question_whose_answer_fails_goes_with_what_led_to_it(saver: Any) -> None:
    """LangGraph has the answer, and would give it again and again."""

    async def ask(state: MessagesState) -> Any:
        if state["messages"][-1].content == "Hi":
            return {"messages": [AIMessage("Hi.")]}
        if state["messages"][-1].content == "no":
            return {"messages": [AIMessage("Then not.")]}
        raise LookupError(interrupt("Really?"))

    async def chat() -> None:
        async with (
            saver() as saving,
            Greenroom(conversations(asking(saving, ask)), prepare=follow) as room,
        ):
            async with room.turn("a") as turn:
                await turn.agent.run("Hi")
            async with room.turn("a", ephemeral=True) as turn:
                assert await turn.agent.run("delete it") == "Really?"
                with pytest.raises(LookupError, match="yes"):
                    await turn.agent.run("yes")
            async with room.turn("a") as turn:
                assert await texts(turn.agent) == ["Hi", "Hi."]
                assert await turn.agent.run("no") == "Then not."
                assert await texts(turn.agent) == ["Hi", "Hi.", "no", "Then not."]

    asyncio.run(chat())


def test_a_process_that_is_killed_while_it_answers_a_question_leaves_the_question(
    tmp_path: Any, url: str, another_process: Any, patience: float
) -> None:
    threads = str(tmp_path / "threads.db")
    child = another_process(url, threads, "Hi", "ask", "hang")
    assert child.stdout.readline() == "in a node\n"
    child.kill()
    child.wait(patience)

    async def agent(state: MessagesState) -> Any:
        said = state["messages"][-1].content
        return {"messages": [AIMessage(f"Heard {interrupt('Really?') if said == 'ask' else said}.")]}

    async def chat() -> None:
        async with AsyncSqliteSaver.from_conn_string(threads) as saving:
            build = conversations(asking(saving, agent))
            async with (
                Greenroom(build, store=url, policy=Policy(lease_ttl=1.0)) as room,
                room.turn("a", timeout=patience) as turn,
            ):
                assert await turn.agent.run("yes") == "Heard yes."
                assert await texts(turn.agent) == ["Hi", "Heard Hi.", "ask", "Heard yes."]

    asyncio.run(chat())
