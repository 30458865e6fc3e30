"""A turn is a run of a graph: what is kept of it, and how it is left, interrupted and cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph

from greenroom import Greenroom
from greenroom.integrations.langgraph import conversations, follow


def graph_of(saving: Any, *nodes: Any, state: Any = MessagesState) -> Any:
    """A graph of nodes that follow each other."""
    builder = StateGraph(state)
    builder.add_sequence(nodes)
    builder.add_edge(START, nodes[0].__name__)
    return builder.compile(checkpointer=saving)


def saying(model: Any) -> Any:
    async def agent(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return agent


async def hears(state: MessagesState) -> Any:
    """Tell what was said so far."""
    return {"messages": [AIMessage(" ".join(str(message.content) for message in state["messages"]))]}


async def texts(agent: Any) -> list[str]:
    return [message.content for message in await agent.history()]


async def heard(stream: Any, until: str, then: Any) -> str:
    """Take the pieces of an answer, and do something when so much was said."""
    said = ""
    async for piece in stream:
        said += piece
        if said == until:
            then()
    return said


def test_an_answer_is_streamed_and_the_next_turn_knows_it(saver: Any, url: str, model: Any) -> None:
    async def chat() -> None:
        async with saver() as saving:
            graph = graph_of(saving, saying(model(said=("Hello, ", "Ada."))))
            async with Greenroom(conversations(graph), prepare=follow, store=url) as room:
                async with room.turn("a") as turn:
                    pieces = [piece async for piece in turn.agent.stream("I am Ada.")]
                    assert pieces == ["Hello, ", "Ada."]
                async with room.turn("a") as turn:
                    assert turn.reused
                    assert await turn.agent.run("Who am I?") == "Hello, Ada."
                    said = ["I am Ada.", "Hello, Ada.", "Who am I?", "Hello, Ada."]
                    assert await texts(turn.agent) == said
                    assert await room.store.messages_soon("a") == []

    asyncio.run(chat())


def test_results_of_tools_are_in_the_state_and_not_in_the_answer(saver: Any) -> None:
    async def agent(_: MessagesState) -> Any:
        call = {"name": "weather", "args": {}, "id": "call-1"}
        return {"messages": [AIMessage("Let me look. ", tool_calls=[call])]}

    async def tools(_: MessagesState) -> Any:
        return {"messages": [ToolMessage("sunny", tool_call_id="call-1")]}

    async def tell(_: MessagesState) -> Any:
        return {"messages": [AIMessage("It is sunny.")]}

    async def chat() -> None:
        async with saver() as saving:
            graph = graph_of(saving, agent, tools, tell)
            async with Greenroom(conversations(graph)) as room, room.turn("a") as turn:
                assert await turn.agent.run("Weather?") == "Let me look. It is sunny."
                assert await texts(turn.agent) == ["Weather?", "Let me look. ", "sunny", "It is sunny."]

    asyncio.run(chat())


@pytest.mark.parametrize("first", [True, False], ids=["first turn", "later turn"])
def test_a_client_that_hangs_up_ends_the_request_upstream(
    saver: Any, url: str, endpoint: Any, model: Any, first: bool
) -> None:
    """T4"""

    async def chat() -> None:
        answers = [["Let me ", "think", ...], ["Here I am."]]
        async with endpoint(*([] if first else [["Hi."]]), *answers) as running, saver() as saving:
            graph = graph_of(saving, saying(model(url=running.url)))
            async with Greenroom(conversations(graph), prepare=follow, store=url) as room:
                if not first:
                    async with room.turn("a") as turn:
                        await turn.agent.run("Hi")
                before = [] if first else ["Hi", "Hi."]
                turn = room.turn("a")
                said_so_far = asyncio.Event()

                async def talk() -> None:
                    async with turn:
                        await heard(turn.agent.stream("Hello"), "Let me think", said_so_far.set)

                talking = asyncio.create_task(talk())
                await said_so_far.wait()
                talking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await talking
                await running.hung_up.wait()
                assert not turn.completed
                async with room.turn("a") as turn:
                    assert await texts(turn.agent) == before
                    assert await turn.agent.run("Hello?") == "Here I am."
                    assert await texts(turn.agent) == [*before, "Hello?", "Here I am."]

    asyncio.run(chat())


@pytest.mark.parametrize("first", [True, False], ids=["first turn", "later turn"])
def test_an_interruption_ends_the_request_and_keeps_what_was_said(
    saver: Any, url: str, endpoint: Any, model: Any, patience: float, first: bool
) -> None:
    async def chat() -> None:
        answers = [["Let me ", "think", ...], ["Here I am."]]
        async with endpoint(*([] if first else [["Hi."]]), *answers) as running, saver() as saving:
            graph = graph_of(saving, saying(model(url=running.url)))
            async with Greenroom(conversations(graph), prepare=follow, store=url) as room:
                if not first:
                    async with room.turn("a") as turn:
                        await turn.agent.run("Hi")
                before = [] if first else ["Hi", "Hi."]
                async with room.turn("a") as turn:
                    stopping = threading.Thread(target=turn.agent.interrupt)
                    said = await heard(turn.agent.stream("Hello"), "Let me think", stopping.start)
                    assert said == "Let me think"
                    assert turn.agent.interrupted
                    stopping.join(patience)
                assert turn.completed
                await running.hung_up.wait()
                async with room.turn("a") as turn:
                    assert await texts(turn.agent) == [*before, "Hello", "Let me think"]
                    assert await turn.agent.run("Go on") == "Here I am."
                    said_in_all = [*before, "Hello", "Let me think", "Go on", "Here I am."]
                    assert await texts(turn.agent) == said_in_all

    asyncio.run(chat())


def test_an_interruption_before_the_first_word_keeps_nothing(saver: Any) -> None:
    async def chat() -> None:
        begun = asyncio.Event()

        async def agent(_: MessagesState) -> Any:
            begun.set()
            await asyncio.get_running_loop().create_future()

        async with (
            saver() as saving,
            Greenroom(conversations(graph_of(saving, agent))) as room,
            room.turn("a") as turn,
        ):
            answering = asyncio.create_task(turn.agent.run("Hello"))
            await begun.wait()
            turn.agent.interrupt()
            assert await answering == ""
            assert await texts(turn.agent) == []

    asyncio.run(chat())


@pytest.mark.parametrize("before", [[], ["Hi", "Hi"]], ids=["first turn", "later turn"])
@pytest.mark.parametrize("durability", [None, "exit", "async", "sync"])
def test_a_call_of_a_tool_that_fails_is_not_gone_on_with(
    saver: Any, durability: str | None, before: list[str]
) -> None:
    """T4"""
    failing = [True]

    async def agent(state: MessagesState) -> Any:
        if state["messages"][-1].content != "Weather?":
            return await hears(state)
        call = {"name": "weather", "args": {}, "id": "call-1"}
        return {"messages": [AIMessage("Let me look.", tool_calls=[call])]}

    async def tools(state: MessagesState) -> Any:
        if getattr(state["messages"][-1], "tool_calls", None) and failing:
            raise LookupError("no such city")
        return {}

    async def chat() -> None:
        options: dict[str, Any] = {} if durability is None else {"durability": durability}
        async with saver() as saving:
            build = conversations(graph_of(saving, agent, tools), **options)
            async with Greenroom(build, prepare=follow) as room:
                for text in before[:1]:
                    async with room.turn("a") as turn:
                        await turn.agent.run(text)
                turn = room.turn("a")

                async def talk() -> None:
                    async with turn:
                        await turn.agent.run("Weather?")

                with pytest.raises(LookupError):
                    await talk()
                assert not turn.completed
                async with room.turn("a") as turn:
                    assert await texts(turn.agent) == before
                    heard = " ".join([*before, "there"])
                    assert await turn.agent.run("there") == heard
                    assert await texts(turn.agent) == [*before, "there", heard]

    asyncio.run(chat())


class Question(TypedDict):
    question: str
    answer: str


def test_a_graph_may_have_a_state_of_another_form(saver: Any) -> None:
    async def answer(state: Question) -> Any:
        get_stream_writer()("Let me see. ")
        return {"answer": state["question"][::-1]}

    def of_updates(part: Any) -> str:
        return str(part["answer"]["answer"])

    async def chat() -> None:
        async with saver() as saving:
            graph = graph_of(saving, answer, state=Question)
            modes: list[Any] = [("custom", str, "Let me see. "), ("updates", of_updates, "oh")]
            for mode, to_text, said in modes:
                build = conversations(
                    graph, to_input=lambda text: {"question": text}, mode=mode, to_text=to_text
                )
                async with Greenroom(build) as room, room.turn(mode) as turn:
                    assert await turn.agent.run("ho") == said
                    assert (await turn.agent.state()).values == {"question": "ho", "answer": "oh"}
                    assert await turn.agent.history() == []

    asyncio.run(chat())


def test_what_is_said_in_subgraphs_is_heard_if_that_is_asked_for(saver: Any, model: Any) -> None:
    async def chat() -> None:
        async with saver() as saving:
            inner = graph_of(None, saying(model(said=("Deep ", "down."))))
            builder = StateGraph(MessagesState)
            builder.add_node("inner", inner)
            builder.add_edge(START, "inner")
            builder.add_edge("inner", END)
            build = conversations(builder.compile(checkpointer=saving), subgraphs=True)
            async with Greenroom(build) as room, room.turn("a") as turn:
                assert await turn.agent.run("Hello") == "Deep down."

    asyncio.run(chat())
