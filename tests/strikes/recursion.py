"""Strikes by the recursion limit: a scenario is played with only so many frames left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom import BuildFailed
from tests.strikes.trials import Trial, perform

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.strikes.scenarios import Scenario
    from tests.strikes.stage import Log

MARGINS = (*range(1, 151), *range(155, 400, 15))
"""How many frames are left: each number that a scenario may need, and some that it does not."""


def frames_left() -> int:
    """How many calls deep this thread may go from here."""
    try:
        return 1 + frames_left()
    except RecursionError:
        return 0


def with_frames_left(left: int, act: Callable[[], Any]) -> Any:
    """Call with room for that many calls, one in another."""
    return _dive(frames_left() - left, act)


def _dive(depth: int, act: Callable[[], Any]) -> Any:
    return _dive(depth - 1, act) if depth > 0 else act()


def play_deep(scenario: Scenario, left: int, *, store: bool = False, on_thread: bool = False) -> Trial:
    """Play a scenario with so many frames left, and judge it when the stack is short again."""
    trial = Trial(scenario.name, left, "recursion", left % 2 == 0, store)

    def judge(raised: BaseException | None, _: Log) -> str:
        if raised is None or isinstance(raised, RecursionError):
            return ""
        if isinstance(raised, BuildFailed) and isinstance(raised.__cause__, RecursionError):
            return ""  # it was raised inside `build`
        return f"the caller got {raised!r} in the place of a RecursionError"

    perform(trial, scenario, lambda act: with_frames_left(left, act), judge, on_thread=on_thread)
    trial.wrong = [f"with {left} frames left:", *trial.wrong] if trial.wrong else []
    return trial
