"""Tools: what a model is told about them, and that a call never fails."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Optional

import pytest

from greenroom.gateway.agents import ToolRegistry, load_tools
from greenroom.gateway.agents.tools import LONGEST_RESULT, MOST_LEFT_BEHIND
from tests.gateway.agents.plays import PATIENCE, on_a_loop

here: contextvars.ContextVar[str] = contextvars.ContextVar("here", default="nowhere")


@pytest.fixture
def tools() -> ToolRegistry:
    return ToolRegistry()


# What a model is told


def test_a_function_is_described_by_its_name_docstring_and_annotations(tools: ToolRegistry) -> None:
    @tools.tool
    def light(
        room: str,
        level: int,
        warmth: float = 0.5,
        on: bool = True,
        mode: Literal["day", "night"] = "day",
        tags: list[str] | None = None,
        more: Optional[dict[str, int]] = None,  # noqa: UP045  # people write it
        anything: Any = None,
    ) -> str:
        """Switch the light
        of a room.

        This is for people.
        """
        return f"{room} {level} {warmth} {on} {mode} {tags} {more} {anything}"

    assert light("x", 1).startswith("x 1 0.5"), "the function stays as it is"
    assert tools.definitions() == [
        {
            "type": "function",
            "function": {
                "name": "light",
                "description": "Switch the light of a room.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "room": {"type": "string"},
                        "level": {"type": "integer"},
                        "warmth": {"type": "number", "default": 0.5},
                        "on": {"type": "boolean", "default": True},
                        "mode": {"enum": ["day", "night"], "default": "day"},
                        "tags": {
                            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                            "default": None,
                        },
                        "more": {
                            "anyOf": [
                                {"type": "object", "additionalProperties": {"type": "integer"}},
                                {"type": "null"},
                            ],
                            "default": None,
                        },
                        "anything": {"default": None},
                    },
                    "additionalProperties": False,
                    "required": ["room", "level"],
                },
            },
        }
    ]
    json.dumps(tools.definitions())


def test_name_and_description_can_be_given(tools: ToolRegistry) -> None:
    @tools.tool(name="say-it", description="Says it.")
    def f() -> None: ...

    assert tools.definitions()[0]["function"]["name"] == "say-it"
    assert tools.definitions()[0]["function"]["description"] == "Says it."
    assert "say-it" in tools
    assert len(tools) == 1
    assert repr(tools) == "<ToolRegistry: say-it>"


@pytest.fixture
def two(tools: ToolRegistry) -> ToolRegistry:
    @tools.tool(toolset="b")
    def second() -> str:
        """Second."""
        return "2"

    @tools.tool(toolset="a")
    def first() -> str:
        """First."""
        return "1"

    return tools


def names(definitions: list[dict[str, Any]]) -> list[str]:
    return [definition["function"]["name"] for definition in definitions]


def test_toolsets_choose_tools(two: ToolRegistry) -> None:
    assert two.toolsets == ("a", "b")
    assert names(two.definitions(["a"])) == ["first"]
    assert names(two.definitions(["b", "a"])) == names(two.definitions()) == ["second", "first"]
    assert two.definitions([]) == []
    with pytest.raises(ValueError, match="no toolset 'c', 'd': there is a, b"):
        two.definitions(["a", "d", "c"])


def test_definitions_are_everybodys_own_and_know_tools_that_come_later(two: ToolRegistry) -> None:
    """X2"""
    two.definitions()[0]["function"]["name"] = "spoilt"

    @two.tool
    def third() -> None:
        """Third."""

    assert names(two.definitions()) == ["second", "first", "third"]


def test_a_tool_may_be_added_while_the_toolsets_are_read(tools: ToolRegistry) -> None:
    def something() -> None:
        """Something."""

    class Name(str):
        """While it is read, another tool is added."""

        def __hash__(self) -> int:
            if len(tools) == 1:
                tools.tool(name="second", toolset="b")(something)
            return super().__hash__()

    tools.tool(name="first", toolset=Name("a"))(something)
    assert [tools.toolsets, tools.toolsets] == [("a",), ("a", "b")]


# What is no tool


def test_what_a_model_could_not_give_is_refused_when_the_tool_is_made(tools: ToolRegistry) -> None:
    def wrong(when: set[str]) -> None:
        """Wrong."""

    def bare(when) -> None:  # type: ignore[no-untyped-def]  # that is the mistake
        """Wrong."""

    def starred(*when: str) -> None:
        """Wrong."""

    def numbered(when: dict[int, str]) -> None:
        """Wrong."""

    for function, message in (
        (wrong, "parameter 'when' of the tool 'wrong' is annotated with"),
        (bare, "parameter 'when' of the tool 'bare' has no annotation"),
        (starred, "cannot be given by name"),
        (numbered, "no JSON"),
    ):
        with pytest.raises(TypeError, match=message):
            tools.tool(function)
    assert len(tools) == 0


def test_a_tool_needs_a_name_a_description_and_some_time(tools: ToolRegistry) -> None:
    def nothing() -> None: ...

    with pytest.raises(ValueError, match="'nothing' has no docstring"):
        tools.tool(nothing)
    for name in ("a b", "7", "x" * 65, "für"):
        with pytest.raises(ValueError, match="cannot name a tool"):
            tools.tool(name=name, description="It.")(nothing)
    with pytest.raises(ValueError, match="seconds of the tool 'n' must be"):
        tools.tool(name="n", description="It.", seconds=0)(nothing)
    tools.tool(name="n", description="It.")(nothing)
    with pytest.raises(ValueError, match="there is a tool 'n' already"):
        tools.tool(name="n", description="It.")(nothing)
    with pytest.raises(ValueError, match="seconds must be"):
        ToolRegistry(seconds=-1)


# Calls


@pytest.fixture
def house(tools: ToolRegistry) -> ToolRegistry:
    @tools.tool(toolset="house")
    def light(room: str, level: int = 1, mode: Literal["day", 1] = "day") -> str:
        """Switch."""
        return f"{room}: {level!r} {mode}"

    @tools.tool
    async def nested(rows: list[dict[str, float]], name: str | None = None) -> Any:
        """Nested."""
        return [rows, name]

    @tools.tool
    def fails(with_what: str = "x") -> None:
        """Fail."""
        raise LookupError(with_what)

    @tools.tool
    def leaves() -> None:
        """Leave."""
        sys.exit(3)

    @tools.tool
    async def leaves_the_loop() -> None:
        """Leave."""
        sys.exit(3)

    @tools.tool
    def stops() -> None:
        """Stop."""
        raise StopIteration

    @tools.tool
    def nothing() -> None:
        """Nothing."""

    return tools


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("light", '{"room": "hall"}', "hall: 1 day"),
        ("light", '{"room": "hall", "level": 2.0, "mode": 1}', "hall: 2 1"),
        ("nested", '{"rows": [{"a": 1}]}', '[[{"a": 1.0}], null]'),
        ("nested", '{"rows": [], "name": "ü"}', '[[], "ü"]'),
        ("nothing", "", "Done."),
        ("nothing", "{}", "Done."),
        ("dark", "{}", "Error: there is no tool 'dark'."),
        ("light", "{room", "Error: the arguments for 'light' cannot be read as JSON"),
        ("light", "[" * 100_000, "Error: the arguments for 'light' cannot be read as JSON"),
        ("light", "[]", "Error: the tool 'light' must be an object, not []."),
        ("light", "{}", "Error: the tool 'light' needs room."),
        (
            "light",
            '{"room": "x", "x": 1}',
            "Error: the tool 'light' has no x: it has room, level, mode.",
        ),
        ("nothing", '{"x": 1}', "Error: the tool 'nothing' has no x: it has nothing."),
        ("light", '{"room": 7}', "Error: room must be a string, not 7."),
        ("light", '{"room": "x", "level": "1"}', "Error: level must be an integer, not '1'."),
        ("light", '{"room": "x", "level": true}', "Error: level must be an integer, not True."),
        ("light", '{"room": "x", "level": 1.5}', "Error: level must be an integer, not 1.5."),
        ("light", '{"room": "x", "mode": true}', "Error: mode must be one of 'day', 1, not True."),
        ("nested", '{"rows": [{"a": "b"}]}', "Error: rows[0]['a'] must be a number, not 'b'."),
        ("nested", '{"rows": [1]}', "Error: rows[0] must be an object, not 1."),
        ("nested", '{"rows": [{"a": 1' + "0" * 400 + "}]}", "Error: the arguments for 'nested' cannot"),
        (
            "nested",
            '{"rows": [], "name": 1}',
            "Error: name must be a string, not 1; or name must be null, not 1.",
        ),
        ("fails", "{}", "Error: the tool 'fails' failed: LookupError: x"),
        ("leaves", "{}", "Error: the tool 'leaves' failed: SystemExit: 3"),
        ("leaves_the_loop", "{}", "Error: the tool 'leaves_the_loop' failed: SystemExit: 3"),
        ("stops", "{}", "Error: the tool 'stops' failed: StopIteration:"),
    ],
)
@on_a_loop
async def test_a_call_says_what_came_of_it(
    house: ToolRegistry, name: str, arguments: str, result: str
) -> None:
    assert (await house.call(name, arguments)).startswith(result)


@on_a_loop
async def test_a_tool_of_another_toolset_is_not_there(house: ToolRegistry) -> None:
    arguments = '{"room": "x"}'
    assert await house.call("light", arguments, toolsets=["house"]) == "x: 1 day"
    assert await house.call("light", arguments, toolsets=[]) == "Error: there is no tool 'light'."


@on_a_loop
async def test_the_context_is_filled_in_and_no_business_of_the_model(tools: ToolRegistry) -> None:
    @tools.tool
    def whose(context: Any, loud: bool = False) -> str:
        """Tell."""
        return f"{context} {loud}"

    assert list(tools.definitions()[0]["function"]["parameters"]["properties"]) == ["loud"]
    assert await tools.call("whose", "{}", context="mine") == "mine False"
    assert "has no context" in await tools.call("whose", '{"context": "yours"}', context="mine")


@on_a_loop
async def test_a_result_that_is_too_long_is_cut(tools: ToolRegistry) -> None:
    @tools.tool
    def long() -> str:
        """Long."""
        return "x" * (LONGEST_RESULT + 1)

    result = await tools.call("long", "{}")
    assert result.startswith("x" * LONGEST_RESULT + "\n(cut here")
    assert f"{LONGEST_RESULT + 1} characters" in result


@on_a_loop
async def test_a_sync_tool_runs_off_the_loop_with_the_callers_context(tools: ToolRegistry) -> None:
    @tools.tool
    def where() -> str:
        """Tell."""
        return f"{threading.current_thread() is threading.main_thread()} {here.get()}"

    here.set("here")
    assert await tools.call("where", "{}") == "False here"


@on_a_loop
async def test_what_a_sync_function_returns_may_have_to_be_waited_for(tools: ToolRegistry) -> None:
    async def later() -> str:
        return "later"

    @tools.tool
    def soon() -> Any:
        """Later."""
        return later()

    assert await tools.call("soon", "{}") == "later"


@on_a_loop
async def test_an_async_tool_that_takes_too_long_is_cancelled(tools: ToolRegistry) -> None:
    ended = asyncio.Event()

    @tools.tool(seconds=0.01)
    async def slow() -> None:
        """Slow."""
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    said = await tools.call("slow", "{}")
    assert said == "Error: the tool 'slow' did not end within 0.01 seconds."
    assert ended.is_set()


@on_a_loop
async def test_a_tools_own_timeout_is_a_failure_like_any_other(tools: ToolRegistry) -> None:
    @tools.tool
    def times_out() -> None:
        """Fail."""
        raise TimeoutError("the house did not answer")

    said = await tools.call("times_out", "{}")
    assert said == "Error: the tool 'times_out' failed: TimeoutError: the house did not answer"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What stuck tools wait for. It is opened after the test, whatever became of that."""
    gate = threading.Event()
    yield gate
    gate.set()


