"""A real room under a small load: its promises hold, and a broken room is found out."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from pathlib import Path
from typing import Any

import pytest

from greenroom import AgentHooks, BuildContext, Future, Greenroom, Policy
from greenroom.stress._agents import Cast
from greenroom.stress._arrivals import planned
from greenroom.stress._observations import Log
from greenroom.stress._result import Result
from greenroom.stress._room_target import RoomTarget
from greenroom.stress._run import Run
from greenroom.stress._target import Planned
from greenroom.stress._workload import Change, Length, Workload
from greenroom.testing import RecordingAgent

QUICK = {name: Length.parse("1ms~0.5") for name in ("turn", "build", "commit", "teardown")}


def workload(**fields: Any) -> Workload:
    small: dict[str, Any] = {"sessions": 30, "duration": 0.6, "rate": 200.0, "seed": 4}
    small.update(QUICK)
    small.update(fields)
    # Nothing is refused, however slow the machine is.
    small["policy"] = {"cap": 8, "max_waiting": 10_000, **fields.get("policy", {})}
    return Workload(**small)


def play(load: Workload, target: RoomTarget | None = None, **fields: Any) -> Result:
    target = RoomTarget(load, deadline=5.0, **fields) if target is None else target
    run = Run(
        target,
        planned(load),
        duration=load.duration,
        changes=load.reconfigure,
        at_once=load.at_once,
        title="a test",
        settings=load.to_json(),
    )
    return asyncio.run(run.play())


def broken(result: Result) -> list[str]:
    return [f"{check.name}: {check.violations}" for check in result.checks if check.held is False]


def held(result: Result) -> bool:
    assert broken(result) == []
    assert result.totals.errors == {}
    return result.held


def test_a_room_keeps_its_promises_under_load() -> None:
    result = play(workload())
    assert held(result)
    totals = result.totals
    assert totals.arrived == totals.turns > 50
    assert totals.builds is not None
    assert totals.builds > 8, "there were evictions"
    assert totals.evictions["capacity"] > 0
    assert "shutdown" not in totals.evictions, "the drain evicts nothing"
    assert {check.held for check in result.checks} == {True}
    assert {"start", "hit", "build", "turn", "commit", "teardown"} == set(result.latencies)
    assert result.settings["policy"]["cap"] == 8
    assert result.settings["policy"]["idle_ttl"] == 3600.0
    json.dumps(result.to_json())


def test_it_keeps_them_with_failures_endings_and_a_cap_that_changes() -> None:
    load = workload(
        fail_turn=0.05,
        fail_build=0.05,
        fail_commit=0.5,
        fail_teardown=0.1,
        end=0.1,
        agent_bytes=1000,
        policy={"retry_first": 0.05, "retry_most": 0.1},
        reconfigure=(Change(at=0.2, changes={"cap": 3}),),
    )
    result = play(load)
    assert held(result)
    assert result.totals.planned_failures > 0
    assert result.totals.turns < result.totals.arrived
    assert result.totals.commit_failures
    assert result.totals.evictions["explicit"] > 0
    assert result.series[-1].cap == 3


def test_it_keeps_them_while_hooks_and_turns_hang_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    load = workload(
        turn=Length.parse("1ms!0.02"),
        build=Length.parse("1ms!0.03"),
        commit=Length.parse("1ms!0.03"),
        teardown=Length.parse("1ms!0.03"),
        popularity=0.0,
    )
    result = play(load, RoomTarget(load, deadline=0.5))
    assert held(result)
    assert result.totals.planned_failures > 0
    assert result.totals.turns > 0
    left = [thread for thread in set(threading.enumerate()) - before if "greenroom" in thread.name]
    for thread in left:
        thread.join(timeout=10.0)
    assert not any(thread.is_alive() for thread in left)


def test_it_keeps_them_with_a_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'stress.db'}"
    for _ in range(2):  # the second time it counts on from the first
        result = play(workload(rate=60.0), store=url)
        assert held(result)
        assert result.settings["store"] == url


def test_turns_that_the_room_would_not_take_are_refused_and_no_failures() -> None:
    load = workload(sessions=1, turn=Length.parse("100ms"), policy={"max_waiting": 0})
    result = play(load)
    assert result.held
    assert result.totals.refused > 0
    assert result.totals.refused + result.totals.turns == result.totals.arrived


def test_an_own_factory_s_agents_are_used_and_witnessed() -> None:
    agents: list[RecordingAgent] = []

    async def factory(context: BuildContext) -> RecordingAgent:
        agents.append(RecordingAgent(context))
        return agents[-1]

    performed: list[Any] = []

    async def perform(agent: Any, turn: Planned) -> None:
        assert agent.key == turn.key
        performed.append(turn.number)

    result = play(workload(), factory=factory, perform=perform)
    assert held(result)
    assert len(performed) == result.totals.turns
    assert len(agents) == result.totals.builds
    assert all(agent.calls[-1] in ("release_clients", "close") for agent in agents)


def test_a_perform_that_blocks_runs_beside_the_loop() -> None:
    threads: set[str] = set()

    def perform(_: Any, __: Planned) -> None:
        threads.add(threading.current_thread().name)

    assert held(play(workload(rate=50.0), perform=perform))
    assert threading.current_thread().name not in threads
    assert threads


def test_what_a_factory_or_a_perform_raises_is_a_failure_and_shown() -> None:
    def factory(_: BuildContext) -> Any:
        raise OSError("no key")

    async def perform(agent: Any, _: Planned) -> None:
        raise ZeroDivisionError("in " + agent.key)

    result = play(workload(rate=50.0), factory=factory)
    assert not result.held
    assert result.totals.failures == result.totals.arrived
    (text,) = result.totals.errors
    assert "OSError: no key" in text
    result = play(workload(rate=50.0), perform=perform)
    assert result.totals.errors == {"ZeroDivisionError: in …": result.totals.arrived}


# Broken rooms.


def test_a_room_that_lets_agents_go_in_a_turn_is_found_out() -> None:
    load = workload(rate=50.0)

    async def perform(agent: Any, turn: Planned) -> None:
        if turn.number == 5:  # what no room may do
            for _, hook in target.room._context.hooks.farewell(agent, close=False):
                hook()

    target = RoomTarget(load, perform=perform, deadline=5.0)
    result = play(load, target)
    assert not result.held
    names = {text.partition(":")[0] for text in broken(result)}
    assert names >= {"no teardown in a turn", "one teardown an agent"}


def test_a_room_that_closes_without_the_only_teardown_an_agent_has_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Invariant 6"""

    class Released:
        def release_clients(self) -> None:
            pass

    find = AgentHooks.find
    assert held(play(workload(rate=50.0), factory=lambda _: Released()))
    monkeypatch.setattr(AgentHooks, "find", lambda self, agent, *kinds: find(self, agent, kinds[0]))
    (text,) = broken(play(workload(rate=50.0), factory=lambda _: Released()))
    assert text.startswith("one teardown an agent")
    assert "was never let go" in text


