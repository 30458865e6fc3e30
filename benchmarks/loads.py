"""Callers that call as fast as they can: threads, or tasks on an event loop.

Each load comes twice: one counts calls and has no clock in its loop, the other times every call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter_ns, sleep
from typing import TypeVar

from benchmarks.contender import AwaitableCall, Call
from benchmarks.work import keys_for

T = TypeVar("T")


def count_in_threads(calls: list[Call], seconds: float, drain: Call | None) -> float:
    """One thread for each of `calls`; calls a second, including the time to drain."""
    running = [True]

    def caller(number: int) -> int:
        call, keys, done = calls[number], keys_for(number), 0
        while running:
            for key in keys:
                call(key)
            done += len(keys)
        if drain is not None:
            drain(keys[0])
        return done

    done, taken = in_threads(caller, len(calls), seconds, running)
    return sum(done) / (taken / 1e9)


def time_in_threads(calls: list[Call], seconds: float, drain: Call | None) -> list[int]:
    """One thread for each of `calls`; the nanoseconds of every call."""
    running = [True]

    def caller(number: int) -> list[int]:
        call, keys, clock = calls[number], keys_for(number), perf_counter_ns
        taken: list[int] = []
        while running:
            for key in keys:
                begin = clock()
                call(key)
                taken.append(clock() - begin)
        if drain is not None:
            drain(keys[0])
        return taken

    lists, _ = in_threads(caller, len(calls), seconds, running)
    return [time for times in lists for time in times]


def in_threads(
    caller: Callable[[int], T], count: int, seconds: float, running: list[bool]
) -> tuple[list[T], int]:
    """Run callers side by side until the time is up; what they return, and how long it took."""
    results: list[T] = []
    barrier = threading.Barrier(count + 1)

    def body(number: int) -> None:
        barrier.wait()
        results.append(caller(number))

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    barrier.wait()
    begin = perf_counter_ns()
    sleep(seconds)
    running.clear()
    for thread in threads:
        thread.join()
    taken = perf_counter_ns() - begin
    if len(results) < count:
        raise RuntimeError(f"{count - len(results)} of {count} callers failed")
    return results, taken


def count_in_this_thread(call: Call, seconds: float, drain: Call | None) -> float:
    """Like `count_in_threads` for one caller, who stays in this thread: nobody else is awake."""
    keys, done, clock = keys_for(0) * 10, 0, perf_counter_ns
    begin = clock()
    deadline = begin + int(seconds * 1e9)
    while clock() < deadline:
        for key in keys:
            call(key)
        done += len(keys)
    if drain is not None:
        drain(keys[0])
    return done / ((clock() - begin) / 1e9)


def time_in_this_thread(call: Call, seconds: float, drain: Call | None) -> list[int]:
    """The nanoseconds of every call of one caller in this thread."""
    keys, clock = keys_for(0) * 10, perf_counter_ns
    taken: list[int] = []
    deadline = clock() + int(seconds * 1e9)
    while clock() < deadline:
        for key in keys:
            begin = clock()
            call(key)
            taken.append(clock() - begin)
    if drain is not None:
        drain(keys[0])
    return taken


async def count_in_tasks(
    call: AwaitableCall, tasks: int, rounds: int, drain: AwaitableCall | None
) -> float:
    """So many tasks, each going so often through its keys; calls a second."""

    async def caller(number: int) -> None:
        keys = keys_for(number)
        for _ in range(rounds):
            for key in keys:
                await call(key)

    begin = perf_counter_ns()
    await asyncio.gather(*(caller(number) for number in range(tasks)))
    if drain is not None:
        await drain(0)
    return tasks * rounds * len(keys_for(0)) / ((perf_counter_ns() - begin) / 1e9)


async def time_in_tasks(
    call: AwaitableCall, tasks: int, rounds: int, drain: AwaitableCall | None
) -> list[int]:
    """So many tasks, each going so often through its keys; the nanoseconds of every call."""
    taken: list[int] = []

    async def caller(number: int) -> None:
        keys, clock = keys_for(number), perf_counter_ns
        for _ in range(rounds):
            for key in keys:
                begin = clock()
                await call(key)
                taken.append(clock() - begin)

    await asyncio.gather(*(caller(number) for number in range(tasks)))
    if drain is not None:
        await drain(0)
    return taken
