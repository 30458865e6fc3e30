"""The long run: `greenroom stress` for an hour, with faults, as `soak.toml` describes it.

    python -m benchmarks.soak [options of greenroom stress]

The report goes to build/. What is published is the JSON of a run that lasted its hour and was not cut
short; another `--duration` is a trial, and publishes nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import document
from benchmarks.document import RESULTS
from greenroom.stress import Second
from greenroom.stress._figures import Series

HERE = Path(__file__).resolve().parent
REPORT = HERE.parent / "build" / "soak.html"
HOUR = 3600.0

ROWS = 120
"""Of the published series: half a minute each."""


def main(arguments: Sequence[str]) -> int:
    REPORT.parent.mkdir(exist_ok=True)
    found = REPORT.with_suffix(".json")
    found.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="greenroom-soak-") as folder:
        status = subprocess.run(
            [
                *(sys.executable, "-m", "greenroom", "stress"),
                *("--file", HERE / "soak.toml"),
                *("--store", f"sqlite:///{folder}/soak.db"),
                *("--report", REPORT),
                *arguments,
            ],
            check=False,
        ).returncode
    if found.exists():
        publish(found)
    return status


def publish(found: Path) -> None:
    """Make the figures of a whole hour those of the documentation, good or bad."""
    result = json.loads(found.read_text("utf-8"))
    if result["interrupted"] or result["seconds"] < HOUR:
        print("Not published: it did not last its hour.")
        return
    result["settings"].pop("store", None)  # a folder of this machine
    series = Series(most=ROWS)
    for row in result["series"]:
        series.add(Second(**row))
    result["series"] = [asdict(row) for row in series.rows()]
    (RESULTS / "soak.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    for page in document.write():
        print(f"Written anew: {page}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
