"""The command line: `python -m benchmarks.profiles [--quick] [--write | --no-write]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import document
from benchmarks.__main__ import say
from benchmarks.document import RESULTS
from benchmarks.profiles import TITLES, campaign, flames, section
from benchmarks.workers import ROOT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiles", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half a minute; writes nothing")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--graphs", type=Path, default=ROOT / "docs", metavar="FOLDER")
    options = parser.parse_args()
    results, stacks = campaign.run(quick=options.quick, say=say)
    print("\n\n".join([section.table(results), section.floor(results), section.summary(results)]))
    if not options.quick if options.write is None else options.write:
        results.write(options.output / "profiles.json", [])
        for name, title in TITLES.items():
            graph = flames.draw(stacks[name], title)
            (options.graphs / f"flame-{name}.svg").write_text(graph, encoding="utf-8")
        if options.output == RESULTS:
            for page in document.write():
                print(f"Written anew: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
