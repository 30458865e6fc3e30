"""Many histories, on all cores: `python -m tests.simulation.histories --seeds 100000`.

Of one room, of one whose sessions fail again and again (`--of bursts`), or of rooms that are killed and
run side by side on one store (`--of crashes`). Prints how far it is, and every seed that breaks an
invariant. Replay one with `--first SEED --seeds 1`.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import multiprocessing
import os
import sys
import time

CHUNK = 50


def chunk(kind: str, last: int, first: int) -> list[tuple[int, str]]:
    """Run some seeds. Returns those that fail."""
    run = importlib.import_module(f"tests.simulation.{kind}").run
    failed: list[tuple[int, str]] = []
    for seed in range(first, min(first + CHUNK, last)):
        try:
            run(seed)
        except Exception as error:
            failed.append((seed, f"{type(error).__name__}: {error}"))
    return failed


def main() -> int:
    """Run them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--of", choices=["world", "bursts", "crashes"], default="world")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    last = options.first + options.seeds
    firsts = range(options.first, last, CHUNK)
    began, done, failed = time.monotonic(), 0, 0
    with multiprocessing.Pool(options.workers, maxtasksperchild=20) as pool:
        for failures in pool.imap_unordered(functools.partial(chunk, options.of, last), firsts):
            done += CHUNK
            failed += len(failures)
            for seed, what in failures:
                sys.stdout.write(f"\nseed {seed}: {what}\n")
            took = time.monotonic() - began
            left = took / done * (len(firsts) * CHUNK - done)
            sys.stdout.write(f"\r{done} of {options.seeds} seeds, {failed} failed, {left:.0f} s left ")
            sys.stdout.flush()
    sys.stdout.write(f"\n{done} seeds in {time.monotonic() - began:.0f} s, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
