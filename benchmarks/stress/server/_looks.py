"""How a server is, from its `/metrics`: one cheap request, which is the operator's to make."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from greenroom import Reason
from greenroom.stress._target import Level

__all__ = ["Metrics", "level_of", "parse_metrics"]

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LET_GO = ("greenroom_releases_total", "greenroom_closes_total")
_NEVER_FALL = ("greenroom_builds_total", "greenroom_hits_total")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class Metrics:
    """Samples of one scrape, by name: each with its labels."""

    samples: dict[str, list[tuple[Mapping[str, str], float]]] = field(
        default_factory=dict[str, "list[tuple[Mapping[str, str], float]]"]
    )

    def whole(self, name: str, **labels: str) -> int | None:
        """The sum of the samples that have these labels. `None`: there is none, or it has no bound."""
        values = [
            value
            for found, value in self.samples.get(name, ())
            if all(found.get(label) == wanted for label, wanted in labels.items())
        ]
        total = sum(values)
        return int(total) if values and math.isfinite(total) else None

    def since_restart(self, last: Metrics | None, now: Metrics) -> Metrics:
        """What to count from, if these were counted from so far and `now` follows `last`. A server that
        was restarted begins at nothing: what `last` had is added to all that comes."""
        if last is None or not any(
            (now.whole(name) or 0) < (last.whole(name) or 0) for name in _NEVER_FALL
        ):
            return self
        samples = {name: list(found) for name, found in self.samples.items()}
        for name, found in last.samples.items():
            samples.setdefault(name, []).extend((labels, -value) for labels, value in found)
        return Metrics(samples)

    def by(self, label: str, *names: str) -> dict[str, int]:
        """The samples of these names, added up by a label; those that are nothing are left out."""
        sums: dict[str, int] = {}
        for name in names:
            for labels, value in self.samples.get(name, ()):
                if value:
                    sums[labels.get(label, "")] = sums.get(labels.get(label, ""), 0) + int(value)
        return sums


def parse_metrics(lines: Iterable[str]) -> Metrics:
    """Read the text format of Prometheus, as far as greenroom writes it."""
    metrics = Metrics()
    for line in lines:
        found = None if line.startswith("#") else _SAMPLE.match(line)
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        metrics.samples.setdefault(found[1], []).append((dict(_LABEL.findall(found[2] or "")), value))
    return metrics


def level_of(metrics: Metrics, first: Metrics) -> Level:
    """What the metrics say, counted from the first look on. Threads are not among them."""

    def sessions(state: str) -> int | None:
        return metrics.whole("greenroom_sessions", state=state)

    def since(name: str) -> int | None:
        now = metrics.whole(name)
        return None if now is None else now - (first.whole(name) or 0)

    def let_go() -> dict[str, int]:
        before = first.by("reason", *_LET_GO)
        now = metrics.by("reason", *_LET_GO)
        gained = {reason: now.get(reason, 0) - before.get(reason, 0) for reason in {**before, **now}}
        return {reason: n for reason, n in gained.items() if n > 0 and reason != Reason.SHUTDOWN}

    return Level(
        cached=sessions("cached"),
        cap=metrics.whole("greenroom_session_cap"),
        in_turn=sessions("in_turn"),
        waiting=metrics.whole("greenroom_turns_waiting"),
        dirty=sessions("dirty"),
        sessions=sessions("known"),
        builds=since("greenroom_builds_total"),
        rebuilds=since("greenroom_rebuilds_total"),
        hits=since("greenroom_hits_total"),
        evictions=let_go(),
        commits=since("greenroom_commits_total"),
        commit_failures=since("greenroom_commit_failures_total"),
        workers_lost=since("greenroom_workers_written_off_total"),
        memory=metrics.whole("process_resident_memory_bytes"),
        files=metrics.whole("process_open_fds"),
    )
