"""Agents whose commits do as they are told, and calls that are made on threads of their own."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from greenroom.integrations.hermes_webui._desk import desk
from tests.actors.actors import PATIENCE, Gate, in_thread

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    import pytest


class Agent:
    """An agent of the program. Its commits take what is planned, one after the other: a gate is waited
    at, an exception raised, anything else called. Without a plan they succeed."""

    def __init__(self, *plan: Any) -> None:
        self.calls = 0
        self.plan = deque(plan)

    def commit_memory_session(self) -> Any:
        self.calls += 1
        action = self.plan.popleft() if self.plan else None
        if isinstance(action, Gate):
            return action.wait()
        if isinstance(action, BaseException):
            raise action
        return None if action is None else action()


class Called:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._answer: Any = None

        def run() -> None:
            self._answer = call(*args, **kwargs)

        self.thread = in_thread(run)

    def answer(self) -> Any:
        """Wait until it is through, and say what it returned."""
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "a call did not return"
        return self._answer


def actor_of(session_id: str) -> Any:
    """The actor of a session, to look into."""
    ref: Any = desk().refs[session_id]
    actor = ref._actor_weakref()
    assert actor is not None
    return actor


def waiting_for(session_id: str) -> int:
    """How many want a commit and wait for the one in flight."""
    return len(actor_of(session_id)._line)


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the drop-in has logged. (On a slow machine the runtime has to say something as well.)"""
    return [record for record in caplog.records if record.name == "greenroom.integrations"]
