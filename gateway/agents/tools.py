"""Tools that a model may call: functions, what they are called and take, and how they are run.

    tools = ToolRegistry()

    @tools.tool(toolset="house")
    def light(room: str, on: bool = True) -> str:
        "Switch the light of a room on or off."
        ...

    tools.definitions(["house"])                                  # as the Chat Completions API has them
    await tools.call("light", '{"room": "kitchen"}')              # what the model is told

A tool is sync or async. Its name is the function's, its description the docstring's first paragraph,
its schema comes from the annotations (see `_schema`). A parameter called `context` gets what the agent
gives to `call()`, and the model knows nothing of it.

**A call never fails.** A tool that there is not, arguments that are no JSON or do not fit, a tool that
raises or takes too long: the model is told, in a sentence, and may do better. Only cancelling the call
ends it.

**A tool does not hold up the event loop.** Sync tools run on a thread of their own, which ends with
the call. A thread cannot be stopped: one that is not done in time is left behind, and a tool that has
left `MOST_LEFT_BEHIND` of them is not called again until one of them ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import json
import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from greenroom import ToolDefinitionCache
from greenroom.gateway.agents._options import check_seconds
from greenroom.gateway.agents._schema import CONTEXT, Schema, fit, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Tool", "ToolRegistry", "load_tools"]

logger = logging.getLogger("greenroom.gateway")

F = TypeVar("F", bound="Callable[..., Any]")

MOST_LEFT_BEHIND = 8
LONGEST_RESULT = 50_000
"""Characters of what a tool says. A model pays for each of them, in this turn and in all that follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool: a function, and what a model is told about it."""

    name: str
    description: str
    parameters: Schema
    function: Callable[..., Any]
    toolset: str
    seconds: float
    running: set[threading.Thread] = field(default_factory=set[threading.Thread], repr=False)

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as the Chat Completions API describes it."""
        about = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": about}


