"""Real signals and injected exceptions at random moments, and the recipe for SIGTERM: in processes of
their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.house import ROOT
from tests.strikes.test_scenarios import EACH

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600 if EACH else 300)]


def _run(module: str, *arguments: str) -> None:
    command = [sys.executable, "-m", f"tests.strikes.{module}", "--enough", "3", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]


def test_a_signal_at_a_random_moment_ends_its_callers_call_and_nothing_else() -> None:
    """K1"""
    _run("at_random", "--tries", "2000" if EACH else "300")


def test_a_signal_at_a_random_moment_loses_nothing_of_a_room_with_a_store() -> None:
    """K1"""
    _run("at_random", "--store", "--tries", "1000" if EACH else "60", "--seed", "10000")


def test_an_exception_injected_at_a_random_moment_ends_its_callers_call_and_nothing_else() -> None:
    """K1"""
    _run("at_random", "--by", "injection", "--tries", "2000" if EACH else "200")


def test_a_process_that_is_told_to_end_in_short_turns_commits_and_closes_everything() -> None:
    """K1"""
    _run("recipe", "--tries", "1000" if EACH else "150")


def test_a_process_that_is_told_to_end_ends_with_its_interpreter() -> None:
    """K1, D5"""
    _run("recipe", "--fresh", "--tries", "100" if EACH else "8", "--seed", "10000")
