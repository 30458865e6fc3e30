"""The agent on the `openai` client, against a real endpoint on loopback."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from greenroom import Generation, Greenroom
from greenroom.gateway._agent import BadRequest, Unavailable
from greenroom.gateway.agents import (
    Misconfigured,
    OpenAIAgent,
    OpenAIOptions,
    ToolRegistry,
    openai_agent,
)
from greenroom.gateway.agents._upstream import translated
from tests.gateway.agents.endpoint import Endpoint, Reply, call, chunk, said, usage
from tests.gateway.agents.plays import (
    PATIENCE,
    Context,
    Heard,
    assistant,
    listen,
    on_a_loop,
    request,
    system,
    user,
)


@pytest.fixture(autouse=True)
def no_settings_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def playing(*replies: Reply, **options: Any) -> AsyncIterator[tuple[OpenAIAgent, Endpoint]]:
    """An agent, and the endpoint that it asks."""
    context = options.pop("context", None) or Context()
    async with Endpoint(*replies) as endpoint:
        chosen = {"model": "m", "api_key": "sk-secret", "max_retries": 0, "base_url": endpoint.url}
        agent = await asyncio.to_thread(openai_agent, context.it, **{**chosen, **options})
        try:
            yield agent, endpoint
        finally:
            await agent.close()


async def ask(agent: OpenAIAgent, *messages: Any, **more: Any) -> Heard:
    return await listen(agent.answer(request(*messages, **more)))


# Answers


@on_a_loop
async def test_an_answer_is_streamed_as_it_comes() -> None:
    gate = asyncio.Event()
    reply = Reply([chunk("Hel"), gate, chunk("lo"), chunk(finish="stop"), usage(3, 2)])
    async with playing(reply) as (agent, endpoint):
        answer = agent.answer(request("hi"))
        assert await anext(answer) == "Hel"  # while the endpoint is still at it
        gate.set()
        heard = await listen(answer)
        assert heard.text == "lo"
        assert heard.finish == "stop"
        assert heard.usage is not None
        assert (heard.usage.prompt_tokens, heard.usage.completion_tokens) == (3, 2)
        assert agent.transcript.messages == (user("hi"), assistant("Hello"))
    assert endpoint.keys == ["bearer sk-secret"]
    assert endpoint.requests == [
        {
            "model": "m",
            "messages": [user("hi")],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


@on_a_loop
async def test_the_model_gets_the_instructions_and_the_conversation() -> None:
    async with playing(said("2"), said("4"), system_prompt="Be kind.") as (agent, endpoint):
        await ask(agent, system("Be brief."), "1")
        await ask(agent, system("Be brief."), "1", assistant("2"), "3", instructions="Rhyme.")
    assert endpoint.requests[0]["messages"] == [system("Be kind.\n\nBe brief."), user("1")]
    assert endpoint.requests[1]["messages"] == [
        system("Be kind.\n\nBe brief.\n\nRhyme."),
        user("1"),
        assistant("2"),
        user("3"),
    ]


@on_a_loop
async def test_what_the_client_may_decide_is_passed_on_and_nothing_else() -> None:
    options = {"temperature": 0.5, "max_tokens": 7, "n": 3, "model": "x", "tools": [], "user": "u"}
    async with playing(said("x"), parameters={"temperature": 1.0, "seed": 1}) as (agent, endpoint):
        await ask(agent, "hi", model="x", options=options)
    sent = endpoint.requests[0]
    assert (sent["model"], sent["temperature"], sent["max_tokens"], sent["seed"]) == ("m", 0.5, 7, 1)
    assert sent.keys().isdisjoint({"n", "tools", "user"})


@pytest.mark.parametrize(
    ("finish", "told"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "content_filter"), ("odd", "stop")],
)
@on_a_loop
async def test_the_reason_for_which_it_ends_is_told(finish: str, told: str) -> None:
    async with playing(said("x", finish=finish)) as (agent, _):
        assert (await ask(agent, "hi")).finish == told


@on_a_loop
async def test_an_endpoint_that_cannot_tell_what_it_took_is_asked_no_more() -> None:
    refusal = Reply(status=400, error="unknown field stream_options")
    async with playing(refusal, said("1"), said("2")) as (agent, endpoint):
        heard = await ask(agent, "hi")
        assert (heard.text, heard.usage) == ("1", None)
        assert (await ask(agent, "hi")).text == "2"
    assert ["stream_options" in sent for sent in endpoint.requests] == [True, False, False]


@on_a_loop
async def test_a_refusal_of_the_models_is_text_too() -> None:
    refusal = chunk()
    refusal["choices"][0]["delta"] = {"refusal": "I will not."}
    async with playing(Reply([refusal, chunk(finish="stop")])) as (agent, _):
        assert (await ask(agent, "hi")).text == "I will not."


@on_a_loop
async def test_a_character_that_comes_in_two_halves_is_put_together() -> None:
    async with playing(said("It is \ud83c", "\udfad", "", " and \udfad", "\ud83c")) as (agent, _):
        heard = await ask(agent, "hi")
        assert heard.text == "It is 🎭 and \ufffd"
        assert agent.transcript.messages == (user("hi"), assistant(heard.text))


@on_a_loop
async def test_an_ephemeral_request_leaves_nothing() -> None:
    async with playing(said("x")) as (agent, _):
        await ask(agent, "hi", ephemeral=True)
        assert len(agent.transcript) == 0


# Tools


@pytest.fixture
def tools() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(toolset="t")
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    @tools.tool(toolset="other")
    def hidden() -> str:
        """Not offered."""
        return "secret"

    return tools


def calls(*parts: dict[str, Any]) -> Reply:
    return Reply([chunk(calls=[part]) for part in parts] + [chunk(finish="tool_calls"), usage(10, 5)])


@on_a_loop
async def test_tools_are_called_in_rounds_until_the_model_answers(tools: ToolRegistry) -> None:
    first = calls(
        call(0, "double", "", "c1"),
        call(0, None, '{"num'),
        call(1, "double", '{"number": "x"}', "c2"),
        call(0, None, 'ber": 4}'),
    )
    second = Reply([chunk("Hm. "), *calls(call(0, "hidden", "{}", "c3")).chunks])
    third = said("It is 8.", more=[usage(30, 7)])
    async with playing(first, second, third, tools=tools, toolsets="t") as (agent, endpoint):
        heard = await ask(agent, "double 4")
        assert heard.text == "Hm. It is 8."
        assert heard.usage is not None
        assert (heard.usage.prompt_tokens, heard.usage.completion_tokens) == (50, 17)
        kept = agent.transcript.messages

    def asked(name: str, arguments: str, id_: str) -> dict[str, Any]:
        return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}

    asked_first = [asked("double", '{"number": 4}', "c1"), asked("double", '{"number": "x"}', "c2")]
    assert kept == (
        user("double 4"),
        {**assistant(""), "tool_calls": asked_first},
        {"role": "tool", "tool_call_id": "c1", "content": "8"},
        {
            "role": "tool",
            "tool_call_id": "c2",
            "content": "Error: number must be an integer, not 'x'.",
        },
        {**assistant("Hm. "), "tool_calls": [asked("hidden", "{}", "c3")]},
        {"role": "tool", "tool_call_id": "c3", "content": "Error: there is no tool 'hidden'."},
        assistant("It is 8."),
    )
    assert [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]] == ["double"]
    assert endpoint.requests[2]["messages"] == list(kept[:-1])


@on_a_loop
async def test_the_tools_of_one_round_run_together() -> None:
    registry = ToolRegistry()
    both = threading.Barrier(2, timeout=PATIENCE)

    @registry.tool
    def meet() -> str:
        """Wait for the other."""
        both.wait()
        return "met"

    reply = calls(call(0, "meet", "{}", "c1"), call(1, "meet", "{}", "c2"))
    async with playing(reply, said("ok"), tools=registry, toolsets=["*"]) as (agent, endpoint):
        assert (await ask(agent, "go")).text == "ok"
    assert [message["content"] for message in endpoint.requests[1]["messages"][-2:]] == ["met", "met"]


@on_a_loop
async def test_calls_that_come_whole_and_without_numbers_are_told_apart(tools: ToolRegistry) -> None:
    reply = calls(call(None, "double", '{"number": 1}'), call(None, "double", '{"number": 2}'))
    async with playing(reply, said("ok"), tools=tools, toolsets=["t"]) as (agent, endpoint):
        await ask(agent, "go")
    results = endpoint.requests[1]["messages"][-2:]
    assert [(r["tool_call_id"], r["content"]) for r in results] == [("call_0", "2"), ("call_1", "4")]


@on_a_loop
async def test_after_so_many_rounds_the_model_has_to_answer(tools: ToolRegistry) -> None:
    again = calls(call(0, "double", '{"number": 1}', "c"))
    async with playing(again, tools=tools, toolsets="t", max_tool_rounds=2) as (agent, endpoint):
        heard = await ask(agent, "go")
        assert heard.text == ""
        assert heard.finish == "stop"
        assert len(agent.transcript) == 5, "what was asked for last, and not done, is not kept"
    assert [sent.get("tool_choice") for sent in endpoint.requests] == [None, None, "none"]


@on_a_loop
async def test_the_included_tools_know_whose_agent_it_is() -> None:
    context = Context()
    context.resources.get("facts", lambda: {"you like tea": None})
    reply = calls(call(0, "facts", "{}", "c1"))
    async with playing(reply, said("ok"), toolsets="memory, clock", context=context) as (
        agent,
        endpoint,
    ):
        await ask(agent, "go")
    assert endpoint.requests[1]["messages"][-1]["content"] == '["you like tea"]'
    assert len(endpoint.requests[0]["tools"]) == 2


# Ending early


@on_a_loop
async def test_who_hangs_up_hangs_up_on_the_endpoint_too() -> None:
    reply = Reply([chunk("Hel"), asyncio.Event()])
    async with playing(reply) as (agent, endpoint):
        async with aclosing(agent.answer(request("hi"))) as answer:
            await anext(answer)
        await endpoint.hung_up.wait()
        assert len(agent.transcript) == 0


@on_a_loop
async def test_who_hangs_up_leaves_no_generator_of_the_client_to_the_collector() -> None:
    """It would be closed by whichever thread collects, while the loop closes what is in it."""
    usual: Any = sys.get_asyncgen_hooks().firstiter
    begun: list[Any] = []

    def begin(generator: Any) -> None:
        begun.append(generator)
        usual(generator)

    async with playing(Reply([chunk("Hel"), asyncio.Event()])) as (agent, endpoint):
        sys.set_asyncgen_hooks(firstiter=begin)
        try:
            async with aclosing(agent.answer(request("hi"))) as answer:
                await anext(answer)
        finally:
            sys.set_asyncgen_hooks(firstiter=usual)
        await endpoint.hung_up.wait()
        of_the_client = [g for g in begun if "openai/_" in Path(g.ag_code.co_filename).as_posix()]
        assert of_the_client
        assert [g for g in of_the_client if g.ag_frame is not None] == []


@on_a_loop
async def test_who_is_cancelled_while_waiting_hangs_up_on_the_endpoint_too() -> None:
    begun = asyncio.Event()
    async with playing(Reply([chunk("Hel"), asyncio.Event()])) as (agent, endpoint):

        async def listening() -> None:
            async for _ in agent.answer(request("hi")):
                begun.set()

        task = asyncio.ensure_future(listening())
        await begun.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await endpoint.hung_up.wait()
        assert len(agent.transcript) == 0


@on_a_loop
async def test_an_interrupted_answer_is_what_was_said_until_then() -> None:
    async with playing(Reply([chunk("Hel"), asyncio.Event()]), said("next")) as (agent, endpoint):
        heard = Heard()
        async for piece in agent.answer(request("hi")):
            heard.take(piece)
            if heard.finish is None:
                await asyncio.to_thread(agent.interrupt)
        assert (heard.text, heard.finish) == ("Hel", "stop")
        await endpoint.hung_up.wait()
        assert agent.transcript.messages == (user("hi"), assistant("Hel"))
        assert (await ask(agent, "and now?")).text == "next"


@on_a_loop
async def test_an_answer_that_is_interrupted_while_tools_run_keeps_no_call_without_a_result() -> None:
    registry = ToolRegistry()
    begun = asyncio.Event()

    @registry.tool
    async def stuck() -> None:
        """Wait."""
        begun.set()
        await asyncio.Future()

    reply = Reply([chunk("Hm."), *calls(call(0, "stuck", "{}", "c1")).chunks])
    async with playing(reply, tools=registry, toolsets="*") as (agent, _):
        task = asyncio.ensure_future(ask(agent, "hi"))
        await begun.wait()
        agent.interrupt()
        assert (await task).finish == "stop"
        assert agent.transcript.messages == (user("hi"), assistant("Hm."))


# Errors


def in_the_stream(kind: str, text: str) -> Reply:
    return Reply([chunk("x"), {"error": {"type": kind, "message": text}}])


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply(status=400, error="too many words"), BadRequest, "refused the request: too many words"),
        (Reply(status=413, error="too big"), BadRequest, "too big"),
        (Reply(status=422, error="odd"), BadRequest, "odd"),
        (Reply(status=401, error="bad key sk-secret"), Misconfigured, r"credentials \(status 401\)"),
        (Reply(status=403, error="bad key sk-secret"), Misconfigured, r"credentials \(status 403\)"),
        (Reply(status=404, error="no model m"), Misconfigured, "look at model and base_url"),
        (Reply(status=429, error="slow down"), Unavailable, "enough requests"),
        (Reply(status=500, error="oh"), Unavailable, "status 500"),
        (Reply(status=503, error="oh"), Unavailable, "status 503"),
        (Reply([chunk("x"), None]), Unavailable, "broke off"),
        (Reply([chunk("x"), '{"error": {"message": "oh"}}']), Unavailable, "broke off"),
        (Reply([chunk("x"), '{"error": "oh"}']), Unavailable, "broke off"),
        (Reply([chunk("x"), '{"choices": [{"del']), Unavailable, "broke off"),
        (Reply([]), Unavailable, "broke off before it said anything"),
        (in_the_stream("invalid_request_error", "too many words"), BadRequest, "too many words"),
        (in_the_stream("authentication_error", "bad key sk-secret"), Misconfigured, "credentials"),
        (in_the_stream("rate_limit_error", "slow down"), Unavailable, "enough requests"),
    ],
)
@on_a_loop
async def test_errors_of_the_endpoint_say_whose_fault_they_are(
    reply: Reply, kind: type[Exception], message: str
) -> None:
    async with playing(reply) as (agent, _):
        with pytest.raises(kind, match=message) as caught:
            await ask(agent, "hi")
        shown = "".join(traceback.format_exception(caught.value))
        assert "sk-secret" not in shown
        assert len(agent.transcript) == 0


def test_an_error_of_what_carries_the_requests_means_the_same_and_others_are_left_as_they_are() -> None:
    meant, _ = translated(httpx.ReadError("gone"))
    assert isinstance(meant, Unavailable)
    mine = LookupError("mine")
    assert translated(mine)[0] is mine


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
@on_a_loop
async def test_when_to_try_again_is_told(headers: dict[str, str], seconds: float | None) -> None:
    async with playing(Reply(status=429, error="slow down", headers=headers)) as (agent, _):
        with pytest.raises(Unavailable) as caught:
            await ask(agent, "hi")
    assert caught.value.retry_after == seconds


@on_a_loop
async def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    async with Endpoint(said("x")) as endpoint:
        url = endpoint.url
    async with playing(said("x"), base_url=url) as (agent, _):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await ask(agent, "hi")


@on_a_loop
async def test_an_endpoint_that_says_nothing_is_given_up() -> None:
    async with playing(Reply([asyncio.Event()]), timeout=0.05) as (agent, _):
        with pytest.raises(Unavailable, match="did not answer in time"):
            await ask(agent, "hi")


@on_a_loop
async def test_what_fails_for_a_moment_is_tried_again() -> None:
    busy = Reply(status=503, error="busy", headers={"retry-after-ms": "1"})
    async with playing(busy, said("x"), max_retries=1) as (agent, endpoint):
        assert (await ask(agent, "hi")).text == "x"
    assert len(endpoint.requests) == 2


# Options


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, TypeError, "model"),
        ({"model": ""}, ValueError, "model is empty"),
        ({"model": 7}, TypeError, "model must be text, not 7"),
        (
            {"model": "m", "toolsets": ["no"]},
            ValueError,
            "no toolset 'no': there is clock, math, memory",
        ),
        ({"model": "m", "tools": "no"}, ValueError, "give module:name"),
        ({"model": "m", "timeout": 0}, ValueError, "timeout must be"),
        ({"model": "m", "max_tool_rounds": -1}, ValueError, "max_tool_rounds must be"),
        ({"model": "m", "max_retries": 1.5}, ValueError, "max_retries must be"),
        ({"model": "m", "colour": "red"}, TypeError, "colour"),
        ({"model": "m", "api_key": None}, ValueError, "set OPENAI_API_KEY"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    given = {"api_key": "sk-secret", **options}
    with pytest.raises(kind, match=message):
        openai_agent(Context().it, **given)
    with pytest.raises(kind, match=message):
        openai_agent.options(**given)  # type: ignore[attr-defined]  # the server finds it by name


def test_the_key_comes_from_the_environment_and_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    assert OpenAIOptions(model="m").key == "sk-from-the-environment"
    options = OpenAIOptions(model="m", api_key="sk-secret")
    assert options.key == "sk-secret"
    assert "sk-" not in repr(options)


def test_an_endpoint_of_ones_own_needs_no_key() -> None:
    assert OpenAIOptions(model="m", base_url="http://127.0.0.1:1/v1").key is None


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'greenroom\[agents\]'"):
        openai_agent(Context().it, model="m", api_key="x")


# In a room


@on_a_loop
async def test_in_a_room_it_remembers_and_its_connections_go_when_it_is_released(tmp_path: Path) -> None:
    async with Endpoint(said("hello"), said("again")) as endpoint:

        def build(context: Any) -> Any:
            return openai_agent(context, model="m", base_url=endpoint.url)

        url = f"sqlite:///{tmp_path / 'greenroom.db'}"
        async with Greenroom(build, store=url, durability="normal") as room:
            async with room.turn("a") as turn:
                await listen(turn.agent.answer(request("my name is Ada")))
            assert endpoint.connections == 1, "it is kept for the next turn"
            await room.session("a").evict()
            await asyncio.to_thread(room.settle, 10.0)
            await endpoint.left.wait()
            async with room.turn("a") as turn:
                await listen(turn.agent.answer(request("hi")))
            assert room.stats().commits == 1
    assert endpoint.requests[1]["messages"] == [
        system("What the user has told in earlier conversations:\n- your name is Ada"),
        user("my name is Ada"),
        assistant("hello"),
        user("hi"),
    ]


@on_a_loop
async def test_without_memory_nothing_is_found_and_nothing_told() -> None:
    context = Context()
    context.resources.get("facts", lambda: {"you like tea": None})
    async with playing(said("x"), memory=False, context=context) as (agent, endpoint):
        await ask(agent, "my name is Ada")
        await agent.commit_memory_session(Generation(1, None))
        assert agent.memory.facts == ("you like tea",)
    assert endpoint.requests[0]["messages"] == [user("my name is Ada")]
