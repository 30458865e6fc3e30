"""What the functions ask the actors of this package, and what these tell each other."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "AddThread",
    "BeginDrain",
    "Commit",
    "CommitEnded",
    "DiscardSession",
    "FindSession",
    "Flush",
    "ForgetSession",
    "GiveBack",
    "HasUncommitted",
    "Hold",
    "MarkTurn",
    "RegisterAgent",
    "RemoveThread",
    "WaitEnded",
]


# To a session.


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterAgent:
    """This agent completes what is marked from now on. Answers nothing."""

    agent: Any
    """`None`: nobody does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkTurn:
    """A turn was completed. Answers with the new generation."""

    agent: Any
    """By whom. `None`: by the agent that is registered, if one is."""


@dataclass(frozen=True, slots=True)
class HasUncommitted:
    """Tell whether anything is uncommitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Commit the oldest segment. Answers, when that has ended, whether it was committed."""

    agent: Any
    """Who does it for a segment that has no owner."""

    wait: bool
    timeout: float | None
    """For how many seconds, if another commit is in flight. `None`: however long it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Commit segments, oldest first, until one fails or none is left. Answers when that is so."""

    until: float
    """From this time on, on the runtime's clock, no commit is begun."""


@dataclass(frozen=True, slots=True)
class DiscardSession:
    """End, unless something is uncommitted. Answers whether it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEnded:
    """The commit in flight came to its end."""

    error: BaseException | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEnded:
    """This commit has waited for its turn as long as it was to."""

    request: object


# To the directory.


@dataclass(frozen=True, slots=True, kw_only=True)
class FindSession:
    """Answer with the actor of a session, and start it if there is none."""

    session_id: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetSession:
    """This actor of a session has ended."""

    session_id: Hashable
    ref: object


# To the registry of background threads.


@dataclass(frozen=True, slots=True, kw_only=True)
class AddThread:
    """Note a thread. Answers whether it may be started."""

    thread: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveThread:
    """Note that a thread has ended. Answers nothing."""

    thread: Any


@dataclass(frozen=True, slots=True)
class BeginDrain:
    """Take no thread any more. Answers with those that were there, and forgets them."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Leave the set of threads alone until it is given back. Answers, in its turn, when that is so."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The hold is over."""
