"""A run begins turns at their moments, counts what becomes of them, and ends in order."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import pytest

from greenroom.stress._result import Check, Result, Second
from greenroom.stress._run import Run
from greenroom.stress._target import Level, Outcome, Planned, Target
from greenroom.stress._workload import Change

Turn = Callable[[Planned], Coroutine[Any, Any, dict[str, Any]]]


async def at_once(_: Planned) -> dict[str, Any]:
    return {}


class FakeTarget(Target):
    """Does what it is told with a turn, and writes down what the run does with it."""

    name = "a fake"

    def __init__(self, turn: Turn = at_once) -> None:
        self._turn = turn
        self.steps: list[str] = []
        self.begun: list[int] = []
        self.most = self.now = 0
        self.level = Level(builds=3, hits=5, evictions={"capacity": 2}, planned_failures=1)

    async def open(self) -> Mapping[str, Any]:
        self.steps.append("open")
        return {"policy": {"cap": 9}}

    async def turn(self, planned: Planned, due: float) -> Outcome:
        self.begun.append(planned.number)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            fields = await self._turn(planned)
        finally:
            self.now -= 1
        now = time.perf_counter() - due
        usual: dict[str, Any] = {"planned": planned, "start": now, "turn": now, "built": False}
        return Outcome(**{**usual, **fields})

    async def look(self) -> Level:
        return self.level

    async def configure(self, changes: Mapping[str, Any]) -> None:
        self.steps.append(f"configure {dict(changes)}")
        if "cap" not in changes:
            raise ValueError("only a cap")

    def arrivals_over(self) -> None:
        self.steps.append("arrivals over")

    async def close(self) -> float | None:
        self.steps.append(f"close with {self.now}")
        return 0.25

    def checks(self) -> Sequence[Check]:
        self.steps.append("checks")
        return (Check(name="fake", promise="None.", held=True, seen=1),)

    def hook_seconds(self) -> Mapping[str, Sequence[float]]:
        return {"commit": [0.5, 0.5], "teardown": []}


def plan(count: int, *, every: float = 0.0, **fields: Any) -> list[Planned]:
    shared: dict[str, Any] = {"key": "a", "seconds": 0.0, **fields}
    return [Planned(at=number * every, number=number, **shared) for number in range(1, count + 1)]


def a_run(target: Target, turns: list[Planned], **fields: Any) -> Run:
    settings: dict[str, Any] = {"duration": 0.05, "title": "a test", "settings": {"rate": 7}, **fields}
    return Run(target, turns, **settings)


def play(target: Target, turns: list[Planned], **fields: Any) -> Result:
    return asyncio.run(a_run(target, turns, **fields).play())


def test_a_turn_of_which_nobody_knows_whether_its_agent_was_built_is_neither_hit_nor_build() -> None:
    async def turn(_: Planned) -> dict[str, Any]:
        return {"built": None}

    latencies = play(FakeTarget(turn), plan(3)).latencies
    assert latencies["start"].count == 3
    assert "hit" not in latencies
    assert "build" not in latencies


def test_every_turn_that_arrives_has_its_outcome_in_the_result() -> None:
    async def turn(planned: Planned) -> dict[str, Any]:
        outcomes: list[dict[str, Any]] = [
            {},
            {"built": True},
            {"refused": True, "start": None},
            {"error": "it broke"},
            {"error": "it broke"},
        ]
        return outcomes[planned.number - 1]

    target = FakeTarget(turn)
    result = play(target, plan(5))
    totals = result.totals
    assert (totals.arrived, totals.turns, totals.refused, totals.failures) == (5, 2, 1, 2)
    assert totals.errors == {"it broke": 2}
    assert not result.held
    assert {name: latency.count for name, latency in result.latencies.items()} == {
        "start": 4,
        "hit": 3,
        "build": 1,
        "turn": 4,
        "commit": 2,
    }
    assert sum(second.arrived for second in result.series) == 5


def test_the_result_says_what_was_run() -> None:
    result = play(FakeTarget(), plan(3))
    assert (result.title, result.target, result.drain) == ("a test", "a fake", 0.25)
    assert result.settings["rate"] == 7
    assert result.settings["policy"] == {"cap": 9}
    assert result.settings["generator"]["lag_p99"] >= 0.0
    assert result.totals.evictions == {"capacity": 2}
    assert result.totals.hit_rate == pytest.approx(5 / 8)
    assert result.held
    assert not result.interrupted


def test_turns_that_were_planned_to_fail_count_neither_as_turns_nor_as_failures() -> None:
    result = play(FakeTarget(), plan(3, fails=True))
    assert (result.totals.turns, result.totals.failures) == (0, 0)


def test_a_target_that_raises_is_a_failure_of_that_turn() -> None:
    async def turn(_: Planned) -> dict[str, Any]:
        raise OSError("no route")

    result = play(FakeTarget(turn), plan(2))
    assert result.totals.errors == {"OSError: no route": 2}


class Unusual(BaseException):
    """No `Exception`."""


@pytest.mark.parametrize("error", [SystemExit(0), Unusual("x")])
def test_what_would_end_a_program_is_a_failure_of_that_turn(error: BaseException) -> None:
    async def leave(planned: Planned) -> dict[str, Any]:
        if planned.number == 2:
            raise error
        return {}

    result = play(FakeTarget(leave), plan(3))
    assert result.totals.turns == 2
    assert result.totals.errors == {f"{type(error).__name__}: {error}": 1}
    assert not result.held


def test_a_turn_that_cannot_have_ended_yet_is_cancelled_and_no_failure() -> None:
    async def long(_: Planned) -> dict[str, Any]:
        await asyncio.get_running_loop().create_future()
        return {}

    result = play(FakeTarget(long), plan(1, seconds=1e6), patience=0.05)
    assert (result.totals.failures, result.totals.planned_failures) == (0, 2)


def test_a_generator_that_is_far_behind_gives_up_its_plan() -> None:
    """Else a run of two seconds takes as long as the slowest machine likes."""

    def endless() -> Iterator[Planned]:
        for number in itertools.count(1):
            yield Planned(at=0.001, number=number, key="a", seconds=0.0)

    run = Run(FakeTarget(), endless(), duration=0.05, patience=0.05, title="t", settings={})
    result = asyncio.run(run.play())
    assert result.settings["generator"]["cut_at"] == 0.001
    assert result.totals.arrived == result.totals.turns > 0


def test_what_was_counted_while_a_look_told_nothing_is_not_counted_from_the_beginning() -> None:
    class Blinking(FakeTarget):
        looks = iter([Level(builds=100), Level(), Level(builds=103)])

        async def look(self) -> Level:
            return next(self.looks, self.level)

    target = Blinking()
    target.level = Level()
    result = play(target, plan(1), duration=1.2)
    assert sum(second.builds or 0 for second in result.series) <= 3
    assert result.totals.builds == 103


def test_turns_do_not_wait_for_those_before_them() -> None:
    """Open loop: all are under way before the first one ends."""
    gate: list[asyncio.Future[None]] = []

    async def turn(planned: Planned) -> dict[str, Any]:
        if not gate:
            gate.append(asyncio.get_running_loop().create_future())
        if planned.number == 10:
            gate[0].set_result(None)
        await gate[0]
        return {}

    target = FakeTarget(turn)
    result = play(target, plan(10, every=0.002))
    assert target.most == 10
    assert result.totals.turns == 10


def test_at_most_so_many_at_once_and_the_others_come_to_it() -> None:
    async def turn(_: Planned) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {}

    target = FakeTarget(turn)
    result = play(target, plan(50), at_once=3)
    assert target.most == 3
    assert target.begun == list(range(1, 51))
    assert result.totals.turns == 50


def test_turns_after_the_duration_are_left_out() -> None:
    target = FakeTarget()
    play(target, [*plan(2), Planned(at=0.05, number=3, key="a", seconds=0.0)], duration=0.05)
    assert target.begun == [1, 2]


def test_a_turn_that_would_never_end_is_cancelled_as_planned() -> None:
    async def turn(planned: Planned) -> dict[str, Any]:
        if planned.seconds == math.inf:
            await asyncio.get_running_loop().create_future()
        return {}

    target = FakeTarget(turn)
    result = play(target, [*plan(2), *plan(1, seconds=math.inf)], patience=3600.0)
    assert (result.totals.turns, result.totals.failures) == (2, 0)
    assert result.totals.planned_failures == 2, "that one, and the one that the target tells of"
    assert "close with 0" in target.steps


def test_a_turn_that_outlasts_the_patience_is_cancelled_and_a_failure() -> None:
    async def turn(_: Planned) -> dict[str, Any]:
        await asyncio.get_running_loop().create_future()
        return {}

    target = FakeTarget(turn)
    result = play(target, plan(2), patience=0.01, at_once=1)
    assert result.totals.failures == 1
    assert "still not over" in next(iter(result.totals.errors))
    assert result.settings["generator"]["never_begun"] == 1
    assert result.totals.arrived == 1
    assert "close with 0" in target.steps


def test_the_end_comes_in_order() -> None:
    target = FakeTarget()
    play(target, plan(1))
    assert target.steps == ["open", "arrivals over", "close with 0", "checks"]


def test_changes_are_made_and_one_that_fails_is_a_failure() -> None:
    target = FakeTarget()
    changes = [Change(at=0.01, changes={"idle_ttl": 5.0}), Change(at=0.0, changes={"cap": 3})]
    result = play(target, plan(1), changes=changes)
    assert target.steps[1:3] == ["configure {'cap': 3}", "configure {'idle_ttl': 5.0}"]
    assert result.totals.failures == 1
    assert "only a cap" in next(iter(result.totals.errors))


def test_the_watcher_sees_every_second_and_the_last_moment() -> None:
    seen: list[Second] = []
    result = play(FakeTarget(), plan(4), watch=seen.append)
    assert tuple(seen) == result.series
    assert sum(second.turns for second in seen) == 4
    assert [second.builds for second in seen] == [0] * len(seen), "counts are of the second"


def test_a_run_that_is_stopped_begins_nothing_more_and_is_whole_otherwise() -> None:
    async def main() -> tuple[Result, FakeTarget]:
        async def turn(planned: Planned) -> dict[str, Any]:
            if planned.number == 2:
                run.stop()
            await asyncio.sleep(0)
            return {}

        target = FakeTarget(turn)
        run = a_run(target, [*plan(2), *plan(1, every=1800.0)], duration=3600.0)
        return await run.play(), target

    result, target = asyncio.run(main())
    assert result.interrupted
    assert target.begun == [1, 2]
    assert result.totals.turns == 2
    assert target.steps[-2:] == ["close with 0", "checks"]


def test_turns_that_were_held_back_when_it_was_stopped_have_not_arrived() -> None:
    async def main() -> Result:
        async def turn(_: Planned) -> dict[str, Any]:
            asyncio.get_running_loop().call_soon(run.stop)
            await asyncio.sleep(0.01)
            return {}

        run = a_run(FakeTarget(turn), plan(5), at_once=1, duration=3600.0)
        return await run.play()

    result = asyncio.run(main())
    assert result.totals.arrived == result.totals.turns == 1
    assert result.settings["generator"]["never_begun"] == 4


def test_a_run_that_is_stopped_while_it_is_closed_was_whole() -> None:
    class Stopping(FakeTarget):
        async def close(self) -> float | None:
            run.stop()
            return await super().close()

    run = a_run(Stopping(), plan(3))
    result = asyncio.run(run.play())
    assert (result.interrupted, result.totals.turns) == (False, 3)


def test_a_run_that_is_stopped_before_it_begins_has_no_turns() -> None:
    run = a_run(FakeTarget(), plan(3), duration=3600.0)
    run.stop()
    result = asyncio.run(run.play())
    assert result.interrupted
    assert result.totals.arrived == 0


def test_a_target_that_cannot_be_opened_is_closed_and_says_why() -> None:
    class Broken(FakeTarget):
        async def open(self) -> Mapping[str, Any]:
            raise ValueError("no such server")

    target = Broken()
    with pytest.raises(ValueError, match="no such server"):
        play(target, plan(1))
    assert target.steps == ["close with 0"]


def test_a_target_that_cannot_be_looked_at_ends_the_run() -> None:
    class Blind(FakeTarget):
        async def look(self) -> Level:
            if "arrivals over" in self.steps:
                raise OSError("gone")
            return self.level

    target = Blind()
    with pytest.raises(OSError, match="gone"):
        play(target, plan(1))
    assert target.steps[-1] == "close with 0"


def test_a_target_that_cannot_be_looked_at_ends_the_run_long_before_its_time() -> None:
    class Blind(FakeTarget):
        async def look(self) -> Level:
            if self.begun:
                raise OSError("gone")
            return self.level

    target = Blind()
    with pytest.raises(OSError, match="gone"):
        play(target, plan(1), duration=3600.0)
    assert target.steps == ["open", "close with 0"]


def test_a_run_that_is_cancelled_closes_its_target() -> None:
    async def main() -> FakeTarget:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def turn(_: Planned) -> dict[str, Any]:
            begun.set_result(None)
            await asyncio.get_running_loop().create_future()
            return {}

        target = FakeTarget(turn)
        playing = asyncio.ensure_future(a_run(target, plan(1), duration=3600.0).play())
        await begun
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        return target

    assert asyncio.run(main()).steps == ["open", "close with 0"]
