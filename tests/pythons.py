"""Run pytest on every Python that this machine has, and print a line for each: `make pythons`.

    python -m tests.pythons -n 2 tests/actors           # the arguments are pytest's
    python -m tests.pythons --ends -n 2 tests/actors    # on the oldest and the newest only

Each interpreter gets an environment of its own, `.venv-heart-VERSION`, with what the tests of the heart
need. Interpreters are looked for on `PATH`, and beside the one that runs this: pyenv and uv keep all
theirs in one folder.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST, NEWEST = 11, 15

PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2] + sys.abiflags)"


def find() -> dict[str, Path]:
    """Return the interpreters that work, by version, oldest first."""
    found: dict[str, Path] = {}
    for minor in range(OLDEST, NEWEST + 1):
        for version in (f"3.{minor}", f"3.{minor}t"):  # with a GIL, without
            program = _find(f"python{version}", version)
            if program is not None:
                found[version] = program
    return found


def _find(name: str, version: str) -> Path | None:
    on_path = shutil.which(name)
    beside = sorted(Path(sys.base_prefix).parent.glob(f"*/bin/{name}"))
    for program in [*([Path(on_path)] if on_path else []), *beside]:
        asked = subprocess.run([program, "-c", PROBE], capture_output=True, text=True, check=False)
        if asked.stdout.strip() == version:
            return program
    return None


def run(version: str, program: Path, arguments: list[str]) -> bool:
    """Set up the environment of a Python, run pytest in it, and print how that ended."""
    began = time.monotonic()
    folder = ROOT / f".venv-heart-{version}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    log = ROOT / "build" / f"pythons-{version}.log"
    log.parent.mkdir(exist_ok=True)
    commands: list[list[str | Path]] = [
        [program, "-m", "venv", "--clear", folder],
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-e",
            ".[test-heart]",
        ],
        ["touch", ready],  # last: an environment that was interrupted halfway is made again
        [python, "-m", "pytest", "-q", *arguments],
    ]
    if ready.exists() and ready.stat().st_mtime > (ROOT / "setup.cfg").stat().st_mtime:
        del commands[:-1]
    with log.open("w") as out:
        passed = all(  # one after another, up to the first that fails
            subprocess.run(command, cwd=ROOT, stdout=out, stderr=out, check=False).returncode == 0
            for command in commands
        )
    lines = log.read_text().splitlines() or ["nothing was said"]
    print(f"{version:6} {lines[-1]}; {time.monotonic() - began:.0f} s with its environment", flush=True)
    if not passed:
        print(*lines[-40:-1], f"All of it: {log}", sep="\n", flush=True)
    return passed


def main() -> None:
    """Run, and exit with status 1 if one has failed."""
    parser = argparse.ArgumentParser(description="Run pytest on every Python")
    parser.add_argument("--ends", action="store_true", help="only the oldest and the newest Python")
    options, arguments = parser.parse_known_args()
    found = list(find().items())
    if not found:
        sys.exit(f"There is no Python from 3.{OLDEST} to 3.{NEWEST} here that can make an environment")
    if options.ends:
        found = found[:1] + found[1:][-1:]
    failed = [version for version, program in found if not run(version, program, arguments)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
