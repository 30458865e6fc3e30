"""The simulated runtime: what it promises."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pykka
import pytest

from greenroom.actors import Actor, ActorRegistry, Reply, WorkTimedOut, WouldBlock
from greenroom.actors.simulation import Deadlock, InjectedFault, NotIdle, Simulation
from tests.actors.actors import Recorder

if TYPE_CHECKING:
    from greenroom.messages import ChildFailed


class Account(Actor):
    """With a bug that only some schedules show: it decides on what it read two messages ago."""

    def __init__(self) -> None:
        super().__init__()
        self.balance = 100

    def read(self) -> int:
        return self.balance

    def withdraw(self, amount: int) -> None:
        self.balance -= amount


async def withdraw(account: Any, amount: int) -> None:
    if await account.read() >= amount:
        await account.withdraw(amount)


def balance_after(seed: int) -> tuple[int, str]:
    with Simulation(seed) as sim:
        account = sim.start(Account).proxy()
        sim.task(withdraw(account, 80))
        sim.task(withdraw(account, 80))
        sim.run()
        return account.read().get(), sim.trace


def test_some_seed_finds_a_planted_bug_and_replays_it() -> None:
    bad = [seed for seed in range(50) if balance_after(seed)[0] < 0]
    good = [seed for seed in range(50) if balance_after(seed)[0] >= 0]

    assert bad
    assert good
    assert balance_after(bad[0]) == balance_after(bad[0])


def busy_world(seed: int) -> str:
    """Everything at once: tasks, timers, work, faults, restarts."""
    with Simulation(seed, faults={"handler": 0.05, "work": 0.2}) as sim:

        class Parent(Actor):
            def on_start(self) -> None:
                self.child = self.start_child(Account)
                self.call_every(0.3, "tick")

            def on_receive(self, message: Any) -> None:
                if message == "tick":
                    work = self.runtime.submit(self.runtime.clock, timeout=0.9)
                    self.pipe_to_self(work, lambda v: ("done", v), lambda e: ("failed", type(e)))

            def on_child_failed(self, failure: ChildFailed) -> None:
                self.restart_child(failure)

        parent = sim.start(Parent)

        async def client(n: int) -> None:
            for _ in range(10):
                await sim.sleep(sim.random.random())
                try:
                    child = await parent.proxy().child
                    await child.proxy().withdraw(n)
                except (pykka.ActorDeadError, InjectedFault):
                    return

        for n in range(5):
            sim.task(client(n))
        sim.run(5.0)
        return sim.trace


@pytest.mark.long
def test_one_seed_is_one_schedule_byte_for_byte_in_any_process() -> None:
    here = busy_world(42)
    assert len(here.splitlines()) > 100
    assert here == busy_world(42)
    assert here != busy_world(43)
    script = f"from {__name__} import busy_world; import sys; sys.stdout.write(busy_world(42))"
    for hash_seed in ("1", "2"):
        elsewhere = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert elsewhere.stdout == here


def test_blocking_on_a_future_drives_the_simulation() -> None:
    with Simulation() as sim:
        ref = sim.start(Recorder)

        future = ref.ask("hello", block=False)
        assert not future.done()

        assert future.get() == "hello"
        assert sim.submit(lambda: 42).map(str).get() == "42"


def test_nothing_runs_until_the_simulation_lets_it() -> None:
    with Simulation() as sim:
        ref = sim.start(Recorder)
        ref.tell(1)
        assert ref.actor_inbox.actor.received == []  # type: ignore[union-attr]  # it is alive

        sim.run()

        assert ref.actor_inbox.actor.received == [1]  # type: ignore[union-attr]  # the same
        assert sim.step() is False


class Stuck(Actor):
    """Asks another before it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.other: Any = None
        self.replies: list[Reply] = []

    def on_receive(self, message: Any) -> None:
        self.replies.append(self.defer_reply())
        if self.other is not None:
            asked = self.other.ask("please", block=False)
            self.pipe_to_self(asked, lambda v: v, lambda e: e)


