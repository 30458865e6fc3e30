"""Asks the sessions how they are: all of them as often as that may cost, in between those that matter.

An answer from every session of a large room takes a while: a quarter of a second for ten thousand. So
all are asked again only when that is `SHARE` of the time and no more. Until then only those are asked to
which something has happened: a figure that is older is one that nothing has changed.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pykka

from greenroom import GreenroomError
from greenroom.gateway.watch._picture import best_rows, matches, row_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from greenroom import Greenroom, SessionRow

__all__ = ["MOST_ROWS", "SHARE", "SOONEST", "Survey"]

MOST_ROWS = 200
"""How many sessions a picture shows."""

SHARE = 0.04
"""The share of the time that asking may take."""

SOONEST = 0.2
"""Seconds from one time that all are asked to the next, at least."""

Row = dict[str, Any]


class Survey:
    """What was answered last. One thread at a time may `take`, while others `find`; who waits for a take
    may read the rest."""

    def __init__(self, room: Greenroom) -> None:
        self._room = room
        self._rows: dict[str, Row] = {}
        self._due = 0.0
        self.best: dict[str, Row] = {}
        """The rows to show, by key, in order."""
        self.states: dict[str, int] = {}
        """How many there are of each state, and how many are dirty."""
        self.pause = 0.0
        """How many seconds to wait before the next one, for its cost."""

    @property
    def total(self) -> int:
        """How many sessions there are."""
        return len(self._rows)

    def take(self, touched: Collection[str], turns: Mapping[str, float]) -> None:
        """Ask. It blocks: not for the event loop. `turns` tells since when sessions are in a turn."""
        began = time.monotonic()
        everything = began >= self._due
        # Rows are replaced in one assignment, and never changed: another thread may be reading them.
        if everything:
            self._rows = {row.key: self._row(row, turns) for row in self._room.snapshot()}
        elif touched:
            rows = self._rows | self._ask(touched, turns)
            self._rows = {key: row for key, row in rows.items() if row["state"] != "gone"}
        else:
            self.pause = 0.0
            return
        self.states = dict(Counter(row["state"] for row in self._rows.values()))
        self.states["dirty"] = sum(row["dirty"] > 0 for row in self._rows.values())
        self.best = best_rows(self._rows.values(), MOST_ROWS)
        took = time.monotonic() - began
        self.pause = 0.0 if everything else took / SHARE
        if everything:
            self._due = began + took + max(SOONEST, took / SHARE)

    def _ask(self, keys: Collection[str], turns: Mapping[str, float]) -> dict[str, Row]:
        answers: dict[str, Row] = {}
        for key in keys:
            try:
                row: SessionRow = self._room.session(key).describe().get()
            except (pykka.ActorDeadError, GreenroomError):
                answers[key] = {"state": "gone"}
                continue
            answers[key] = {"state": "gone"} if row.empty else self._row(row, turns)
        return answers

    def _row(self, row: SessionRow, turns: Mapping[str, float]) -> Row:
        return row_of(row, time.time(), turns.get(row.key), self._rows.get(row.key))

    def find(self, text: str, state: str, most: int) -> tuple[list[Row], int]:
        """The best rows that are asked for, and how many there are."""
        wanted = text.casefold()
        found = [row for row in self._rows.values() if matches(row, wanted, state)]
        return list(best_rows(found, most).values()), len(found)
