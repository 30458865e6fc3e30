"""The command line: `python -m benchmarks.scale [--quick] [--write | --no-write]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import document
from benchmarks.__main__ import run
from benchmarks.document import RESULTS
from benchmarks.scale import SIZES, bars, campaign, picture, section
from benchmarks.suites import Suite

SCALE = Suite(
    name="scale",
    contenders=tuple(map(str, SIZES)),
    run=campaign.run,
    judge=bars.judge,
    report=section.report,
    draw=picture.draw,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 10,000 sessions; writes nothing")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args()
    write = not options.quick if options.write is None else options.write
    run(SCALE, SCALE.contenders, quick=options.quick, folder=options.output if write else None)
    if write and options.output == RESULTS:
        for page in document.write():
            print(f"Written anew: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
