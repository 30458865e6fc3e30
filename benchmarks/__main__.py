"""The command line: `python -m benchmarks [--quick] [--only NAME …] [--write | --no-write]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import campaign, contenders
from benchmarks.bars import judge
from benchmarks.tables import TITLE_OF, report

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> int:
    options = parse()
    settings = campaign.QUICK if options.quick else campaign.FULL
    results = campaign.run(settings, options.only or contenders.NAMES, say)
    bars = judge(results, TITLE_OF)
    print("\n" + report(results, bars))

    partial = options.quick or bool(options.only)
    if options.write if options.write is not None else not partial:
        # Only now, because drawing is the one thing that needs matplotlib.
        from benchmarks.picture import draw

        results.write(options.output / "runtime.json", [bar.as_dict() for bar in bars])
        draw(results, options.output / "runtime.png")
        print(f"\nWritten to {options.output}: runtime.json, runtime.png")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="well under a minute; writes nothing")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=contenders.NAMES)
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    return parser.parse_args()


def say(progress: str) -> None:
    print(f"  {progress}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
