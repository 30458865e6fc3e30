"""What the session commands are asked and answer, for the OpenAPI description and generated clients."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Begin",
    "Committed",
    "Ended",
    "Evicted",
    "Interrupted",
    "Session",
    "SessionList",
    "SessionShown",
    "State",
]

State = Literal[
    "in turn",
    "entering",
    "building",
    "idle",
    "leaving",
    "closing",
    "retained",
    "known",
    "failed",
    "stored",
]


class Begin(BaseModel):
    """A session that is to begin."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: str | None = Field(default=None, description="Its name. One is made up if there is none.")
    previous: str | None = Field(
        default=None, description="The session that this one follows: its work is committed now."
    )
    metadata: dict[str, str] | None = Field(default=None, max_length=16)


class Session(BaseModel):
    """A session."""

    id: str = Field(description="Its name.")
    object: Literal["session"] = "session"
    state: State = Field(description="`stored`: it is not in memory, and its next turn brings it back.")
    turns: int = Field(description="How many turns were completed.")
    uncommitted: int = Field(description="How many of them are not committed.")
    cached: bool = Field(description="Whether its agent is in memory.")
    waiting: int = Field(description="How many turns wait for it.")
    idle_seconds: float | None = Field(
        description="For how long it has not been used, if that is known."
    )
    last_reason: str | None = Field(description="Why its last agent was released, if one was.")


class SessionShown(Session):
    """A session, and why it is as it is."""

    why: list[str] = Field(description="Sentences for people.")
    messages: int | None = Field(
        description="How many messages its transcript has, if there is a store."
    )
    previous: str | None = Field(description="The session that it follows, if it was begun so.")
    metadata: dict[str, str] = Field(description="What it was begun with.")
    figures: dict[str, Any] | None = Field(
        default=None, description="All that the room knows of it, for operators."
    )
    stored: dict[str, Any] | None = Field(
        default=None, description="All that the store knows of it, for operators."
    )


class SessionList(BaseModel):
    """A page of sessions, in the order of their names."""

    object: Literal["list"] = "list"
    data: list[Session]
    first_id: str | None
    last_id: str | None = Field(description="Give it as `after` for the next page.")
    has_more: bool


class _Outcome(BaseModel):
    id: str = Field(description="The session.")


class Committed(_Outcome):
    """What a commit came to."""

    object: Literal["session.commit"] = "session.commit"
    outcome: Literal["committed", "nothing", "pending"] = Field(
        description="`pending`: it takes longer than was waited for, and goes on."
    )
    committed: int = Field(description="How many turns were committed.")
    left: int = Field(description="How many still are not.")


class Evicted(_Outcome):
    """Whether there was an agent to release."""

    object: Literal["session.eviction"] = "session.eviction"
    evicted: bool


class Interrupted(_Outcome):
    """Whether there was a turn to interrupt."""

    object: Literal["session.interrupt"] = "session.interrupt"
    interrupted: bool


class Ended(_Outcome):
    """What became of a session."""

    object: Literal["session.ended"] = "session.ended"
    ended: bool = Field(description="False if it was not in memory.")
    interrupted: bool
    forgotten: bool = Field(
        default=False, description="Whether its transcript is gone. Behind the answer, if it takes long."
    )
