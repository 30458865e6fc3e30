"""The README's few lines about what else people use."""

from __future__ import annotations

from benchmarks.contenders import OURS
from benchmarks.peers import kept
from benchmarks.peers.rows import ROWS, advantage
from benchmarks.peers.scenarios import CAST
from benchmarks.peers.section import markdown
from benchmarks.results import Results
from benchmarks.tables import amount

COLUMNS = (
    ("warm", "p50", "warm turn, p50", "µs"),
    ("warm_8", "p99", "… 8 threads, p99", "µs"),
    ("evicting", "p99", "p99 during 64 slow teardowns", "µs"),
    ("insert", "rate", "new sessions, full room", "/s"),
    ("drain", "rate", "drain, 50 ms a commit", "/s"),
)


def summary(results: Results) -> str:
    """A few words, where greenroom loses first, and a table of who is how fast and loses what."""
    return f"{words(results)}\n\n{table(results)}\n\n{READ_ON}"


READ_ON = """thespian and Ray take a process for each session, and had fewer of them. All figures, with
spread, how each is written and what it cannot do: [docs/benchmarks.md](docs/benchmarks.md)."""


def words(results: Results) -> str:
    row = next(row for row in ROWS if (row.scenario, row.figure) == ("warm", "rate"))
    found = {name: advantage(results, row, name) for name in results.present}
    faster = [(name, f) for name, f in found.items() if f is not None and f.middle < 1]
    if not faster:
        return "One workload on greenroom and on what else people use, in one run (`make bench-peers`)."
    listed = ", ".join(
        f"{CAST.contenders[name]} {amount(1 / f.middle)}×"
        for name, f in sorted(faster, key=lambda item: item[1].middle)
    )
    return (
        "One workload on greenroom and on what else people use, in one run (`make bench-peers`).\n"
        "Simpler caches are faster on warm turns: from one thread these make more of them\n"
        f"({listed})."
    )


def with_unit(value: float, unit: str) -> str:
    if unit == "µs":
        return f"{amount(value)} µs" if value < 1e3 else f"{amount(value / 1e3)} ms"
    return f"{amount(value)}{unit}"


def table(results: Results) -> str:
    rows = []
    for name in results.present:
        cells = [f"**{CAST.contenders[name]}**" if name == OURS else CAST.contenders[name]]
        for scenario, figure, _, unit in COLUMNS:
            found = results.figure(scenario, name, figure)
            cells.append(with_unit(found.middle, unit) if found else "–")
        torn, lost, *_ = kept.churned(results, name)
        rows.append([*cells, torn, lost, kept.wedged(results, name)[0]])
    header = [
        "",
        *(title for *_, title, _ in COLUMNS),
        "agents torn down in mid-turn",
        "turns never committed",
        "drain, one wedged",
    ]
    return markdown(header, rows)
