"""Writes the made-up traces: `python -m benchmarks.traces`."""

from __future__ import annotations

from pathlib import Path

from greenroom.stress._synthetic import NAMES
from greenroom.stress._traces import write_synthetic

FOLDER = Path(__file__).parent


def main() -> None:
    """Write each of them, in the place of what is there."""
    for name in NAMES:
        path = FOLDER / f"{name}.jsonl.gz"
        path.unlink(missing_ok=True)
        print(f"{path.name}: {write_synthetic(name, path):,} lines, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
