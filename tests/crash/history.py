"""What many processes noted of their turns, and whether it can be true of one keeper.

Each turn is noted by whoever took it, with the time at which its body began and ended. The clock is
`time.monotonic_ns`, which on Linux is one clock for all processes of a machine.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Noted", "parsed", "violations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A turn that was completed."""

    session: str
    begin: int
    end: int
    generation: int
    epoch: int
    writer: str
    """The room that took it."""

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def parsed(text: str) -> list[Noted]:
    """The turns of a log, a line each."""
    return [Noted(**json.loads(line)) for line in text.splitlines()]


def violations(history: Iterable[Noted], ledger: Mapping[str, int]) -> list[str]:
    """What is wrong with a history, given the generation of each session in the ledger afterwards."""
    session = attrgetter("session")
    turns = {name: list(group) for name, group in groupby(sorted(history, key=session), session)}
    found = [
        wrong
        for name in sorted(turns.keys() | ledger.keys())
        for wrong in _of_one(name, turns.get(name, []), ledger.get(name, 0))
    ]
    return found + _epochs(turn for of_one in turns.values() for turn in of_one)


def _of_one(session: str, turns: list[Noted], recorded: int) -> list[str]:
    turns = sorted(turns, key=attrgetter("begin", "end"))
    found = [
        f"{session}: turn {turn.generation} ends before it begins"
        for turn in turns
        if turn.end < turn.begin
    ]
    for before, after in pairwise(turns):
        if after.begin < before.end:
            found.append(f"{session}: turns {before.generation} and {after.generation} overlap")
        if after.epoch < before.epoch:
            found.append(f"{session}: epoch {after.epoch} comes after {before.epoch}")
    generations = [turn.generation for turn in turns]
    found += [
        f"{session}: generation {number} is handed out {generations.count(number)} times"
        for number in sorted(set(generations))
        if generations.count(number) > 1
    ]
    if generations != sorted(generations):
        found.append(f"{session}: generations come in the order {generations}")
    missing = sorted(set(range(1, recorded + 1)) - set(generations))
    if missing:
        found.append(f"{session}: nobody completed {missing} of {recorded}")
    beyond = [number for number in generations if not 1 <= number <= recorded]
    if beyond:
        found.append(f"{session}: {beyond} are not in the ledger, which ends at {recorded}")
    return found


def _epochs(turns: Iterable[Noted]) -> list[str]:
    writers: dict[tuple[str, int], set[str]] = {}
    for turn in turns:
        writers.setdefault((turn.session, turn.epoch), set()).add(turn.writer)
    return [
        f"{session}: epoch {epoch} has the writers {sorted(who)}"
        for (session, epoch), who in sorted(writers.items())
        if len(who) > 1
    ]
