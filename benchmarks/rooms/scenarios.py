"""What is measured: the scenarios, and how a room is put through one.

After each of them it is checked that the room has done what was asked of it: as many agents built,
committed, released and kept as there should be. A room that is fast because it forgot something is
an error, not a result.
"""

from __future__ import annotations

import gc
import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns, sleep

from benchmarks.contender import Call, Stage
from benchmarks.contenders import TITLES
from benchmarks.latency import Figures, figures_of
from benchmarks.machine import memory_in_use
from benchmarks.results import Cast
from benchmarks.rooms import NAMES
from benchmarks.rooms.room import Agency, Room
from benchmarks.scenarios import measure_threads

CAP = 128
IDLE_TTL = 3600.0

EVICTIONS = 64
"""Under way at once, while others take their turns."""

TEARDOWN = 0.1
"""Seconds that a slow release takes."""

COMMIT = 0.05
"""Seconds that a slow commit takes."""

DIRTY = 100
"""Sessions that are drained."""

SWEEPS = 9
"""Of one population, alone, and as many with somebody else's turns meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    repetitions: int
    apart: int
    """Repetitions of what is measured in a process of its own."""

    seconds: float
    """For one measurement of one room."""

    contended_seconds: float
    """The same with many threads: see `benchmarks.campaign`."""

    bursts: int
    """Times that `EVICTIONS` sessions are evicted, one after the other."""

    swept: int
    inserts: int
    slow_inserts: int
    known: int


FULL = Scale(
    repetitions=5,
    apart=3,
    seconds=0.5,
    contended_seconds=1.6,
    bursts=8,
    swept=100_000,
    inserts=10_000,
    slow_inserts=1_000,
    known=50_000,
)
QUICK = Scale(
    repetitions=2,
    apart=1,
    seconds=0.1,
    contended_seconds=0.3,
    bursts=2,
    swept=3_000,
    inserts=1_000,
    slow_inserts=400,
    known=2_000,
)


# Warm turns


def turns(room_class: type[Room], threads: int, sessions: int, seconds: float) -> Figures:
    """Turns of sessions that have their agent, as many as possible."""
    agency = Agency()
    with room_class(agency.build, cap=CAP, idle_ttl=IDLE_TTL) as room:
        keys = fill(room, sessions)
        calls = [visitor(room, keys_of(number, threads, keys)) for number in range(threads)]
        figures = measure_threads(Stage(calls=calls), threads, seconds)
        check(agency, room, built=sessions, kept=sessions)
    return figures


def keys_of(number: int, threads: int, keys: list[str]) -> list[str]:
    """A session for each thread, or all sessions for all, each in an order of its own."""
    if len(keys) <= threads:
        return [keys[number]]
    return random.Random(number).sample(keys, len(keys))


def visitor(room: Room, keys: Sequence[str]) -> Call:
    turn, following = room.begin_end, itertools.cycle(keys).__next__

    def visit(_: int) -> None:
        turn(following())

    return visit


# Turns while others are evicted


def evicting(room_class: type[Room], scale: Scale) -> Figures:
    """A turn a millisecond from one thread: in peace, and while others are evicted all the time."""
    cap = 4 * EVICTIONS  # so that a burst of newcomers never pushes out who is in use
    agency = Agency(release_seconds=TEARDOWN)
    with room_class(agency.build, cap=cap, idle_ttl=IDLE_TTL) as room:
        warm = fill(room, cap)[-4:]
        burst = TEARDOWN * 1.3
        quiet = figures_of(beats(room, warm, in_background(lambda: sleep(burst * scale.bursts))))
        evicted = in_background(lambda: evict(room, agency, scale.bursts))
        figures = figures_of(beats(room, warm, evicted))
        newcomers = EVICTIONS * scale.bursts
        check(agency, room, built=cap + newcomers, kept=cap, released=newcomers)
    figures |= {f"quiet_{name}": quiet[name] for name in ("p50", "p99", "max", "samples")}
    return figures | {"over_quiet": figures["p99"] / quiet["p99"]}


def evict(room: Room, agency: Agency, bursts: int) -> None:
    """Newcomers at once, as many as are to be evicted, then others when those are gone."""
    for burst in range(1, bursts + 1):
        for number in range(EVICTIONS):
            room.begin_end(f"newcomer:{burst}:{number}")
        agency.wait_released(burst * EVICTIONS)


def beats(room: Room, keys: Sequence[str], background: threading.Thread) -> list[int]:
    """The nanoseconds of each turn, one a millisecond, for as long as the background works."""
    turn, following, clock = room.begin_end, itertools.cycle(keys).__next__, perf_counter_ns
    taken: list[int] = []
    background.start()
    while background.is_alive():
        sleep(0.001)
        key = following()
        begin = clock()
        turn(key)
        taken.append(clock() - begin)
    return taken


def in_background(work: Callable[[], object]) -> threading.Thread:
    return threading.Thread(target=work)


# Sweep


def sweeping(room_class: type[Room], scale: Scale) -> Figures:
    """Sweep a full room in which nobody is idle. Also what a session with its agent takes."""
    count = min(scale.swept, room_class.ceiling)
    agency = Agency()
    # It is not closed: to drain so many would take longer than all the rest, and the process ends.
    room = room_class(agency.build, cap=2 * count, idle_ttl=IDLE_TTL)
    bytes_each = weighed(lambda keys: fill(room, keys), count)
    check(agency, room, built=count, kept=count)
    alone = [end - begin for begin, end in timed_sweeps(room)]
    sweeps, turns = sweeps_with_turns(room)
    check(agency, room, built=count, kept=count, released=0)
    meanwhile = [
        end - begin
        for begin, end in turns
        if any(begin < swept and sweep < end for sweep, swept in sweeps)
    ]
    return {
        "sessions": count,
        "milliseconds": median(alone) / 1e6,
        "slowest": max(alone) / 1e6,
        "worst_turn": max(meanwhile, default=0) / 1e6,
        "bytes_each": bytes_each,
    }


Spans = list[tuple[int, int]]
"""Begin and end, in nanoseconds."""


def timed_sweeps(room: Room) -> Spans:
    spans: Spans = []
    for _ in range(SWEEPS):
        sleep(0.01)
        begin = perf_counter_ns()
        swept = room.sweep()
        spans.append((begin, perf_counter_ns()))
        assert swept == 0, f"swept {swept}, but none was idle"
    return spans


def sweeps_with_turns(room: Room) -> tuple[Spans, Spans]:
    """The sweeps, and the turns that a thread took without a pause meanwhile."""
    sweeps: Spans = []
    sweeping = in_background(lambda: sweeps.extend(timed_sweeps(room)))
    keys, clock = itertools.cycle(names(16)).__next__, perf_counter_ns
    turns: Spans = []
    sweeping.start()
    while sweeping.is_alive():
        key = keys()
        begin = clock()
        room.begin_end(key)
        turns.append((begin, clock()))
    return sweeps, turns


# Inserts


def inserting(room_class: type[Room], inserts: int, release_seconds: float) -> Figures:
    """Ever new sessions, one after another, into a room that is full after the first few."""
    agency = Agency(release_seconds=release_seconds)
    with ThreadCount() as threads, room_class(agency.build, cap=CAP, idle_ttl=IDLE_TTL) as room:
        begin = perf_counter_ns()
        fill(room, inserts)
        inserted = perf_counter_ns()
        agency.wait_released(inserts - CAP)
        torn_down = perf_counter_ns()
        started, most = threads.started, threads.most
        check(agency, room, built=inserts, kept=CAP, released=inserts - CAP)
    return {
        "rate": inserts / ((inserted - begin) / 1e9),
        "settled": (torn_down - inserted) / 1e9,
        "inserts": inserts,
        "threads": started,
        "most_threads": most,
    }


class ThreadCount:
    """Counts the threads that are started while it is entered, and the most that lived at once."""

    def __init__(self) -> None:
        self.started = 0
        self.most = 0
        self._lock = threading.Lock()
        self._start = threading.Thread.start

    def __enter__(self) -> ThreadCount:
        before = threading.active_count()
        start = self._start

        def counted(thread: threading.Thread) -> None:
            start(thread)
            alive = max(1, threading.active_count() - before)  # this one may be gone already
            with self._lock:
                self.started += 1
                self.most = max(self.most, alive)

        threading.Thread.start = counted  # type: ignore[assignment, method-assign]  # the point of it
        return self

    def __exit__(self, *_: object) -> None:
        threading.Thread.start = self._start  # type: ignore[method-assign]  # as it was


# Drain


def draining(room_class: type[Room]) -> Figures:
    agency = Agency(commit_seconds=COMMIT)
    with room_class(agency.build, cap=CAP, idle_ttl=IDLE_TTL) as room:
        fill(room, DIRTY)
        begin = perf_counter_ns()
        room.drain()
        seconds = (perf_counter_ns() - begin) / 1e9
        assert agency.committed == DIRTY, f"{agency.committed} of {DIRTY} committed"
    return {"rate": DIRTY / seconds, "seconds": seconds}


# Memory


def knowing(room_class: type[Room], scale: Scale) -> Figures:
    """What is left of sessions of which only the last has an agent."""
    agency = Agency()
    with room_class(agency.build, cap=1, idle_ttl=IDLE_TTL) as room:

        def come_and_go(count: int) -> None:
            before = agency.built
            fill(room, count)
            agency.wait_released(before + count - 1)

        bytes_each = weighed(come_and_go, scale.known)
    return {"sessions": scale.known, "bytes_each": bytes_each}


def weighed(grow: Callable[[int], object], count: int) -> float:
    """Bytes for each of so many sessions. The first ones are apart: they bring the room up."""
    first = min(100, count // 10)
    grow(first)
    gc.collect()
    before = memory_in_use()
    grow(count)
    gc.collect()
    return (memory_in_use() - before) / (count - first)


# What all of them need


def names(count: int) -> Iterator[str]:
    return (f"telegram:{number}" for number in range(count))


def fill(room: Room, count: int) -> list[str]:
    """A turn for each of so many sessions."""
    keys = list(names(count))
    for key in keys:
        room.begin_end(key)
    return keys


def check(agency: Agency, room: Room, *, built: int, kept: int, released: int | None = None) -> None:
    room.settle()
    found = (agency.built, len(room), released if released is None else agency.released)
    if found != (built, kept, released):
        raise AssertionError(
            f"(built, kept, released) is {found}, and should be {(built, kept, released)}"
        )


# The list


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    title: str
    measure: Callable[[type[Room], Scale], Figures]
    apart: bool = False
    """Each repetition in a process that has done nothing else."""

    once: bool = False
    """It takes too long to be repeated: many sessions must come first."""

    def repetitions(self, scale: Scale) -> int:
        return 1 if self.once else scale.apart if self.apart else scale.repetitions


SCENARIOS = (
    Scenario(
        name="turn",
        title="1 thread, 1 session",
        measure=lambda room, scale: turns(room, 1, 1, scale.seconds),
    ),
    Scenario(
        name="turn_8_8",
        title="8 threads, 8 sessions",
        measure=lambda room, scale: turns(room, 8, 8, scale.contended_seconds),
    ),
    Scenario(
        name="turn_8_64",
        title="8 threads, 64 sessions",
        measure=lambda room, scale: turns(room, 8, 64, scale.contended_seconds),
    ),
    Scenario(name="evicting", title="during 64 evictions", measure=evicting),
    Scenario(
        name="insert",
        title="insert, full room",
        measure=lambda room, scale: inserting(room, scale.inserts, 0.0),
        apart=True,
    ),
    Scenario(
        name="insert_slow",
        title="insert, slow teardown",
        measure=lambda room, scale: inserting(room, scale.slow_inserts, TEARDOWN),
        apart=True,
    ),
    Scenario(
        name="drain",
        title="drain of 100 dirty",
        measure=lambda room, _: draining(room),
        apart=True,
    ),
    Scenario(name="sweep", title="sweep of none", measure=sweeping, apart=True, once=True),
    Scenario(name="known", title="no agent", measure=knowing, apart=True, once=True),
)

CAST = Cast(
    contenders={name: TITLES[name] for name in NAMES},
    scenarios={scenario.name: scenario.title for scenario in SCENARIOS},
)
