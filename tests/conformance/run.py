"""Run pykka's own test suite on greenroom's actor, future and registry.

    python tests/conformance/run.py

The source package of the installed pykka is downloaded once (and kept in `build/conformance`), its
tests are run unchanged on our classes, and every test has to pass but for the exceptions named
below. Each exception is run as well, in a process of its own that is ended if it hangs: one that
passes is an error, because then it is no exception any more.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "conformance"

BLOCKS = (
    "The handler waits for an event that the test sets after telling it. Our handlers run on the"
    " thread that brings the message, which is the test's own, so they must not block."
)
THREAD = "Looks for a thread named after the actor. Our actors have no thread of their own."

EXCEPTIONS = {
    "tests/test_actor.py::"
    "test_messages_left_in_queue_after_actor_stops_receive_an_error[threading]": BLOCKS,
    "tests/test_actor.py::"
    "test_stop_requests_left_in_queue_after_actor_stops_are_handled[threading]": BLOCKS,
    "tests/test_ref.py::test_ask_can_timeout_if_blocked_too_long[threading]": (
        "The handler sleeps while the asker times out. Here the asker runs the handler, and the"
        " answer is there when it looks at the clock."
    ),
    "tests/test_threading_actor.py::test_actor_thread_is_named_after_pykka_actor_class": THREAD,
    "tests/test_threading_actor.py::test_actor_thread_is_not_daemonic_by_default": THREAD,
    "tests/test_threading_actor.py::"
    "test_actor_thread_is_daemonic_if_use_daemon_thread_flag_is_set": THREAD,
}

SUITE_LIMIT = 300.0
"""Seconds for the whole suite (it takes about three)."""

EXCEPTION_LIMIT = 10.0
"""Seconds after which an exception that blocks is ended, and counts as failed."""


def main() -> int:
    version = importlib.metadata.version("pykka")
    suite = unpack(download(version))
    print(f"pykka {version}: its own test suite on greenroom.actors", flush=True)

    outcomes = run_suite(suite)
    counts = Counter(outcomes.values())
    others = {test: outcome for test, outcome in outcomes.items() if outcome != "passed"}

    print(f"\n{len(EXCEPTIONS)} named exceptions:")
    with ThreadPoolExecutor() as pool:
        verdicts = list(pool.map(lambda test: run_exception(suite, test), EXCEPTIONS))
    wrong = 0
    for (test, reason), (expected, verdict) in zip(EXCEPTIONS.items(), verdicts, strict=True):
        wrong += not expected
        print(f"- {test}\n    {reason}\n    {'as named' if expected else 'WRONG'}: {verdict}")

    for test, outcome in others.items():
        print(f"{outcome.upper()}: {test}")
    print(
        f"\n{counts['passed']} passed, {len(EXCEPTIONS) - wrong} named exceptions,"
        f" {len(others)} other failures, {wrong} exceptions that are none"
    )
    if not outcomes:
        print("The suite did not finish: see its output above.")
    return 1 if others or wrong or not counts["passed"] else 0


def download(version: str) -> Path:
    """The source package of that version, from the package index that pip is set up to use."""
    kept = sorted(BUILD.glob(f"[pP]ykka-{version}.tar.gz"))
    if not kept:
        BUILD.mkdir(parents=True, exist_ok=True)
        # Only pykka itself comes as a source: pip has to run its build backend to read the
        # metadata, and that may well come as a wheel.
        what = ["--no-deps", "--no-binary", "pykka", f"pykka=={version}", "--dest", str(BUILD)]
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *what], check=True)
        kept = sorted(BUILD.glob(f"[pP]ykka-{version}.tar.gz"))
    return kept[0]


def unpack(archive: Path) -> Path:
    """The folder with the tests, fresh from the archive."""
    with tarfile.open(archive) as package:
        package.extractall(BUILD, filter="data")
    return BUILD / archive.name.removesuffix(".tar.gz")


def run_suite(suite: Path) -> dict[str, str]:
    """Run all but the exceptions; the outcome of each test, empty if the run did not end."""
    report = BUILD / "suite.json"
    report.unlink(missing_ok=True)
    deselect = [f"--deselect={test}" for test in EXCEPTIONS]
    try:
        subprocess.run(
            [*pytest_command(suite), "--timeout=60", "--timeout-method=thread", *deselect, "tests"],
            cwd=suite,
            env=environment(report),
            timeout=SUITE_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}
    return read(report)


def run_exception(suite: Path, test: str) -> tuple[bool, str]:
    """Run one exception; whether it failed, as it should, and how."""
    report = BUILD / f"{test.partition('::')[2]}.json"
    report.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [*pytest_command(suite), test],
            cwd=suite,
            env=environment(report),
            timeout=EXCEPTION_LIMIT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True, f"blocks (ended after {EXCEPTION_LIMIT:.0f} s)"
    outcome = read(report).get(test)
    if outcome == "failed":
        return True, "fails"
    if outcome == "passed":
        return False, "passes, so it must leave the table"
    return False, f"pytest could not run it (exit code {done.returncode}):\n{done.stdout}"


def read(report: Path) -> dict[str, str]:
    outcomes: dict[str, str] = json.loads(report.read_text("utf-8")) if report.exists() else {}
    return outcomes


def pytest_command(suite: Path) -> list[str]:
    # The configuration is named, or pytest would go up the tree and find our own.
    plugins = ["-p", "pytest_mock", "-p", "pytest_timeout", "-p", "greenroom_conformance"]
    settings = ["-c", str(suite / "pyproject.toml"), "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", "-q", "--tb=short", *plugins, *settings]


def environment(report: Path) -> dict[str, str]:
    """Ours, with the plugin importable and without plugins that only happen to be installed."""
    path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return kept | {
        "GREENROOM_CONFORMANCE_REPORT": str(report),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


if __name__ == "__main__":
    sys.exit(main())
