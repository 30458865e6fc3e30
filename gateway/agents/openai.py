"""An agent on the `openai` client: for OpenAI, and for any endpoint that speaks its Chat Completions
API.

It streams, calls tools in rounds (those of one round together), keeps a transcript, and remembers
facts without asking the network. When its answer is closed or cancelled, the stream from the endpoint
is closed at once, so that nobody pays for words that nobody reads. `interrupt()` ends the answer with
what was said so far.

    [agent]                                   # the options, in the server's configuration
    model = "gpt-5-mini"
    base_url = "http://127.0.0.1:11434/v1"    # default: OPENAI_BASE_URL, or OpenAI's own
    toolsets = ["clock", "math"]

The key comes from `api_key`, or better from the environment: OPENAI_API_KEY.

What the model gets does not change from turn to turn but at its end, so that the provider's prompt
cache holds: the operator's `system_prompt`, what was known of the user when the agent was built, the
session's instructions, then the conversation.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenroom.gateway._agent import Finish, Usage
from greenroom.gateway.agents._interrupt import Interrupt, Interrupted
from greenroom.gateway.agents._options import check_count, check_seconds, takes
from greenroom.gateway.agents._upstream import Round, asks_for_no_usage, import_openai, translated
from greenroom.gateway.agents.memory import FactMemory
from greenroom.gateway.agents.tools import ToolRegistry, load_tools
from greenroom.gateway.agents.transcript import Transcript

if TYPE_CHECKING:
    from greenroom import BuildContext, Generation
    from greenroom.gateway._agent import ChatRequest, Piece
    from greenroom.gateway.agents.transcript import Message

__all__ = ["OpenAIAgent", "OpenAIOptions", "openai_agent"]

PASSED_ON = (
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "temperature",
    "top_p",
    "verbosity",
)
"""What a client may decide for itself. Model, tools and how many answers there are is the operator's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIOptions:
    """What an agent on the `openai` client is made from."""

    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    system_prompt: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Sent with every request: `temperature` and the like. What a client sends counts more."""
    tools: str | ToolRegistry = "greenroom.gateway.agents.included_tools:tools"
    toolsets: Sequence[str] | str = ()
    """Which of the tools the model may call. None, unless they are named; "*" stands for all."""
    max_tool_rounds: int = 8
    timeout: float = 120.0
    """How many seconds the endpoint may be silent."""
    max_retries: int = 2
    memory: bool = True
    """Whether facts are found in what users say, and told to the model in later conversations."""

    def __post_init__(self) -> None:
        for name in ("model", "system_prompt"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be text, not {getattr(self, name)!r}")
        if not self.model:
            raise ValueError("model is empty: say which model the endpoint is to be asked for")
        check_count("max_tool_rounds", self.max_tool_rounds)
        check_count("max_retries", self.max_retries)
        check_seconds("timeout", self.timeout, least=0.001)
        load_tools(self.tools).definitions(self.chosen_toolsets)
        if not (self.key or self.base_url or os.environ.get("OPENAI_BASE_URL")):
            raise ValueError("there is no key: set OPENAI_API_KEY, or give api_key, or a base_url")

    @property
    def key(self) -> str | None:
        """The key for the endpoint."""
        return self.api_key or os.environ.get("OPENAI_API_KEY")

    @property
    def chosen_toolsets(self) -> tuple[str, ...] | None:
        """The names of the toolsets. `None` stands for all."""
        if isinstance(self.toolsets, str):
            names = tuple(name.strip() for name in self.toolsets.split(",") if name.strip())
        else:
            names = tuple(self.toolsets)
        return None if names == ("*",) else names


@takes(OpenAIOptions)
def openai_agent(context: BuildContext, **options: Any) -> OpenAIAgent:
    """Build an agent on the `openai` client. The options are those of `OpenAIOptions`.

    On a worker, and not on the event loop: loading the library and making a client takes its time.
    """
    agent = OpenAIAgent(context, OpenAIOptions(**options))
    agent.load()
    return agent


class OpenAIAgent:
    """Has a model answer, with tools."""

    def __init__(self, context: BuildContext, options: OpenAIOptions) -> None:
        self.transcript = Transcript(context)
        self.memory = FactMemory(context)
        self._context = context
        self._options = options
        self._registry = load_tools(options.tools)
        self._tools = self._registry.definitions(options.chosen_toolsets)
        self._usage_wanted = True
        self._known = ""
        self._interrupt = Interrupt()
        self._client: Any = import_openai().AsyncOpenAI(
            api_key=options.key or "none",
            base_url=options.base_url,
            timeout=options.timeout,
            max_retries=options.max_retries,
        )

    def load(self) -> None:
        """Read the transcript, and what is known. In a thread: it blocks."""
        self.transcript.load()
        if self._options.memory:
            self.memory.load()
            facts = "\n".join(f"- {fact}" for fact in self.memory.facts)
            self._known = f"What the user has told in earlier conversations:\n{facts}" if facts else ""

    # Turns

    async def answer(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        """Answer one request, as the model streams it."""
        messages, new = self._prompt(request), self.transcript.new(request)
        answers: list[Message] = []
        spent = [0, 0]
        current = Round()
        with self._interrupt.listening():
            try:
                for left in range(self._options.max_tool_rounds, -1, -1):
                    current = Round()
                    async with aclosing(self._play(current, request, messages + answers, left)) as texts:
                        async for text in texts:
                            yield text
                    spent = [sum(both) for both in zip(spent, current.usage, strict=True)]
                    if not current.calls or not left:
                        break
                    # Calls and their results are kept together: one without the other is refused.
                    results = await self._interrupt.wait_for(self._call_tools(current))
                    answers += [current.message(), *results]
                    current = Round()
            except Interrupted:
                current.finish = "stop"
        if current.text:
            answers.append({"role": "assistant", "content": current.text})
        if answers:
            await self.transcript.add_soon(request, answers)
            self.memory.hear(new)
        if any(spent):
            yield Usage(prompt_tokens=spent[0], completion_tokens=spent[1])
        yield Finish(current.finish if current.finish in ("length", "content_filter") else "stop")

    def _prompt(self, request: ChatRequest) -> list[Message]:
        parts = (self._options.system_prompt, self._known, self.transcript.instructions_for(request))
        system = "\n\n".join(part for part in parts if part)
        conversation = self.transcript.prompt(request)
        return [{"role": "system", "content": system}, *conversation] if system else conversation

    async def _play(
        self, current: Round, request: ChatRequest, messages: list[Message], left: int
    ) -> AsyncGenerator[str, None]:
        """The texts of one answer of the model."""
        try:
            stream = await self._interrupt.wait_for(self._open(self._body(request, messages, left)))
            async with _closing(stream):
                while (chunk := await self._interrupt.wait_for(_next(stream))) is not None:
                    if text := current.take(chunk):
                        yield text
            current.check()
        except Exception as error:
            meant, with_cause = translated(error)
            if meant is error:
                raise
            raise meant from (error if with_cause else None)

    def _body(self, request: ChatRequest, messages: list[Message], left: int) -> dict[str, Any]:
        chosen = {name: request.options[name] for name in PASSED_ON if name in request.options}
        body = {**self._options.parameters, **chosen, "model": self._options.model, "messages": messages}
        if self._tools:
            body["tools"] = self._tools
            if not left:
                body["tool_choice"] = "none"  # now it has to say something
        return body

    async def _open(self, body: dict[str, Any]) -> Any:
        create = self._client.chat.completions.create
        if not self._usage_wanted:
            return await create(stream=True, **body)
        try:
            return await create(stream=True, stream_options={"include_usage": True}, **body)
        except Exception as error:
            if not asks_for_no_usage(error):
                raise
            self._usage_wanted = False
            return await create(stream=True, **body)

    async def _call_tools(self, current: Round) -> list[Message]:
        """Call the tools that the model asks for, all at once."""
        toolsets = self._options.chosen_toolsets
        results = await asyncio.gather(
            *(
                self._registry.call(
                    call["name"], call["arguments"], toolsets=toolsets, context=self._context
                )
                for call in current.calls
            )
        )
        return [
            {"role": "tool", "tool_call_id": call["id"], "content": result}
            for call, result in zip(current.calls, results, strict=True)
        ]

    # The room's hooks

    async def commit_memory_session(self, generation: Generation) -> None:
        """Find facts in the turns since the last commit. Nothing is asked of the network."""
        if self._options.memory:
            await self.memory.commit(generation)

    async def release_clients(self) -> None:
        """Close the client's connections, and let go what is in memory."""
        self.transcript.forget()
        await self._client.close()

    async def close(self) -> None:
        """The session is over."""
        await self.release_clients()

    def interrupt(self) -> None:
        """End the running answer early."""
        self._interrupt()


@asynccontextmanager
async def _closing(stream: Any) -> AsyncIterator[None]:
    """Close a stream, and what reads it. The client closes the connection alone: of a stream that is not
    read to its end it leaves the generators to the collector, as the outermost refers to itself. That
    may come by on any thread, and find the inner ones at work, as the loop is closing them."""
    try:
        async with stream:
            yield
    finally:
        with suppress(Exception):  # reading a closed stream ends its generators
            while await anext(stream, None) is not None:
                pass


async def _next(stream: Any) -> Any:
    """The next chunk, or `None` at the end. (`anext()` alone is no coroutine that could be closed.)"""
    return await anext(stream, None)