@on_a_loop
async def test_a_sync_tool_that_is_stuck_is_left_behind_and_not_called_for_ever(
    tools: ToolRegistry, gate: threading.Event
) -> None:
    @tools.tool(seconds=0.01)
    def stuck() -> None:
        """Stuck."""
        gate.wait(PATIENCE)

    for _ in range(MOST_LEFT_BEHIND):
        assert "did not end within" in await tools.call("stuck", "{}")
    assert f"{MOST_LEFT_BEHIND} calls of it are stuck" in await tools.call("stuck", "{}")
    left = [t for t in threading.enumerate() if t.name == "greenroom-tool-stuck"]
    assert len(left) == MOST_LEFT_BEHIND

    gate.set()
    for thread in left:
        await asyncio.to_thread(thread.join, PATIENCE)
    # Whether it is called again, and not whether a thread can be had within the hundredth of a second.
    tools._tools["stuck"] = replace(tools._tools["stuck"], seconds=PATIENCE)
    assert await tools.call("stuck", "{}") == "Done."


@on_a_loop
async def test_cancelling_a_call_ends_it(tools: ToolRegistry, gate: threading.Event) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @tools.tool
    def stuck() -> None:
        """Stuck."""
        loop.call_soon_threadsafe(begun.set)
        gate.wait(PATIENCE)

    task = asyncio.ensure_future(tools.call("stuck", "{}"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_a_tool_is_given_and_what_it_says_is_not_logged(
    house: ToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(house.call("fails", '{"with_what": "secret"}'))
    assert "the tool fails failed: LookupError" in caplog.text
    assert "secret" not in caplog.text


# By name


def test_a_registry_is_found_by_name() -> None:
    found = load_tools("greenroom.gateway.agents.included_tools:tools")
    assert found.toolsets == ("clock", "math", "memory")
    assert load_tools(found) is found


@pytest.mark.parametrize(
    ("where", "kind", "message"),
    [
        ("my_tools", ValueError, "tools='my_tools': give module:name"),
        (":tools", ValueError, "give module:name"),
        ("no.such.module:tools", ValueError, "no.such.module:tools.*No module named"),
        ("json:tools", ValueError, "no attribute 'tools'"),
        ("json:dumps", TypeError, "that is a function, and not a ToolRegistry"),
    ],
)
def test_a_registry_that_is_not_there_is_named(where: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        load_tools(where)
