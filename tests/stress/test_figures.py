"""Figures are exact to two per cent, and take constant room."""

from __future__ import annotations

import dataclasses
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from greenroom.stress._figures import Histogram, Series
from greenroom.stress._machine import describe_machine
from greenroom.stress._process import Holdings, holdings
from greenroom.stress._result import Second


def second(at: float, **fields: Any) -> Second:
    counts = dict.fromkeys(("turns", "arrived", "failures", "planned_failures", "in_flight"), 0)
    known = {"at", *counts, *fields}
    unknown = {field.name: None for field in dataclasses.fields(Second) if field.name not in known}
    values: dict[str, Any] = {"at": at, **counts, **unknown, **fields}
    return Second(**values)


def test_percentiles_are_those_of_the_samples() -> None:
    chance = random.Random(3)
    samples = sorted(chance.lognormvariate(-5.0, 1.5) for _ in range(10_000))
    latency = Histogram(samples).latency()
    assert latency is not None
    assert latency.count == 10_000
    assert latency.mean == pytest.approx(sum(samples) / 10_000)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        exact = samples[int(share * 10_000) - 1]
        assert getattr(latency, name) == pytest.approx(exact, rel=0.02)
    assert latency.worst == samples[-1]


def test_a_percentile_is_never_more_than_the_worst() -> None:
    for value in (0.0, 1e-9, 1e-6, 0.0123, 1.0, 1e5):
        latency = Histogram([value] * 3).latency()
        assert latency is not None
        assert latency.p50 <= latency.p999 <= latency.worst == value


def test_of_no_samples_nothing_is_known() -> None:
    assert Histogram().latency() is None
    assert Histogram().percentile(0.5) is None


def test_two_histograms_together_are_the_histogram_of_both() -> None:
    one, other = Histogram([0.25, 0.5, 1.0]), Histogram([0.5, 8.0])
    one.merge(other)
    assert one.latency() == Histogram([0.25, 0.5, 1.0, 0.5, 8.0]).latency()


def test_a_short_series_is_kept_as_it_is() -> None:
    rows = [second(float(at), turns=at) for at in range(1, 11)]
    series = Series(most=10)
    for row in rows:
        series.add(row)
    assert series.rows() == tuple(rows)


@pytest.mark.parametrize("length", [11, 100, 1001, 4096])
def test_a_long_series_is_thinned_and_loses_no_peak(length: int) -> None:
    series = Series(most=10)
    for at in range(1, length + 1):
        series.add(second(float(at), turns=7, memory=at, p50=0.01, p99=3.0 if at == 5 else 0.02))
    rows = series.rows()
    assert 5 <= len(rows) <= 11
    assert [row.at for row in rows] == sorted({row.at for row in rows})
    assert rows[-1].at == rows[-1].memory == length
    apart = {b.at - a.at for a, b in itertools.pairwise(rows[:-1])}
    assert len(apart) == 1, "all rows but the last stand for the same time"
    assert sum(row.turns for row in rows) == 7 * length, "nothing that was counted is lost"
    assert {row.turns for row in rows[:-1]} == {7 * apart.pop()}
    assert [row.p50 for row in rows] == [pytest.approx(0.01)] * len(rows)
    assert max(row.p99 or 0.0 for row in rows) == 3.0


def test_what_is_not_known_stays_unknown_when_rows_are_taken_together() -> None:
    series = Series(most=2)
    for at in range(1, 9):
        series.add(second(float(at), builds=None, p50=None))
    assert {(row.builds, row.p50) for row in series.rows()} == {(None, None)}


def test_a_process_tells_what_it_holds_or_nothing(tmp_path: Path) -> None:
    mine = tmp_path / "self"
    for name in ("task/1", "task/2", "fd/0"):
        (mine / name).mkdir(parents=True)
    (mine / "statm").write_text("900 3 1 1 0 1 0\n")
    found = holdings(proc=tmp_path)
    assert (found.threads, found.files) == (2, 1)
    assert found.memory is not None
    assert found.memory % 3 == 0
    assert found.memory > 3
    assert holdings(4711, proc=tmp_path) == Holdings()


def test_the_machine_is_described_in_plain_values() -> None:
    described = describe_machine()
    assert {"python", "system", "cores", "pykka"} <= set(described)
    assert all(isinstance(value, str | int) for value in described.values())
