"""The tools of a conversation with Claude: what the model is told of them, and how its calls are run.

Calls that the model makes at once run at once: async tools on the loop, sync ones on threads. Whatever
goes wrong in one, the model is told, and may try again.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import anthropic
from anthropic.lib.tools import ToolError

__all__ = ["Toolbox", "interrupted"]

logger = logging.getLogger("greenroom.integrations")

sdk: Any = anthropic  # which a checker that begins in this folder takes for our module of that name


class Toolbox:
    """Tools by name. It is not changed, and may serve any number of conversations."""

    def __init__(self, tools: Iterable[Any]) -> None:
        self.definitions: list[Any] = []
        """What requests say of them, in the order in which they were given: prompts are cached by their
        beginning, and this is a part of it."""
        self._tools: dict[str, Any] = {}
        for given in tools:
            self._add(given)

    def _add(self, given: Any) -> None:
        if isinstance(given, Mapping):
            self.definitions.append(given)
            return
        tool = given
        if inspect.isroutine(given):
            tool = (
                sdk.beta_async_tool(given)
                if inspect.iscoroutinefunction(given)
                else sdk.beta_tool(given)
            )
        if not callable(getattr(tool, "call", None)) or not callable(getattr(tool, "to_dict", None)):
            msg = f"a tool is a function, one of the SDK's, or a definition in a dict, not {given!r}"
            raise TypeError(msg)
        if tool.name in self._tools:
            raise ValueError(f"there are two tools called {tool.name!r}: give each a name of its own")
        self.definitions.append(tool.to_dict())
        self._tools[tool.name] = tool

    async def run(self, calls: list[dict[str, Any]], results: dict[str, Any]) -> None:
        """Run calls. What comes of each is put into `results` as it comes, by the call's id."""
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(self._run(call, results))

    async def _run(self, call: dict[str, Any], results: dict[str, Any]) -> None:
        try:
            result = {"content": _as_content(await self._call(call["name"], call["input"]))}
        except ToolError as error:
            # The API takes an empty result, but no empty error.
            result = {"content": _as_content(error.content) or "the tool failed", "is_error": True}
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # we are cancelled, and not something that the tool was waiting for
            logger.debug("the tool %s failed", call["name"], exc_info=True)
            result = {"content": _as_content(f"{type(error).__name__}: {error}"), "is_error": True}
        results[call["id"]] = {"type": "tool_result", "tool_use_id": call["id"], **result}

    async def _call(self, name: str, given: Any) -> Any:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name!r}")
        if inspect.iscoroutinefunction(tool.call):
            return await tool.call(given)
        return await asyncio.to_thread(tool.call, given)


def interrupted(call: dict[str, Any]) -> dict[str, Any]:
    """What the model is told of a call that was not over when the user had heard enough. It may have had
    its effects, wholly or in part."""
    content = "interrupted by the user before it was over"
    return {"type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": True}


def _as_content(result: Any) -> Any:
    """A tool's result as the API takes it: text, or blocks of content. It takes no blank text."""
    if isinstance(result, str):
        whole = result.encode(errors="replace").decode()  # half a character cannot be sent, nor stored
        return whole if whole.strip() else ""
    if isinstance(result, Iterable) and not isinstance(result, (bytes, Mapping)):
        blocks: list[Any] = [*result]
        if blocks and all(isinstance(block, dict) and "type" in block for block in blocks):
            blocks = json.loads(json.dumps(blocks, default=str))
            return [b for b in blocks if b["type"] != "text" or str(b.get("text")).strip()] or ""
        result = blocks
    return "" if result is None else json.dumps(result, ensure_ascii=False, default=str)
