"""Writes the made-up traces: `python -m benchmarks.traces`."""

from __future__ import annotations

from pathlib import Path

from greenroom.stress.traces._names import write_synthetic
from greenroom.stress.traces._synthetic import NAMES

FOLDER = Path(__file__).parent


def main() -> None:
    """Write each of them, in the place of what is there."""
    for name in NAMES:
        path = FOLDER / f"{name}.jsonl.gz"
        path.unlink(missing_ok=True)
        print(f"{path.name}: {write_synthetic(name, path):,} lines, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
