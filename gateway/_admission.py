"""The admission: one actor that says which turn may begin. `_fairness.py` decides, this does.

    enter(ticket)     may this turn begin? The answer comes when it may, or an error: its session is
                      busy, too many wait, the tenant has too many sessions
    leave(ticket)     it is over, or whoever waited has gone away. Twice does no harm
    ended(key)        the room has ended a session: it counts no more for its tenant
    recount(keys)     these are the room's sessions, and no others
    shut()            the server drains: nobody is let in any more, and whoever waits is told so

Turns come through the `Door`. Nearly every one finds nobody before it, and leaves nobody behind it: then
it enters and leaves with one short step, on the caller's thread and without a message.

It stands before the room: a request holds one of the `max_running` places only while its session runs
it, never while it waits for its own session. A request that is refused is told why; nothing else comes
of it. A place is given back by whoever has it, when its turn is over, however that ended.

`busy="interrupt"` interrupts the turn that runs, and goes before all others of its session. The
interrupted one may still take a moment to end; until then the new one waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from greenroom import Actor, GreenroomError, Overloaded, RoomClosed, SessionBusy
from greenroom.gateway._fairness import Fairness

__all__ = ["Admission", "Door", "Ticket", "TooManySessions"]


class TooManySessions(GreenroomError):
    """A tenant has as many live sessions as it may have."""


class Ticket:
    """One turn that somebody wants."""

    __slots__ = ("busy", "interrupt", "key", "reply", "tenant")

    def __init__(self, tenant: str, key: str, busy: str, interrupt: Callable[[], object]) -> None:
        self.tenant = tenant
        self.key = key
        self.busy = busy
        """What to do if the session is in a turn: `queue`, `reject` or `interrupt`."""
        self.interrupt = interrupt
        """Called, on any thread, if another turn wants to take its place."""
        self.reply: Any = None


class TurnOver(NamedTuple):
    """A ticket that is given back: its turn is over, or whoever waited for it has gone."""

    ticket: Ticket


class Door:
    """The way in and out for a turn, from an event loop."""

    def __init__(self, admission: Any) -> None:
        """`admission` is the reference to it."""
        self._admission = admission

    def enter_now(self, ticket: Ticket) -> bool:
        """Enter at once, if that may be. False: `enter()` will tell."""
        return bool(self._admission.step(Admission.enter_now, ticket))

    async def enter(self, ticket: Ticket) -> None:
        """Enter, once that may be."""
        await self._admission.ask(ticket, block=False)

    def leave(self, ticket: Ticket) -> None:
        """It is over."""
        if not self._admission.step(Admission.leave_now, ticket):
            self._admission.tell(TurnOver(ticket))


class Admission(Actor):
    """Lets turns begin, fairly and not too many at once."""

    def __init__(self, *, running: int, waiting: int, waiting_each: int, sessions_each: int) -> None:
        """Begin with nobody."""
        super().__init__()
        self._queue: Fairness[Ticket] = Fairness(running)
        self._waiting = waiting
        self._waiting_each = waiting_each
        self._sessions_each = sessions_each
        self._sessions: dict[str, set[str]] = {}
        self._shut = False

    def on_receive(self, message: Ticket | TurnOver) -> None:
        """A ticket that must wait, or is refused; or one that somebody waits for."""
        if isinstance(message, TurnOver):
            self.leave(message.ticket)
        else:
            self.enter(message)

    def enter_now(self, ticket: Ticket) -> bool:
        """Let a turn begin that nobody stands before. False: nothing has changed."""
        sessions = self._sessions.setdefault(ticket.tenant, set())
        if self._shut or (ticket.key not in sessions and len(sessions) >= self._sessions_each):
            return False
        if not self._queue.begin_now(ticket.key, ticket):
            return False
        sessions.add(ticket.key)
        return True

    def leave_now(self, ticket: Ticket) -> bool:
        """End a turn that nobody waits for. False: nothing has changed."""
        return self._queue.end_now(ticket.key, ticket)

    def enter(self, ticket: Ticket) -> None:
        """Answer when the turn may begin."""
        queue, key = self._queue, ticket.key
        if self._shut:
            raise _closed(key)
        busy = queue.runs(key)
        if busy is not None or queue.waits(key) or queue.running >= queue.limit:
            self._refuse_some(ticket, busy)
        self._count(ticket)
        begun = queue.arrive(ticket.tenant, key, ticket, first=ticket.busy == "interrupt")
        if begun == [ticket]:
            return
        ticket.reply = self.defer_reply()
        self._begin(begun)
        if busy is not None and ticket.busy == "interrupt":
            busy.interrupt()

    def _refuse_some(self, ticket: Ticket, busy: Ticket | None) -> None:
        queue, key = self._queue, ticket.key
        if ticket.busy == "reject" and (busy is not None or queue.waits(key)):
            msg = f"session {key!r} is in a turn"
            raise SessionBusy(msg, key)
        if queue.waits(key) >= self._waiting_each:
            msg = f"session {key!r} has {queue.waits(key)} turns waiting, and more may not"
            raise Overloaded(msg, key)
        if queue.waiting >= self._waiting:
            msg = f"{queue.waiting} turns are waiting, and more may not: session {key!r} is refused one"
            raise Overloaded(msg, key)

    def _count(self, ticket: Ticket) -> None:
        sessions = self._sessions.setdefault(ticket.tenant, set())
        if ticket.key in sessions:
            return
        if len(sessions) >= self._sessions_each:
            msg = f"{ticket.tenant!r} has {len(sessions)} live sessions, and may not have another one"
            raise TooManySessions(msg, ticket.key)
        sessions.add(ticket.key)

    def leave(self, ticket: Ticket) -> None:
        """Let the next ones begin."""
        self._begin(self._queue.leave(ticket.tenant, ticket.key, ticket))

    def ended(self, key: str) -> None:
        """Forget a session, unless somebody waits for the next one of its name."""
        tenant, _, _ = key.partition("/")
        sessions = self._sessions.get(tenant)
        if sessions is not None and self._queue.runs(key) is None and not self._queue.waits(key):
            sessions.discard(key)
            if not sessions:
                del self._sessions[tenant]

    def recount(self, keys: frozenset[str]) -> None:
        """These are the sessions that there are: forget the others. Not all of them end with an event:
        one whose agent could never be built was never there."""
        for tenant, sessions in list(self._sessions.items()):
            for key in sessions - keys:
                self.ended(key)
            if not self._sessions.get(tenant):
                self._sessions.pop(tenant, None)

    def shut(self) -> None:
        """Let nobody in any more."""
        self._shut = True
        for ticket in self._queue.dismiss():
            ticket.reply.set_exception(_closed(ticket.key))

    def interrupt(self, key: str) -> bool:
        """Interrupt the turn that runs for this key. False if there is none."""
        ticket = self._queue.runs(key)
        if ticket is not None:
            ticket.interrupt()
        return ticket is not None

    def allow(self, *, running: int, waiting: int, waiting_each: int, sessions_each: int) -> None:
        """Change the limits. Whoever is in stays in."""
        self._waiting, self._waiting_each = waiting, waiting_each
        self._sessions_each = sessions_each
        self._begin(self._queue.set_limit(running))

    def figures(self) -> tuple[int, int]:
        """How many turns run, and how many wait."""
        return self._queue.running, self._queue.waiting

    def _begin(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            ticket.reply.set(None)


def _closed(key: str) -> RoomClosed:
    msg = f"session {key!r} begins no turn any more: the server is shutting down"
    return RoomClosed(msg, key)
