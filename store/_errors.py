"""What can go wrong with a store.

    StoreError
    ├── UnknownSession      there is no such session: create it, or look at the id
    ├── SessionExists       there is such a session, under another key
    ├── SessionInUse        it cannot be deleted now: a turn of it is running, or uncommitted
    ├── Fenced              the lease that the write relied on is somebody else's by now
    ├── StoreClosed         the store was closed: open another
    ├── StoreTooNew         a newer greenroom wrote it: upgrade
    ├── StoreUnavailable    it cannot be reached, read or written now: try again later
    └── CannotPeek          no look without waiting: ask `session()` instead

The first four are about one session and its caller, the others about the database. Whatever the driver
or SQLAlchemy raise leaves this package as one of these, with the original as its cause. A value that no
database could take (an empty session id, a role that is no string) is a `ValueError` or `TypeError`.
"""

from __future__ import annotations

from importlib.util import find_spec

__all__ = [
    "CannotPeek",
    "Fenced",
    "SessionExists",
    "SessionInUse",
    "StoreClosed",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "UnknownSession",
]

# This is the first module of the package to be loaded, so that nobody gets to see a bare
# "No module named 'sqlalchemy'" from one of the others.
if find_spec("sqlalchemy") is None:
    raise ModuleNotFoundError(
        "greenroom.store needs SQLAlchemy: pip install 'greenroom[store]'", name="sqlalchemy"
    )


class StoreError(Exception):
    """Anything that a store raises by itself."""


class UnknownSession(StoreError):
    """The store has no session of that id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        return f"no session {self.session_id!r} in the store: create_session() makes one"


class SessionExists(StoreError):
    """The store has a session of that id, and not the one that was meant."""

    def __init__(self, session_id: str, key: str | None = None) -> None:
        super().__init__(session_id, key)
        self.session_id = session_id
        self.key = key
        """The key that it belongs to, where that is what was in the way."""

    def __str__(self) -> str:
        under = "" if self.key is None else f" under the key {self.key!r}"
        return f"there is a session {self.session_id!r} already{under}: choose another id"


class SessionInUse(StoreError):
    """The session was to be deleted, and somebody still needs it. Nothing was deleted."""

    in_use = True
    """How a gateway knows it, which knows stores by what they do and not by their class."""

    def __init__(self, session_id: str, owner: str | None = None, uncommitted: int = 0) -> None:
        super().__init__(session_id, owner, uncommitted)
        self.session_id = session_id
        self.owner = owner
        """The room that is in a turn of it, if one is."""
        self.uncommitted = uncommitted
        """How many of its completed turns are not committed."""

    def __str__(self) -> str:
        if self.owner is not None:
            why = f"{self.owner!r} is in a turn of it"
        else:
            why = f"{self.uncommitted} of its completed turns are uncommitted"
        return (
            f"the session {self.session_id!r} was not deleted: {why}. End it and wait for its commit, "
            "or give force=True"
        )


class Fenced(StoreError):
    """Somebody else has taken the session over. Nothing was written."""

    fenced = True
    """How a room knows it, which knows stores by what they do and not by their class."""

    def __init__(self, session_id: str, owner: str | None = None, epoch: int = 0) -> None:
        super().__init__(session_id, owner, epoch)
        self.session_id = session_id
        self.owner = owner
        """Who has it now, if anyone."""
        self.epoch = epoch

    def __str__(self) -> str:
        who = "nobody has it" if self.owner is None else f"{self.owner!r} has it"
        return (
            f"the session {self.session_id!r} was taken over: {who} now (epoch {self.epoch}). "
            "Nothing was written; give the turn up"
        )


class StoreClosed(StoreError):
    """The store was closed."""


class StoreTooNew(StoreError):
    """The tables are of a later version than this greenroom knows."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return (
            f"the store has schema version {self.found}, and this greenroom knows versions up to "
            f"{self.known}: upgrade greenroom, or open another store"
        )


class StoreUnavailable(StoreError):
    """The database cannot be reached, read or written now. What was being written may be lost."""

    temporary = True
    """It is the database, and not what was asked of it: nothing else will work either."""


class CannotPeek(StoreError):
    """There is no look at this store that is sure not to wait."""
