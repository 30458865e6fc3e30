"""The decisions about the accounts of a session. Pure: time is an argument.

An *account* is a session id in the ledger that this room was the last to have, as far as it knows: under
which epoch, with how many turns, and until when it is this room's for sure. All that is asked of the
store about it names the epoch. If the answer is "lost", another room has it, and the account is closed.

A session id that was asked for, without an answer, may have been given to this room all the same. So may
one that is lost: it was perhaps taken anew. Its account has no epoch that is known, and is *in doubt*.

    a turn begins soon after the last     the hold lasts for a moment longer; pinned, it goes on lasting
    a turn is over, or never began        the store is told that nobody uses the session id
    nobody is there who would commit      it is handed over: whoever looks for orphans finds it
    in doubt                              it is disclaimed: the store must not keep it for this room
    the store could not be told           again after a pause

After every message the accounts are looked through (`tidy`): whatever is not in use and not as the store
should have it is told, whoever forgot to. There are few of them: one for a session id that is in use,
has uncommitted turns, or that the agent remembers.

What is to be asked of the store is returned as the very request, and its answer comes back with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenroom.actors.session.machine.effects import Entry
from greenroom.actors.session.machine.states import Place
from greenroom.messages import CallLedger, EnterStore, RecordTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from greenroom.actors.ledger.coherence import Remembered
    from greenroom.actors.session.machine.data import SessionData
    from greenroom.messages import Request

__all__ = ["IN_DOUBT", "PINNED", "Account", "Accounts", "judge"]

PINNED = float("inf")

IN_DOUBT = -1
"""The epoch of an account that the store may have given to this room without its knowing."""


@dataclass(slots=True)
class Account:
    """A session id in the ledger, as long as this room is the last that had it, as far as it knows."""

    session_id: str
    epoch: int
    generation: int = 0
    """How many of its turns are completed."""

    committed: int = 0
    recorded: int = 0
    """How many of the completed turns the store knows of."""

    until: float = 0.0
    """Until when it is this room's for sure, on the runtime's clock: `PINNED` in a turn."""

    loose: bool = False
    """The store may think that a turn is running: it could not be told otherwise."""

    asked: int = 0
    """How much is being asked about it, or told, that no turn waits for."""

    tries: int = 0
    due: float = 0.0
    """The store could not be told, and is told again then."""

    pin_at: float = 0.0
    """If a turn of it is running then, the hold should last. 0: it does, or no turn has begun."""

    @property
    def unrecorded(self) -> bool:
        """Whether there are completed turns that the store does not know of."""
        return self.generation > self.recorded

    @property
    def untold(self) -> bool:
        """Whether the store should be told something, once no turn is running."""
        return self.unrecorded or self.loose or self.until == PINNED

    def call(self, verb: str, **values: Any) -> CallLedger[bool]:
        """Ask the ledger something that no turn waits for."""
        self.asked += 1
        return CallLedger(verb=verb, session_id=self.session_id, values=values)

    def heard(self) -> None:
        """There was an answer, perhaps to what nobody waits for any more."""
        self.asked = max(0, self.asked - 1)

    def record(self, turn: Any, *, completed: bool, now: float, linger: float) -> RecordTurn:
        """What the store is told when a turn has ended, and of earlier ones that it does not know."""
        generation = self.generation if self.unrecorded else None
        return RecordTurn(
            session_id=self.session_id,
            epoch=self.epoch,
            generation=self.generation + 1 if completed else generation,
            linger=linger,
            turn=turn,
            asked=now,
        )

    def tell(self, now: float, linger: float) -> RecordTurn:
        """What the store is told that it does not know yet: at least that no turn is running."""
        self.asked += 1
        self.until = 0.0
        return self.record(None, completed=False, now=now, linger=linger)

    def told(self, request: RecordTurn) -> None:
        """The store knows all that is in the request."""
        if request.generation is not None:
            self.generation = max(self.generation, request.generation)
            self.recorded = max(self.recorded, request.generation)
        self.until = request.asked + request.linger
        self.tries, self.due, self.loose = 0, 0.0, False

    def not_told(self, now: float, pause_after: Callable[[int], float]) -> None:
        """The store could not be told. It is after a pause, unless that is under way already."""
        self.until, self.loose = 0.0, True
        if self.due <= now:
            self.tries += 1
            self.due = now + pause_after(self.tries)

    def pinned(self, held: bool, error: BaseException | None) -> bool:
        """A turn of it lasts, and so does the hold, or not. True: it is to be tried again. If it is
        lost, the end of the turn will show."""
        if held:
            self.until = PINNED
        elif error is not None:
            self.loose = True  # it may have been pinned all the same
        return error is not None


@dataclass(slots=True)
class Accounts:
    """The accounts of a session, and what is being asked about session ids."""

    key: str
    by_id: dict[str, Account] = field(default_factory=dict[str, Account])
    last: Account | None = None
    """The account that was closed last: for people, who want to see its figures."""

    ticket: int = 0
    """Numbers what was asked for turns that are to begin: only the last answer counts."""

    asked: dict[str, int] = field(default_factory=dict[str, int])
    """Session ids that were asked for, and how many answers are still to come."""

    def get(self, session_id: str, epoch: int | None = None) -> Account | None:
        """The account of a session id, under this epoch if one is given; else one that is not in
        doubt."""
        account = self.by_id.get(session_id)
        if account is None or epoch not in (None, account.epoch):
            return None
        return None if epoch is None and account.epoch == IN_DOUBT else account

    def in_use(self, machine: SessionData) -> Account | None:
        """The account of the turn that runs, or is to begin."""
        turn = machine.turn or machine.next_turn
        return None if turn is None else self.get(machine.id_of(turn, self.key))

    @property
    def unrecorded(self) -> bool:
        """Whether there are completed turns that the store does not know of."""
        return any(account.unrecorded for account in self.by_id.values())

    @property
    def under_way(self) -> bool:
        """Whether the store is being asked or told something, or is to be."""
        return bool(self.asked) or any(a.untold or a.asked for a in self.by_id.values())

    # Asked for.

    def enter(self, session_id: str, home: str | None, *, here: bool) -> EnterStore:
        """Ask for a session id for a turn, and have a look at that of the agent's home."""
        self.ticket += 1
        self.asked[session_id] = self.asked.get(session_id, 0) + 1
        return EnterStore(session_id=session_id, key=self.key, home=home, ticket=self.ticket, here=here)

    def take_over(self, session_id: str) -> EnterStore:
        """Ask for a session id that another room left."""
        self.asked[session_id] = self.asked.get(session_id, 0) + 1
        return EnterStore(session_id=session_id, key=self.key)

    def may_take_over(self, session_id: str, epoch: int, machine: SessionData) -> bool:
        """Whether what was left under this epoch is still nobody's business here."""
        account = self.get(session_id)
        if session_id in self.asked:
            return False
        return account is None or (account.epoch <= epoch and account is not self.in_use(machine))

    def heard_of(self, session_id: str, *, known: bool) -> None:
        """There is an answer to what was asked for. `known`: it says who has the session id."""
        left = self.asked.pop(session_id, 0) - 1
        if left > 0:
            self.asked[session_id] = left
        if known and self.get(session_id, IN_DOUBT) is not None:
            del self.by_id[session_id]

    def holds(self, session_id: str, now: float, linger: float) -> bool:
        """Whether a session id is this room's for long enough that a turn may begin."""
        account = self.by_id.get(session_id)
        return account is not None and account.until - linger / 2 >= now

    # Opened, and closed.

    def open(self, lease: Any) -> tuple[bool, Account | None]:
        """This room has the session id now. Whether it is under another epoch than it was, or was not
        known here; and what was known of it, if others have had it since."""
        account = self.get(lease.session_id)
        if account is not None and account.epoch == lease.epoch:
            account.until = PINNED
            return False, None
        self.by_id[lease.session_id] = Account(
            lease.session_id, lease.epoch, lease.generation, lease.committed, lease.generation, PINNED
        )
        return True, account

    def close(self, account: Account) -> None:
        """It is not this room's any more, or nothing need be known of it."""
        if self.by_id.get(account.session_id) is account:
            del self.by_id[account.session_id]
        if account.epoch != IN_DOUBT:
            self.last = account

    def doubt(self, session_id: str) -> Account:
        """The store may have given a session id to this room without its knowing. If it has an account,
        it is told when no turn uses it; if it was given anew, that shows then."""
        account = self.by_id.setdefault(session_id, Account(session_id, IN_DOUBT))
        account.loose = True
        return account

    def lose(self, account: Account) -> None:
        """Another room has it, or had it: it may have been taken anew without an answer."""
        if self.by_id.get(account.session_id) is account:
            self.close(account)
            self.doubt(account.session_id)
        self.last = account

    def tidy(
        self,
        machine: SessionData,
        remembered: Remembered | None,
        recovering: Container[str],
        now: float,
        linger: float,
    ) -> list[Request[Any]]:
        """See to it that the store keeps what is in use. Let go of session ids that are not, unless the
        agent that is there remembers them: it may serve them without anybody being asked."""
        requests: list[Request[Any]] = []
        used = self.in_use(machine)
        needed = machine.place is not Place.EMPTY
        generations = machine.generations
        for account in list(self.by_id.values()):
            session_id = account.session_id
            if account.asked or session_id in self.asked:
                continue
            if account is used:
                lasts = 0.0 < account.pin_at <= now and machine.place is not Place.RECORDING
                if lasts and account.until != PINNED:
                    account.pin_at = 0.0
                    requests.append(account.call("pin", epoch=account.epoch))
            elif account.due > now or session_id in recovering:
                continue
            elif account.epoch == IN_DOUBT:
                requests.append(account.call("disclaim", key=self.key))
            elif not needed and not account.unrecorded and generations.nobodys(session_id):
                # Nobody here completed these turns, and there is no agent to answer for them.
                account.until = 0.0
                requests.append(account.call("hand_over", epoch=account.epoch))
            elif account.untold:
                requests.append(account.tell(now, linger))
            elif not generations.owed_for(session_id) and session_id not in (remembered or ()):
                self.close(account)
        return requests

    # For people.

    def shown(self, session_id: str | None) -> Account | None:
        """The account of the current session id, or the last that was known of it."""
        account = self.get(session_id or "")
        if account is None and self.last is not None and self.last.session_id == session_id:
            return self.last
        return account

    def is_held(self, session_id: str | None, now: float) -> bool:
        """Whether a session id is this room's for sure."""
        account = self.by_id.get(session_id or "")
        return account is not None and account.until > now


def judge(lease: Any, lost: Account | None, *, stale: bool) -> Entry:
    """What the answer of the store means for the turn that is to begin. `lost` is what was known of the
    session id, if others have had it since. `stale`: the agent does not know all of the transcript."""
    if lease is not None and not lease.held:
        return Entry.HELD
    moved = lease is not None and lost is not None and lost.generation != lease.generation
    return Entry.STALE if moved or stale else Entry.FRESH
