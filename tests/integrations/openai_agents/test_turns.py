"""A turn is a run of their Runner: what is kept of it, and how it is left, interrupted and cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    OpenAIChatCompletionsModel,
    RunConfig,
    function_tool,
)
from agents.memory import SessionSettings
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI
from pydantic import BaseModel

from greenroom import Greenroom
from greenroom.integrations.openai_agents import conversations, follow

weather_call = function_call("weather", {"city": "Rome"}, call_id="call-1")


async def tell_weather(city: str) -> str:
    """Tell the weather."""
    return f"Sunny in {city}."


weather = function_tool(tell_weather, name_override="weather")


def saying(*texts: str) -> ScriptedModel:
    return ScriptedModel([[assistant_message(text)] for text in texts])


def with_tool(*more: Any) -> ScriptedModel:
    """A model that says something, calls the tool, and says the rest."""
    return ScriptedModel([[assistant_message("Let me look. "), weather_call], *more])


def kinds(items: list[Any]) -> list[str]:
    return [item.get("type") or item["role"] for item in items]


def texts(items: list[Any]) -> list[str]:
    """What user and assistant said."""
    said: list[str] = []
    for item in items:
        content = item.get("content")
        if isinstance(content, str):
            said.append(content)
        elif content:
            said.extend(part["text"] for part in content)
    return said


async def heard(stream: Any, until: str, then: Any) -> str:
    """Take the pieces of an answer, and do something when so much was said."""
    said = ""
    async for piece in stream:
        said += piece
        if said == until:
            then()
    return said


def test_an_answer_is_streamed_and_the_next_turn_knows_it(url: str) -> None:
    model = saying("Hello, Ada.", "You are Ada.")

    async def chat() -> None:
        agent = Agent(name="host", instructions="Be kind.", model=model)
        async with Greenroom(conversations(agent), prepare=follow, store=url) as room:
            async with room.turn("a") as turn:
                pieces = [piece async for piece in turn.agent.stream("I am Ada.")]
            async with room.turn("a") as turn:
                assert turn.reused
                assert await turn.agent.run("Who am I?") == "You are Ada."
                assert turn.agent.output == "You are Ada."
        assert "".join(pieces) == "Hello, Ada."

    asyncio.run(chat())
    assert texts(model.calls[1].input) == ["I am Ada.", "Hello, Ada.", "Who am I?"]


def test_an_exchange_with_calls_of_tools_is_one_row(url: str) -> None:
    model = with_tool([assistant_message("It is sunny.")])

    async def chat() -> None:
        agent = Agent(name="host", model=model, tools=[weather])
        async with Greenroom(conversations(agent), store=url) as room, room.turn("a") as turn:
            assert await turn.agent.run("Weather?") == "Let me look. It is sunny."
            (row,) = await room.store.messages_soon("a")
            assert kinds(row.content["items"]) == [
                "user",
                "message",
                "function_call",
                "function_call_output",
                "message",
            ]
            assert row.role == "openai-agents"
            assert await turn.agent.history() == row.content["items"]

    asyncio.run(chat())


def test_a_client_that_hangs_up_ends_the_request_upstream(url: str, endpoint: Any) -> None:
    """T4"""

    async def chat() -> None:
        async with (
            endpoint(["Let me ", "think", ...], ["Here I am."]) as running,
            AsyncOpenAI(base_url=running.url, api_key="none", max_retries=0) as client,
            Greenroom(conversations(_agent_of(client)), prepare=follow, store=url) as room,
        ):
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
                assert await turn.agent.history() == []
                assert await turn.agent.run("Hello?") == "Here I am."
            assert texts(running.requests[1]["messages"]) == ["Hello?"]

    asyncio.run(chat())


def test_a_run_that_is_cancelled_is_over_when_its_request_is() -> None:
    async def chat() -> None:
        called, never, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        ended: list[Any] = []

        async def stream(call: ModelCall) -> Any:
            called.set()
            try:
                await never.wait()
                yield None
            finally:
                await may_end.wait()
                ended.extend(texts(call.input))

        events: Any = stream
        agent = Agent(name="host", model=ScriptedModel([ModelStep.stream(events)]))
        async with Greenroom(conversations(agent)) as room, room.turn("a", ephemeral=True) as turn:
            talking = asyncio.create_task(turn.agent.run("Hello"))
            await called.wait()
            talking.cancel()
            for _ in range(100):
                await asyncio.sleep(0)
            assert not talking.done()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await talking
            assert ended == ["Hello"]

    asyncio.run(chat())


def test_an_interruption_ends_the_request_and_keeps_what_was_said(
    url: str, endpoint: Any, patience: float
) -> None:
    async def chat() -> None:
        async with (
            endpoint(["Let me ", "think", ...], ["Here I am."]) as running,
            AsyncOpenAI(base_url=running.url, api_key="none", max_retries=0) as client,
            Greenroom(conversations(_agent_of(client)), prepare=follow, store=url) as room,
        ):
            async with room.turn("a") as turn:
                stopping = threading.Thread(target=turn.agent.interrupt)
                said = await heard(turn.agent.stream("Hello"), "Let me think", stopping.start)
                assert said == "Let me think"
                assert turn.agent.interrupted
                stopping.join(patience)
            assert turn.completed
            await running.hung_up.wait()
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go on") == "Here I am."
            assert texts(running.requests[1]["messages"]) == ["Hello", "Let me think", "Go on"]

    asyncio.run(chat())


def _agent_of(client: AsyncOpenAI) -> Any:
    return Agent(name="host", model=OpenAIChatCompletionsModel("model", client))


def test_an_interruption_in_a_tool_keeps_the_words_and_no_call_without_a_result(url: str) -> None:
    model = with_tool([assistant_message("Here I am.")])

    async def chat() -> None:
        called, never = asyncio.Event(), asyncio.Event()

        async def slow(city: str) -> str:
            called.set()
            await never.wait()
            return city

        agent = Agent(name="host", model=model, tools=[function_tool(slow, name_override="weather")])
        async with Greenroom(conversations(agent), prepare=follow, store=url) as room:
            async with room.turn("a") as turn:
                answering = asyncio.create_task(turn.agent.run("Weather?"))
                await called.wait()
                turn.agent.interrupt()
                assert await answering == "Let me look. "
                assert texts(await turn.agent.history()) == ["Weather?", "Let me look. "]
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go on") == "Here I am."

    asyncio.run(chat())
    assert kinds(model.calls[1].input) == ["user", "assistant", "user"]


def test_an_interruption_after_a_tool_keeps_the_call_and_its_result(url: str, endpoint: Any) -> None:
    """What a tool has done is done: the model must not do it again."""

    async def chat() -> None:
        async with (
            endpoint(["It is", ...]) as running,
            AsyncOpenAI(base_url=running.url, api_key="none", max_retries=0) as client,
        ):
            first = with_tool()
            second = OpenAIChatCompletionsModel("model", client)

            class Both(ScriptedModel):
                def stream_response(self, *args: Any, **kwargs: Any) -> Any:
                    model = first if first.remaining_steps else second
                    return model.stream_response(*args, **kwargs)

            agent = Agent(name="host", model=Both(), tools=[weather])
            async with Greenroom(conversations(agent), store=url) as room, room.turn("a") as turn:
                stream = turn.agent.stream("Weather?")
                said = await heard(stream, "Let me look. It is", turn.agent.interrupt)
                assert said == "Let me look. It is"
                items = await turn.agent.history()
                assert kinds(items) == [
                    "user",
                    "message",
                    "function_call",
                    "function_call_output",
                    "assistant",
                ]
                assert texts(items) == ["Weather?", "Let me look. ", "It is"]

    asyncio.run(chat())


def test_an_interruption_before_the_first_word_keeps_nothing(url: str) -> None:
    async def chat() -> None:
        called, never = asyncio.Event(), asyncio.Event()

        async def wait(_: ModelCall) -> Any:
            called.set()
            await never.wait()

        agent = Agent(name="host", model=ScriptedModel([ModelStep.respond(wait)]))
        async with Greenroom(conversations(agent), store=url) as room, room.turn("a") as turn:
            answering = asyncio.create_task(turn.agent.run("Hello"))
            await called.wait()
            turn.agent.interrupt()
            assert await answering == ""
            assert await turn.agent.history() == []

    asyncio.run(chat())


async def find_secrets(_: Any, __: Any, said: Any) -> Any:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="secret" in str(said))


@pytest.mark.parametrize(
    ("text", "steps", "error"),
    [
        ("a secret", [[assistant_message("Hush.")]], InputGuardrailTripwireTriggered),
        ("Weather?", [[weather_call], [weather_call], [weather_call]], MaxTurnsExceeded),
        ("Weather?", [[weather_call], LookupError("away")], LookupError),
    ],
    ids=["guardrail", "max_turns", "model"],
)
def test_a_run_that_fails_tells_its_error_and_keeps_nothing(
    url: str, text: str, steps: Any, error: Any
) -> None:
    """T4"""

    async def chat() -> None:
        model = ScriptedModel(steps)
        agent = Agent(
            name="host", model=model, tools=[weather], input_guardrails=[InputGuardrail(find_secrets)]
        )
        async with Greenroom(conversations(agent, max_turns=2), prepare=follow, store=url) as room:
            turn = room.turn("a")

            async def talk() -> None:
                async with turn:
                    await turn.agent.run(text)

            with pytest.raises(error):
                await talk()
            assert not turn.completed
            async with room.turn("a") as turn:
                assert await turn.agent.history() == []
                turn.agent.agent = Agent(name="host", model=saying("Here I am."))
                assert await turn.agent.run("Hello?") == "Here I am."

    asyncio.run(chat())


def test_a_call_that_waits_for_approval_is_an_error_and_nothing_is_kept(url: str) -> None:
    approved = function_tool(tell_weather, name_override="weather", needs_approval=True)

    async def chat() -> None:
        agent = Agent(name="host", model=with_tool(), tools=[approved])
        async with (
            Greenroom(conversations(agent), store=url) as room,
            room.turn("a", ephemeral=True) as turn,
        ):
            with pytest.raises(RuntimeError, match=r"wait for approval.*weather"):
                await turn.agent.run("Weather?")
            assert await turn.agent.history() == []

    asyncio.run(chat())


def test_a_handoff_is_part_of_the_run_and_the_next_answer_begins_with_the_first_agent(url: str) -> None:
    async def chat() -> None:
        expert = Agent(name="expert", model=saying("It is sunny."))
        call = function_call("transfer_to_expert", {}, call_id="call-1")
        first = ScriptedModel([[call], [assistant_message("I am the first.")]])
        agent = Agent(name="first", model=first, handoffs=[expert])
        async with Greenroom(conversations(agent), store=url) as room:
            async with room.turn("a") as turn:
                assert await turn.agent.run("Weather?") == "It is sunny."
            async with room.turn("a") as turn:
                assert await turn.agent.run("Who are you?") == "I am the first."
                assert "It is sunny." in texts(first.calls[1].input)

    asyncio.run(chat())


class City(BaseModel):
    name: str


def test_an_output_type_is_streamed_as_json_and_given_as_an_object() -> None:
    async def chat() -> None:
        agent = Agent(name="host", model=saying('{"name": "Rome"}'), output_type=City)
        async with Greenroom(conversations(agent)) as room, room.turn("a") as turn:
            assert await turn.agent.run("Which city?") == '{"name": "Rome"}'
            assert turn.agent.output == City(name="Rome")

    asyncio.run(chat())


def test_a_limit_of_the_session_bounds_what_the_model_is_sent_and_not_what_is_kept(url: str) -> None:
    model = saying("one", "two", "three")

    async def chat() -> None:
        agent = Agent(name="host", model=model)
        config = RunConfig(session_settings=SessionSettings(limit=2))
        async with Greenroom(conversations(agent, run_config=config), store=url) as room:
            for text in ("1", "2", "3"):
                async with room.turn("a") as turn:
                    await turn.agent.run(text)
                    history = await turn.agent.history()
        assert texts(history) == ["1", "one", "2", "two", "3", "three"]

    asyncio.run(chat())
    assert texts(model.calls[2].input) == ["2", "two", "3"]


def test_what_is_taken_from_the_session_is_gone_from_the_conversation_and_stays_in_the_store(
    url: str,
) -> None:
    agents: list[Any] = []

    async def pop_two(_: ModelCall) -> Any:
        session = agents[0]._session
        assert texts([await session.pop_item(), await session.pop_item()]) == ["2", "one"]
        return [assistant_message("two")]

    async def clear(_: ModelCall) -> Any:
        await agents[0]._session.clear_session()
        assert await agents[0]._session.pop_item() is None
        return [assistant_message("three")]

    async def chat() -> None:
        steps = [[assistant_message("one")], ModelStep.respond(pop_two), ModelStep.respond(clear)]
        agent = Agent(name="host", model=ScriptedModel(steps))
        async with Greenroom(conversations(agent), store=url) as room:
            kept: list[list[str]] = []
            for text in ("1", "2", "3"):
                async with room.turn("a") as turn:
                    agents[:] = [turn.agent]
                    await turn.agent.run(text)
                    kept.append(texts(await turn.agent.history()))
            assert kept == [["1", "one"], ["1", "two"], ["three"]]
            assert len(await room.store.messages_soon("a")) == 3

    asyncio.run(chat())
