"""A strike at any point inside a room ends its caller's call with its own exception: nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import logging
import os
from typing import TYPE_CHECKING

import pytest

from tests.strikes.scenarios import SCENARIOS
from tests.strikes.stage import Log
from tests.strikes.trials import EXCEPTIONS, play_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.strikes.stage import Stage

EACH = os.environ.get("GREENROOM_STRIKES") == "all"
"""Whether each point is struck, as `make strikes` does, and not only a sample."""

pytestmark = pytest.mark.timeout(3600 if EACH else 300)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_strike_ends_its_callers_call_and_nothing_else(name: str) -> None:
    """K1"""
    exceptions = EXCEPTIONS if EACH else (None,)
    _see(name, most=None if EACH else 60, exceptions=exceptions)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_strike_ends_its_callers_call_and_nothing_else_in_a_room_with_a_store(name: str) -> None:
    """K1"""
    _see(name, most=None if EACH else 20, store=True)


def test_a_strike_in_the_store_costs_nobody_a_connection() -> None:
    """K1: its only writer, above all."""
    _see("transcript", store=True, where="store")


@pytest.mark.parametrize("name", ["cold", "wait", "commit", "transcript", "close"])
def test_a_strike_in_a_library_that_the_room_calls_is_no_different(name: str) -> None:
    """K1"""
    _see(name, most=None if EACH else 40, where="below", store=name == "transcript")


@pytest.mark.parametrize("name", ["cold", "configure", "close", "drain"])
def test_a_strike_in_logging_stops_nobody_who_logs(name: str, talkative: logging.Logger) -> None:
    """K1: a lock that `logging` leaves taken would hold up every thread that logs. (No scenario on an
    event loop: asyncio logs, too, on the struck thread.)"""

    def prepare(stage: Stage) -> None:
        SCENARIOS[name].prepare(stage)
        talkative.setLevel(logging.DEBUG)  # `logging` forgets which levels are enabled

    scenario = dataclasses.replace(SCENARIOS[name], prepare=prepare)
    _, trials = play_all(scenario, where="logging", most=None if EACH else 25, enough=1)
    failed = [str(trial) for trial in trials if trial.wrong]
    assert not failed, "\n".join(failed)
    assert any(trial.tripped for trial in trials)


@pytest.fixture
def talkative() -> Iterator[logging.Logger]:
    """Our log, all of which is written."""
    logger, handler = logging.getLogger("greenroom"), logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.setLevel(before)
    logger.removeHandler(handler)


@pytest.mark.parametrize("name", ["warm", "cold", "other_spec", "wait", "commit", "close"])
def test_an_exception_that_is_injected_into_a_thread_is_no_different(name: str) -> None:
    """K1"""
    _see(name, most=None if EACH else 40, by="async")


def _see(name: str, **how: object) -> None:
    # Rooms and stores whose constructor was struck nobody could close: their end may warn of that.
    unclosed = Log().kept() if name == "another_room" else contextlib.nullcontext()
    with unclosed:
        _, trials = play_all(SCENARIOS[name], enough=3, **how)  # type: ignore[arg-type]  # passed on
        gc.collect()
    failed = [str(trial) for trial in trials if trial.wrong]
    assert not failed, "\n".join(failed)
    assert any(trial.tripped for trial in trials)
