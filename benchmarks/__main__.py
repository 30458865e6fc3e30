"""The command line: `python -m benchmarks [--quick] [--only NAME …] [--write | --no-write]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import document
from benchmarks.document import RESULTS
from benchmarks.suites import CHOICES, SUITES, Suite, chosen


def main() -> int:
    options = parse()
    parts = chosen(options.only)
    if not parts:
        print(f"Nobody of {', '.join(options.only)} takes part in that.", file=sys.stderr)
        return 2
    written = False
    for suite, names in parts:
        partial = options.quick or len(names) < len(suite.contenders)
        write = not partial if options.write is None else options.write
        run(suite, names, quick=options.quick, folder=options.output if write else None)
        written = written or write
    if written and options.output == RESULTS:
        for page in document.write():
            print(f"Written anew: {page}")
    return 0


def run(suite: Suite, names: Sequence[str], *, quick: bool, folder: Path | None) -> None:
    say(f"{suite.name}: {', '.join(names)}")
    results = suite.run(quick=quick, names=names, say=say)
    bars = suite.judge(results)
    print("\n" + suite.report(results, bars) + "\n")
    if folder is not None:
        json, picture = folder / f"{suite.name}.json", folder / f"{suite.name}.png"
        results.write(json, [bar.as_dict() for bar in bars])
        suite.draw(results, picture)
        print(f"Written to {folder}: {json.name}, {picture.name}\n", flush=True)


def parse() -> argparse.Namespace:
    suites = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute or two a suite; writes nothing")
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="NAME",
        choices=CHOICES,
        help=f"only these suites ({', '.join(suites)}), and of their contenders only these: "
        + ", ".join(name for name in CHOICES if name not in suites),
    )
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    return parser.parse_args()


def say(progress: str) -> None:
    print(f"  {progress}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
