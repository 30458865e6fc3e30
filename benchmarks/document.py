"""docs/benchmarks.md, written from the JSON of the last published runs: `python -m benchmarks.document`.

Every figure of that page comes from a file in results/, and every command that writes one of these
writes the page as well. A test compares the page with what is made of the files, so that nobody
edits it. A section whose file is missing is left out. The README has a short part of it, between the
markers `BEGIN` and `END`, if it has these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import results, soak_section
from benchmarks.heart import section as heart_section
from benchmarks.peers import section as peer_section
from benchmarks.peers.summary import summary
from benchmarks.profiles import section as profile_section
from benchmarks.scale import section as scale_section
from benchmarks.suites import SUITES, Suite

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"

BEGIN, END = "<!-- peers:begin -->", "<!-- peers:end -->"

Section = Callable[[Path], str | None]

INTRODUCTION = """# Benchmarks

<!-- Written by `python -m benchmarks.document` from benchmarks/results/*.json; a test compares. -->

Each section is of one run on one machine, named there. Figures of one machine say nothing about another:
what holds elsewhere, more or less, are ratios between contenders of the same run. A ratio is taken
between measurements that were next to each other in time, and given as median with lowest and highest.
Contenders take turns, each in a process of its own, so that a noisy moment hits all alike.

| to measure again | command | takes |
|---|---|---|
| side by side with others | `make bench-peers` | a quarter of an hour; with `ARGS=--quick` 2 minutes |
| how cost grows with sessions | `make bench-scale` | half an hour; with `ARGS=--quick` a minute |
| the heart, held against its bars | `make bench-heart` | 2 minutes; with `ARGS=--whole` 7 |
| the store, beside bare drivers | `make bench ARGS="--only stores"` | 8 minutes; with `--quick`, 2 |
| where the time goes | `make profile` | 3 minutes |
| the long run | `make soak` | an hour; a trial: `ARGS="--duration 1m"` |
| runtime, rooms, stores, gateway, webui | `make bench` | 22 minutes; one: `ARGS="--only rooms"` |
| this page, from what was measured last | `python -m benchmarks.document` | a second |

The raw figures of every repetition, the versions and the machine are in `benchmarks/results/`; a quick
run writes nothing. The agents are fakes that do nothing, or sleep: what is compared is the keeping of
agents. A model's answer takes seconds, beside which a microsecond more or less for a turn is nothing; a
lost memory, a stalled heartbeat or a shutdown that hangs is not."""

SUITE_WORDS = {
    "rooms": (
        "A room, beside a dict with a lock and actors with a thread each",
        """All three keep agents by the same rules. A warm turn costs a room several times what it costs
a dict with a lock; evictions, sweeps and drains are where it gains.""",
    ),
    "stores": (
        "A store, beside bare drivers",
        """What it costs a turn to be in the ledger before its `with` block is left, beside a bare driver
that writes the same; and how long the next turn takes if another process had the session.""",
    ),
    "gateway": (
        "The gateway, beside the same route without a room",
        "The same app, server and agent, with greenroom and without.",
    ),
    "webui": (
        "In the Hermes web UI, beside one lock for all sessions",
        """`greenroom.integrations.hermes_webui` beside what it replaces: a dict, one lock and one
condition for all sessions.""",
    ),
    "runtime": (
        "The actor runtime, beside others",
        "Calls to actors. thespian and xoscar are here in their fastest form within one process.",
    ),
}

WITH_BARS = {"stores"}
"""Suites whose bars are shown above all other figures."""


def main() -> int:
    for page in write():
        print(f"Written: {page}", file=sys.stderr)
    return 0


def write() -> list[str]:
    """Write the page, and the README's part of it; which files are other than before."""
    changed = []
    for path, text in (
        (PAGE, document(RESULTS)),
        (README, with_summary(README.read_text(encoding="utf-8"), RESULTS)),
    ):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(str(path.relative_to(ROOT)))
    return changed


def document(folder: Path) -> str:
    """The whole page, from the results in a folder."""
    parts = [INTRODUCTION]
    for section in sections():
        text = section(folder)
        if text is not None:
            parts.append(text.strip())
    return "\n\n".join(parts) + "\n"


def sections() -> list[Section]:
    """Those that come first have most to say to who must decide."""
    suites = {suite.name: suite for suite in SUITES}
    return [
        peer_section.section,
        scale_section.section,
        heart_section.section,
        profile_section.section,
        soak_section.section,
        *(of_suite(suites[name], *words) for name, words in SUITE_WORDS.items()),
    ]


def of_suite(suite: Suite, heading: str, words: str) -> Section:
    def section(folder: Path) -> str | None:
        path = folder / f"{suite.name}.json"
        if not path.exists():
            return None
        found = results.read(path)
        bars = suite.judge(found)
        report = suite.report(found, bars)
        shown = f"{heart_section.table(bars)}\n\n" if suite.name in WITH_BARS else ""
        return (
            f"## {heading}\n\n{words} From [{path.name}](../benchmarks/results/{path.name}).\n\n{shown}"
            f"![{heading}](../benchmarks/results/{suite.name}.png)\n\n"
            f"<details><summary>All figures</summary>\n\n```text\n{report}\n```\n\n</details>"
        )

    return section


def with_summary(readme: str, folder: Path) -> str:
    """The README with the comparison of the last run between its markers, if it has these."""
    path = folder / "peers.json"
    begin, end = readme.find(BEGIN), readme.find(END)
    if begin < 0 or end < begin or not path.exists():
        return readme
    return f"{readme[: begin + len(BEGIN)]}\n{summary(results.read(path))}\n{readme[end:]}"


if __name__ == "__main__":
    sys.exit(main())
