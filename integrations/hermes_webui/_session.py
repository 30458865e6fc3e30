"""The actor of one session: its generations, the agents that own them, and who waits for a commit.

The decisions are `Generations`': which segment is next, who owns it, what a commit covers. The actor
adds the agents themselves, the hook, and the line of those who want a commit:

    Commit, Flush ──> the line ──> the first one's commit begins ──> hook, on a worker
                         ^                                              │
                         └── the next one, when the commit has ended <──┘ CommitEnded

A hook never runs in a handler, so a turn that completes meanwhile is marked at once. At most one runs
for a session, however late it comes back: until then the session is in flight. Hooks of different
sessions have nothing in common but the workers, of which there are as many as are wanted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom import Actor, Generations, put_back, take_down
from greenroom.integrations.hermes_webui._messages import (
    Commit,
    CommitEnded,
    DiscardSession,
    Flush,
    ForgetSession,
    HasUncommitted,
    MarkTurn,
    RegisterAgent,
    WaitEnded,
)

if TYPE_CHECKING:
    import pykka

__all__ = ["Session"]

logger = logging.getLogger("greenroom.integrations")

COMMITS, DRAIN = "commit", "drain"
"""The lanes of the workers: whatever hangs there, a drain has workers of its own."""

MOST_COMMITS = 100_000
"""No bound: whoever began a commit waits for it on a thread, so there are no more of these than of
those. With a bound, so many hooks that hang would keep all other sessions from being committed."""

MOST_IN_A_DRAIN = 512
"""A drain begins all commits at once, and waits on one thread: these need a bound."""

LONGEST = 1e9
"""Seconds. Who would wait longer waits for ever."""


class Session(Actor):
    """One session of the program."""

    def __init__(
        self, session_id: Hashable, directory: pykka.ActorRef[Any], before: Session | None = None
    ) -> None:
        super().__init__()
        self.session_id = session_id
        self._directory = directory
        self._generations = Generations()
        self._agent: Any = None
        """Who completes the next turn, unless it is said with the turn."""
        self._owners: dict[int, Any] = {}
        """The agents that own something uncommitted, by `id()`: being here keeps it theirs alone."""
        self._line: deque[_Request] = deque()
        """Those who want a commit, while one is in flight."""
        self._served: _Request | None = None
        """Whose commit is in flight."""
        if before is not None:
            self._take_over(before)

    can_restore = True

    def save(self) -> tuple[Any, ...]:
        generations = self._generations
        parts = (generations, *generations.segments, self._owners, self._line)
        return self._agent, self._served, take_down(parts)

    def restore(self, saved: tuple[Any, ...]) -> None:
        self._agent, self._served, then = saved
        put_back(then)

    def hand_over(self) -> Session:
        return self

    def _take_over(self, before: Session) -> None:
        """Go on where an incarnation that failed was interrupted."""
        self._generations, self._agent = before._generations, before._agent
        self._owners, self._line, self._served = before._owners, before._line, before._served
        if self._served is None:
            self._generations.put_off_commit()  # it was about to begin one, or to note its end

    def on_start(self) -> None:
        self._go_on()

    def on_receive(self, message: Any) -> Any:
        return self._handlers[message.__class__](self, message)

    def _register(self, message: RegisterAgent) -> None:
        self._agent = message.agent

    def _mark(self, message: MarkTurn) -> int:
        if message.agent is not None:
            self._agent = message.agent
        return self._generations.complete(self._number(self._agent))

    def _tell_whether_uncommitted(self, _: HasUncommitted) -> bool:
        return self._generations.dirty > 0

    def _discard(self, _: DiscardSession) -> bool:
        if self._generations.dirty:  # a commit in flight is uncommitted, too
            return False
        # What is already on its way here is refused, and whoever sent it goes through the directory,
        # which starts a new session: a turn that is marked at this moment is not lost.
        self.stop_now()
        self._directory.tell(ForgetSession(session_id=self.session_id, ref=self.actor_ref))
        return True

    # Commits.

    def _commit(self, message: Commit) -> bool | None:
        has_to_wait = self._served is not None
        may_wait = message.wait and (message.timeout is None or message.timeout > 0)
        if has_to_wait and not may_wait:
            return False
        request = _Request(self.defer_reply(), agent=message.agent)
        if has_to_wait and message.timeout is not None:
            request.timer = self.call_later(min(message.timeout, LONGEST), WaitEnded(request=request))
        self._line.append(request)
        self._go_on()
        return None

    def _flush(self, message: Flush) -> None:
        self._line.append(_Request(self.defer_reply(), until=message.until))
        self._go_on()

    def _stop_waiting(self, message: WaitEnded) -> None:
        request = message.request
        if isinstance(request, _Request) and request in self._line:
            self._line.remove(request)
            request.answer(False)

    def _go_on(self) -> None:
        """Serve those in the line until one has a commit in flight."""
        while self._line and self._served is None:
            request = self._line.popleft()
            if self._begin(request):
                self._served = request
            else:
                request.answer(request.until is not None and not self._generations.dirty)

    def _begin(self, request: _Request) -> bool:
        if request.until is not None and self.runtime.clock() >= request.until:
            return False
        if self._generations.dirty and not _has_threads():
            logger.warning("Too late to commit session %r: the interpreter is ending", self.session_id)
            return False
        offered = request.agent if request.agent is not None else self._agent
        segment = self._generations.begin_commit(self._number(offered))
        owner = None if segment is None or segment.owner is None else self._owners[segment.owner]
        self._let_go_of_agents()
        if owner is None:
            return False
        lane, most = (COMMITS, MOST_COMMITS) if request.until is None else (DRAIN, MOST_IN_A_DRAIN)
        name = f"commit {self.session_id!r}"
        # In the context of whoever wants the commit, which is not always that of this message.
        work = request.context.run(
            self.runtime.submit, _call_hook, owner, name=name, lane=lane, most=most
        )
        self.pipe_to_self(work, lambda _: CommitEnded(error=None), lambda e: CommitEnded(error=e))
        return True

    def _end(self, message: CommitEnded) -> None:
        request, self._served = self._served, None
        succeeded = message.error is None
        if not succeeded:
            logger.warning(
                "The commit of session %r failed. It stays uncommitted",
                self.session_id,
                exc_info=message.error,
            )
        self._generations.end_commit(succeeded)
        self._let_go_of_agents()
        if request is not None:
            if succeeded and request.until is not None:
                self._line.appendleft(request)  # until nothing is left
            else:
                request.answer(succeeded)
        self._go_on()

    # Agents.

    def _number(self, agent: Any) -> int | None:
        """The number of an agent, as an owner. It is kept from now on."""
        if agent is None:
            return None
        self._owners[id(agent)] = agent
        return id(agent)

    def _let_go_of_agents(self) -> None:
        """Forget the agents that own nothing any more."""
        for number in [n for n in self._owners if not self._generations.owes(n)]:
            del self._owners[number]

    _handlers: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        Commit: _commit,
        CommitEnded: _end,
        DiscardSession: _discard,
        Flush: _flush,
        HasUncommitted: _tell_whether_uncommitted,
        MarkTurn: _mark,
        RegisterAgent: _register,
        WaitEnded: _stop_waiting,
    }


class _Request:
    """Somebody who wants a commit. With `until`, as many as it takes."""

    __slots__ = ("_reply", "agent", "context", "timer", "until")

    def __init__(self, reply: Any, *, agent: Any = None, until: float | None = None) -> None:
        self._reply = reply
        self.agent = agent
        self.until = until
        self.context: Context = copy_context()
        self.timer: Any = None

    def answer(self, succeeded: bool) -> None:
        """Say how it ended."""
        if self.timer is not None:
            self.timer.cancel()
        self._reply.set(succeeded)


def _call_hook(agent: Any) -> Any:
    return agent.commit_memory_session()


def _has_threads() -> bool:
    """Tell whether a hook can have a thread. In an `atexit` handler of Python 3.12 none can be started
    any more, and a commit that waited for one would keep the process from ending."""
    if threading.main_thread().is_alive():
        return True
    try:
        threading.Thread(target=bool, daemon=True).start()
    except RuntimeError:
        return False
    return True
