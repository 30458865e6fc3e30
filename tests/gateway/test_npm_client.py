"""The official npm client against a running server, where Node.js and npm are there.

The package is fetched once, into `build/`, which is not kept under version control.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.clients import playing
from tests.house import ROOT

VERSION = "7.53.0"
CACHE = ROOT / "build" / "node"
SCRIPT = Path(__file__).parent / "node" / "client.mjs"


@pytest.fixture(scope="module")
def package() -> Path:
    """Where the package begins. Skips if it cannot be had."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("the tests of the npm client did not run: there is no Node.js with npm here")
    place = CACHE / f"openai-{VERSION}"
    entry = place / "node_modules" / "openai" / "index.mjs"
    if not entry.exists():
        problem = _install(npm, place)
        if not entry.exists():
            pytest.skip(f"the tests of the npm client did not run: npm could not fetch it ({problem})")
    return entry


def _install(npm: str, place: Path) -> str:
    """Fetch the package, whole or not at all: others may be at it in the same moment."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = [npm, "install", "--prefix", folder, "--no-save", "--no-package-lock", "--no-audit"]
        command += ["--no-fund", "--ignore-scripts", "--fetch-timeout=20000", "--fetch-retries=1"]
        try:
            done = subprocess.run(
                [*command, f"openai@{VERSION}"], capture_output=True, text=True, timeout=120, check=False
            )
        except subprocess.TimeoutExpired:
            return "it took longer than two minutes"
        if done.returncode == 0:
            try:
                os.rename(Path(folder, "node_modules"), _made(place) / "node_modules")
            except OSError:
                pass  # somebody else was faster
            return ""
        codes = [line.split()[-1] for line in done.stderr.splitlines() if " code " in line]
        return codes[0] if codes else f"exit status {done.returncode}"


def _made(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    return place


@pytest.mark.timeout(240)
def test_the_npm_client_does_all_that_the_python_one_does(package: Path) -> None:
    with playing(model="mine") as play:
        command = ["node", str(SCRIPT), play.server.url, str(package)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        seen: dict[str, Any] = json.loads(done.stdout)
        assert seen["models"] == ["mine"]
        assert (seen["plain"], seen["usage"]) == ("1: hello there", 5)
        assert seen["stream"] == ["2:", " a", " b"]
        assert seen["helper"] == "3: c"
        assert (seen["response"], seen["continued"], seen["final"]) == ("1: one", "2: two", "1: four")
        assert seen["events"][:2] == ["response.created", "response.in_progress"]
        assert seen["events"][-1] == "response.completed"
        assert _problems(seen) == {
            "bad": ("BadRequestError", 400, None),
            "boom": ("InternalServerError", 500, "agent_failed"),
            "away": ("InternalServerError", 503, "agent_unavailable"),
            "tools": ("BadRequestError", 400, "unsupported_parameter"),
            "lost": ("NotFoundError", 404, "previous_response_not_found"),
            "stale": ("BadRequestError", 400, "previous_response_not_last"),
        }
        assert seen["midway"]["name"] == "APIError"
        assert seen["after"] == "1: after"
        assert (play.turns("local/node"), play.turns("local/cut")) == (3, 1)
        assert play.figures() == (0, 0)


def _problems(seen: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (seen[name]["name"], seen[name]["status"], seen[name]["code"])
        for name in ("bad", "boom", "away", "tools", "lost", "stale")
    }
