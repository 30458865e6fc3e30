"""What was done to every agent, in one file that any process may write to, and what to make of it.

A line is appended with one system call, which the system does not mix with another's, so that the
order of the lines is the order of the events.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self


def note(path: str, event: str, key: str, agent: str) -> None:
    os.write(_opened(path), f"{event} {key} {agent}\n".encode())


@functools.lru_cache(maxsize=1)
def _opened(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND)


class Journal:
    """A context manager; afterwards the file is gone."""

    def __init__(self) -> None:
        handle, self.path = tempfile.mkstemp(prefix="journal-")
        os.close(handle)

    def lines(self) -> list[str]:
        return Path(self.path).read_text(encoding="utf-8").splitlines()

    def counts(self) -> Counter[str]:
        """How often each event happened."""
        return Counter(line.partition(" ")[0] for line in self.lines())

    def wait(self, event: str, count: int, patience: float = 60.0) -> None:
        """Return when it has happened so often."""
        deadline = time.monotonic() + patience
        while (found := self.counts()[event]) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found} of {count} agents {event} in {patience} s")
            time.sleep(0.02)  # other processes may write to it: there is nothing to wake us

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _opened.cache_clear()
        os.unlink(self.path)


@dataclass
class _Life:
    """One agent, from what its lines tell."""

    in_turn: int = 0
    turns: int = 0
    covered: int = 0
    """Turns that a commit which has ended began after."""

    begun: int = 0
    """Turns that the commit in flight covers."""

    ended: bool = False
    torn: bool = False


@dataclass
class Verdict:
    """What became of agents and turns in a run that has ended."""

    agents: int = 0
    turns: int = 0
    torn: int = 0
    """Agents that were released or closed in the middle of a turn."""

    lost: int = 0
    """Turns that had completed and were never committed."""

    left: int = 0
    """Agents that were neither released nor closed."""

    overlaps: int = 0
    """Turns that began while another turn of the same session was running."""

    in_turn: Counter[str] = field(default_factory=Counter)
    """By session. All are 0 in the end."""


def judge(lines: Iterable[str]) -> Verdict:
    """Read a journal from its beginning to its end."""
    verdict = Verdict()
    lives: dict[str, _Life] = {}
    for line in lines:
        event, key, agent = line.split(" ")
        _enter(event, key, lives.setdefault(agent, _Life()), verdict)
    verdict.agents = len(lives)
    verdict.torn = sum(life.torn for life in lives.values())
    verdict.lost = sum(life.turns - life.covered for life in lives.values())
    verdict.left = sum(not life.ended for life in lives.values())
    return verdict


def _enter(event: str, key: str, life: _Life, verdict: Verdict) -> None:
    match event:
        case "began":
            verdict.overlaps += verdict.in_turn[key] > 0
            verdict.in_turn[key] += 1
            life.in_turn += 1
        case "ended":
            verdict.in_turn[key] -= 1
            life.in_turn -= 1
            life.turns += 1
            verdict.turns += 1
        case "committing":
            life.begun = life.turns
        case "committed":
            life.covered = max(life.covered, life.begun)
        case "releasing" | "closed":
            life.torn = life.torn or life.in_turn > 0
            life.ended = True
        case _:
            pass  # "built" and "released" say nothing that the others do not
