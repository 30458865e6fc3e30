"""What is expected of the heart, and whether the run at hand meets it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import ge, le, lt

from benchmarks.bars import Bar
from benchmarks.contenders import LOCK, OURS
from benchmarks.heart import FEW, LOOP_LOCK
from benchmarks.peers import TTL, XOSCAR
from benchmarks.results import Results, Spread, spread


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure of one contender, alone or through another's, with what it must reach."""

    what: str
    sign: str
    bound: float
    of: tuple[str, str, str]
    """Scenario, contender, figure."""

    through: tuple[str, str] | None = None
    """Scenario and contender."""

    unit: str = "×"
    worst: bool = False
    """The worst of all repetitions counts, and not the best."""


MEETS = {"≥": ge, "≤": le, "<": lt}

EIGHT = {"turn_8_8": ("8 threads on 8 sessions", 1.0), "turn_8_64": ("8 threads on 64 shared", 0.5)}

ROWS = (
    Row(what="Warm turn, 1 thread: rate ÷ lock+dict", sign="≥", bound=0.33,
        of=("turn", OURS, "rate"), through=("turn", LOCK)),
    Row(what="Warm turn, `async with`: rate ÷ a dict with an `asyncio.Lock` for each session",
        sign="≥", bound=0.25, of=("loop", OURS, "rate"), through=("loop", LOOP_LOCK)),
    *(Row(what=f"Warm turn, {what}: rate ÷ lock+dict", sign="≥", bound=bound,
          of=(name, OURS, "rate"), through=(name, LOCK)) for name, (what, bound) in EIGHT.items()),
    *(Row(what=f"… {what}: p99 ÷ lock+dict", sign="≤", bound=2,
          of=(name, OURS, "p99"), through=(name, LOCK)) for name, (what, _) in EIGHT.items()),
    *(Row(what=f"… {what}: the worst turn", sign="≤", bound=100, unit="ms",
          of=(name, OURS, "worst"), worst=True) for name, (what, _) in EIGHT.items()),
    Row(what="Warm turn, p50 ÷ TTLCache with a lock", sign="<", bound=1,
        of=("p50", OURS, "p50"), through=("p50", TTL)),
    Row(what="Warm turn, p50 ÷ xoscar", sign="<", bound=1,
        of=("p50", OURS, "p50"), through=("p50", XOSCAR)),
    Row(what="Warm turns without a GIL, 2 threads on 2 sessions ÷ 1 thread", sign="≥", bound=1.6,
        of=("cores", "2", "rate"), through=("cores", "1")),
    Row(what="A turn during 64 slow teardowns: p99 ÷ lock+dict", sign="≤", bound=1.5,
        of=("evicting", OURS, "p99"), through=("evicting", LOCK)),
    Row(what="New sessions in a full room, hooks, 8 threads: rate ÷ lock+dict", sign="≥", bound=1.3,
        of=("insert", OURS, "rate"), through=("insert", LOCK)),
    Row(what="Insert at the cap, no hooks: processor time", sign="≤", bound=80, unit="µs",
        of=("insert_full", OURS, "cpu")),
    Row(what="An eviction in a sweep of 10,000, no hooks: processor time", sign="≤", bound=50,
        unit="µs", of=("sweep", OURS, "cpu")),
    Row(what="Drain, for each of 10,000 sessions, no hooks: processor time", sign="≤", bound=80,
        unit="µs", of=("drain", OURS, "cpu")),
    Row(what="Memory of a session with a tiny agent, of {sessions:,}", sign="≤", bound=1_700, unit="B",
        of=("with_agent", OURS, "bytes_each")),
    Row(what="Memory of a known session without one, of {sessions:,}", sign="≤", bound=1_200, unit="B",
        of=("known", OURS, "bytes_each")),
    Row(what=f"Warm turn in a room of {FEW}", sign="≤", bound=3, unit="µs",
        of=("warm_small", OURS, "each")),
    Row(what=f"Warm turn in a room of {{sessions:,}} ÷ of {FEW}", sign="≤", bound=2,
        of=("warm_large", OURS, "each"), through=("warm_small", OURS)),
    Row(what="Lines of code: the heart", sign="≤", bound=10_500, unit="lines",
        of=("lines", OURS, "heart")),
    Row(what="Lines of code: the session's", sign="≤", bound=2_900, unit="lines",
        of=("lines", OURS, "session")),
)  # fmt: skip  # a table, as one reads it


def judge(results: Results) -> list[Bar]:
    """Hold the results against every bar whose figures were measured."""
    found = [(row, figure_of(row, results)) for row in ROWS]
    return [judged(row, figure, results) for row, figure in found if figure is not None]


def judged(row: Row, found: Spread, results: Results) -> Bar:
    return Bar(
        what=row.what.format_map(results.settings),
        expected=f"{row.sign} {row.bound:,g}",
        found=found,
        unit=row.unit,
        met=MEETS[row.sign](found.middle, row.bound),
    )


def figure_of(row: Row, results: Results) -> Spread | None:
    """The best of one through the best of the other; lowest and highest are of the repetitions."""
    scenario, contender, figure = row.of
    ours = figures(results, scenario, contender, figure)
    if not ours:
        return None
    pick = max if row.worst or figure == "rate" else min
    if row.through is None:
        return Spread(pick(ours), min(ours), max(ours))
    theirs = figures(results, *row.through, figure)
    if not theirs:
        return None
    pairs = spread([a / b for a, b in zip(ours, theirs, strict=True)])
    return Spread(pick(ours) / pick(theirs), pairs.low, pairs.high)


def figures(results: Results, scenario: str, contender: str, figure: str) -> list[float]:
    """What every repetition found. `worst` is the maximum, in milliseconds."""
    found = results.measurements.get(scenario, {}).get(contender, [])
    if figure == "worst":
        return [repetition["max"] / 1e3 for repetition in found]
    return [repetition[figure] for repetition in found]