class ToolRegistry:
    """Tools by name. Fill it when your module is loaded; any number of agents may use it then."""

    def __init__(self, *, seconds: float = 30.0) -> None:
        check_seconds("seconds", seconds, least=0.001)
        self._seconds = seconds
        self._tools: dict[str, Tool] = {}
        self._cache = ToolDefinitionCache(self._define)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __repr__(self) -> str:
        return f"<ToolRegistry: {', '.join(sorted(self._tools)) or 'no tools'}>"

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The names of the toolsets there are."""
        return tuple(sorted({tool.toolset for tool in list(self._tools.values())}))

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        toolset: str = "default",
        seconds: float | None = None,
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        toolset: str = "default",
        seconds: float | None = None,
    ) -> F | Callable[[F], F]:
        """Make a function a tool, as `@tools.tool` or as `@tools.tool(toolset=…)`. The function stays as
        it is. `seconds` is how long a call may take."""

        def add(function: F) -> F:
            limit = self._seconds if seconds is None else seconds
            self._add(function, name or function.__name__, description, toolset, limit)
            return function

        return add if function is None else add(function)

    def _add(
        self,
        function: Callable[..., Any],
        name: str,
        description: str | None,
        toolset: str,
        seconds: float,
    ) -> None:
        check_seconds(f"seconds of the tool {name!r}", seconds, least=0.001)
        if not name.replace("-", "_").isidentifier() or not name.isascii() or len(name) > 64:
            raise ValueError(
                f"{name!r} cannot name a tool: letters, digits, _ and -, at most 64 of them"
            )
        if name in self._tools:
            raise ValueError(f"there is a tool {name!r} already: give this one another name=…")
        if description is None:
            description = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
        if not description:
            raise ValueError(f"the tool {name!r} has no docstring: a model must be told what it is for")
        self._tools[name] = Tool(
            name=name,
            description=description,
            parameters=schema_of(function),
            function=function,
            toolset=toolset,
            seconds=seconds,
        )

    def definitions(self, toolsets: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """What a model is told about the tools of these toolsets, or about all tools. `ValueError` for a
        toolset that there is not."""
        # Tools are only ever added, so that their number tells one state of the registry from another.
        return self._cache.get(toolsets, tools=len(self._tools))

    def _define(self, toolsets: tuple[str, ...] | None, *, tools: int) -> list[dict[str, Any]]:
        unknown = sorted(set(toolsets or ()) - set(self.toolsets))
        if unknown:
            there = ", ".join(self.toolsets) or "none"
            raise ValueError(f"there is no toolset {', '.join(map(repr, unknown))}: there is {there}")
        chosen = list(self._tools.values())[:tools]
        return [tool.definition for tool in chosen if toolsets is None or tool.toolset in toolsets]

    async def call(
        self,
        name: str,
        arguments: str,
        *,
        toolsets: Iterable[str] | None = None,
        context: Any = None,
    ) -> str:
        """Call a tool with arguments in JSON, as a model gives them, and return what the model is told.

        With `toolsets`, others are as good as not there.
        """
        tool = self._tools.get(name)
        if tool is None or (toolsets is not None and tool.toolset not in set(toolsets)):
            return f"Error: there is no tool {name!r}."
        given, problem = _arguments(tool, arguments)
        if problem is not None:
            return f"Error: {problem}."
        if CONTEXT in inspect.signature(tool.function).parameters:
            given[CONTEXT] = context
        return await _run(tool, given)


def load_tools(where: str | ToolRegistry) -> ToolRegistry:
    """The registry that `module:name` stands for."""
    if isinstance(where, ToolRegistry):
        return where
    module, _, name = where.partition(":")
    if not module or not name:
        raise ValueError(f"tools={where!r}: give module:name, for instance my_tools:tools")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"tools={where!r}: {error}") from error
    if not isinstance(found, ToolRegistry):
        raise TypeError(f"tools={where!r}: that is a {type(found).__name__}, and not a ToolRegistry")
    return found


def _arguments(tool: Tool, arguments: str) -> tuple[dict[str, Any], str | None]:
    """The arguments of a call, or what is wrong with them."""
    try:
        given = json.loads(arguments or "{}")  # some models send nothing for no arguments
        fitted, problem = fit(given, tool.parameters, f"the tool {tool.name!r}")
    except (ValueError, RecursionError, OverflowError) as error:
        return {}, f"the arguments for {tool.name!r} cannot be read as JSON ({error})"
    return fitted, problem


async def _run(tool: Tool, given: dict[str, Any]) -> str:
    limit = asyncio.timeout(tool.seconds)
    try:
        async with limit:
            result = await (
                tool.function(**given)
                if inspect.iscoroutinefunction(tool.function)
                else _on_a_thread(tool, given)
            )
            # A function that is not async itself may still return something to wait for.
            return _text(await result if inspect.isawaitable(result) else result)
    except (Exception, SystemExit) as error:
        if isinstance(error, TimeoutError) and limit.expired():
            logger.warning("the tool %s was given up after %g seconds", tool.name, tool.seconds)
            return f"Error: the tool {tool.name!r} did not end within {tool.seconds:g} seconds."
        raised = error.raised if isinstance(error, _Raised) else error
        kind = type(raised).__name__
        logger.warning("the tool %s failed: %s", tool.name, kind)
        return f"Error: the tool {tool.name!r} failed: {kind}: {raised}"[:LONGEST_RESULT]


class _Raised(Exception):
    """Carries what a tool raised on its thread: a future takes no `StopIteration`, and `SystemExit` ends
    the loop that comes across it."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(raised)
        self.raised = raised


async def _on_a_thread(tool: Tool, given: dict[str, Any]) -> Any:
    """Call a sync tool. Not on the loop's own threads: the interpreter waits for them at its end."""
    if len(tool.running) >= MOST_LEFT_BEHIND:
        raise RuntimeError(f"{len(tool.running)} calls of it are stuck")
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: Exception | None) -> None:
        if ended.done():
            return  # nobody waits any more
        if error is None:
            ended.set_result(result)
        else:
            ended.set_exception(error)

    def run() -> None:
        result, problem = None, None
        try:
            result = context.run(tool.function, **given)
        except BaseException as error:
            problem = _Raised(error)
        tool.running.discard(thread)
        try:
            loop.call_soon_threadsafe(settle, result, problem)
        except RuntimeError:
            pass  # the loop was closed

    thread = threading.Thread(target=run, name=f"greenroom-tool-{tool.name}", daemon=True)
    tool.running.add(thread)
    thread.start()
    return await ended


def _text(result: Any) -> str:
    if result is None:
        return "Done."
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    if len(text) <= LONGEST_RESULT:
        return text
    return f"{text[:LONGEST_RESULT]}\n(cut here: it has {len(text)} characters)"
