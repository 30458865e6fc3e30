"""Turns beside other contenders, all in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter, perf_counter_ns

from benchmarks import cores, peers, rooms
from benchmarks.contenders import LOCK, OURS
from benchmarks.heart import LOOP_LOCK, TURNS, Effort, alternating
from benchmarks.heart.loop_locked import LoopLocked
from benchmarks.latency import figures_of
from benchmarks.loads import count_in_threads, time_in_tasks, time_in_threads
from benchmarks.peers import scenarios as of_peers
from benchmarks.peers.agents import Recipe
from benchmarks.peers.peer import Peer
from benchmarks.results import Results
from benchmarks.rooms.ours import SPEC
from benchmarks.rooms.room import Agency, Room
from benchmarks.rooms.scenarios import CAP, IDLE_TTL, check, fill, keys_of, visitor
from benchmarks.work import keys_for
from greenroom import Greenroom, Policy

SHARED = {"turn_8_8": 8, "turn_8_64": 64}
THREADS = 8


@contextmanager
def both(sessions: int) -> Iterator[dict[str, Room]]:
    """greenroom's room and the dict with a lock, each with so many sessions."""
    agencies = {name: Agency() for name in (OURS, LOCK)}
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(rooms.load(name)(agency.build, cap=CAP, idle_ttl=IDLE_TTL))
            for name, agency in agencies.items()
        }
        for room in found.values():
            fill(room, sessions)
        yield found
        for name, room in found.items():
            check(agencies[name], room, built=sessions, kept=sessions)


def warm(results: Results, effort: Effort) -> None:
    """One thread, one session."""
    with both(1) as found:
        works = {name: partial(seconds_of, room) for name, room in found.items()}
        for _ in range(effort.repetitions):
            for name, seconds in alternating(works, effort.batches).items():
                results.add("turn", name, {"rate": TURNS / seconds, "each": seconds / TURNS * 1e6})


def seconds_of(room: Room) -> float:
    turn, keys = room.begin_end, ["telegram:0"] * TURNS
    begin = perf_counter()
    for key in keys:
        turn(key)
    return perf_counter() - begin


def on_loop(results: Results, effort: Effort) -> None:
    """The same in one task of an event loop."""
    asyncio.run(_on_loop(results, effort))


async def _on_loop(results: Results, effort: Effort) -> None:
    async with Greenroom(Agency().build, policy=Policy(cap=CAP, sweep_every=3600.0)) as room:
        turn, locked = room.turn, LoopLocked(Agency().build)

        async def begin_end(key: str) -> None:
            async with turn(key, SPEC):
                pass

        async def seconds(visit: Callable[[str], Awaitable[None]]) -> float:
            keys = ["telegram:0"] * TURNS
            begin = perf_counter()
            for key in keys:
                await visit(key)
            return perf_counter() - begin

        visits = {OURS: begin_end, LOOP_LOCK: locked.begin_end}
        for _ in range(effort.repetitions):
            taken = [
                {n: await seconds(visit) for n, visit in visits.items()} for _ in range(effort.batches)
            ]
            for name in visits:
                best = min(batch[name] for batch in taken)
                results.add("loop", name, {"rate": TURNS / best, "each": best / TURNS * 1e6})
        counted = locked.sessions["telegram:0"].generation, room.stats().cached
        assert counted == (TURNS * effort.batches * effort.repetitions, 1), counted


def contended(results: Results, effort: Effort) -> None:
    """Eight threads: a session for each, and sessions that they share."""
    for scenario, sessions in SHARED.items():
        with both(sessions) as found:
            for _ in range(effort.repetitions):
                for name, room in found.items():
                    keys = [f"telegram:{number}" for number in range(sessions)]
                    calls = [visitor(room, keys_of(n, THREADS, keys)) for n in range(THREADS)]
                    rate = count_in_threads(calls, effort.contended_seconds, None)
                    taken = time_in_threads(calls, effort.contended_seconds, None)
                    results.add(scenario, name, figures_of(taken, rate=rate))


def median_turn(results: Results, effort: Effort) -> None:
    """The p50 of a turn, beside who is not always installed."""
    with ExitStack() as stack:
        works: dict[str, Callable[[], float]] = {}
        for name in (OURS, peers.TTL, peers.XOSCAR):
            try:
                peer_class = peers.load(name)
            except ImportError:
                results.missing[name] = f"{peers.TITLES[name]} is not installed"
            else:
                room = stack.enter_context(peer_class(Recipe(), cap=CAP, idle_ttl=IDLE_TTL))
                works[name] = partial(p50_of, room, fill(room, 1)[0])
        for _ in range(effort.repetitions):
            for name, microseconds in alternating(works, effort.batches).items():
                results.add("p50", name, {"p50": microseconds})


def p50_of(room: Peer, key: str) -> float:
    loop = room.on_loop()
    if loop is not None:
        run, turn = loop
        rounds = max(1, TURNS // len(keys_for(0)))
        return figures_of(run(time_in_tasks(lambda _: turn(key), 1, rounds, None)))["p50"]
    begin_end, taken, clock = room.begin_end, [], perf_counter_ns
    for _ in range(TURNS):
        begin = clock()
        begin_end(key)
        taken.append(clock() - begin)
    return figures_of(taken)["p50"]


def among_others(results: Results, effort: Effort) -> None:
    """Turns during slow teardowns, and new sessions in a full room: scenarios of `benchmarks.peers`."""
    scale = replace(of_peers.QUICK, bursts=3, inserts=1_200)
    for _ in range(effort.repetitions):
        for name in (OURS, LOCK):
            results.add("evicting", name, of_peers.evicting(peers.load(name), scale))
        for name in (OURS, LOCK):
            results.add("insert", name, of_peers.inserting(peers.load(name), scale))


def without_gil(results: Results, effort: Effort) -> None:
    """Two threads beside one, where there is no GIL."""
    if results.machine["gil"] == "on":
        results.missing["cores"] = "Two threads beside one are not measured: this Python has a GIL"
        return
    with cores.turns(OURS, 2) as calls:
        for _ in range(effort.repetitions):
            results.add("cores", "1", {"rate": cores.rate(calls[:1])})
            results.add("cores", "2", {"rate": cores.rate(calls)})
