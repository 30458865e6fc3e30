"""What each contender kept of its promises, as its agents wrote it down: sums over all repetitions."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.scenarios import CAST
from benchmarks.results import Results
from benchmarks.tables import amount

HEADER = (
    "",
    "agents torn down in mid-turn",
    "completed turns never committed",
    "agents never torn down",
    "turns beside another of their session",
    "drain with one wedged",
    "others uncommitted then",
)


def rows(results: Results) -> list[list[str]]:
    return [
        [CAST.contenders[name], *churned(results, name), *wedged(results, name)]
        for name in results.present
    ]


def churned(results: Results, name: str) -> list[str]:
    """Where eight threads visit far more sessions than the cap."""
    found = results.measurements.get("churn", {}).get(name)
    if not found:
        return [_why(results, name, "churn")] * 4
    sums = {key: int(sum(figures[key] for figures in found)) for key in found[0]}
    of = {"torn": "agents", "lost": "turns", "left": "agents", "overlaps": "turns"}
    return [f"{sums[what]:,} of {sums[all_of]:,}" for what, all_of in of.items()]


def wedged(results: Results, name: str) -> Sequence[str]:
    """Where one session's commit hangs."""
    found = results.measurements.get("wedged", {}).get(name)
    if not found:
        return [_why(results, name, "wedged")] * 2
    last = max(figures["seconds"] for figures in found)
    ended = all(figures["returned"] for figures in found)
    uncommitted, others = (int(sum(f[key] for f in found)) for key in ("uncommitted", "others"))
    return [
        f"{amount(last)} s" if ended else f"not in {amount(last)} s",
        f"{uncommitted:,} of {others:,}",
    ]


def _why(results: Results, name: str, scenario: str) -> str:
    return "failed" if scenario in results.not_offered.get(name, {}) else ""
