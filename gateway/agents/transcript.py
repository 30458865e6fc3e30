"""The messages of a session, as an agent of the gateway keeps them: in memory, and in the room's store.

    transcript = Transcript(context)
    await transcript.load_soon()                        # when the agent is built

    prompt = transcript.prompt(request)                 # what was said before, and what is new
    ...
    await transcript.add_soon(request, answer)          # once the answer is whole

**What is new.** Clients of the Chat Completions API send the whole conversation with every request. Of a
session that has a transcript, only what follows the last message of the assistant is taken. Of a session
that has none, and of a request that says it is complete, everything is.

**Instructions.** System and developer messages at the head of a request are not part of the
conversation. They are the session's instructions from then on, and are written down when they change.

**What is promised**
  - The messages of a request and its answer (an exchange) are added together, after the answer, in one
    transaction. A turn that fails or is cancelled before leaves nothing. Whenever the process is killed,
    the whole exchange is in the store or nothing of it.
  - Who is cancelled while they are written waits until they are.
  - What is in memory is what was written. Of an ephemeral request nothing is.
  - The calls that end in `_soon` never block an event loop; their twins are for threads.

Without a store, a transcript lasts as long as its agent.

**In the store** a message is a row: plain text and lists of parts as they are, and a message with more
than a role and a content (tool calls, say) as an object with the rest of its fields. The instructions
are rows of the role `system`, the last of which counts. `"anew": true` in a row begins the
conversation anew: what is above it stays in the store, and is not read any more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from greenroom.gateway._agent import BadRequest

if TYPE_CHECKING:
    from greenroom import BuildContext
    from greenroom.gateway._agent import ChatRequest

__all__ = ["Message", "Transcript", "as_dict", "is_unknown_session", "store_of", "text_of"]

Message = dict[str, Any]
"""As OpenAI defines it: a `role`, a `content`, and what else belongs to it."""

SPOKEN = frozenset({"user", "assistant", "tool", "function", "system", "developer"})
"""The roles of a conversation. What another program wrote under other roles is none of a model's
business."""

INSTRUCTING = frozenset({"system", "developer"})


class _Row(NamedTuple):
    role: str
    content: Any


class Transcript:
    """The messages of one session. Belongs to one agent, and to one turn at a time."""

    def __init__(self, context: BuildContext) -> None:
        self._store = store_of(context)
        self._key = context.key
        self._known = True
        self._messages: list[Message] = []
        self.session_id = context.session_id
        """Which conversation this is."""
        self.instructions = ""
        """What the session's system messages say."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, oldest first."""
        return tuple(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"<Transcript of {self.session_id!r}: {len(self)} messages>"

    # Reading

    def load(self) -> None:
        """Read what the store has. In a thread: it blocks."""
        if self._store is not None:
            try:
                rows = self._store.messages(self.session_id)
            except Exception as error:
                rows = self._nothing(error)
            self._read(rows)

    async def load_soon(self) -> None:
        """Read what the store has, on an event loop."""
        if self._store is not None:
            try:
                rows = await self._store.messages_soon(self.session_id)
            except Exception as error:
                rows = self._nothing(error)
            self._read(rows)

    def forget(self) -> None:
        """Let everything in memory go: the agent is released, or closed."""
        self._messages.clear()

    def _nothing(self, error: Exception) -> list[Any]:
        if not is_unknown_session(error, self.session_id):
            raise error
        self._known = False  # it is created with the first message
        return []

    def _read(self, rows: Sequence[Any]) -> None:
        self._messages.clear()
        self._take_all(_Row(row.role, row.content) for row in rows)

    # A turn

    def new(self, request: ChatRequest) -> tuple[Message, ...]:
        """The messages of the request that the transcript does not have. Never none: `BadRequest`."""
        messages = _without_head(request)
        if request.complete:
            fresh = messages[len(self._messages) :] if self._continues(messages) else messages
        elif self._messages:
            roles = [message["role"] for message in messages]
            after = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
            fresh = messages[after:]
        else:
            fresh = messages
        if not fresh or fresh[-1]["role"] == "assistant":
            msg = "messages: there is nothing to answer. End them with a message of the role 'user'"
            raise BadRequest(msg)
        return fresh

    def prompt(self, request: ChatRequest) -> list[Message]:
        """The whole conversation with what is new in the request, without instructions."""
        before = [] if self._begins_anew(request) else self._messages
        return [*before, *self.new(request)]

    def instructions_for(self, request: ChatRequest) -> str:
        """What the session and the request ask the agent to keep to, or nothing: ''."""
        lasting = self._lasting_instructions(request)
        return "\n\n".join(part for part in (lasting, request.instructions) if part)

    def add(self, request: ChatRequest, answer: str | Sequence[Mapping[str, Any]]) -> None:
        """Add what is new in the request, and the answer: text, or messages. In a thread: it blocks."""
        rows = self._rows(request, answer)
        if self._store is not None and rows:
            if not self._known:
                self._store.create_session(self.session_id, key=self._key)
                self._known = True
            self._store.extend(self.session_id, rows)
        self._take_all(rows)

    async def add_soon(self, request: ChatRequest, answer: str | Sequence[Mapping[str, Any]]) -> None:
        """Add what is new in the request, and the answer: text, or messages. On an event loop."""
        writing = asyncio.ensure_future(self._write(self._rows(request, answer)))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # Half an exchange is worse than one that nobody waits for any more.
            await asyncio.wait([writing])
            raise

    async def _write(self, rows: list[_Row]) -> None:
        if self._store is not None and rows:
            if not self._known:
                await self._store.create_session_soon(self.session_id, key=self._key)
                self._known = True
            await self._store.extend_soon(self.session_id, rows)
        self._take_all(rows)

    def _rows(self, request: ChatRequest, answer: str | Sequence[Mapping[str, Any]]) -> list[_Row]:
        """What is to be written."""
        if request.ephemeral:
            return []
        answers = [{"role": "assistant", "content": answer}] if isinstance(answer, str) else answer
        rows = [_row(message) for message in (*self.new(request), *answers)]
        if self._begins_anew(request) and self._messages:
            rows[0] = _Row(rows[0].role, {**_fields(rows[0].content), "anew": True})
        lasting = self._lasting_instructions(request)
        return rows if lasting == self.instructions else [_Row("system", lasting), *rows]

    def _take_all(self, rows: Iterable[_Row]) -> None:
        """Keep in memory what is in the store."""
        for row in rows:
            self._take(row)

    def _take(self, row: _Row) -> None:
        role, content = row
        if role in INSTRUCTING and isinstance(content, str):
            self.instructions = content
        elif role in SPOKEN:
            fields = _fields(content)
            if fields.pop("anew", False):
                self._messages.clear()
            self._messages.append({"role": role, **fields})

    def _lasting_instructions(self, request: ChatRequest) -> str:
        head = request.messages[: len(request.messages) - len(_without_head(request))]
        if head or request.complete:
            return "\n\n".join(filter(None, map(text_of, head)))
        return self.instructions

    def _begins_anew(self, request: ChatRequest) -> bool:
        return request.complete and not self._continues(_without_head(request))

    def _continues(self, messages: tuple[Message, ...]) -> bool:
        """Whether these begin with all that is remembered."""
        return list(messages[: len(self._messages)]) == self._messages


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whether its content is text or a list of parts."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content) if isinstance(content, (list, tuple)) else []
    texts = [as_dict(part).get("text") for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def as_dict(value: Any) -> dict[str, Any]:
    """What came as JSON, if it is an object; else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def store_of(context: BuildContext) -> Any:
    """The store of the room, if transcripts can be kept in it."""
    store: Any = context.store
    return store if callable(getattr(store, "messages_soon", None)) else None


def is_unknown_session(error: Exception, session_id: str) -> bool:
    """Whether that is a store's way to say that it does not know the session: an agent knows stores by
    what they do, and of the errors of reading only this one names a session."""
    return getattr(error, "session_id", None) == session_id


def _without_head(request: ChatRequest) -> tuple[Message, ...]:
    """The messages of a request, but for the system messages that it begins with."""
    messages = tuple(dict(message) for message in request.messages)
    for at, message in enumerate(messages):
        if message.get("role") not in SPOKEN:
            msg = f"messages[{at}].role: {message.get('role')!r} is none of {', '.join(sorted(SPOKEN))}"
            raise BadRequest(msg)
    head = next((at for at, m in enumerate(messages) if m["role"] not in INSTRUCTING), len(messages))
    return messages[head:]


def _row(message: Mapping[str, Any]) -> _Row:
    fields = {name: value for name, value in message.items() if name != "role"}
    content = fields.get("content")
    # Instructions are plain text. A system message in the middle of a conversation is none of them.
    plain = fields.keys() == {"content"} and isinstance(content, (str, list))
    return _Row(message["role"], content if plain and message["role"] not in INSTRUCTING else fields)


def _fields(content: Any) -> dict[str, Any]:
    """A message without its role, from what stands in a row."""
    if not isinstance(content, dict):
        return {"content": content}
    # What another program put there may be of any form.
    fields = as_dict(cast("Any", content))
    return {**fields} if "content" in fields else {"content": json.dumps(fields)}
