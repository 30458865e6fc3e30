"""What docs/benchmarks.md says of the long run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from benchmarks import soak_section
from greenroom.stress._result import Check, Latency, Result, Slope, Totals

HELD = Check(
    name="no teardown in a turn", promise="No agent is torn down in a turn.", held=True, seen=1234
)
MEMORY = Slope(name="memory", an_hour=1.5e6, error=1e6, first=90e6, last=91.5e6, samples=3000)

RESULT = Result(
    title="an hour of mixed load with faults",
    target="a room in this process",
    started="2026-01-01T00:00:00+00:00",
    seconds=3600.0,
    interrupted=False,
    settings={"sessions": 1000},
    machine={"python": "3.11.7"},
    totals=Totals(
        arrived=360_000,
        turns=359_990,
        failures=0,
        planned_failures=1_000,
        refused=10,
        builds=50_000,
        rebuilds=None,
        hits=310_000,
        commits=60_000,
        commit_failures=600,
        workers_lost=3,
        evictions={"cap": 49_000, "idle": 500},
        errors={},
    ),
    latencies={
        "start": Latency(
            count=359_990, mean=0.001, p50=0.0005, p90=0.001, p99=0.02, p999=0.05, worst=0.2
        )
    },
    drain=1.25,
    checks=(HELD,),
    slopes=(MEMORY,),
)


def text(result: Result = RESULT) -> str:
    return soak_section.text(json.loads(json.dumps(result.to_json())))


def test_a_run_that_held_is_told_with_its_totals_slopes_and_checks() -> None:
    told = text()
    assert "an hour of mixed load with faults, an hour on a room in this process." in told
    assert "Every invariant held. Nothing grew by more than two" in told
    assert "360,000 turns arrived, 359,990 completed, 0 failed" in told
    assert "50,000 builds, 60,000 commits, 600 failed commits, 3 workers written off." in told
    assert "49,000 by cap, 500 by idle" in told
    assert "86.1% of the turns found their agent. The drain at the end took 1.25 s." in told
    assert "| memory | +1.50 ± 1.00 MB an hour | 90.0 | 91.5 | 3,000 |" in told
    assert "| start | 359,990 | 0.50 | 1.00 | 20.00 | 50.00 | 200.00 |" in told
    assert "| No agent is torn down in a turn. | yes | 1,234 |  |" in told


def test_growth_beyond_two_errors_is_said_in_words() -> None:
    growing = replace(MEMORY, an_hour=2.5e6)
    assert "Growth beyond two standard errors: memory." in text(replace(RESULT, slopes=(growing,)))


def test_an_invariant_that_did_not_hold_is_said_first() -> None:
    broken = replace(HELD, held=False, violated=2)
    unseen = replace(HELD, name="commits", held=None, remark="a server does not tell")
    told = text(replace(RESULT, checks=(broken, unseen), interrupted=True))
    assert "**1 of the invariants did not hold:** no teardown in a turn." in told
    assert "**no, 2 times**" in told
    assert "| cannot be seen | 1,234 | a server does not tell |" in told
    assert "Somebody ended it before its time." in told


def test_without_a_run_there_is_no_section(tmp_path: Path) -> None:
    assert soak_section.section(tmp_path) is None
    (tmp_path / "soak.json").write_text(json.dumps(RESULT.to_json()), encoding="utf-8")
    assert soak_section.section(tmp_path) == text()
