"""The part of docs/benchmarks.md about the long run, from results/soak.json.

That file is the JSON beside a report of `greenroom stress`: see `greenroom.stress`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAME = "soak"

Json = Mapping[str, Any]

LEVELS = {"memory": ("MB", 1e6), "threads": ("threads", 1.0), "files": ("files", 1.0)}
"""The unit of a slope, and what to divide it by."""


def section(folder: Path) -> str | None:
    """The section, if there was a run."""
    path = folder / f"{NAME}.json"
    return text(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def text(result: Json) -> str:
    facts = {"settings": result["settings"], "machine": result["machine"]}
    parts = [
        "## The long run",
        introduction(result),
        verdict(result),
        turns(result["totals"]) + counted(result),
        slopes(result["slopes"]),
        latencies(result["latencies"]),
        checks(result["checks"]),
        "<details><summary>Settings and machine</summary>",
        f"```json\n{json.dumps(facts, indent=1)}\n```",
        "</details>",
    ]
    return "\n\n".join(part for part in parts if part)


def introduction(result: Json) -> str:
    return (
        f"`make soak`: {result['title']}, {duration(result['seconds'])} on {result['target']}. Raw data:"
        f" [{NAME}.json](../benchmarks/results/{NAME}.json).{cut_short(result)}"
    )


def turns(totals: Json) -> str:
    return (
        f"{totals['arrived']:,} turns arrived, {totals['turns']:,} completed, {totals['failures']:,}"
        f" failed that should not have. {totals['planned_failures']:,} turns, builds and hooks failed"
        f" because the workload wanted it so; {totals['refused']:,} turns were refused. "
    )


def cut_short(result: Json) -> str:
    return " Somebody ended it before its time." if result["interrupted"] else ""


def verdict(result: Json) -> str:
    broken = [check for check in result["checks"] if check["held"] is False]
    growing = [s["name"] for s in result["slopes"] if s["an_hour"] > 2 * s["error"]]
    words = (
        f"**{len(broken)} of the invariants did not hold:** {', '.join(c['name'] for c in broken)}."
        if broken
        else "Every invariant held."
    )
    if growing:
        words += f" Growth beyond two standard errors: {', '.join(growing)}."
    elif result["slopes"]:
        words += " Nothing grew by more than two standard errors."
    return words


def counted(result: Json) -> str:
    totals = result["totals"]
    names = {
        "builds": "builds",
        "rebuilds": "rebuilds",
        "commits": "commits",
        "commit_failures": "failed commits",
        "workers_lost": "workers written off",
    }
    known = [f"{totals[key]:,} {name}" for key, name in names.items() if totals.get(key) is not None]
    evictions = [f"{count:,} by {reason}" for reason, count in totals["evictions"].items()]
    words = [f"{', '.join(known)}." if known else ""]
    if evictions:
        words.append(f"Agents that left: {', '.join(evictions)}.")
    if result.get("hit_rate") is not None:
        words.append(f"{result['hit_rate']:.1%} of the turns found their agent.")
    if result["drain"] is not None:
        words.append(f"The drain at the end took {result['drain']:.2f} s.")
    return " ".join(word for word in words if word)


def slopes(found: Iterable[Json]) -> str:
    """How levels grew, with one standard error."""
    rows = []
    for slope in found:
        unit, by = LEVELS.get(slope["name"], ("", 1.0))
        an_hour, error, first, last = (slope[k] / by for k in ("an_hour", "error", "first", "last"))
        rows.append(
            f"| {slope['name']} | {an_hour:+,.2f} ± {error:,.2f} {unit} an hour"
            f" | {first:,.1f} | {last:,.1f} | {slope['samples']:,} |"
        )
    if not rows:
        return ""
    head = "| level | growth, with one standard error | line begins at | ends at | samples |"
    return "\n".join([head, "|---|---:|---:|---:|---:|", *rows])


def latencies(found: Mapping[str, Json]) -> str:
    rows = [
        f"| {name} | {value['count']:,} | "
        + " | ".join(f"{value[key] * 1e3:,.2f}" for key in ("p50", "p90", "p99", "p999", "worst"))
        + " |"
        for name, value in found.items()
    ]
    if not rows:
        return ""
    head = "| ms | count | p50 | p90 | p99 | p99.9 | worst |\n|---|---:|---:|---:|---:|---:|---:|"
    words = (
        "Times from the planned moment of each turn, so that a stall shows in every turn that it delays:"
    )
    return "\n".join([f"{words}\n", head, *rows])


def checks(found: Iterable[Json]) -> str:
    rows = [
        f"| {check['promise']} | {held(check)} | {check['seen']:,} | {check['remark']} |"
        for check in found
    ]
    if not rows:
        return ""
    return "\n".join(["| invariant | held | looked at | |\n|---|---|---:|---|", *rows])


def held(check: Json) -> str:
    if check["held"] is None:
        return "cannot be seen"
    return "yes" if check["held"] else f"**no, {check['violated']:,} times**"


def duration(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.2g} hours" if seconds >= 5400 else "an hour"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