def test_a_deadlock_says_who_waits_for_whom() -> None:
    with Simulation(seed=5) as sim:
        left, right = sim.start(Stuck), sim.start(Stuck)
        left.proxy().other = right

        async def client() -> None:
            await left.ask("question", block=False)

        sim.task(client(), "client")
        with pytest.raises(Deadlock) as raised:
            sim.task(client(), "other client").get()

    text = str(raised.value)
    assert "seed 5" in text
    assert "task client waits for Stuck#1 to answer str" in text
    assert "Stuck#1 waits for Stuck#2 to answer str" in text
    assert "Stuck#2 has taken 2 replies along" in text


def test_a_deadlock_names_a_failed_actor_that_nobody_decides_about() -> None:
    class Undecided(Actor):
        def give_birth(self) -> Any:
            return self.start_child(Recorder)

        def on_child_failed(self, failure: ChildFailed) -> None:
            pass

    with Simulation() as sim:
        child = sim.start(Undecided).proxy().give_birth().get()
        child.tell(ValueError("boom"))

        with pytest.raises(Deadlock, match="Recorder#2 has failed and waits for Undecided#1"):
            child.ask("anybody there?")


def test_a_timeout_passes_in_virtual_time() -> None:
    with Simulation() as sim:
        stuck = sim.start(Stuck)

        with pytest.raises(pykka.Timeout):
            stuck.ask("question", timeout=3600.0)

        assert sim.clock() == 3600.0


def test_waiting_in_a_handler_raises_here_too() -> None:
    class Waiting(Actor):
        def on_receive(self, message: Any) -> Any:
            return message.ask("hello")

    with Simulation() as sim:
        other = sim.start(Recorder)
        with pytest.raises(WouldBlock, match="pipe_to_self"):
            sim.start(Waiting).ask(other)


def test_timers_race_messages_and_time_passes_only_in_the_simulation() -> None:
    orders = set()
    for seed in range(60):
        with Simulation(seed, haste=0.5) as sim:
            ref, relay = sim.start(Recorder), sim.start(Recorder)
            sim.call_later(1.0, ref.tell, "timer")
            relay.tell(lambda: ref.tell("message"))  # noqa: B023  # called in this round
            sim.run()
            orders.add(tuple(ref.proxy().received.get()))
            assert sim.clock() == 1.0

    assert orders == {("timer", "message"), ("message", "timer")}


def test_run_for_some_time_ends_at_that_time_with_repeating_timers() -> None:
    with Simulation() as sim:
        beats: list[float] = []
        sim.call_every(10.0, lambda: beats.append(sim.clock()))

        sim.run(35.0)

        assert beats == [10.0, 20.0, 30.0]
        assert sim.clock() == 35.0
        sim.run()
        assert sim.clock() == 35.0


def test_run_for_some_time_ends_at_that_time_though_a_task_waits_on_the_spot() -> None:
    """Whoever waits does not let more time pass than it takes."""
    for seed in range(30):
        with Simulation(seed) as sim:
            sim.call_every(60.0, lambda: None)
            recorder = sim.start(Recorder).proxy()

            async def client() -> None:
                for _ in range(3):
                    assert recorder.received.get() == []  # noqa: B023  # it runs in this very round

            sim.task(client())
            sim.run(10.0)

            assert sim.clock() == 10.0


def test_a_wait_with_a_timeout_ends_in_time_though_work_waits_on_the_spot() -> None:
    for seed in range(30):
        with Simulation(seed) as sim:
            sim.call_every(60.0, lambda: None)
            recorder = sim.start(Recorder).proxy()

            assert sim.submit(lambda: recorder.received.get()).get(timeout=5.0) == []  # noqa: B023
            assert sim.clock() <= 5.0


def test_slow_work_ends_in_different_orders_and_times_out_in_virtual_time() -> None:
    orders = set()
    for seed in range(20):
        with Simulation(seed) as sim:
            ended: list[int] = []
            for n in range(3):
                sim.submit(ended.append, n)
            sim.run()
            orders.add(tuple(ended))
    assert len(orders) > 2

    with Simulation(work_time=(10.0, 10.0)) as sim:
        with pytest.raises(WorkTimedOut, match="commit"):
            sim.submit(print, timeout=5.0, name="commit").get()
        assert sim.clock() == 5.0
        assert sim.stats().workers_lost == 1


