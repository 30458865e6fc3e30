"""Pydantic AI in a room: an agent of a room is a conversation with an `Agent` of theirs.

    from greenroom.integrations.pydantic_ai import conversations, follow

    room = Greenroom(conversations(agent), prepare=follow, store="sqlite:///chats.db")
    async with room.turn("telegram:12345") as turn:
        async for piece in turn.agent.stream("Hello"):
            print(piece, end="")

An answer is one `run_stream_events()`, which runs the whole graph. (`run_stream()` takes the first text
for the final answer, also where a call of a tool comes after it.) It is given the history from the
room's store, and the messages that it adds are written when it is whole, in one row.
`docs/pydantic-ai.md` has the rest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_ai.agent import AbstractAgent
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    repair_messages,
)
from pydantic_ai.tools import DeferredToolRequests

from greenroom.integrations._conversation import follow
from greenroom.integrations._made import make
from greenroom.integrations._recorded import RecordedConversation

if TYPE_CHECKING:
    from greenroom import BuildContext

__all__ = ["AgentConversation", "conversations", "follow"]

OURS = ("conversation", "conversation_id", "deferred_tool_results", "message_history")
"""Options of a run that say what the conversation is: what is in the room's store."""


def conversations(
    agent: Any, *, deps: Any = None, **options: Any
) -> Callable[[BuildContext], Awaitable[AgentConversation]]:
    """Return what a room builds its agents with: `Greenroom(conversations(agent), prepare=follow)`.

    Args:
        agent: an `Agent`, or a function of the room's `BuildContext` that makes one for a session. It
            may be async. If it yields its agent, the rest of it is run when that is released.
        deps: the dependencies of the runs: an object, or a function of the `BuildContext` that makes one
            for a session, likewise.
        options: of each run, as `Agent.run_stream_events` takes them: `usage_limits`, `model`,
            `model_settings`, `toolsets`, … A turn may change them, for itself and those after it, in
            `turn.agent.options`.
    """
    for name in OURS:
        if name in options:
            raise TypeError(f"{name} cannot be given: the conversation is in the room's store")

    async def build(context: BuildContext) -> AgentConversation:
        conversation = AgentConversation(context, agent, deps, options)
        await conversation.open(context)
        return conversation

    return build


class AgentConversation(RecordedConversation):
    """A conversation with an `Agent`."""

    role = "pydantic-ai"

    def __init__(self, context: BuildContext, agent: Any, deps: Any, options: Mapping[str, Any]) -> None:
        super().__init__(context)
        self.agent = agent
        """The `Agent` that answers."""
        self.options: dict[str, Any] = {**options, "deps": deps}
        """What each run is given."""
        self.output: Any = None
        """What the last run came to: text, or an object of the agent's `output_type`."""
        self._new: list[Any] = []

    async def messages(self, session_id: str | None = None) -> list[Any]:
        """What was said in a conversation, in this one by default, as `ModelMessage`s of theirs."""
        return _as_messages(await self.history(session_id))

    async def _make(self, context: BuildContext) -> None:
        self.agent = await make(self.agent, context, self._made)
        if not isinstance(self.agent, AbstractAgent):
            msg = f"conversations() needs an Agent, or a function that makes one, not {self.agent!r}"
            raise TypeError(msg)
        self.options["deps"] = await make(self.options["deps"], context, self._made)

    async def _answer(self, text: str) -> AsyncGenerator[str, None]:
        self.output, self._new = None, []
        history = _as_messages((await self._take_up()).items)
        try:
            async with self.agent.run_stream_events(
                text, message_history=history, conversation_id=self.session_id, **self.options
            ) as events:
                async for event in events:
                    if piece := _text_of(event):
                        yield piece
        except asyncio.CancelledError as error:
            cancelled = RunCancelled.from_cancellation(error)
            self._new = [] if cancelled is None else cancelled.new_messages()
            raise
        if isinstance(events.result.output, DeferredToolRequests):
            raise RuntimeError("calls wait for approval or for a result, which a turn cannot ask for")
        self.output, self._new = events.result.output, events.result.new_messages()

    async def _finish(self) -> None:
        new, self._new = self._new, []
        await (await self._take_up()).add(_as_json(new))

    async def _keep(self, text: str, said: str) -> None:
        # A call that has no result is given one that says so: no run takes a prompt after one without.
        self._new = repair_messages([message for message in self._new if message.parts])
        if any(message.kind == "response" for message in self._new):
            await self._finish()


def _text_of(event: Any) -> str:
    """What an event tells the user."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _as_json(messages: list[Any]) -> list[Any]:
    return json.loads(ModelMessagesTypeAdapter.dump_json(messages))


def _as_messages(items: list[Any]) -> list[Any]:
    return ModelMessagesTypeAdapter.validate_python(items)
