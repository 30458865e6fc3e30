"""OpenAI's Agents SDK in a room: an agent of a room is a conversation with an `Agent` of theirs.

    from greenroom.integrations.openai_agents import conversations, follow

    room = Greenroom(conversations(agent), prepare=follow, store="sqlite:///chats.db")
    async with room.turn("telegram:12345") as turn:
        async for piece in turn.agent.stream("Hello"):
            print(piece, end="")

An answer is one run of their `Runner`, with a session of ours: it reads the history from the room's
store, takes what the run adds, and writes that when the run is whole, in one row.
`docs/openai-agents.md` has the rest.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents import Agent, RunConfig, Runner

from greenroom.integrations._conversation import follow
from greenroom.integrations._made import make
from greenroom.integrations._recorded import RecordedConversation
from greenroom.integrations._waiting import wait_ended

if TYPE_CHECKING:
    from greenroom import BuildContext
    from greenroom.integrations._history import History

__all__ = ["AgentConversation", "conversations", "follow"]

OURS = ("session", "conversation_id", "previous_response_id", "auto_previous_response_id")
"""Options of a run that say where the conversation is: in the room's store."""

TEXT = ("response.output_text.delta", "response.refusal.delta")


def conversations(
    agent: Any, *, context: Any = None, **options: Any
) -> Callable[[BuildContext], Awaitable[AgentConversation]]:
    """Return what a room builds its agents with: `Greenroom(conversations(agent), prepare=follow)`.

    Args:
        agent: an `Agent`, or a function of the room's `BuildContext` that makes one for a session. It
            may be async. If it yields its agent, the rest of it is run when that is released.
        context: what tools and guardrails get as the context of their run: an object, or a function of
            the `BuildContext` that makes one for a session, likewise.
        options: of each run, as `Runner.run_streamed` takes them: `max_turns`, `run_config`, `hooks`,
            `error_handlers`. A turn may change them, for itself and those after it, in
            `turn.agent.options`.
    """
    for name in OURS:
        if name in options:
            raise TypeError(f"{name} cannot be given: the conversation is in the room's store")

    async def build(room_context: BuildContext) -> AgentConversation:
        conversation = AgentConversation(room_context, agent, context, options)
        await conversation.open(room_context)
        return conversation

    return build


class AgentConversation(RecordedConversation):
    """A conversation with an `Agent`."""

    role = "openai-agents"

    def __init__(
        self, room_context: BuildContext, agent: Any, context: Any, options: Mapping[str, Any]
    ) -> None:
        super().__init__(room_context)
        self.agent = agent
        """The `Agent` that each answer begins with."""
        self.options: dict[str, Any] = {**options, "context": context}
        """What each run is given."""
        self.output: Any = None
        """What the last run came to: text, or an object of the agent's `output_type`."""
        self._session: _Session | None = None

    async def _make(self, context: BuildContext) -> None:
        self.agent = await make(self.agent, context, self._made)
        if not isinstance(self.agent, Agent):
            msg = f"conversations() needs an Agent, or a function that makes one, not {self.agent!r}"
            raise TypeError(msg)
        self.options["context"] = await make(self.options["context"], context, self._made)
        if self.options.get("run_config") is None:
            # Runner would make one for each run, and end its connections with the run.
            config = self.options["run_config"] = RunConfig()
            self._made.push_async_callback(config.model_provider.aclose)

    async def _answer(self, text: str) -> AsyncGenerator[str, None]:
        self.output = self._session = None
        session: Any = _Session(await self._take_up())
        self._session = session
        result: Any = Runner.run_streamed(self.agent, text, session=session, **self.options)
        events = result.stream_events()
        try:
            async for event in events:
                if event.type == "raw_response_event" and event.data.type in TEXT:
                    yield event.data.delta
        except BaseException:
            # The run is a task of its own. Who is cancelled while waiting for its events has cancelled
            # it, and once more would hit it where it clears up.
            if not result.run_loop_task.cancelling():
                result.cancel()
            await events.aclose()
            await wait_ended(result.run_loop_task)
            raise
        if result.interruptions:
            names = ", ".join(str(item.name) for item in result.interruptions)
            raise RuntimeError(f"calls wait for approval, which a turn cannot ask for: {names}")
        self.output = result.final_output

    async def _finish(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.keep()

    async def _keep(self, text: str, said: str) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.keep_interrupted(text, said)


class _Session:
    """A `Session` of theirs for one run: a history, and what the run adds to it.

    The run adds what the user said when it begins, and after each step what came of it: the model's
    words and calls together with the results of the calls.
    """

    def __init__(self, history: History) -> None:
        self.session_id = history.session_id
        self.session_settings = None
        self._history = history
        self._items = history.items
        self._begin = len(self._items)
        self._rewritten = False

    async def get_items(self, limit: int | None = None) -> list[Any]:
        items = self._items if limit is None else self._items[max(0, len(self._items) - limit) :]
        return copy.deepcopy(items)

    async def add_items(self, items: Sequence[Any]) -> None:
        self._items.extend(items)

    async def pop_item(self) -> Any:
        if not self._items:
            return None
        self._rewritten = self._rewritten or len(self._items) <= self._begin
        return self._items.pop()

    async def clear_session(self) -> None:
        self._items.clear()
        self._rewritten = True

    async def keep(self) -> None:
        """Write what the run has added."""
        if self._rewritten:
            await self._history.replace(_as_json(self._items))
        elif len(self._items) > self._begin:
            await self._history.add(_as_json(self._items[self._begin :]))

    async def keep_interrupted(self, text: str, said: str) -> None:
        """Write the steps that came to their end, and what was said after these."""
        new = self._items[self._begin :]
        if not new:
            await self.add_items([{"role": "user", "content": text}])
        whole = "".join(_text_of(item) for item in new)
        if said.startswith(whole) and said != whole:
            await self.add_items([{"role": "assistant", "content": said[len(whole) :]}])
        if any(item.get("role") != "user" for item in self._items[self._begin :]):
            await self.keep()


def _text_of(item: Mapping[str, Any]) -> str:
    """What an item of a conversation has told the user."""
    if item.get("role") != "assistant":
        return ""
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or part.get("refusal") or "" for part in content or ())


def _as_json(items: Sequence[Any]) -> Any:
    """The items as a store keeps them: a callback may have added tuples, say."""
    return json.loads(json.dumps(items))
