"""What is measured: the scenarios, and how a module is put through one.

After each of them it is checked that what should be committed was, once, and that nothing else was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter, process_time, sleep

from benchmarks.contender import Call, Stage
from benchmarks.contenders import TITLES
from benchmarks.latency import Figures
from benchmarks.results import Cast
from benchmarks.scenarios import measure_threads
from benchmarks.webui import NAMES
from benchmarks.webui.lifecycle import Agent, Lifecycle

THREADS = 8
"""That mark turns."""

WAITERS = 64
"""Threads that wait for one commit."""

SETTLE = 0.2
"""Seconds that they have to begin with that."""

PAUSE = 0.02
"""Seconds from one mark to the next: who was woken by it has gone back to sleep."""

DIRTY = 100
"""Sessions that are drained."""

COMMIT = 0.05
"""Seconds that each of their commits takes."""

DEADLINE = 1.0
"""Seconds that a drain has if a provider is wedged."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    repetitions: int
    seconds: float
    """For one measurement of one module: see `benchmarks.campaign`."""

    marks: int
    """Of which the processor time is taken."""


FULL = Scale(repetitions=5, seconds=1.6, marks=50)
QUICK = Scale(repetitions=2, seconds=0.3, marks=10)


def marking(lifecycle: Lifecycle, sessions: int, seconds: float) -> Figures:
    """Marks, as many as possible, of a session for each thread or of one for all."""
    agents = make_dirty(lifecycle, [Agent() for _ in range(sessions)])
    figures = measure_threads(Stage(calls=[marker(lifecycle, s) for s in agents]), THREADS, seconds)
    marked = sum(lifecycle.mark_turn_completed(session_id) for session_id in agents)
    assert marked > figures["samples"], f"{marked} marks, but {figures['samples']} were timed"
    for session_id in agents:
        assert lifecycle.commit_session_memory(session_id)
    discard(lifecycle, agents)
    return figures


def marker(lifecycle: Lifecycle, session_id: str) -> Call:
    mark = lifecycle.mark_turn_completed
    return lambda _: mark(session_id)


def waiting(lifecycle: Lifecycle, marks: int) -> Figures:
    """The processor time of a mark: in peace, and while many wait for the commit of another session."""
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        go_on.wait()

    agents = make_dirty(lifecycle, [Agent(), Agent(hang)])
    marked, busy = agents
    quiet = processor_time(lifecycle, marked, marks)
    answers: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(lifecycle.commit_session_memory(busy, wait=True)), daemon=True
        )
        for _ in range(1 + WAITERS)
    ]
    threads[0].start()
    begun.wait()
    for thread in threads[1:]:
        thread.start()
    sleep(SETTLE)
    crowded = processor_time(lifecycle, marked, marks)
    assert not answers, f"{len(answers)} did not wait"
    go_on.set()
    for thread in threads:
        thread.join()
    assert sum(answers) == 1, f"{sum(answers)} commits of one turn"
    assert lifecycle.commit_session_memory(marked)
    discard(lifecycle, agents)
    return {"cpu": crowded, "quiet_cpu": quiet}


def processor_time(lifecycle: Lifecycle, session_id: str, marks: int) -> float:
    """Microseconds that the process works for a mark, the pause after it included."""
    begin = process_time()
    for _ in range(marks):
        lifecycle.mark_turn_completed(session_id)
        sleep(PAUSE)
    return (process_time() - begin) / marks * 1e6


def draining(lifecycle: Lifecycle) -> Figures:
    agents = make_dirty(lifecycle, [Agent(lambda: sleep(COMMIT)) for _ in range(DIRTY)])
    begin = perf_counter()
    lifecycle.drain_all_on_shutdown()
    seconds = perf_counter() - begin
    discard(lifecycle, agents)
    return {"seconds": seconds}


def draining_wedged(lifecycle: Lifecycle) -> Figures:
    """The same, but the first hook hangs, and there is not much time."""
    wedge = threading.Event()
    others = [Agent(lambda: sleep(COMMIT)) for _ in range(DIRTY - 1)]
    agents = make_dirty(lifecycle, [Agent(wedge.wait), *others])
    begin = perf_counter()
    lifecycle.drain_all_on_shutdown(deadline=DEADLINE)
    seconds = perf_counter() - begin
    uncommitted = sum(lifecycle.has_uncommitted_work(session_id) for session_id in agents)
    wedge.set()
    return {"seconds": seconds, "uncommitted": uncommitted, "sessions": DIRTY}


def make_dirty(lifecycle: Lifecycle, agents: Iterable[Agent]) -> dict[str, Agent]:
    """A session for each agent, with one turn."""
    sessions = {f"20261115-{number}": agent for number, agent in enumerate(agents)}
    for session_id, agent in sessions.items():
        lifecycle.mark_turn_completed(session_id, agent=agent)
    return sessions


def discard(lifecycle: Lifecycle, agents: dict[str, Agent]) -> None:
    for session_id, agent in agents.items():
        assert agent.commits == 1, f"{session_id} was committed {agent.commits} times"
        assert lifecycle.discard_session(session_id), f"{session_id} is not committed"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    title: str
    measure: Callable[[Lifecycle, Scale], Figures]
    warmed: bool = True
    """A short one that does not count comes before."""


SCENARIOS = (
    Scenario(
        name="mark_8_8",
        title="8 threads, 8 sessions",
        measure=lambda lifecycle, scale: marking(lifecycle, THREADS, scale.seconds),
    ),
    Scenario(
        name="mark_8_1",
        title="8 threads, 1 session",
        measure=lambda lifecycle, scale: marking(lifecycle, 1, scale.seconds),
    ),
    Scenario(
        name="waiting",
        title=f"A mark while {WAITERS} wait",
        measure=lambda lifecycle, scale: waiting(lifecycle, scale.marks),
    ),
    Scenario(
        name="drain",
        title=f"Drain of {DIRTY} dirty",
        measure=lambda lifecycle, _: draining(lifecycle),
        warmed=False,
    ),
    Scenario(
        name="wedged",
        title=f"Drain in {DEADLINE:g} s, first of {DIRTY} wedged",
        measure=lambda lifecycle, _: draining_wedged(lifecycle),
        warmed=False,
    ),
)

CAST = Cast(
    contenders={name: TITLES[name] for name in NAMES},
    scenarios={scenario.name: scenario.title for scenario in SCENARIOS},
)