def test_a_room_that_forgets_turns_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    load = workload(rate=50.0)

    monkeypatch.setattr("greenroom.actors.session.generations.Generations.owes", lambda *_: False)
    result = play(load)
    assert not result.held
    assert any("turns up to" in text for text in broken(result))


def test_a_room_without_a_cap_that_says_it_has_one_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.supervisor.eviction.Residents.beyond", lambda *_: NOBODY)
    result = play(workload(popularity=0.0, rate=400.0, duration=1.2, policy={"cap": 2}))
    assert not result.held
    assert [text.partition(":")[0] for text in broken(result)] == ["agents within the cap"]


class NOBODY:
    """Nobody is beyond the cap."""

    ask = ()
    more = False


def test_a_room_that_loses_a_turn_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that the room neither answers nor knows of."""
    load = workload(rate=20.0, duration=0.3)
    target = RoomTarget(load, deadline=5.0)
    monkeypatch.setattr("greenroom.stress._room_target._LONG", 0.0)

    async def main() -> Any:
        await target.open()
        lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(Greenroom, "turn", lambda *_, **__: Lost(lost))
        one = Planned(at=0.0, number=1, key="a", seconds=0.0)
        waiting = asyncio.ensure_future(target.turn(one, 0.0))
        await asyncio.sleep(0)
        await target.look()
        await target.look()
        waiting.cancel()
        await asyncio.wait([waiting])
        await target.close()
        return {check.name: check for check in target.checks()}

    checks = asyncio.run(main())
    assert checks["every turn answered"].held is False
    assert "the room does not know it" in checks["every turn answered"].violations[0]


class Lost:
    """A turn that never begins."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    async def __aenter__(self) -> Any:
        await self._future

    async def __aexit__(self, *_: object) -> None:
        pass


def test_a_turn_that_waits_for_its_own_session_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    load = workload(rate=20.0, duration=0.3)
    target = RoomTarget(load, deadline=5.0)
    monkeypatch.setattr("greenroom.stress._room_target._LONG", 0.0)

    async def main() -> Any:
        await target.open()
        ends = asyncio.get_running_loop().create_future()

        async def perform(*_: Any) -> None:
            await ends

        target._perform = perform
        turns = [
            asyncio.ensure_future(target.turn(Planned(at=0.0, number=number, key="a", seconds=0.0), 0.0))
            for number in (1, 2, 3)
        ]
        for _ in range(4):
            await target.look()
        ends.set_result(None)
        await asyncio.wait(turns)
        await target.close()
        return {check.name: check for check in target.checks()}

    checks = asyncio.run(main())
    assert checks["every turn answered"].held is True
    assert checks["every turn answered"].seen == 3


def test_a_target_that_was_never_opened_has_nothing_to_say() -> None:
    target = RoomTarget(workload())
    assert asyncio.run(target.close()) is None
    assert target.checks() == ()
    assert target.hook_seconds() == {}


def test_a_wedged_turn_waits_until_it_is_cancelled() -> None:
    result = play(workload(rate=50.0, duration=0.2, turn=Length(median=0.0, wedged=1.0), sessions=1000))
    assert held(result)
    assert result.totals.turns == 0
    assert result.totals.planned_failures == result.totals.arrived
    assert math.isfinite(result.drain or 0.0)


def test_a_policy_is_the_room_s() -> None:
    policy = workload(policy={"cap": None}).make_policy()
    assert policy == Policy(cap=None, max_waiting=10_000)


def test_a_hook_may_be_drawn_longer_than_a_thread_can_wait() -> None:
    asked: list[float] = []

    class Noting(Future[None]):
        def get(self, *, timeout: float | None = None) -> None:
            asked.append(math.inf if timeout is None else timeout)

    Cast(workload(), Log()).act(Length(median=1e300), 0.0, "a", "a commit", Noting())
    assert asked[0] <= threading.TIMEOUT_MAX
