"""A pytest plugin that puts greenroom's classes in the place of pykka's.

pykka's test suite builds its runtime from the names that `pykka` exports. The plugin is loaded with
`-p`, before pytest imports the suite's `conftest.py`, and rebinds three of those names. Nothing
else of pykka is touched, and no file of the suite is changed.

The outcome of every test is written as JSON to the file named by `GREENROOM_CONFORMANCE_REPORT`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pykka
import pytest

from greenroom.actors import Actor, ActorRegistry, Future

SUBSTITUTES = {"ActorRegistry": ActorRegistry, "ThreadingActor": Actor, "ThreadingFuture": Future}

for name, substitute in SUBSTITUTES.items():
    assert hasattr(pykka, name), f"pykka no longer exports {name}: nothing to substitute"
    setattr(pykka, name, substitute)

_outcomes: dict[str, str] = {}


def pytest_collection_finish() -> None:
    """Refuse to run unless the suite really got our classes."""
    conftest = sys.modules["tests.conftest"]
    runtimes = [parameter.values[0] for parameter in conftest.RUNTIMES.values()]
    ours = all(r.actor_class is Actor and r.future_class is Future for r in runtimes)
    if not runtimes or not ours or conftest.ActorRegistry is not ActorRegistry:
        pytest.exit(f"the suite would not test greenroom, but {runtimes}", returncode=3)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst of a test's three phases (setup, call, teardown)."""
    says_something = report.when == "call" or report.outcome != "passed"
    if says_something and _outcomes.get(report.nodeid) != "failed":
        _outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish() -> None:
    path = os.environ.get("GREENROOM_CONFORMANCE_REPORT")
    if path:
        Path(path).write_text(json.dumps(_outcomes, indent=1), encoding="utf-8")
