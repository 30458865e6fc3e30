"""greenroom's room with a store, or without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

from benchmarks.contender import Contender, Stage
from benchmarks.latency import Figures
from benchmarks.rooms import ours
from benchmarks.rooms.ours import Durability
from benchmarks.rooms.room import Agency
from benchmarks.rooms.scenarios import CAP, IDLE_TTL, check, fill, names, visitor
from greenroom import Greenroom, Policy
from greenroom.store import Store, open_store

PATIENCE = 60.0
"""Seconds for a recovery."""

DEAD_ROOM = "gone:1:0"
TTL = 0.001
"""Seconds that the room which left the orphans lives."""


class Contestant(Contender):
    def __init__(self, url: str, *, durability: Durability) -> None:
        self._url = url
        self._durability: Durability = durability

    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        """A warm session for each thread."""
        agency = Agency()
        if self._durability == "off" and self._url:
            with open_store(self._url) as store:
                for key in names(actors):  # a room that only reads makes none
                    store.create_session(key, key=key)
        with ours.Contestant(
            agency.build,
            cap=CAP,
            idle_ttl=IDLE_TTL,
            store=self._url or None,
            durability=self._durability,
        ) as room:
            keys = fill(room, actors)
            yield Stage(calls=[visitor(room, [key]) for key in keys])
            check(agency, room, built=actors, kept=actors)
            assert room.store_failures() == 0, "the store could not be reached"
        if self._url:
            with open_store(self._url) as store:
                check_ledger(store, actors, written=self._durability != "off")

    def recover(self, *, at_once: int, orphans: int, hook_seconds: float) -> Figures:
        """Let a room find what a dead one left, and commit it."""
        with open_store(self._url) as store:
            leave_orphans(store, orphans)
        agency = Agency(commit_seconds=hook_seconds, release_seconds=hook_seconds)
        policy = Policy(sweep_every=None, recover_at_once=at_once)
        begin = perf_counter_ns()
        with Greenroom(agency.build, policy=policy, store=self._url, durability=self._durability):
            agency.wait_released(orphans, PATIENCE)
            seconds = (perf_counter_ns() - begin) / 1e9
        assert agency.committed == orphans, f"{agency.committed} commits for {orphans} sessions"
        with open_store(self._url) as store:
            check_ledger(store, orphans, written=True)
        return {"seconds": seconds, "rate": orphans / seconds, "sessions": orphans}


def leave_orphans(store: Store, count: int) -> None:
    """A room completed a turn of each session, and was killed."""
    with store.transaction() as ledger:
        ledger.beat(DEAD_ROOM, ttl=TTL)
        for key in names(count):
            lease = ledger.take(key, key=key, owner=DEAD_ROOM)
            ledger.complete(key, owner=DEAD_ROOM, epoch=lease.epoch, generation=1, linger=0.0)


def check_ledger(store: Store, count: int, *, written: bool) -> None:
    """After a room is closed, all that it completed is in the ledger and committed."""
    rows = store.sessions(limit=2 * count)
    assert len(rows) == count, f"{len(rows)} sessions in the store instead of {count}"
    for row in rows:
        assert (row.generation > 0) == written, f"{row} (written: {written})"
        assert row.generation == row.committed, f"{row} is uncommitted"
