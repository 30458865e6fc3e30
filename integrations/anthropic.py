"""Anthropic's SDK in a room: an agent of a room is a conversation with Claude, and with tools.

    from greenroom.integrations.anthropic import conversations, follow

    claude = conversations(AsyncAnthropic(), model="claude-sonnet-5-5", tools=[clock])
    room = Greenroom(claude, prepare=follow, store="sqlite:///chats.db")
    async with room.turn("telegram:12345") as turn:
        async for piece in turn.agent.stream("Hello"):
            print(piece, end="")

An answer is a loop of `messages.stream()`: as long as the model calls tools, they are run, and it is
told what came of it. The history is messages in the API's own form, in the room's store; an exchange is
written when it is whole, in one row, and such that the API takes it again: no call without its result,
no message without content. `docs/anthropic.md` has the rest.

(The SDK has such a loop as well, `beta.messages.tool_runner()`. It does not say how far it has come when
it is cancelled, which is what can be kept of an answer that was interrupted.)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from greenroom.integrations._anthropic_tools import Toolbox, interrupted
from greenroom.integrations._conversation import follow
from greenroom.integrations._made import make
from greenroom.integrations._recorded import RecordedConversation

if TYPE_CHECKING:
    from greenroom import BuildContext

__all__ = ["ClaudeConversation", "conversations", "follow"]

OURS = ("messages", "stream")
"""Options of a request that say what the conversation is: what is in the room's store."""

WHOLE = ("end_turn", "stop_sequence", "pause_turn")
"""Why a message ends that is as the model meant it. Of others, what they say is all that is kept."""

THOUGHTS = ("thinking", "redacted_thinking")
"""What a message of the model cannot end with. (Nor with a call, unless its result comes next.)"""


def conversations(
    client: Any,
    *,
    model: Any,
    tools: Any = (),
    max_rounds: int = 8,
    max_tokens: Any = 4096,
    **options: Any,
) -> Callable[[BuildContext], Awaitable[ClaudeConversation]]:
    """Return what a room builds its agents with: `Greenroom(conversations(client, …), prepare=follow)`.

    Each of these but `max_rounds` may also be a function of the room's `BuildContext` that makes it for
    a session. It may be async. If it yields, the rest of it is run when the agent is released.

    Args:
        client: an `AsyncAnthropic`, or one of its kind for another platform.
        model: which model answers.
        tools: what it may call: functions, sync or async, with a docstring and types, the SDK's
            `@beta_tool` and `@beta_async_tool`, and definitions of tools that run at Anthropic's.
        max_rounds: how often it may call tools in one answer. Then it has to answer without.
        max_tokens: how long one message of it may be.
        options: of each request, as `messages.stream` takes them: `system`, `thinking`, `cache_control`,
            … A turn may change them, for itself and those after it, in `turn.agent.options`.
    """
    for name in OURS:
        if name in options:
            raise TypeError(f"{name} cannot be given: the conversation is in the room's store")
    if max_rounds < 0:
        raise ValueError(f"max_rounds must be 0 or more, not {max_rounds!r}")
    options.update(model=model, max_tokens=max_tokens)
    toolbox = tools if callable(tools) else Toolbox(tools)

    async def build(context: BuildContext) -> ClaudeConversation:
        conversation = ClaudeConversation(context, client, toolbox, max_rounds, options)
        await conversation.open(context)
        return conversation

    return build


