"""What greenroom keeps on a Hermes agent: which conversation it is in, and what it still owes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

__all__ = ["Notes", "Tasks", "notes_of", "transcript_of"]


class Tasks:
    """What a session has in Hermes's registries: background processes, terminals and browsers.

    They are filed under the id of the conversation, not under an agent. An agent that is closed ends
    those of the conversation it is in; of a session whose agent was released, nobody would. So this
    belongs to the session, as a resource, and is closed with it.
    """

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def close(self) -> None:
        """End them all: each of the three, even if another of them raises."""
        from tools.browser_tool import cleanup_browser
        from tools.process_registry import process_registry
        from tools.terminal_tool import cleanup_vm

        with ExitStack() as stack:
            for task_id in tuple(self.ids):
                stack.callback(cleanup_browser, task_id)
                stack.callback(cleanup_vm, task_id)
                stack.callback(process_registry.kill_all, task_id=task_id)


class Notes:
    """What greenroom keeps on an agent. Turns and hooks change it, and these never overlap."""

    __slots__ = ("begun", "owed", "past", "session_id", "tasks")

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.session_id: str | None = None
        """The conversation that its last turn was of, as the gateway calls it."""
        self.begun = False
        """Whether a turn was begun since the last commit."""
        self.owed = False
        """Whether a commit was begun, and has not succeeded."""
        self.past: dict[str, list[Any]] = {}
        """Transcripts of other conversations that it was in since the last commit, by session id."""


def notes_of(agent: Any) -> Notes:
    """The notes on an agent. One that was built elsewhere gets its own when first asked."""
    notes: Notes = vars(agent).setdefault("_greenroom", Notes(Tasks()))
    return notes


def transcript_of(agent: Any) -> list[Any]:
    """What was said in the agent's conversation: a copy, for it may be emptied while somebody reads."""
    messages = getattr(agent, "_session_messages", None)
    return list(messages) if isinstance(messages, list) else []
