"""What is measured, and how a contender is put through it.

As in `benchmarks.rooms`, whose parts are used, each of them ends with a look at what was done: a
contender that is fast because it forgot something is an error, not a result. Who cannot have as many
sessions is measured with as many as it can (`ceiling`), and the figures say how many.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter_ns

from benchmarks.contender import Stage
from benchmarks.latency import Figures, figures_of
from benchmarks.loads import count_in_tasks, time_in_tasks
from benchmarks.peers import NAMES, TITLES
from benchmarks.peers.agents import Recipe
from benchmarks.peers.churn import churning
from benchmarks.peers.journal import Journal
from benchmarks.peers.peer import Peer
from benchmarks.peers.system import held
from benchmarks.results import Cast
from benchmarks.rooms.scenarios import (
    CAP,
    COMMIT,
    EVICTIONS,
    IDLE_TTL,
    TEARDOWN,
    ThreadCount,
    beats,
    fill,
    in_background,
    names,
    sweeps_with_turns,
    timed_sweeps,
    visitor,
)
from benchmarks.scenarios import measure_threads
from benchmarks.work import keys_for

THREADS = 8
TOO_FEW = 100
"""Who cannot have so many sessions has each in a process, and gets less of everything."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    repetitions: int
    apart: int
    """Repetitions of what is measured in a process of its own."""

    heavy: int
    """Repetitions of who brings servers of its own."""

    seconds: float
    contended_seconds: float
    bursts: int
    swept: int
    inserts: int
    dirty: int
    """Sessions that are drained."""

    idle: int
    turns: int
    """Of each thread, when sessions come and go."""

    deadline: float
    """Seconds that a drain may take when one session hangs."""

    seed: int = 0
    """Of what is left to chance: that of the repetition, the same for all."""


FULL = Scale(
    repetitions=5,
    apart=3,
    heavy=2,
    seconds=0.5,
    contended_seconds=1.2,
    bursts=5,
    swept=100_000,
    inserts=4_000,
    dirty=100,
    idle=10_000,
    turns=200,
    deadline=3.0,
)
QUICK = Scale(
    repetitions=2,
    apart=1,
    heavy=1,
    seconds=0.1,
    contended_seconds=0.3,
    bursts=1,
    swept=3_000,
    inserts=600,
    dirty=30,
    idle=1_000,
    turns=60,
    deadline=1.0,
)


# Warm turns


def warm(peer_class: type[Peer], threads: int, seconds: float) -> Figures:
    """Turns of sessions that have their agent, a session for each thread, as many as possible."""
    with Journal() as journal:
        with peer_class(Recipe(journal=journal.path), cap=CAP, idle_ttl=IDLE_TTL) as room:
            keys = fill(room, threads)
            on_loop = room.on_loop()
            if on_loop is None:
                calls = [visitor(room, [key]) for key in keys]
                figures = measure_threads(Stage(calls=calls), threads, seconds)
            else:
                figures = warm_on_loop(*on_loop, keys, seconds)
            room.settle()
            assert len(room) == threads, f"{len(room)} agents kept, not {threads}"
        built = journal.counts()["built"]
        assert built == threads, f"{built} agents built, not {threads}"
    return figures


def warm_on_loop(
    run: Callable[..., float], turn: Callable[[str], Awaitable[object]], keys: list[str], seconds: float
) -> Figures:
    """The callers are tasks instead of threads, as many, for who is at its best so."""
    count = len(keys)

    def call(number: int) -> Awaitable[object]:
        return turn(keys[number % count])

    trial = 20
    rate = run(count_in_tasks(call, count, trial, None))
    rounds = max(1, round(rate * seconds / 2 / count / len(keys_for(0))))
    rate = run(count_in_tasks(call, count, rounds, None))
    taken: list[int] = run(time_in_tasks(call, count, rounds, None))  # type: ignore[assignment]  # any
    return figures_of(taken, rate=rate)


# Turns while others are torn down