class ClaudeConversation(RecordedConversation):
    """A conversation with Claude."""

    role = "anthropic"

    def __init__(
        self,
        context: BuildContext,
        client: Any,
        tools: Any,
        max_rounds: int,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(context)
        self.client = client
        """Whom requests are sent with."""
        self.max_rounds = max_rounds
        """How often tools may be called in one answer."""
        self.options: dict[str, Any] = {**options}
        """What each request is given."""
        self.message: Any = None
        """The last message of the last answer, as the SDK has it: with `stop_reason` and `usage`."""
        self._tools: Any = tools
        self._exchange: list[dict[str, Any]] = []
        """The messages of the answer that is on its way, as far as they are whole …"""
        self._results: dict[str, Any] = {}
        """… what has come of the calls of the last one, by their ids …"""
        self._saying: list[str] = []
        """… and what was said of the next."""

    async def _make(self, context: BuildContext) -> None:
        self.client = await make(self.client, context, self._made)
        if not hasattr(self.client, "messages") or not hasattr(self.client, "__aenter__"):
            msg = f"conversations() needs an AsyncAnthropic, or what makes one, not {self.client!r}"
            raise TypeError(msg)
        tools = await make(self._tools, context, self._made)
        self._tools = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        for name, value in self.options.items():
            self.options[name] = await make(value, context, self._made)

    async def _answer(self, text: str) -> AsyncGenerator[str, None]:
        self.message = None
        self._exchange, self._results, self._saying = [{"role": "user", "content": text}], {}, []
        history = (await self._take_up()).items
        spoken, apart = False, ""
        for left in range(self.max_rounds, -1, -1):
            async with self.client.messages.stream(**self._request(history, left)) as stream:
                async for piece in stream.text_stream:
                    said = piece if self._saying else apart + piece
                    self._saying.append(piece)
                    spoken = True
                    yield said
                self.message = await stream.get_final_message()
            calls = self._hear()
            if calls:
                await self._tools.run(calls, self._results)
                self._tell(calls)
                apart = "\n\n" if spoken else ""
            elif self.message.stop_reason != "pause_turn":
                return
        raise RuntimeError(f"the model has not come to an answer in {self.max_rounds} rounds of tools")

    def _request(self, history: list[Any], left: int) -> dict[str, Any]:
        request = {**self.options, "messages": [*history, *self._exchange]}
        if self._tools.definitions:
            request["tools"] = self._tools.definitions
            if not left:
                request["tool_choice"] = {"type": "none"}
        return request

    def _hear(self) -> list[Any]:
        """Take the model's message into the exchange, and return the calls that it waits for."""
        reason, content = self.message.stop_reason, _content(self.message)
        self._saying = []
        if reason is None:
            raise RuntimeError("the connection ended in the middle of a message")
        if reason == "refusal":
            self._exchange = []  # with it in the history, the model would go on refusing
            return []
        calls = [block for block in content if block["type"] == "tool_use"]
        if reason != "tool_use":
            calls = []
            if reason not in WHOLE or not content or content[-1]["type"] in (*THOUGHTS, "tool_use"):
                content = _only_text(content)
        if content:
            self._exchange.append({"role": "assistant", "content": content})
        return calls

    def _tell(self, calls: list[Any]) -> None:
        """Take what came of the calls into the exchange."""
        results, self._results = self._results, {}
        content = [results.get(call["id"]) or interrupted(call) for call in calls]
        self._exchange.append({"role": "user", "content": content})

    async def _finish(self) -> None:
        exchange, self._exchange = _settled(self._exchange), []
        if len(exchange) > 1:  # there is an answer
            await (await self._take_up()).add(exchange)

    async def _keep(self, text: str, said: str) -> None:
        last = self._exchange[-1] if self._exchange else {}
        if last.get("role") == "assistant":
            calls = [block for block in last["content"] if block["type"] == "tool_use"]
            if calls:
                self._tell(calls)
        content = _only_text([{"type": "text", "text": "".join(self._saying)}])
        if content:
            self._exchange.append({"role": "assistant", "content": content})
        await self._finish()


def _content(message: Any) -> list[dict[str, Any]]:
    """A message's content as it is sent back: the API takes no blank text, though it makes some."""
    blocks = [block.to_dict(mode="json") for block in message.content]
    return [block for block in blocks if block["type"] != "text" or block["text"].strip()]


def _only_text(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    text = "".join(block["text"] for block in content if block["type"] == "text")
    return [{"type": "text", "text": text}] if text.strip() else []


def _settled(exchange: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An exchange without calls that nothing came of.

    Tools that run at Anthropic's have their results in messages of the model: after a pause, in the next
    one, which may never come, or be cut.
    """
    blocks = [block for message in exchange[1:] for block in message["content"]]
    over = {block.get("tool_use_id") for block in blocks}
    loose = {block["id"] for block in blocks if block["type"].endswith("tool_use")} - over
    settled = exchange[:1]
    for message in exchange[1:]:
        content = [block for block in message["content"] if block.get("id") not in loose]
        if len(content) < len(message["content"]):
            while content and content[-1]["type"] in THOUGHTS:
                content.pop()
        if content:
            settled.append({**message, "content": content})
    return settled
