"""How a room uses its store: whatever object that is, this is all that is asked of it.

For coherence it needs one method:

    session(session_id)       a row with `version` and `ended`; raises for a session it does not know

For the ledger and for ownership, which are left out where it is missing:

    transaction(durability=…) a context manager: everything inside is written, or nothing. It gives an
                              object with `take`, `pin`, `complete`, `leave`, `intend`, `commit`, `fail`,
                              `hand_over`, `disclaim`, `beat`, `retire` and `orphans`

To remember which conversation of a key is current: `conversation(key)`, its session id; and `renew` in
transactions. Without them, the session remembers it while it lasts.

And some that make it better, where they are there: `take_all(turns, owner=…)` and `record(turns,
owner=…, durability=…)`, what `take` and `complete` do in the usual case, for several sessions in a
transaction of their own; `transact(work, owner=…, durability=…)`, one as a call; `patience`, after how
many seconds these have failed at the latest, so that the callers of turns may call them, and
`interrupt(owner)`, which has them fail sooner; `peek(session_id, expected)`, a look at the version that
never waits, and is quicker if that is the expected one; `own_writes(session_id)` and
`own_writes_done(session_id)`, how many versions this very object is adding or has added; `bury()`, a
look for rooms that are dead; `holds(owner)`, whether this one cannot be taken for dead; `let_go(owner)`,
called when it is over. `greenroom.store` has all of it. What agents get of it, and what that asks of it
in turn, is in `_bound_store`.

Only `peek()` and `holds()` are called by actors in their handlers. The rest may be slow, and runs on
workers.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actors.ledger.coherence import NO_VERSION, TranscriptVersion
from greenroom.actors.runtime._strikes import is_strike
from greenroom.messages import (
    CallLedger,
    CloseBooks,
    Entered,
    EnterStore,
    RecordTurn,
    RenewConversation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from greenroom.actors.runtime._future import Future

__all__ = ["DURABILITIES", "Beat", "Bookkeeping", "check_durability", "check_names"]

DURABILITIES = ("full", "normal", "off")

LONG_DEAD = 86_400.0
"""A room that has been dead for so many seconds, and has nothing, is forgotten."""

LONGEST_NAME = 500
"""How many characters a key or session id may have, where there is a store that is to hold it."""


def check_names(*names: str) -> None:
    """Raise if a store could not hold these keys or session ids."""
    for name in names:
        try:
            good = len(name) <= LONGEST_NAME and "\0" not in name and bool(name.encode())
        except (UnicodeEncodeError, TypeError):
            good = False
        if not good:
            msg = (
                f"with a store, keys and session ids are text of at most {LONGEST_NAME} characters "
                f"without NUL, not {name[:80]!r}"
            )
            raise ValueError(msg)


def check_durability(durability: str) -> None:
    """Raise unless it is one that there is."""
    if durability not in DURABILITIES:
        msg = f"durability must be one of {', '.join(map(repr, DURABILITIES))}, not {durability!r}"
        raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Beat:
    """What the store writer writes unasked: this room lives. Answered with whether others may not have
    thought otherwise meanwhile."""

    ttl: float
    """For how many seconds, unless it says so again."""


class ToWrite(NamedTuple):
    """Something to be written, and who waits for that."""

    request: Any
    answer: Future[Any]
    session: Any = None
    """Who is told if it is given up, because the caller who would tell it may be stuck in it."""

    @property
    def session_id(self) -> str:
        """The session id that it is about. Empty: it is about none."""
        return getattr(self.request, "session_id", "")

    def fail(self, error: BaseException) -> None:
        """Answer with an error, unless it was answered before."""
        self.answer._offer((None, (type(error), error, error.__traceback__)))


class Bookkeeping:
    """A store, as a room uses it."""

    __slots__ = (
        "_begun",
        "_durability",
        "_finished",
        "_holds",
        "_interrupt",
        "_peek",
        "_record_all",
        "_take_all",
        "_transact",
        "bury",
        "ledger",
        "owner",
        "patience",
        "remembers",
        "store",
    )

    def __init__(self, store: Any, *, durability: str = "full") -> None:
        if not callable(getattr(store, "session", None)):
            msg = (
                "store must be a URL such as 'sqlite:///greenroom.db', or an object with the methods of "
                f"greenroom.store.Store, at least session(session_id), not {store!r}"
            )
            raise TypeError(msg)
        check_durability(durability)
        self.store = store
        self._durability = durability
        self.ledger = durability != "off" and callable(getattr(store, "transaction", None))
        """Whether turns are recorded, and sessions owned."""
        self.remembers = callable(getattr(store, "conversation", None))
        """Whether it remembers which conversation of a key is current."""
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        """What this room is called in the store."""
        self._peek: Callable[[str, int], tuple[int, bool] | None] | None = (
            store.peek if getattr(store, "can_peek", False) else None
        )
        self._take_all: Callable[..., dict[str, Any]] | None = getattr(store, "take_all", None)
        self._transact: Callable[..., object] | None = getattr(store, "transact", None)
        self._record_all: Callable[..., dict[str, int]] | None = getattr(store, "record", None)
        self._interrupt: Callable[[str], object] | None = getattr(store, "interrupt", None)
        self.patience: float | None = getattr(store, "patience", None)
        """After how many seconds a write has failed at the latest. `None`: nobody knows."""
        self._holds: Callable[[str], bool] | None = getattr(store, "holds", None)
        self.bury: Callable[[], tuple[Sequence[str], bool]] | None = (
            store.bury if getattr(store, "can_bury", False) else None
        )
        """Look for rooms that are dead: those that are known to be by now, and whether to look again."""
        self._begun: Callable[[str], int] = getattr(store, "own_writes", _none)
        self._finished: Callable[[str], int] = getattr(store, "own_writes_done", _none)

    # In handlers.

    @property
    def peeks(self) -> bool:
        """Whether it can be looked at without waiting."""
        return self._peek is not None

    def peek(self, session_id: str, expected: int = NO_VERSION) -> TranscriptVersion | None:
        """Look at a session id without waiting for anybody. It is quicker if the version is the
        `expected` one. `None`: it cannot be told so quickly, or the store does not know it, or cannot be
        read: ask properly."""
        if self._peek is None:
            return None
        finished = self._finished(session_id)
        try:
            seen = self._peek(session_id, expected)
        except Exception as error:
            if is_strike(error):
                raise
            return None
        if seen is None:
            return None
        return TranscriptVersion(seen[0], seen[1], finished, self._begun(session_id))

    def holds(self) -> bool:
        """Whether this room may begin and write: others cannot take it for dead."""
        return self._holds is None or self._holds(self.owner)

    # When the room is shut.

    def let_go(self) -> None:
        """Say that the room is over, even if that could not be written."""
        let_go = getattr(self.store, "let_go", None)
        if let_go is not None:
            let_go(self.owner)

    # On workers.

    def read(self, session_id: str) -> TranscriptVersion:
        """Look at a session id. Raises if the store does not know it, or cannot tell."""
        finished = self._finished(session_id)
        row = self.store.session(session_id)
        return self._seen(session_id, row.version, row.ended, finished)

    def _seen(self, session_id: str, version: int, ended: object, finished: int) -> TranscriptVersion:
        """What a look has shown. `finished` was counted before it; what was begun is counted after."""
        return TranscriptVersion(version, bool(ended), finished, self._begun(session_id))

    def held_for(self, key: str, most: int = 20) -> Sequence[Any]:
        """What the store says of the session ids of a key: for people, so that an error says nothing."""
        list_sessions = getattr(self.store, "sessions", None)
        if list_sessions is None:
            return ()
        try:
            return tuple(list_sessions(key=key, limit=most))
        except Exception as error:
            if is_strike(error):
                raise
            return ()

    def answer(self, request: EnterStore | RecordTurn | RenewConversation) -> Any:
        """Do what can be done without a ledger: look, and begin another conversation."""
        if isinstance(request, RecordTurn):
            return self.read(request.session_id)
        if isinstance(request, RenewConversation):
            return self.write([request])[0]
        current = self.store.conversation(request.key) if self.remembers else None
        home = self._read_home(request.home)
        try:
            return Entered(seen=self.read(request.session_id), home=home, conversation=current)
        except Exception:
            if (home is None or not home.ended) and current in (None, request.session_id):
                raise
            # Nobody has written to this one yet. That the agent's own has ended counts all the same, and
            # so does that another one is current.
            return Entered(home=home, conversation=current)

    def interrupt(self) -> None:
        """Have what is being recorded fail."""
        if self._interrupt is not None:
            self._interrupt(self.owner)

    def write(self, requests: Sequence[Any]) -> list[Any]:
        """Do all of this. If it is turns that begin and turns that end: a statement for each kind. What
        that leaves, or what else it is: one transaction, in order of sessions, and for each in order."""
        results: list[Any] = [None] * len(requests)
        rest: Sequence[int] = range(len(requests))
        if self._are_usual(requests):
            rest = self._write_usual(requests, results)
        if rest:

            def write(ledger: Any) -> None:
                for at in sorted(rest, key=lambda at: _order(requests[at])):
                    results[at] = self._write(ledger, requests[at])

            transact = self._transact or self._transact_in_block
            transact(write, owner=self.owner, durability=self._durability)
            for at in rest:
                request = requests[at]
                if isinstance(request, EnterStore) and request.home is not None:
                    results[at] = replace(results[at], home=self._read_home(request.home))
        return results

    def _transact_in_block(self, work: Callable[[Any], object], *, owner: str, durability: str) -> None:
        with self.store.transaction(durability=durability) as ledger:
            work(ledger)

    def _are_usual(self, requests: Sequence[Any]) -> bool:
        """Whether these are turns that begin and completed turns, of different sessions."""
        for request in requests:
            if type(request) is RecordTurn:
                if self._record_all is None or request.generation is None:
                    return False
            elif type(request) is not EnterStore or self._take_all is None or request.home is not None:
                return False
        return len(requests) == 1 or len({request.session_id for request in requests}) == len(requests)

    def _write_usual(self, requests: Sequence[EnterStore | RecordTurn], results: list[Any]) -> list[int]:
        """Which are left."""
        take: Any = self._take_all
        record: Any = self._record_all
        finished = [self._finished(request.session_id) for request in requests]
        begun = [(r.session_id, r.key) for r in requests if type(r) is EnterStore]
        ended = [
            (r.session_id, r.epoch, r.generation, r.linger) for r in requests if type(r) is RecordTurn
        ]
        leases: dict[str, Any] = take(begun, owner=self.owner) if begun else {}
        versions: dict[str, int] = (
            record(ended, owner=self.owner, durability=self._durability) if ended else {}
        )
        rest: list[int] = []
        for at, request in enumerate(requests):
            session_id = request.session_id
            if session_id in versions:
                results[at] = self._seen(session_id, versions[session_id], False, finished[at])
            elif session_id in leases:
                results[at] = self._entered(leases[session_id], finished[at])
            elif type(request) is EnterStore:
                rest.append(at)
        return rest

    def _read_home(self, session_id: str | None) -> TranscriptVersion | None:
        try:
            return None if session_id is None else self.read(session_id)
        except Exception:
            return None  # whether it has ended cannot be told

    def _write(self, ledger: Any, request: Any) -> Any:
        match request:
            case EnterStore():
                return self._enter(ledger, request)
            case RecordTurn():
                return self._record(ledger, request)
            case RenewConversation():
                return ledger.renew(request.key, session_id=request.to)
            case CallLedger():
                of = (request.session_id,) if request.session_id else ()
                return getattr(ledger, request.verb)(*of, owner=self.owner, **request.values)
            case Beat():
                return self._beat(ledger, request)
            case _:  # CloseBooks
                ledger.retire(self.owner)
                return True

    def _enter(self, ledger: Any, request: EnterStore) -> Entered:
        finished = self._finished(request.session_id)
        return self._entered(
            ledger.take(request.session_id, key=request.key, owner=self.owner), finished
        )

    def _entered(self, lease: Any, finished: int) -> Entered:
        seen = self._seen(lease.session_id, lease.version, lease.ended, finished)
        return Entered(lease=lease, seen=seen, conversation=getattr(lease, "conversation", None))

    def _record(self, ledger: Any, request: RecordTurn) -> TranscriptVersion | None:
        session_id = request.session_id
        finished = self._finished(session_id)
        mine = {"owner": self.owner, "epoch": request.epoch, "linger": request.linger}
        if request.generation is None:
            version = ledger.leave(session_id, **mine)
        else:
            version = ledger.complete(session_id, generation=request.generation, **mine)
        return None if version is None else self._seen(session_id, version, False, finished)

    def _beat(self, ledger: Any, beat: Beat) -> bool:
        host, pid, _ = self.owner.rsplit(":", 2)
        lived = bool(ledger.beat(self.owner, ttl=beat.ttl, host=host, pid=int(pid)))
        if not lived and hasattr(ledger, "forget_rooms"):
            ledger.forget_rooms(LONG_DEAD)
        return lived


def _order(request: Any) -> tuple[int, str]:
    """First that the room lives, then sessions, last that it has nothing any more."""
    if isinstance(request, Beat):
        return 0, ""
    return (2, "") if isinstance(request, CloseBooks) else (1, request.session_id)


def _none(_: str) -> int:
    return 0
