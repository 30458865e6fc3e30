"""What greenroom keeps on a Hermes agent: which conversation it is in, and what it still owes."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

__all__ = ["Notes", "Tasks", "Transcript", "notes_of", "transcript_of"]


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
            for task_id in list(self.ids):  # copied in one step: a turn may add one
                stack.callback(cleanup_browser, task_id)
                stack.callback(cleanup_vm, task_id)
                stack.callback(process_registry.kill_all, task_id=task_id)


class Transcript(NamedTuple):
    """What was said in a conversation, up to some turn."""

    session_id: str
    messages: list[Any]


class Notes:
    """What greenroom keeps on an agent. Turns never overlap, nor do commits; a turn may begin while a
    commit runs. Whatever both change is one attribute or one list, and changed in one step."""

    __slots__ = ("committed", "owed", "past", "session_id", "tasks")

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.session_id: str | None = None
        """The conversation that its last turn was of, as the gateway calls it."""
        self.owed = False
        """Whether the last commit has failed. One that is under way has not."""
        self.committed: Transcript | None = None
        """What was committed last of the conversation that the agent was in."""
        self.past: list[Transcript] = []
        """What is still to be committed of conversations that it was in before: one of each."""

    def leave(self, transcript: Transcript) -> None:
        """The agent goes to another conversation. Keep what was said, if it is to be committed."""
        if transcript.messages and transcript != self.committed:
            self.past.append(transcript)

    def come_back(self, session_id: str) -> list[Any]:
        """The agent goes to this conversation: take back what is kept of it."""
        for transcript in tuple(self.past):
            if transcript.session_id == session_id:
                self.settle(transcript)
                return transcript.messages
        return []

    def settle(self, transcript: Transcript) -> None:
        """This is nobody's to commit any more."""
        with suppress(ValueError):
            self.past.remove(transcript)

    def forget(self) -> None:
        """Let go of all transcripts."""
        self.committed = None
        self.past.clear()


def notes_of(agent: Any) -> Notes:
    """The notes on an agent. One that was built elsewhere gets its own when first asked."""
    notes: Notes = vars(agent).setdefault("_greenroom", Notes(Tasks()))
    return notes


def transcript_of(agent: Any) -> Transcript:
    """What was said in the agent's conversation: a copy, for it may be emptied while somebody reads."""
    while True:
        session_id, messages = agent.session_id, getattr(agent, "_session_messages", None)
        if session_id == agent.session_id:  # no turn took the agent elsewhere meanwhile
            return Transcript(session_id, list(messages) if isinstance(messages, list) else [])
