"""What the gateway asks of an agent, and how an agent's answer reaches whoever asked.

An agent of the gateway is any object with a method `answer(request)`. What that returns decides how it
is run; the first that fits:

    an async generator      each piece is sent on as it comes; runs on the event loop
    a coroutine             the whole answer; runs on the event loop
    a generator             each piece is sent on as it comes; runs on a thread of its own
    anything else           the whole answer; runs on a thread of its own

The first piece is sent at once. From then on, pieces that are ready at the same time are sent together,
as soon as the agent waits for something.

A piece is text, a `Usage`, or a `Finish`; a whole answer is text, or an iterable of pieces. All other
hooks (`commit_memory_session`, `release_clients`, `close`, `interrupt`, …) are the room's: see
`greenroom.AgentHooks`.

When whoever asked hangs up, or the turn is interrupted, async answers are cancelled where they wait, and
generators are closed where they yield; a thread is not stopped, but nobody waits for it, and the
session's next turn does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BadRequest", "ChatRequest", "Finish", "Piece", "Unavailable", "Usage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One turn: what a client has asked."""

    messages: tuple[Mapping[str, Any], ...]
    """As the client sent them, oldest first: each with a `role` and a `content` (text, or a list of
    parts as OpenAI defines them). Never empty."""

    model: str = ""
    """What the client called the model. The server's configuration decides what that means."""

    instructions: str | None = None
    """What a client of the Responses API gave as instructions for this turn."""

    complete: bool = False
    """Whether `messages` is the whole conversation, whatever the session has had before."""

    ephemeral: bool = False
    """Whether the session ends with this turn: nothing need be kept."""

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the client sent, by the names of the Chat Completions API: `temperature`, `max_tokens`,
    …"""

    request_id: str = ""
    """Names the request in logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How many tokens it took. The last one that an answer yields counts."""

    prompt_tokens: int
    completion_tokens: int

    def __post_init__(self) -> None:
        # Here, where the agent fails: when the answer is written down, the turn is complete already.
        for name in ("prompt_tokens", "completion_tokens"):
            if not isinstance(getattr(self, name), int):
                msg = f"{name} must be a whole number, not {getattr(self, name)!r}"
                raise TypeError(msg)


@dataclass(frozen=True, slots=True)
class Finish:
    """Why the answer ends here, as OpenAI calls it: `stop`, `length`, `content_filter`."""

    reason: str

    def __post_init__(self) -> None:
        given: Any = self.reason
        if not isinstance(given, str):
            msg = f"the reason to finish must be text, not {given!r}"
            raise TypeError(msg)


Piece = str | Usage | Finish


class BadRequest(ValueError):
    """The agent cannot answer this, and the client is to blame: it gets status 400 and this text."""


class Unavailable(Exception):
    """What the agent depends on cannot be reached, or has had enough: the client may try again."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        """After how many seconds, if that is known."""
