"""What a memory provider was told, and whether it learned every turn, under tokens that never changed.

A commit is a token: the generation up to which it extracts. It covers what no smaller token covers. A
provider tells two tries of one commit from two commits by the token alone. So a token that was begun
must be brought to its end before a larger one begins, whatever happened in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Entry", "parsed", "violations"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the provider's log."""

    what: str
    """`begin` or `end`."""

    session: str
    token: int
    writer: str
    """The process that wrote it."""


def parsed(text: str) -> list[Entry]:
    """The entries of a log, a line each."""
    entries: list[Entry] = []
    for line in text.splitlines():
        what, session, token, writer = line.split(" ")
        if what not in ("begin", "end"):
            raise ValueError(f"not a line of a memory provider: {line!r}")
        entries.append(Entry(what, session, int(token), writer))
    return entries


def violations(log: Iterable[Entry], committed: Mapping[str, int]) -> list[str]:
    """What is wrong with a log, given up to where the ledger says that each session is committed."""
    of_session: dict[str, list[Entry]] = {session: [] for session in committed}
    for entry in log:
        of_session.setdefault(entry.session, []).append(entry)
    return [
        f"{session}: {wrong}"
        for session, entries in sorted(of_session.items())
        for wrong in _of_one(entries, committed.get(session, 0))
    ]


def _of_one(entries: list[Entry], committed: int) -> list[str]:
    found: list[str] = []
    begun: Entry | None = None
    ended = 0
    for entry in entries:
        token = entry.token
        if entry.what == "begin":
            if begun is not None and begun.token != token:
                found.append(f"{token} was begun while {begun.token} was begun and never ended")
            elif begun is not None and begun.writer == entry.writer:
                found.append(f"{token} was begun twice at once by {entry.writer}")
            if token < ended:
                found.append(f"{token} was begun after {ended} had ended")
            begun = entry
        else:
            if begun is None or (begun.token, begun.writer) != (token, entry.writer):
                found.append(f"{entry.writer} ended {token}, which it had not begun last")
            begun = None
            ended = max(ended, token)
    if begun is not None:
        found.append(f"{begun.token} was begun and never ended")
    if ended != committed:
        found.append(f"the provider learned up to {ended}, the ledger says {committed}")
    return found
