"""A turn is a loop of messages: what is kept of it, and how it is left, interrupted and cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anthropic import APIStatusError, AsyncAnthropic  # pyright: ignore[reportAttributeAccessIssue]  # not from this folder

from greenroom import Greenroom
from greenroom.integrations.anthropic import conversations, follow


@asynccontextmanager
async def talking_to(running: Any, url: str | None, **options: Any) -> AsyncIterator[Greenroom]:
    """A room of conversations with an endpoint."""
    async with AsyncAnthropic(
        base_url=running.url, api_key="none", max_retries=0, timeout=240
    ) as client:
        build = conversations(client, model="claude", **options)
        async with Greenroom(build, prepare=follow, store=url) as room:
            yield room


def call_of(name: str, number: int = 1, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"call-{number}", "name": name, "input": given}


def weather(city: str) -> str:
    """Tell the weather."""
    return f"Sunny in {city}."


def texts(messages: list[Any]) -> list[str]:
    """What user and assistant said."""
    said: list[str] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said.extend(block["text"] for block in blocks if block["type"] == "text")
    return said


def kinds(messages: list[Any]) -> list[Any]:
    """The types of the blocks of each message."""
    return [
        "text" if isinstance(content, str) else [block["type"] for block in content]
        for content in (message["content"] for message in messages)
    ]


async def heard(stream: Any, until: str | None, then: Any) -> str:
    """Take the pieces of an answer, and do something when so much was said."""
    said = ""
    async for piece in stream:
        said += piece
        if said == until:
            then()
    return said


def test_an_answer_is_streamed_and_the_next_turn_knows_it(url: str, endpoint: Any) -> None:
    async def chat() -> None:
        async with (
            endpoint(["Hello, ", "Ada."], ["You are Ada."]) as running,
            talking_to(running, url, system="Be kind.", max_tokens=99) as room,
        ):
            async with room.turn("a") as turn:
                pieces = [piece async for piece in turn.agent.stream("I am Ada.")]
            assert pieces == ["Hello, ", "Ada."]
            async with room.turn("a") as turn:
                assert turn.reused
                assert await turn.agent.run("Who am I?") == "You are Ada."
                assert turn.agent.message.stop_reason == "end_turn"
                assert turn.agent.message.usage.output_tokens == 1
            request = running.requests[1]
            assert texts(request["messages"]) == ["I am Ada.", "Hello, Ada.", "Who am I?"]
            assert (request["system"], request["max_tokens"]) == ("Be kind.", 99)

    asyncio.run(chat())


def test_an_exchange_with_calls_of_tools_is_one_row(url: str, endpoint: Any) -> None:
    async def chat() -> None:
        async with (
            endpoint(["Let me look.", call_of("weather", city="Rome")], ["It is sunny."]) as running,
            talking_to(running, url, tools=[weather]) as room,
            room.turn("a") as turn,
        ):
            assert await turn.agent.run("Weather?") == "Let me look.\n\nIt is sunny."
            (row,) = await room.store.messages_soon("a")
            assert row.role == "anthropic"
            items = row.content["items"]
            assert kinds(items) == ["text", ["text", "tool_use"], ["tool_result"], ["text"]]
            assert items[2]["content"][0]["content"] == "Sunny in Rome."
            assert await turn.agent.history() == items

    asyncio.run(chat())


def test_calls_that_come_at_once_run_at_once_and_are_answered_in_order(endpoint: Any) -> None:
    async def chat() -> None:
        second_has_run = asyncio.Event()

        async def first() -> str:
            """Wait for the second."""
            await second_has_run.wait()
            return "1"

        async def second() -> list[dict[str, Any]]:
            """Let the first go on."""
            second_has_run.set()
            return [{"type": "text", "text": "2"}]

        definition = {"type": "web_search_20250305", "name": "web_search"}
        async with (
            endpoint([call_of("first", 1), call_of("second", 2)], ["Done."]) as running,
            talking_to(running, None, tools=[first, definition, second]) as room,
            room.turn("a") as turn,
        ):
            assert await turn.agent.run("Go") == "Done."
            results = running.requests[1]["messages"][2]["content"]
            assert [result["tool_use_id"] for result in results] == ["call-1", "call-2"]
            assert [result["content"] for result in results] == ["1", [{"type": "text", "text": "2"}]]
            assert running.requests[1]["tools"][1] == definition

    asyncio.run(chat())


def test_a_client_that_hangs_up_ends_the_request_upstream(url: str, endpoint: Any) -> None:
    """T4"""

    async def chat() -> None:
        async with (
            endpoint(["Let me ", "think", ...], ["Here I am."]) as running,
            talking_to(running, url) as room,
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


def test_a_turn_that_is_cancelled_in_a_tool_cancels_the_tool_and_keeps_nothing(
    url: str, endpoint: Any
) -> None:
    """T4"""

    async def chat() -> None:
        called, ended = asyncio.Event(), asyncio.Event()

        async def slow() -> str:
            """Take long."""
            called.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.set()
            return "never"

        async with (
            endpoint(["Let me look.", call_of("slow")], ["Here I am."]) as running,
            talking_to(running, url, tools=[slow]) as room,
        ):

            async def talk() -> None:
                async with room.turn("a") as turn:
                    await turn.agent.run("Go")

            talking = asyncio.create_task(talk())
            await called.wait()
            talking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await talking
            assert ended.is_set()
            async with room.turn("a") as turn:
                assert await turn.agent.history() == []
                assert await turn.agent.run("Hello?") == "Here I am."

    asyncio.run(chat())


def test_an_interruption_ends_the_request_and_keeps_what_was_said(
    url: str, endpoint: Any, patience: float
) -> None:
    async def chat() -> None:
        async with (
            endpoint(["Let me ", "think", ...], ["Here I am."]) as running,
            talking_to(running, url) as room,
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
                assert not turn.agent.interrupted
            assert texts(running.requests[1]["messages"]) == ["Hello", "Let me think", "Go on"]

    asyncio.run(chat())


def test_an_interruption_in_tools_tells_the_model_which_were_not_over(url: str, endpoint: Any) -> None:
    """What a tool has done is done, and a call without a result would be refused from then on."""

    async def chat() -> None:
        called, over = asyncio.Event(), asyncio.Event()

        async def quick() -> str:
            """Be quick."""
            await called.wait()
            over.set()
            return "done"

        async def slow() -> str:
            """Take long."""
            called.set()
            await asyncio.get_running_loop().create_future()
            return "never"

        calls = [call_of("quick", 1), call_of("slow", 2)]
        async with (
            endpoint(["Let me look.", *calls], ["Here I am."]) as running,
            talking_to(running, url, tools=[quick, slow]) as room,
        ):
            async with room.turn("a") as turn:
                answering = asyncio.create_task(turn.agent.run("Go"))
                await over.wait()
                turn.agent.interrupt()
                assert await answering == "Let me look."
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go on") == "Here I am."
            messages = running.requests[1]["messages"]
            both = ["tool_result", "tool_result"]
            assert kinds(messages) == ["text", ["text", "tool_use", "tool_use"], both, "text"]
            quick_result, slow_result = messages[2]["content"]
            assert quick_result["content"] == "done"
            assert "is_error" not in quick_result
            assert slow_result["is_error"]
            assert "interrupted" in slow_result["content"]

    asyncio.run(chat())


def test_an_interruption_after_a_tool_keeps_the_call_and_its_result(url: str, endpoint: Any) -> None:
    async def chat() -> None:
        async with (
            endpoint([call_of("weather", city="Rome")], ["It is", ...], ["Here."]) as running,
            talking_to(running, url, tools=[weather]) as room,
        ):
            async with room.turn("a") as turn:
                said = await heard(turn.agent.stream("Weather?"), "It is", turn.agent.interrupt)
                assert said == "It is"
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go on") == "Here."
            messages = running.requests[2]["messages"]
            assert kinds(messages) == ["text", ["tool_use"], ["tool_result"], ["text"], "text"]
            assert texts(messages) == ["Weather?", "It is", "Go on"]

    asyncio.run(chat())


def search_of(number: int) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": f"s{number}", "name": "web_search", "input": {}}


def found_of(number: int) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": f"s{number}", "content": []}


@pytest.mark.parametrize("cut", ["interrupted", "max_tokens"])
def test_a_search_without_its_result_is_not_kept_of_an_answer_that_is_cut_after_pauses(
    url: str, endpoint: Any, cut: str
) -> None:
    """The API would refuse the conversation from then on."""

    async def chat() -> None:
        pause = {"stop": "pause_turn"}
        answers = [
            ["I search. ", search_of(1), pause],
            [found_of(1), "And again. ", THOUGHT, search_of(2), pause],
            [found_of(2), "Found", ... if cut == "interrupted" else {"stop": cut}],
            ["Here."],
        ]
        async with endpoint(*answers) as running, talking_to(running, url) as room:
            async with room.turn("a") as turn:
                until = "I search. And again. Found" if cut == "interrupted" else None
                await heard(turn.agent.stream("Go"), until, turn.agent.interrupt)
                assert turn.agent.interrupted == (cut == "interrupted")
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go on") == "Here."
            sent = running.requests[3]["messages"]
            first = ["text", "server_tool_use"]
            assert kinds(sent) == ["text", first, ["web_search_tool_result", "text"], ["text"], "text"]
            assert texts(sent) == ["Go", "I search. ", "And again. ", "Found", "Go on"]

    asyncio.run(chat())


def test_a_search_that_waits_for_a_tool_is_not_kept_if_that_is_interrupted(
    url: str, endpoint: Any
) -> None:
    async def chat() -> None:
        called = asyncio.Event()

        async def slow() -> str:
            """Take long."""
            called.set()
            await asyncio.get_running_loop().create_future()
            return "never"

        async with (
            endpoint([search_of(1), call_of("slow")], ["Here."]) as running,
            talking_to(running, url, tools=[slow]) as room,
        ):
            async with room.turn("a") as turn:
                answering = asyncio.create_task(turn.agent.run("Go"))
                await called.wait()
                turn.agent.interrupt()
                await answering
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go on") == "Here."
            assert kinds(running.requests[1]["messages"]) == [
                "text",
                ["tool_use"],
                ["tool_result"],
                "text",
            ]

    asyncio.run(chat())


def test_an_interruption_before_the_first_word_keeps_nothing(url: str, endpoint: Any) -> None:
    async def chat() -> None:
        async with endpoint([...]) as running, talking_to(running, url) as room, room.turn("a") as turn:
            begun = asyncio.Event()
            stream = turn.agent.client.messages.stream

            def beginning(**request: Any) -> Any:
                begun.set()
                return stream(**request)

            turn.agent.client.messages.stream = beginning
            answering = asyncio.create_task(turn.agent.run("Hello"))
            await begun.wait()
            turn.agent.interrupt()
            assert await answering == ""
            assert await turn.agent.history() == []

    asyncio.run(chat())


def test_a_pause_is_gone_on_after(url: str, endpoint: Any) -> None:
    async def chat() -> None:
        pause = {"stop": "pause_turn"}
        async with (
            endpoint(["I search. ", search_of(1), pause], [found_of(1), "Found."]) as running,
            talking_to(running, url) as room,
            room.turn("a") as turn,
        ):
            assert await turn.agent.run("Go") == "I search. Found."
            again = running.requests[1]["messages"]
            assert kinds(again) == ["text", ["text", "server_tool_use"]]
            kept = [["text", "server_tool_use"], ["web_search_tool_result", "text"]]
            assert kinds(await turn.agent.history())[1:] == kept

    asyncio.run(chat())


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "signed"}


@pytest.mark.parametrize(
    ("parts", "said", "kept"),
    [
        (["So ", "far", {"stop": "max_tokens"}], "So far", ["text", ["text"]]),
        (["So far", call_of("weather"), {"stop": "max_tokens"}], "So far", ["text", ["text"]]),
        (["So far", {"stop": "model_context_window_exceeded"}], "So far", ["text", ["text"]]),
        (["So far", {"stop": "what is new"}], "So far", ["text", ["text"]]),
        ([THOUGHT, "Yes.", {"stop": "stop_sequence"}], "Yes.", ["text", ["thinking", "text"]]),
        ([THOUGHT, {"stop": "max_tokens"}], "", []),
        ([THOUGHT], "", []),
        (["\n\n"], "\n\n", []),
        ([], "", []),
        (["I cannot", {"stop": "refusal"}], "I cannot", []),
    ],
)
def test_what_is_kept_depends_on_why_a_message_ended(
    url: str, endpoint: Any, parts: list[Any], said: str, kept: list[Any]
) -> None:
    async def chat() -> None:
        async with (
            endpoint(parts, ["Here I am."]) as running,
            talking_to(running, url, tools=[weather]) as room,
        ):
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go") == said
                assert kinds(await turn.agent.history()) == kept
                reasons = [part["stop"] for part in parts if isinstance(part, dict) and "stop" in part]
                assert [turn.agent.message.stop_reason] == (reasons or ["end_turn"])
            async with room.turn("a") as turn:
                assert await turn.agent.run("Go on") == "Here I am."

    asyncio.run(chat())


def test_thoughts_before_a_call_are_sent_back_as_they_came(url: str, endpoint: Any) -> None:
    async def chat() -> None:
        async with (
            endpoint([THOUGHT, " ", call_of("weather", city="Rome")], ["Sunny."]) as running,
            talking_to(running, url, tools=[weather]) as room,
            room.turn("a") as turn,
        ):
            await turn.agent.run("Weather?")
            (thought, call) = running.requests[1]["messages"][1]["content"]
            assert thought == THOUGHT
            assert call["input"] == {"city": "Rome"}

    asyncio.run(chat())


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([[call_of("weather", city="Rome")], ["So far", {"stop": None}]], "middle of a message"),
        ([[call_of("weather", city="Rome")], [{"stop": "pause_turn"}]], "not come to an answer"),
    ],
    ids=["cut", "no end"],
)
def test_a_run_that_fails_tells_its_error_and_keeps_nothing(
    url: str, endpoint: Any, answers: list[Any], error: str
) -> None:
    """T4"""

    async def chat() -> None:
        async with (
            endpoint(*answers, ["Here I am."]) as running,
            talking_to(running, url, tools=[weather], max_rounds=1) as room,
        ):
            turn = room.turn("a")

            async def talk() -> None:
                async with turn:
                    await turn.agent.run("Weather?")

            with pytest.raises(RuntimeError, match=error):
                await talk()
            assert not turn.completed
            async with room.turn("a") as turn:
                assert await turn.agent.history() == []
                assert await turn.agent.run("Hello?") == "Here I am."

    asyncio.run(chat())


def test_an_error_of_the_api_reaches_the_caller(endpoint: Any) -> None:
    async def chat() -> None:
        async with (
            endpoint() as running,
            talking_to(running, None) as room,
            room.turn("a", ephemeral=True) as turn,
        ):
            with pytest.raises(APIStatusError, match="non-whitespace"):
                await turn.agent.run("  ")
            assert await turn.agent.history() == []

    asyncio.run(chat())


def test_after_so_many_rounds_of_tools_the_model_has_to_answer(endpoint: Any) -> None:
    async def chat() -> None:
        calls = [[call_of("weather", number, city="Rome")] for number in (1, 2)]
        async with (
            endpoint(*calls, ["Sunny."]) as running,
            talking_to(running, None, tools=[weather], max_rounds=2) as room,
            room.turn("a") as turn,
        ):
            assert await turn.agent.run("Weather?") == "Sunny."
            choices = [request.get("tool_choice") for request in running.requests]
            assert choices == [None, None, {"type": "none"}]

    asyncio.run(chat())
