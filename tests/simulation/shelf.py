"""A store in a dict, on virtual time, that fails as often as it is told to: what a room needs of one.

A transaction is one step of the simulation, as it is one of a database: it happens as a whole or not at
all. What can go wrong is that it does not happen, that it happens and nobody is told, and that it takes
longer than anybody waits (the simulated runtime sees to that).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random


class Away(Exception):
    """The store cannot be reached."""

    temporary = True


@dataclasses.dataclass
class Row:
    """A session id, as the ledger has it."""

    session_id: str
    key: str
    version: int = 0
    ended: bool = False
    generation: int = 0
    committed: int = 0
    intended: int = 0
    owner: str | None = None
    epoch: int = 0
    free_at: float | None = None
    tries: int = 0
    next_try: float = 0.0
    dead: bool = False
    held: bool = False
    conversation: str = ""


class Shelf:
    """A store. It outlives the simulations that use it: give it the clock of each."""

    def __init__(self, random: Random, failures: float = 0.0) -> None:
        self.random = random
        self.failures = failures
        self.clock: Callable[[], float] = lambda: 0.0
        self.rows: dict[str, Row] = {}
        self.rooms: dict[str, float] = {}
        self.conversations: dict[str, list[str]] = {}
        """What was current of each key, one after the other: the key itself comes first."""
        self.writers: dict[tuple[str, int], str] = {}
        """Who wrote under each epoch of a session id."""
        self.problems: list[str] = []

    def session(self, session_id: str) -> Row:
        if self.random.random() < self.failures:
            raise Away("it cannot be read")
        return self.rows[session_id]

    can_peek = True

    def peek(self, session_id: str, expected: int) -> tuple[int, bool] | None:
        if self.random.random() < 0.2:
            raise Away("not without waiting")
        row = self.rows.get(session_id)
        return None if row is None else (row.version, row.ended)

    @contextmanager
    def transaction(self, *, durability: str) -> Iterator[Shelf]:
        if self.random.random() < self.failures / 2:
            raise Away("nothing was written")
        before = copy.deepcopy((self.rows, self.rooms, self.conversations))
        try:
            yield self
        except BaseException:
            self.rows, self.rooms, self.conversations = before
            raise
        if self.random.random() < self.failures / 2:
            raise Away("it was written, and nobody was told")

    def take_all(self, turns: Sequence[tuple[str, str]], *, owner: str) -> dict[str, Row]:
        leases: dict[str, Row] = {}
        with self.transaction(durability="normal"):
            for session_id, key in turns:
                known = session_id in self.rows
                row = self.take(session_id, key=key, owner=owner) if known else None
                if row is not None and row.held:
                    leases[session_id] = row
        return leases

    def record(
        self, turns: Sequence[tuple[str, int, int, float]], *, owner: str, durability: str
    ) -> dict[str, int]:
        versions: dict[str, int] = {}
        with self.transaction(durability=durability):
            for session_id, epoch, generation, linger in turns:
                mine = {"owner": owner, "epoch": epoch, "linger": linger}
                version = self.complete(session_id, generation=generation, **mine)  # type: ignore[arg-type]
                if version is not None:
                    versions[session_id] = version
        return versions

    patience = 0.0

    def interrupt(self, owner: str) -> None:
        """Nothing is ever under way for long enough."""

    # What a transaction can do.

    def conversation(self, key: str) -> str:
        return self.conversations.get(key, [key])[-1]

    def renew(self, key: str, *, session_id: str) -> str:
        before = self.conversation(key)
        if before != session_id:
            if before in self.rows:
                self.rows[before].ended = True
                self.rows[before].version += 1
            self.conversations.setdefault(key, [key]).append(session_id)
        return before

    def take(self, session_id: str, *, key: str, owner: str) -> Row:
        row = self.rows.setdefault(session_id, Row(session_id, key))
        row.conversation = self.conversation(key)
        now = self.clock()
        mine = row.owner == owner and row.key == key
        free = row.free_at is not None and row.free_at <= now
        alive = row.owner is not None and self.rooms.get(row.owner, 0.0) > now
        if row.owner is not None and not mine and not free and alive:
            return dataclasses.replace(row, held=False)
        row.epoch += not mine
        row.owner, row.key, row.free_at = owner, key, None
        return dataclasses.replace(row, held=True)

    def pin(self, session_id: str, *, owner: str, epoch: int) -> bool:
        row = self._mine(session_id, owner, epoch)
        if row is not None:
            row.free_at = None
        return row is not None

    def leave(self, session_id: str, *, owner: str, epoch: int, linger: float) -> int | None:
        row = self._mine(session_id, owner, epoch)
        if row is None:
            return None
        row.free_at = self.clock() + linger
        return row.version

    def complete(
        self, session_id: str, *, owner: str, epoch: int, generation: int, linger: float
    ) -> int | None:
        row = self._mine(session_id, owner, epoch)
        if row is None:
            return None
        if self.writers.setdefault((session_id, epoch), owner) != owner:
            self.problems.append(f"two rooms wrote under epoch {epoch} of {session_id}")
        row.generation = max(row.generation, generation)
        return self.leave(session_id, owner=owner, epoch=epoch, linger=linger)

    def intend(self, session_id: str, *, owner: str, epoch: int, generation: int) -> bool:
        row = self._mine(session_id, owner, epoch)
        if row is not None and generation > row.committed:
            row.generation, row.intended = max(row.generation, generation), generation
        return row is not None

    def commit(self, session_id: str, *, owner: str, epoch: int, generation: int) -> bool:
        row = self._mine(session_id, owner, epoch)
        if row is None:
            return False
        row.generation = max(row.generation, generation)
        row.committed = max(row.committed, generation)
        row.intended = row.intended if row.intended > row.committed else 0
        row.tries, row.next_try, row.dead = 0, 0.0, False
        return True

    def fail(
        self, session_id: str, *, owner: str, epoch: int, problem: str, pause: float, most: int
    ) -> bool:
        row = self._mine(session_id, owner, epoch)
        if row is None:
            return False
        row.tries += 1
        row.next_try, row.dead = self.clock() + pause, row.tries >= most
        row.owner = row.free_at = None
        return True

    def hand_over(self, session_id: str, *, owner: str, epoch: int) -> bool:
        row = self._mine(session_id, owner, epoch)
        if row is not None:
            row.owner = row.free_at = None
        return row is not None

    def disclaim(self, session_id: str, *, key: str, owner: str) -> bool:
        row = self.rows.get(session_id)
        if row is None or (row.owner, row.key) != (owner, key):
            return False
        row.owner = row.free_at = None
        return True

    def beat(self, owner: str, *, ttl: float, host: str, pid: int) -> bool:
        lived = self.rooms.get(owner, 0.0) > self.clock()
        self.rooms[owner] = self.clock() + ttl
        return lived

    def retire(self, owner: str) -> int:
        mine = [row for row in self.rows.values() if row.owner == owner]
        for row in mine:
            row.owner = row.free_at = None
        self.rooms.pop(owner, None)
        return len(mine)

    def orphans(self, *, owner: str, limit: int) -> list[Row]:
        now = self.clock()
        found = [
            dataclasses.replace(row)
            for row in self.rows.values()
            if row.generation > row.committed and not row.dead and row.next_try <= now
            if row.owner is None or self.rooms.get(row.owner, 0.0) <= now
        ]
        return found[:limit]

    def _mine(self, session_id: str, owner: str, epoch: int) -> Row | None:
        row = self.rows.get(session_id)
        return row if row is not None and (row.owner, row.epoch) == (owner, epoch) else None