def test_async_work_is_a_task() -> None:
    with Simulation(work_time=(1.0, 1.0)) as sim:

        async def slow() -> float:
            await sim.sleep(2.0)
            return sim.clock()

        assert sim.submit(slow).get() == 3.0


def test_fault_points_fire_as_often_as_asked_and_only_those() -> None:
    with Simulation(seed=1, faults={"disk": 1.0, "net": 0.5}) as sim:
        with pytest.raises(InjectedFault, match="disk"):
            sim.fault_point("disk")
        sim.fault_point("something else")
        fired = 0
        for _ in range(1000):
            try:
                sim.fault_point("net")
            except InjectedFault:
                fired += 1
        assert 400 < fired < 600


def test_a_handler_fault_reaches_the_asker_and_ends_an_actor_that_was_told() -> None:
    with Simulation(faults={"handler": 1.0}) as sim:
        ref = sim.start(Recorder)
        with pytest.raises(InjectedFault):
            ref.ask("hello")
        ref.tell("hello")
        sim.run()
        assert not ref.is_alive()


def test_work_may_be_made_to_fail() -> None:
    with Simulation(faults={"work": 1.0}) as sim, pytest.raises(InjectedFault, match="work"):
        sim.submit(print).get()


def test_a_task_that_is_cancelled_is_cancelled_at_its_await() -> None:
    with Simulation() as sim:
        stuck = sim.start(Stuck)
        log: list[str] = []

        async def client() -> None:
            try:
                await stuck.ask("question", block=False)
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        task = sim.task(client())
        sim.run()
        task.cancel()
        sim.run()

        assert log == ["cancelled"]
        with pytest.raises(asyncio.CancelledError):
            task.get()
        task.cancel()


def test_a_task_that_awaits_something_outside_is_told_so() -> None:
    async def outside() -> None:
        await asyncio.sleep(0)

    with Simulation() as sim, pytest.raises(TypeError, match=r"task lost .* not in the simulation"):
        sim.task(outside(), "lost").get()


def test_a_task_whose_failure_nobody_looked_at_fails_the_simulation() -> None:
    async def fail() -> None:
        msg = "unnoticed"
        raise KeyError(msg)

    def run() -> None:
        with Simulation() as sim:
            sim.task(fail())
            sim.run()

    with pytest.raises(KeyError, match="unnoticed"):
        run()


def test_a_run_that_never_ends_is_given_up() -> None:
    class Restless(Actor):
        def on_receive(self, message: Any) -> None:
            self.actor_ref.tell(message)

    with Simulation(most_steps=500) as sim:
        sim.start(Restless).tell("go")
        with pytest.raises(NotIdle, match="500 steps"):
            sim.run()


@pytest.mark.parametrize("wrong", [{"haste": 1.0}, {"work_time": (2.0, 1.0)}, {"faults": {"disk": 1.5}}])
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Simulation(**wrong)


def test_leaving_the_simulation_leaves_nothing() -> None:
    with Simulation() as sim:
        ref = sim.start(Stuck)

        async def client() -> None:
            await ref.ask("question", block=False)

        sim.task(client())
        sim.run()
    sim.close()

    assert not ref.is_alive()
    assert ref not in ActorRegistry.get_all()


def test_stops_failures_and_dropped_replies_are_answered_as_on_threads() -> None:
    with Simulation() as sim:
        stuck = sim.start(Stuck)
        asked = stuck.ask("question", block=False)
        sim.run()
        stuck.proxy().replies = []
        with pytest.raises(pykka.ActorDeadError, match="without an answer"):
            asked.get()
        behind = stuck.ask("another", block=False)
        assert stuck.stop() is True
        with pytest.raises(pykka.ActorDeadError):
            behind.get()
        assert stuck.stop() is False
        assert stuck.actor_stopped.is_set()
