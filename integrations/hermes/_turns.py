"""A turn of a Hermes agent: what is reset before it, how it is run, and what is looked at after it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import time
from typing import TYPE_CHECKING, Any

from greenroom.integrations.hermes._notes import notes_of, transcript_of

if TYPE_CHECKING:
    from greenroom import Turn
    from greenroom.integrations.hermes._notes import Notes

__all__ = ["conclude", "converse", "converse_soon", "prepare"]


def prepare(agent: Any, turn: Turn) -> None:
    """Make an agent ready for a turn: `Greenroom(…, prepare=prepare)`.

    An interrupt that the last turn left behind is cleared, or it would end this one before its first
    word. The clock of inactivity and the count of requests begin anew. An agent that was in another
    conversation is taken to this one.
    """
    notes = notes_of(agent)
    if turn.session_id != notes.session_id:
        _enter(agent, notes, turn.session_id)
    # The thread of the last turn may be somebody else's by now: to clear the interrupt of that thread
    # would be to take away theirs.
    agent._execution_thread_id = None
    agent.clear_interrupt()
    agent._last_activity_ts = time.time()
    agent._last_activity_desc = "starting a turn"
    agent._last_flushed_db_idx = 0
    agent._api_call_count = 0


def _enter(agent: Any, notes: Notes, session_id: str) -> None:
    """The turn is of another conversation than the last one was."""
    notes.session_id = session_id
    notes.tasks.ids.add(session_id)
    if agent.session_id == session_id:
        return  # it was built for it, or a compression took it there and the gateway has followed
    notes.leave(transcript_of(agent))
    agent._session_messages = []  # before the id changes: a commit may read both at any time
    _switch(agent, session_id)
    agent._session_messages = notes.come_back(session_id)


def _switch(agent: Any, session_id: str) -> None:
    """Take an agent to another conversation, as Hermes's own `/resume` does in its terminal program."""
    before, agent.session_id = agent.session_id, session_id
    agent._session_db_created = False  # the first message makes sure that there is a row
    agent.reset_session_state()
    agent._invalidate_system_prompt()
    agent._todo_store = type(agent._todo_store)()
    if agent._memory_manager is not None:
        agent._memory_manager.on_session_switch(
            session_id, parent_session_id=before or "", reset=False, reason="resume"
        )


def conclude(turn: Turn, result: dict[str, Any]) -> None:
    """Look at what `run_conversation()` returned, before the turn ends.

    A turn that failed is not counted as completed; its agent is kept, for another one would fail in the
    same way. After a turn that a fallback model has answered the agent is not kept, so that the next
    turn tries the agent's own model again.
    """
    if result.get("failed"):
        turn.cancel()
    elif getattr(turn.agent, "_fallback_activated", False):
        turn.discard(f"a fallback model has answered: {turn.agent.model}")


def converse(turn: Turn, message: Any, **options: Any) -> dict[str, Any]:
    """Run a turn's conversation, in this thread, and conclude it. Returns what the agent returned.

    `options` are those of `AIAgent.run_conversation()`: `conversation_history`, …. The task is that of
    the turn's conversation, unless one is given.
    """
    task_id = options.pop("task_id", None) or turn.session_id
    notes_of(turn.agent).tasks.ids.add(task_id)
    result: dict[str, Any] = turn.agent.run_conversation(message, task_id=task_id, **options)
    conclude(turn, result)
    return result


async def converse_soon(turn: Turn, message: Any, **options: Any) -> dict[str, Any]:
    """The same on an event loop, which is not blocked.

    If the task is cancelled, the agent is interrupted, and the turn lasts until the agent has noticed: a
    conversation cannot be taken away from a thread, and nobody else may have the agent while it runs.
    """
    agent = turn.agent
    fate: dict[int, str] = {}  # "begun" by the thread or "left" by this task: the first one counts

    def converse_here() -> dict[str, Any]:
        begun = fate.setdefault(0, "begun") == "begun"
        return converse(turn, message, **options) if begun else {}

    call = functools.partial(contextvars.copy_context().run, converse_here)
    # No task: a loop that is shut down cancels every task, and the thread would run on all the same.
    work = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if fate.setdefault(0, "left") == "left":
            raise  # no thread was free: whenever one is, it finds that nobody is there
        agent.interrupt()
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                pass  # whoever asks again is not answered sooner
        work.exception()  # looked at, so that nobody is told of it later
        raise