def evicting(peer_class: type[Peer], scale: Scale) -> Figures:
    """A turn a millisecond from one thread: in peace, and while others are torn down all the time."""
    evictions = max(1, min(EVICTIONS, peer_class.ceiling // 5))
    cap = 3 * evictions  # so that a burst of newcomers never pushes out who is in use
    newcomers = evictions * scale.bursts
    with Journal() as journal:
        recipe = Recipe(journal=journal.path, release_seconds=TEARDOWN)
        with peer_class(recipe, cap=cap, idle_ttl=IDLE_TTL) as room:
            warm = fill(room, cap)[-1:] * 4 if cap < 8 else fill(room, cap)[-4:]
            peace = threading.Event()
            quiet = figures_of(beats(room, warm, in_background(lambda: peace.wait(0.3))))

            def evict() -> None:
                for burst in range(1, scale.bursts + 1):
                    for number in range(evictions):
                        room.begin_end(f"newcomer:{burst}:{number}")
                    journal.wait("released", burst * evictions)

            figures = figures_of(beats(room, warm, in_background(evict)))
            room.settle()
            released = journal.counts()["released"]
            assert (released, len(room)) == (newcomers, cap), f"{released} released, {len(room)} kept"
    figures |= {f"quiet_{name}": quiet[name] for name in ("p50", "p99", "max", "samples")}
    return figures | {"evictions": evictions}


# Inserts


def inserting(peer_class: type[Peer], scale: Scale) -> Figures:
    """Eight threads with ever new sessions, in a room that is full after the first few."""
    few = peer_class.ceiling < TOO_FEW
    cap = min(CAP, peer_class.ceiling // 4)
    each = (peer_class.ceiling if few else scale.inserts) // THREADS
    inserts = each * THREADS
    with (
        Journal() as journal,
        ThreadCount() as threads,
        peer_class(Recipe(journal=journal.path), cap=cap, idle_ttl=IDLE_TTL) as room,
    ):
        begin = perf_counter_ns()
        in_parallel([partial(insert, room, number, each) for number in range(THREADS)])
        inserted = perf_counter_ns()
        if room.tears_down:
            journal.wait("released", inserts - cap)
        room.settle()
        started, most = threads.started - THREADS, max(0, threads.most - THREADS)
        built = journal.counts()["built"]
        assert built == inserts, f"{built} of {inserts} agents built"
        assert len(room) == cap, f"{len(room)} agents kept, not {cap}"
    return {
        "rate": inserts / ((inserted - begin) / 1e9),
        "inserts": inserts,
        "cap": cap,
        "threads": started,
        "most_threads": most,
    }


def insert(room: Peer, number: int, count: int) -> None:
    for place in range(count):
        room.begin_end(f"new:{number}:{place}")


def in_parallel(works: Sequence[Callable[[], object]]) -> None:
    """Each in a thread of its own; what one of them raises is raised here."""
    barrier = threading.Barrier(len(works))
    failures: list[BaseException] = []

    def body(work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:  # raised by who waits for us
            failures.append(error)

    threads = [threading.Thread(target=body, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# Sweep


def sweeping(peer_class: type[Peer], scale: Scale) -> Figures:
    """Sweep a full room in which nobody is idle."""
    count = min(scale.swept, peer_class.ceiling)
    # It is not closed: to drain so many would take longer than all the rest, and the process ends.
    room = peer_class(Recipe(), cap=2 * count, idle_ttl=IDLE_TTL)
    fill(room, count)
    assert len(room) == count, f"{len(room)} agents kept, not {count}"
    alone = [end - begin for begin, end in timed_sweeps(room)]
    sweeps, turns = sweeps_with_turns(room)
    meanwhile = [
        end - begin
        for begin, end in turns
        if any(begin < swept and sweep < end for sweep, swept in sweeps)
    ]
    return {
        "sessions": count,
        "milliseconds": median(alone) / 1e6,
        "worst_turn": max(meanwhile, default=0) / 1e6,
    }


# Drain


def draining(peer_class: type[Peer], scale: Scale) -> Figures:
    count = min(scale.dirty, peer_class.ceiling)
    with Journal() as journal:
        recipe = Recipe(journal=journal.path, commit_seconds=COMMIT)
        with peer_class(recipe, cap=CAP, idle_ttl=IDLE_TTL) as room:
            fill(room, count)
            begin = perf_counter_ns()
            room.drain()
            seconds = (perf_counter_ns() - begin) / 1e9
            committed = journal.counts()["committed"]
            assert committed == count, f"{committed} of {count} committed"
    return {"rate": count / seconds, "seconds": seconds, "sessions": count}


def draining_wedged(peer_class: type[Peer], scale: Scale) -> Figures:
    """The same with one session, in the middle, whose commit hangs."""
    count = min(scale.dirty, peer_class.ceiling)
    journal = Journal()
    wedged = list(names(count))[count // 2]
    recipe = Recipe(journal=journal.path, commit_seconds=COMMIT, wedged=wedged)
    room = peer_class(recipe, cap=CAP, idle_ttl=IDLE_TTL)
    fill(room, count)
    draining = threading.Thread(target=room.drain, args=(scale.deadline,), daemon=True)
    begin = perf_counter_ns()
    draining.start()
    draining.join(scale.deadline + 1.5)
    seconds = (perf_counter_ns() - begin) / 1e9
    committed = journal.counts()["committed"]
    os.unlink(journal.path)  # the one that hangs has it open, and may still write to it
    return {
        "returned": float(not draining.is_alive()),
        "seconds": seconds,
        "others": count - 1,
        "uncommitted": count - 1 - committed,
    }


# Idle


def idling(peer_class: type[Peer], scale: Scale) -> Figures:
    """What sessions with a trivial agent take while nothing happens."""
    count = min(scale.idle, peer_class.ceiling)
    few = max(1, min(100, count // 8))
    room = peer_class(Recipe(), cap=2 * count, idle_ttl=IDLE_TTL)
    fill(room, few)  # they bring it up
    gc.collect()
    before = held()
    fill(room, count)
    gc.collect()
    after = held()
    more = count - few
    if peer_class.heavy:
        room.close()  # so that the next scenario need not bring its servers up again
    return {
        "sessions": count,
        "bytes_each": (after.bytes - before.bytes) / more,
        "threads_each": (after.threads - before.threads) / more,
        "processes_each": (after.processes - before.processes) / more,
    }


# The list


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    title: str
    measure: Callable[[type[Peer], Scale], Figures]
    apart: bool = False
    """Each repetition in a process that has done nothing else."""

    once: bool = False
    """It is not compared by figures: once is enough."""

    breaks: bool = False
    """It leaves a room behind that is not to be trusted: a process that has seen it ends."""

    def repetitions(self, scale: Scale) -> int:
        return 1 if self.once else scale.apart if self.apart else scale.repetitions


SCENARIOS = (
    Scenario(
        name="warm",
        title="warm turn, 1 thread",
        measure=lambda peer, scale: warm(peer, 1, scale.seconds),
    ),
    Scenario(
        name="warm_8",
        title="warm turn, 8 threads",
        measure=lambda peer, scale: warm(peer, THREADS, scale.contended_seconds),
    ),
    Scenario(name="evicting", title="during slow teardowns", measure=evicting),
    Scenario(name="insert", title="insert over the cap", measure=inserting, apart=True),
    Scenario(
        name="drain",
        title="drain of 100 dirty",
        measure=draining,
        apart=True,
    ),
    Scenario(
        name="churn",
        title="sessions come and go",
        measure=lambda peer, scale: churning(peer, scale.turns, scale.seed),
        apart=True,
    ),
    Scenario(name="sweep", title="sweep of none", measure=sweeping, apart=True, breaks=True),
    Scenario(name="idle", title="idle session", measure=idling, apart=True),
    Scenario(
        name="wedged",
        title="drain, one wedged",
        measure=draining_wedged,
        apart=True,
        once=True,
        breaks=True,
    ),
)

CAST = Cast(
    contenders={name: TITLES[name] for name in NAMES},
    scenarios={scenario.name: scenario.title for scenario in SCENARIOS},
)
