"""The two kinds of load: as many requests as can be answered, and many slow streams at once."""

from __future__ import annotations

import time
from itertools import pairwise
from time import perf_counter_ns

from benchmarks.gateway.agents import PIECES, STREAM, body_for, session_name
from benchmarks.gateway.calls import Call, Caller, ask_in_turn, connect, request_of
from benchmarks.latency import Figures, figures_of

__all__ = ["ask_without_pause", "listen_to_many"]


async def ask_without_pause(port: int, kind: str, connections: int, seconds: float) -> Figures:
    """So many connections, each with a session of its own, ask again as soon as they are answered."""
    deadline = perf_counter_ns() + int(1e12)
    body = body_for(kind)

    def again() -> bool:
        return perf_counter_ns() < deadline

    callers = [
        Caller(kind, request_of(session_name(kind, number), body), PIECES, again)
        for number in range(connections)
    ]
    await connect(port, callers)
    cpu, begin = time.process_time(), perf_counter_ns()
    deadline = begin + int(seconds * 1e9)
    await ask_in_turn(callers, 0.0)
    taken = perf_counter_ns() - begin
    share = (time.process_time() - cpu) / (taken / 1e9)
    calls = [call for caller in callers for call in caller.calls]
    for caller in callers:
        caller.close()
    rate = len(calls) / (taken / 1e9)
    figures = figures_of([call.end - call.begin for call in calls], rate=rate)
    return figures | {"each": 1e6 / rate, "load_share": share}


async def listen_to_many(port: int, count: int, pieces: int, pace: float, over: float) -> Figures:
    """So many streams at once, each with a session of its own, begun one by one over so many seconds."""
    body = body_for(STREAM, pieces=pieces, pace=pace)
    callers = [
        Caller(STREAM, request_of(session_name(STREAM, number), body), pieces, lambda: False)
        for number in range(count)
    ]
    await connect(port, callers)
    cpu, begin = time.process_time(), perf_counter_ns()
    await ask_in_turn(callers, over)
    seconds = (perf_counter_ns() - begin) / 1e9
    share = (time.process_time() - cpu) / seconds
    calls = [call for caller in callers for call in caller.calls]
    for caller in callers:
        caller.close()
    late = figures_of([gap - int(pace * 1e9) for call in calls for gap in gaps_of(call, pieces)])
    first = figures_of([call.arrivals[0] - call.begin for call in calls])
    return {
        "complete": float(len(calls)),
        "most": float(most_at_once(calls)),
        "rate": count * pieces / seconds,
        "seconds": seconds,
        "late_p50": late["p50"] / 1e3,
        "late_p99": late["p99"] / 1e3,
        "late_max": late["max"] / 1e3,
        "first_p99": first["p99"] / 1e3,
        "load_share": share,
    }


def gaps_of(call: Call, pieces: int) -> list[int]:
    """Between one piece and the next. The event before the first piece is not one."""
    arrivals = call.arrivals[1 : pieces + 1]
    return [later - earlier for earlier, later in pairwise(arrivals)]


def most_at_once(calls: list[Call]) -> int:
    """How many streams were between their first part and their last."""
    changes = sorted([(call.arrivals[0], 1) for call in calls] + [(call.end, -1) for call in calls])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most
