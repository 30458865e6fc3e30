"""The results as plain text, at most 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from benchmarks.bars import IDLE_ACTORS, Bar
from benchmarks.contenders import NOTES, OURS, TITLES
from benchmarks.latency import PERCENTILES
from benchmarks.results import Cast, Results, Spread
from benchmarks.scenarios import CAST

WIDTH = 100
PERCENTILE_TITLES = {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "max"}


class Footnotes:
    """Numbers the reasons why a cell is empty, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        return f"–{self._numbers.setdefault(text, len(self._numbers) + 1)}"

    def lines(self) -> list[str]:
        return [wrapped(f"–{number}  {text}") for text, number in self._numbers.items()]


def report(results: Results, bars: Sequence[Bar]) -> str:
    """Everything that a run has to say."""
    footnotes = Footnotes()
    parts = [
        head(results),
        rates(results, CAST, footnotes),
        ratios(results, CAST, footnotes),
        latencies(results, CAST),
        idle(results),
        "\n".join(footnotes.lines()),
        notes(results),
        judgements(bars),
    ]
    return "\n\n".join(part for part in parts if part)


def head(results: Results) -> str:
    machine, versions = results.machine, results.versions
    return wrapped(
        f"{machine['implementation']} {machine['python']}, {machine['cores']} cores,"
        f" {machine['system']} {machine['architecture']}, GIL {machine['gil']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f". Medians of {results.settings['repetitions']} interleaved repetitions."
    )


def rates(results: Results, cast: Cast, footnotes: Footnotes, what: str = "Calls") -> str:
    names = results.present
    rows = []
    for scenario, title in cast.scenarios.items():
        row = [title]
        for name in names:
            found = results.figure(scenario, name, "rate")
            row.append(amount(found.middle) if found else gap(results, cast, scenario, name, footnotes))
        rows.append(row)
    return table(f"{what} a second", ["", *(cast.contenders[name] for name in names)], rows)


def ratios(results: Results, cast: Cast, footnotes: Footnotes, what: str = "calls") -> str:
    names = [name for name in results.present if name != OURS]
    if OURS not in results.present or not names:
        return ""
    rows = []
    for scenario, title in cast.scenarios.items():
        middles, spreads = [title], [""]
        for name in names:
            found = results.ratio(scenario, "rate", OURS, name)
            middles.append(
                f"{amount(found.middle)}×" if found else gap(results, cast, scenario, name, footnotes)
            )
            spreads.append(f"{short(found.low)}–{short(found.high)}" if found else "")
        rows += [middles, spreads]
    heading = f"greenroom's {what} a second ÷ theirs: median, and below it lowest–highest"
    return table(heading, ["", *(cast.contenders[name] for name in names)], rows)


def latencies(results: Results, cast: Cast, what: str = "call") -> str:
    rows = []
    for scenario, title in cast.scenarios.items():
        measured = results.measurements.get(scenario, {})
        for name in cast.contenders:
            if name in measured:
                found = [results.figure(scenario, name, p) for p in PERCENTILES]
                figures = [amount(f.middle) for f in found if f is not None]
                worst = max(figures["max"] for figures in measured[name])
                rows.append([title, cast.contenders[name], *figures, amount(worst)])
    titles = ["", "", *(PERCENTILE_TITLES[name] for name in PERCENTILES), "worst of all"]
    return table(f"Latency of a {what} in µs: median of each repetition's", titles, blanked(rows))


def idle(results: Results) -> str:
    rows = [
        [TITLES[name], f"{i['actors']:,.0f}", f"{i['bytes_each']:,.0f}", f"{i['threads']:,.0f}"]
        for name, i in results.idle.items()
    ]
    return table("Idle actors", ["", "actors", "bytes each", "threads"], rows)


def notes(results: Results) -> str:
    lines = [f"{TITLES[name]}: {NOTES[name]}." for name in results.present if name in NOTES]
    counts = {name: idle["actors"] for name, idle in results.idle.items()}
    fewer = [
        f"{', '.join(TITLES[n] for n in counts if counts[n] == count)}: {count:,.0f} actors instead"
        " of 100,000, idle and for stopping one."
        for count in sorted(set(counts.values()))
        if count < IDLE_ACTORS
    ]
    left_out = [f"Left out: {reason}." for reason in results.missing.values()]
    return "\n".join(wrapped(line) for line in [*lines, *fewer, *left_out])


def judgements(bars: Sequence[Bar]) -> str:
    if not bars:
        return ""
    rows = [
        [
            bar.what,
            bar.expected,
            ratio(bar.found)
            if bar.unit == "×"
            else f"{count_or_amount(bar.found.middle)} {bar.unit}".strip(),
            "met" if bar.met else "NOT MET",
        ]
        for bar in bars
    ]
    met = sum(bar.met for bar in bars)
    return table(f"Expected: {met} of {len(bars)} met", ["", "bar", "found", ""], rows)


def gap(results: Results, cast: Cast, scenario: str, name: str, footnotes: Footnotes) -> str:
    reason = results.not_offered.get(name, {}).get(scenario)
    return footnotes.mark(f"{cast.contenders[name]}: {reason}.") if reason else ""


def amount(value: float) -> str:
    """Three figures, and no exponent."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def count_or_amount(value: float) -> str:
    """What was counted in full."""
    return f"{value:,.0f}" if value == round(value) else amount(value)


def ratio(found: Spread) -> str:
    return f"{amount(found.middle)}× ({short(found.low)}–{short(found.high)})"


def short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def blanked(rows: list[list[str]]) -> list[list[str]]:
    """Name a scenario in its first row only."""
    previous = [[""], *rows]
    return [
        ["" if row[0] == before[0] else row[0], *row[1:]]
        for before, row in zip(previous, rows, strict=False)
    ]


def table(title: str, header: list[str], rows: list[list[str]]) -> str:
    """Aligned columns: texts to the left, figures to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    texts = 2 if len(header) > 1 and not header[1] else 1
    lines = [
        "  ".join(
            cell.ljust(width) if column < texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]
    return "\n".join([title, "─" * min(WIDTH, max(map(len, lines))), *lines])


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="    ")
