"""The figures of a run: kept raw, a list with one entry a repetition, and read as medians."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from operator import sub, truediv
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.latency import Figures


@dataclass(frozen=True)
class Spread:
    """A figure with its lowest and highest over the repetitions."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Who takes part in what, by the names and titles that tables and pictures use."""

    contenders: Mapping[str, str]
    scenarios: Mapping[str, str]

    def playing(self, *scenarios: str) -> Cast:
        """The same contenders, in these scenarios only."""
        return replace(self, scenarios={name: self.scenarios[name] for name in scenarios})


@dataclass(kw_only=True)
class Results:
    machine: dict[str, str | int]
    versions: dict[str, str]
    settings: dict[str, Any]
    measurements: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    """Scenario, contender, repetition."""

    idle: dict[str, dict[str, float]] = field(default_factory=dict)
    """Contender: `actors`, `bytes_each`, `threads`."""

    not_offered: dict[str, dict[str, str]] = field(default_factory=dict)
    """Contender, scenario: the reason."""

    missing: dict[str, str] = field(default_factory=dict)
    """Contenders that could not take part, and why."""

    @property
    def present(self) -> list[str]:
        """The contenders that took part."""
        return [name for name in self.not_offered if name not in self.missing]

    def add(self, scenario: str, contender: str, figures: Figures) -> None:
        self.measurements.setdefault(scenario, {}).setdefault(contender, []).append(figures)

    def figure(self, scenario: str, contender: str, name: str) -> Spread | None:
        """The median over the repetitions, `None` if it was not measured."""
        repetitions = self.measurements.get(scenario, {}).get(contender)
        return spread([figures[name] for figures in repetitions]) if repetitions else None

    def ratio(self, scenario: str, name: str, one: str, other: str) -> Spread | None:
        """One contender's figure through the other's of the same repetition."""
        return self._compared(truediv, name, (scenario, one), (scenario, other))

    def difference(self, scenario: str, name: str, one: str, other: str) -> Spread | None:
        """One contender's figure less the other's of the same repetition."""
        return self._compared(sub, name, (scenario, one), (scenario, other))

    def growth(self, contender: str, name: str, scenario: str, over: str) -> Spread | None:
        """A contender's figure in one scenario through its own in another of the same repetition."""
        return self._compared(truediv, name, (scenario, contender), (over, contender))

    def _compared(
        self,
        compare: Callable[[float, float], float],
        name: str,
        one: tuple[str, str],
        other: tuple[str, str],
    ) -> Spread | None:
        """Two figures of the same name, each a scenario's and a contender's, in every repetition."""
        ours, theirs = (self.measurements.get(s, {}).get(contender) for s, contender in (one, other))
        if not ours or not theirs:
            return None
        # Who was measured less often was so in the first repetitions: those are compared.
        return spread([compare(a[name], b[name]) for a, b in zip(ours, theirs, strict=False)])

    def write(self, path: Path, bars: list[dict[str, Any]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = asdict(self) | {"bars": bars}
        path.write_text(json.dumps(rounded(content), indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Results:
    """What `write` wrote, but for the bars: these are judged anew."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content.pop("bars", None)
    return Results(**content)


def spread(values: list[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def rounded(content: Any) -> Any:
    """Five figures are more than any measurement here is worth."""
    if isinstance(content, dict):
        return {name: rounded(value) for name, value in content.items()}
    if isinstance(content, list):
        return [rounded(value) for value in content]
    if isinstance(content, float):
        return int(content) if content.is_integer() else float(f"{content:.5g}")
    return content
