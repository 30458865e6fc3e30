"""greenroom's room with a store, or without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from benchmarks.contender import Contender, Stage
from benchmarks.rooms import ours
from benchmarks.rooms.ours import SPEC, Durability
from benchmarks.rooms.room import Agency
from benchmarks.rooms.scenarios import CAP, IDLE_TTL, check, fill, names, visitor
from benchmarks.stores import KEY
from greenroom import Greenroom, Policy
from greenroom.store import open_store


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
            check_ledger(self._url, actors, None if self._durability != "off" else 0)

    def life(self, lease_ttl: float | None, hook: float) -> Life:
        """A room that other processes share its database with."""
        return Life(self._url, self._durability, lease_ttl, hook)


class Life:
    def __init__(self, url: str, durability: Durability, lease_ttl: float | None, hook: float) -> None:
        self._url = url
        self._agency = Agency(commit_seconds=hook, release_seconds=hook)
        policy = Policy(cap=10_000, sweep_every=None)  # nobody leaves for another
        if lease_ttl is not None:
            policy = replace(policy, lease_ttl=lease_ttl)
        self._room = Greenroom(self._agency.build, policy=policy, store=url, durability=durability)

    def hold(self) -> None:
        """Begin a turn, and never end it."""
        self._turn = self._room.turn(KEY, SPEC)
        self._turn.__enter__()

    def turn(self) -> None:
        with self._room.turn(KEY, SPEC):
            pass

    inherit = turn
    """The same for a session whose room was killed."""

    def fill(self, count: int) -> None:
        """Complete a turn of each of so many sessions, and commit none."""
        for key in names(count):
            with self._room.turn(key, SPEC):
                pass

    def recover(self, count: int) -> None:
        """Wait until so many sessions of a dead room are committed, and their agents gone."""
        self._agency.wait_released(count)

    def close(self) -> None:
        self._room.close()

    def check(self, sessions: int, turns: int) -> None:
        """Close the last room, and see that the ledger has all of it."""
        self.close()
        check_ledger(self._url, sessions, turns)


def check_ledger(url: str, sessions: int, turns: int | None) -> None:
    """After the last room is closed, all that was completed is in the ledger and committed. `None`: as
    many turns as there happened to be."""
    with open_store(url) as store:
        rows = store.sessions(limit=2 * sessions)
    found = sum(row.generation for row in rows)
    assert len(rows) == sessions, f"{len(rows)} sessions in the store instead of {sessions}"
    assert found == turns if turns is not None else found > 0, f"{found} turns instead of {turns}"
    assert found == sum(row.committed for row in rows), f"of {rows} some are uncommitted"
