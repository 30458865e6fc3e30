"""A turn is a run of their graph: what is kept of it, and how it is left, interrupted and cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.agent import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import ModelRetry, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import BinaryContent
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import DeferredToolRequests, RunContext
from pydantic_ai.usage import UsageLimits

from greenroom import Greenroom
from greenroom.integrations.pydantic_ai import conversations, follow


class Script:
    """A model that gives one answer after the other, each a list of pieces: text, or the name of a tool
    to call, as `("weather", '{"city": "Rome"}')`, or an error. It remembers what it was sent."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.calls: list[list[Any]] = []
        self.model = FunctionModel(stream_function=self._stream)

    async def _stream(self, messages: list[Any], _: Any) -> AsyncIterator[Any]:
        self.calls.append(messages)
        for number, piece in enumerate(self.answers.pop(0)):
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, str):
                yield piece
            else:
                name, args = piece
                yield {number: DeltaToolCall(name=name, json_args=args, tool_call_id="call-1")}


call = ("weather", '{"city": "Rome"}')


async def weather(city: str) -> str:
    """Tell the weather."""
    return f"Sunny in {city}."


def kinds(messages: list[Any]) -> list[str]:
    return [part.part_kind for message in messages for part in message.parts]


def texts(messages: list[Any]) -> list[str]:
    """What user and model said."""
    return [
        part.content
        for message in messages
        for part in message.parts
        if part.part_kind in ("user-prompt", "text")
    ]


async def heard(stream: Any, until: str, then: Any) -> str:
    """Take the pieces of an answer, and do something when so much was said."""
    said = ""
    async for piece in stream:
        said += piece
        if said == until:
            then()
    return said


def test_an_answer_is_streamed_and_the_next_turn_knows_it(url: str) -> None:
    script = Script(["Hello, ", "Ada."], ["You are Ada."])

    async def chat() -> None:
        agent = Agent(script.model, instructions="Be kind.")
        async with Greenroom(conversations(agent), prepare=follow, store=url) as room:
            async with room.turn("a") as turn:
                pieces = [piece async for piece in turn.agent.stream("I am Ada.")]
            async with room.turn("a") as turn:
                assert turn.reused
                assert await turn.agent.run("Who am I?") == "You are Ada."
                assert turn.agent.output == "You are Ada."
        assert pieces == ["Hello, ", "Ada."]

    asyncio.run(chat())
    assert texts(script.calls[1]) == ["I am Ada.", "Hello, Ada.", "Who am I?"]


def test_tools_that_are_called_after_a_text_are_run_and_the_exchange_is_one_row(url: str) -> None:
    async def chat() -> None:
        agent = Agent(Script(["Let me look. ", call], ["It is sunny."]).model, tools=[weather])
        async with Greenroom(conversations(agent), store=url) as room, room.turn("a") as turn:
            assert await turn.agent.run("Weather?") == "Let me look. It is sunny."
            (row,) = await room.store.messages_soon("a")
            assert row.role == "pydantic-ai"
            assert await turn.agent.history() == row.content["items"]
            messages = await turn.agent.messages()
            assert kinds(messages) == ["user-prompt", "text", "tool-call", "tool-return", "text"]
            assert {message.conversation_id for message in messages} == {"a"}

    asyncio.run(chat())


