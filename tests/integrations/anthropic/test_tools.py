"""The tools of a conversation with Claude: what the model is told of them, and of what goes wrong."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest
from anthropic import beta_tool  # pyright: ignore[reportAttributeAccessIssue]  # not from this folder
from anthropic.lib.tools import ToolError

from greenroom.integrations._anthropic_tools import Toolbox

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def call(toolbox: Toolbox, name: str, **given: Any) -> dict[str, Any]:
    """Run one call, and return what the model is told."""
    results: dict[str, Any] = {}
    asyncio.run(toolbox.run([{"id": "call-1", "name": name, "input": given}], results))
    assert list(results) == ["call-1"]
    return results["call-1"]


def test_a_function_is_described_by_its_types_and_its_docstring() -> None:
    def add(a: int, b: int = 1) -> str:
        """Add two numbers."""
        return str(a + b)

    toolbox = Toolbox([add])
    (definition,) = toolbox.definitions
    assert (definition["name"], definition["description"]) == ("add", "Add two numbers.")
    assert definition["input_schema"]["required"] == ["a"]
    assert call(toolbox, "add", a=2) == {
        "type": "tool_result",
        "tool_use_id": "call-1",
        "content": "3",
    }


def test_a_tool_of_the_sdk_is_taken_as_it_is() -> None:
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    toolbox = Toolbox([beta_tool(add, name="sum", cache_control={"type": "ephemeral"})])
    assert toolbox.definitions[0]["cache_control"] == {"type": "ephemeral"}
    assert call(toolbox, "sum", a=2, b=3)["content"] == "5"


def test_a_sync_tool_runs_on_a_thread_with_the_callers_context_variables() -> None:
    def whoami() -> str:
        """Tell who is asking."""
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return who.get()

    token = who.set("Ada")
    try:
        assert call(Toolbox([whoami]), "whoami")["content"] == "Ada"
    finally:
        who.reset(token)


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (None, ""),
        (7, "7"),
        ({"a": "ä"}, '{"a": "ä"}'),
        (["a", "b"], '["a", "b"]'),
        ([], "[]"),
        (b"a", "\"b'a'\""),
        ("half \ud83d", "half ?"),
        (({"type": "text", "text": "a"},), [{"type": "text", "text": "a"}]),
        (" \n", ""),
        ([{"type": "text", "text": " "}], ""),
    ],
)
def test_whatever_a_tool_returns_the_model_is_told(result: Any, content: Any) -> None:
    async def tell() -> Any:
        """Tell it."""
        return result

    assert call(Toolbox([tell]), "tell")["content"] == content


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (LookupError("no such city"), "LookupError: no such city"),
        (ToolError([{"type": "text", "text": "closed"}]), [{"type": "text", "text": "closed"}]),
        (LookupError("half \ud83d"), "LookupError: half ?"),
        (ToolError(""), "the tool failed"),
        (asyncio.CancelledError("lost"), "CancelledError: lost"),
    ],
)
def test_a_tool_that_raises_is_a_result_with_an_error(error: BaseException, content: Any) -> None:
    async def fail() -> str:
        """Fail."""
        raise error

    result = call(Toolbox([fail]), "fail")
    assert (result["is_error"], result["content"]) == (True, content)


def test_a_call_that_makes_no_sense_is_a_result_with_an_error() -> None:
    async def add(a: int) -> str:
        """Add one."""
        return str(a + 1)

    assert "Invalid arguments" in call(Toolbox([add]), "add", a="x")["content"]
    assert call(Toolbox([add]), "subtract")["content"] == "there is no tool 'subtract'"


def test_two_tools_of_one_name_are_refused_and_so_is_what_is_no_tool() -> None:
    def add() -> str:
        """Add nothing."""
        return "0"

    with pytest.raises(ValueError, match="two tools called 'add'"):
        Toolbox([add, add])
    with pytest.raises(TypeError, match="a tool is a function"):
        Toolbox(["add"])
