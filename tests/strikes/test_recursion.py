"""A recursion limit that is reached inside a room ends that call, and nothing else."""

from __future__ import annotations

import pytest

from tests.strikes.recursion import MARGINS, frames_left, play_deep, with_frames_left
from tests.strikes.scenarios import SCENARIOS
from tests.strikes.test_scenarios import EACH

SYNC = [name for name, scenario in SCENARIOS.items() if not scenario.is_async]

pytestmark = pytest.mark.timeout(3600 if EACH else 300)


@pytest.mark.parametrize("name", SYNC)
def test_a_recursion_error_ends_its_callers_call_and_nothing_else(name: str) -> None:
    """K1"""
    _see(name, on_thread=False)


@pytest.mark.parametrize("name", ["warm", "cold", "wait", "timeout", "close"])
def test_a_recursion_error_on_another_thread_is_no_different(name: str) -> None:
    """K1"""
    _see(name, on_thread=True)


@pytest.mark.parametrize("name", ["warm", "cold", "commit", "transcript", "close"])
def test_a_recursion_error_in_a_room_with_a_store_is_no_different(name: str) -> None:
    """K1"""
    _see(name, on_thread=False, store=True)


def _see(name: str, *, on_thread: bool, store: bool = False) -> None:
    scenario = SCENARIOS[name]
    failed: list[str] = []
    play_deep(scenario, MARGINS[-1], store=store, on_thread=on_thread)  # what is imported late, is
    for left in MARGINS if EACH else MARGINS[len(name) % 5 :: 5]:
        trial = play_deep(scenario, left, store=store, on_thread=on_thread)
        if trial.wrong:
            failed.append(str(trial))
        if len(failed) == 3:
            break
    assert not failed, "\n".join(failed)


def test_the_tool_leaves_as_many_frames_as_it_says() -> None:
    for left in (3, 30, 300):
        assert with_frames_left(left, frames_left) in (left - 1, left, left + 1)
