"""What is measured: the scenarios, and how a contender is put through one."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.contender import Contender, NotOffered, Population, Stage
from benchmarks.contenders import TITLES
from benchmarks.latency import Figures, figures_of
from benchmarks.loads import (
    count_in_tasks,
    count_in_this_thread,
    count_in_threads,
    time_in_tasks,
    time_in_this_thread,
    time_in_threads,
)
from benchmarks.results import Cast
from benchmarks.work import keys_for


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    title: str
    kind: str
    threads: int = 1
    actors: int = 1
    tasks: int = 0


SCENARIOS = (
    Scenario(name="ask", title="1 thread: ask", kind="ask"),
    Scenario(name="proxy", title="1 thread: proxy call", kind="proxy"),
    Scenario(name="tell", title="1 thread: tell", kind="tell"),
    Scenario(name="ask_8_8", title="8 threads, 8 actors", kind="ask", threads=8, actors=8),
    Scenario(name="ask_8_1", title="8 threads, 1 actor", kind="ask", threads=8),
    Scenario(name="ask_64_1", title="64 threads, 1 actor", kind="ask", threads=64),
    Scenario(name="loop", title="1,000 tasks on a loop", kind="loop", tasks=1_000),
    Scenario(name="spawn", title="spawn", kind="spawn"),
)

STOP = Scenario(name="stop", title="stop one of 100,000", kind="stop")
"""Measured apart, on a population that takes a while to start."""

CAST = Cast(contenders=TITLES, scenarios={s.name: s.title for s in (*SCENARIOS, STOP)})

SPAWN_AT_ONCE = 500
"""Few enough for actors with a thread each. They are stopped between rounds, untimed."""


def measure(contender: Contender, scenario: Scenario, seconds: float) -> Figures:
    """Put a contender through a scenario: half of the time for the rate, half for the latency."""
    if scenario.kind == "spawn":
        return measure_spawn(contender.population(), seconds)
    with contender.stage(scenario.kind, actors=scenario.actors, threads=scenario.threads) as stage:
        tasks = scenario.tasks
        if not tasks and scenario.threads == 1 and contender.prefers_loop:
            tasks = 1
        if tasks:
            return measure_tasks(contender, stage, tasks, seconds)
        return measure_threads(stage, scenario.threads, seconds)


def measure_threads(stage: Stage, threads: int, seconds: float) -> Figures:
    calls = [stage.calls[number % len(stage.calls)] for number in range(threads)]
    if threads == 1:
        rate = count_in_this_thread(calls[0], seconds / 2, stage.drain)
        return figures_of(time_in_this_thread(calls[0], seconds / 2, stage.drain), rate=rate)
    rate = count_in_threads(calls, seconds / 2, stage.drain)
    return figures_of(time_in_threads(calls, seconds / 2, stage.drain), rate=rate)


def measure_tasks(contender: Contender, stage: Stage, tasks: int, seconds: float) -> Figures:
    # A caller whose answers are there at once never lets go of the loop, so that a task cannot
    # watch the clock for all: rounds are counted, and a trial says how many fill the time.
    call, drain = stage.async_calls[0], stage.async_drain
    trial = 1 if tasks > 1 else 50
    rate = contender.run(count_in_tasks(call, tasks, trial, drain))
    rounds = max(1, round(rate * seconds / 2 / tasks / len(keys_for(0))))
    rate = contender.run(count_in_tasks(call, tasks, rounds, drain))
    return figures_of(contender.run(time_in_tasks(call, tasks, rounds, drain)), rate=rate)


def measure_spawn(population: Population, seconds: float) -> Figures:
    taken: list[int] = []
    deadline = time.perf_counter() + seconds
    while not taken or time.perf_counter() < deadline:
        taken += population.grow(SPAWN_AT_ONCE)
        population.clear()
    return figures_of(taken)


def offered(contender: Contender, scenario: Scenario) -> str | None:
    """Why the contender cannot do this, or `None`."""
    try:
        if scenario.kind in ("spawn", "stop"):
            contender.population()
        else:
            with contender.stage(scenario.kind, actors=scenario.actors, threads=scenario.threads):
                pass
    except NotOffered as reason:
        return str(reason)
    return None