def test_a_client_that_hangs_up_ends_the_request_upstream(url: str, endpoint: Any) -> None:
    """T4"""

    async def chat() -> None:
        async with (
            endpoint(["Let me ", "think", ...], ["Here I am."]) as running,
            Greenroom(conversations(_agent_at(running)), prepare=follow, store=url) as room,
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
            assert [message["content"] for message in running.requests[1]["messages"]] == ["Hello?"]

    asyncio.run(chat())


def test_a_run_that_is_cancelled_is_over_when_its_tools_are() -> None:
    async def chat() -> None:
        called, never, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        ended: list[str] = []

        async def slow(city: str) -> str:
            called.set()
            try:
                await never.wait()
            finally:
                await may_end.wait()
                ended.append(city)
            return city

        agent = Agent(Script(["Let me look. ", call]).model)
        agent.tool_plain(name="weather")(slow)
        async with Greenroom(conversations(agent)) as room, room.turn("a", ephemeral=True) as turn:
            talking = asyncio.create_task(turn.agent.run("Weather?"))
            await called.wait()
            talking.cancel()
            for _ in range(100):
                await asyncio.sleep(0)
            assert not talking.done()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await talking
            assert ended == ["Rome"]

    asyncio.run(chat())


def test_an_interruption_ends_the_request_and_keeps_what_was_said(
    url: str, endpoint: Any, patience: float
) -> None:
    async def chat() -> None:
        async with (
            endpoint(["Let me ", "think", ...], ["Here I am."]) as running,
            Greenroom(conversations(_agent_at(running)), prepare=follow, store=url) as room,
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
            said_before = [message["content"] for message in running.requests[1]["messages"]]
            assert said_before == ["Hello", "Let me think", "Go on"]

    asyncio.run(chat())


def _agent_at(running: Any) -> Any:
    provider = OpenAIProvider(base_url=running.url, api_key="none")
    return Agent(OpenAIChatModel("model", provider=provider))


def test_an_interruption_in_a_tool_is_told_to_the_model_in_the_next_turn(url: str) -> None:
    script = Script(["Let me look. ", call], ["Here I am."])

    async def chat() -> None:
        called, never = asyncio.Event(), asyncio.Event()

        async def slow(city: str) -> str:
            called.set()
            await never.wait()
            return city

        agent = Agent(script.model)
        agent.tool_plain(name="weather")(slow)
        async with Greenroom(conversations(agent), prepare=follow, store=url) as room:
            async with room.turn("a") as turn:
                answering = asyncio.create_task(turn.agent.run("Weather?"))
                await called.wait()
                turn.agent.interrupt()
                assert await answering == "Let me look. "
                assert texts(await turn.agent.messages()) == ["Weather?", "Let me look. "]
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go on") == "Here I am."

    asyncio.run(chat())
    sent = script.calls[1]
    assert kinds(sent) == ["user-prompt", "text", "tool-call", "tool-return", "user-prompt"]
    (returned,) = [part for message in sent for part in message.parts if part.part_kind == "tool-return"]
    assert returned.outcome == "interrupted"


def test_an_interruption_after_a_tool_keeps_the_call_and_its_result(url: str) -> None:
    """What a tool has done is done: the model must not do it again."""

    async def chat() -> None:
        never = asyncio.Event()

        async def model(messages: list[Any], _: Any) -> AsyncIterator[Any]:
            if messages[-1].parts[-1].part_kind == "user-prompt":
                yield {0: DeltaToolCall(name=call[0], json_args=call[1], tool_call_id="call-1")}
            else:
                yield "It is"
                await never.wait()

        agent = Agent(FunctionModel(stream_function=model), tools=[weather])
        async with Greenroom(conversations(agent), store=url) as room, room.turn("a") as turn:
            stream = turn.agent.stream("Weather?")
            assert await heard(stream, "It is", turn.agent.interrupt) == "It is"
            messages = await turn.agent.messages()
            assert kinds(messages) == ["user-prompt", "tool-call", "tool-return", "text"]
            assert texts(messages) == ["Weather?", "It is"]

    asyncio.run(chat())


def test_an_interruption_between_a_tool_and_the_next_word_leaves_a_history_that_goes_on(
    url: str, endpoint: Any
) -> None:
    async def chat() -> None:
        called, never = asyncio.Event(), asyncio.Event()

        async def model(messages: list[Any], _: Any) -> AsyncIterator[Any]:
            if messages[-1].parts[-1].part_kind == "user-prompt":
                yield {0: DeltaToolCall(name=call[0], json_args=call[1], tool_call_id="call-1")}
            else:
                called.set()
                await never.wait()

        agent = Agent(FunctionModel(stream_function=model), tools=[weather])
        async with (
            endpoint(["Here I am."]) as running,
            Greenroom(conversations(agent), store=url) as room,
        ):
            async with room.turn("a") as turn:
                answering = asyncio.create_task(turn.agent.run("Weather?"))
                await called.wait()
                turn.agent.interrupt()
                assert await answering == ""
                assert kinds(await turn.agent.messages()) == ["user-prompt", "tool-call", "tool-return"]
            async with room.turn("a") as turn:
                turn.agent.agent = _agent_at(running)
                assert await turn.agent.run("Go on") == "Here I am."
            roles = [message["role"] for message in running.requests[0]["messages"]]
            assert roles == ["user", "assistant", "tool", "user"]

    asyncio.run(chat())


def test_an_interruption_before_the_first_word_keeps_nothing(url: str) -> None:
    async def chat() -> None:
        called, never = asyncio.Event(), asyncio.Event()

        async def model(messages: list[Any], _: Any) -> AsyncIterator[str]:
            called.set()
            await never.wait()
            yield str(messages)

        agent = Agent(FunctionModel(stream_function=model))
        async with Greenroom(conversations(agent), store=url) as room, room.turn("a") as turn:
            answering = asyncio.create_task(turn.agent.run("Hello"))
            await called.wait()
            turn.agent.interrupt()
            assert await answering == ""
            assert await turn.agent.history() == []

    asyncio.run(chat())


async def unsure(city: str) -> str:
    """Fail, and ask the model to try again."""
    raise ModelRetry(f"there is no {city}")


@pytest.mark.parametrize(
    ("tool", "answers", "error"),
    [
        (weather, [[call], [LookupError("away")]], LookupError),
        (weather, [[call], [call], ["Sunny."]], UsageLimitExceeded),
        (unsure, [[call], [call]], UnexpectedModelBehavior),
    ],
    ids=["model", "usage_limits", "tool"],
)
def test_a_run_that_fails_tells_its_error_and_keeps_nothing(
    url: str, tool: Any, answers: Any, error: Any
) -> None:
    """T4"""

    async def chat() -> None:
        agent = Agent(Script(*answers).model)
        agent.tool_plain(name="weather")(tool)
        build = conversations(agent, usage_limits=UsageLimits(request_limit=2))
        async with Greenroom(build, prepare=follow, store=url) as room:
            turn = room.turn("a")

            async def talk() -> None:
                async with turn:
                    await turn.agent.run("Weather?")

            with pytest.raises(error):
                await talk()
            assert not turn.completed
            async with room.turn("a") as turn:
                assert await turn.agent.history() == []
                turn.agent.options["model"] = Script(["Here I am."]).model
                assert await turn.agent.run("Hello?") == "Here I am."

    asyncio.run(chat())


def test_a_call_that_waits_for_approval_is_an_error_and_nothing_is_kept(url: str) -> None:
    async def chat() -> None:
        agent = Agent(Script([call]).model, output_type=[str, DeferredToolRequests])
        agent.tool_plain(name="weather", requires_approval=True)(weather)
        async with (
            Greenroom(conversations(agent), store=url) as room,
            room.turn("a", ephemeral=True) as turn,
        ):
            with pytest.raises(RuntimeError, match="wait for approval"):
                await turn.agent.run("Weather?")
            assert await turn.agent.history() == []

    asyncio.run(chat())


class City(BaseModel):
    name: str


def test_an_output_type_is_given_as_an_object_and_nothing_is_said(url: str) -> None:
    async def chat() -> None:
        agent = Agent(TestModel(custom_output_args={"name": "Rome"}), output_type=City)
        async with Greenroom(conversations(agent), store=url) as room:
            for _ in range(2):
                async with room.turn("a") as turn:
                    assert await turn.agent.run("Which city?") == ""
                    assert turn.agent.output == City(name="Rome")

    asyncio.run(chat())


def test_tools_get_the_deps_that_were_made_for_their_session() -> None:
    heard: list[Any] = []

    async def whoami(context: RunContext[Any]) -> str:
        heard.append(context.deps)
        return str(context.deps)

    async def chat() -> None:
        agent = Agent(TestModel(), deps_type=str, tools=[whoami])
        build = conversations(agent, deps=lambda context: f"user of {context.key}")
        async with Greenroom(build) as room:
            for key in ("a", "b"):
                async with room.turn(key) as turn:
                    await turn.agent.run("Who am I?")

    asyncio.run(chat())
    assert heard == ["user of a", "user of b"]


def test_a_processor_bounds_what_the_model_is_sent_and_not_what_is_kept(url: str) -> None:
    script = Script(["one"], ["two"])

    async def chat() -> None:
        agent = Agent(script.model, capabilities=[ProcessHistory(lambda messages: messages[-1:])])
        async with Greenroom(conversations(agent), store=url) as room:
            for text in ("1", "2"):
                async with room.turn("a") as turn:
                    await turn.agent.run(text)
                    assert texts(script.calls[-1]) == [text]
            async with room.turn("a") as turn:
                assert texts(await turn.agent.messages()) == ["1", "one", "2", "two"]

    asyncio.run(chat())


def test_bytes_come_back_from_the_store(url: str) -> None:
    picture = BinaryContent(data=b"\x89PNG\xff", media_type="image/png")
    script = Script([("draw", "{}")], ["There."], ["Yes."])

    def draw() -> BinaryContent:
        return picture

    async def chat() -> None:
        agent = Agent(script.model, tools=[draw])
        async with Greenroom(conversations(agent), store=url) as room:
            for text in ("Draw", "Is it blue?"):
                async with room.turn("a") as turn:
                    await turn.agent.run(text)
                    messages = await turn.agent.messages()
            (returned,) = [
                part for message in messages for part in message.parts if part.part_kind == "tool-return"
            ]
            assert returned.content.data == picture.data

    asyncio.run(chat())
