"""xoscar: one actor pool in this process, with its event loop on a thread."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import threading
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

from benchmarks.contender import AwaitableCall, Call, Contender, Population, Stage
from benchmarks.work import new_entries

# By name, because xoscar carries no types.
xoscar: Any = importlib.import_module("xoscar")


class Keeper(xoscar.Actor):  # type: ignore[misc]  # xoscar carries no types
    def __init__(self) -> None:
        super().__init__()
        self._entries = new_entries()

    async def touch(self, key: int) -> int:
        entries = self._entries
        entries.move_to_end(key)
        return entries[key]


class Idler(xoscar.Actor):  # type: ignore[misc]  # xoscar carries no types
    """Has nothing to do."""


class XoscarPopulation(Population):
    def __init__(self, contestant: Contestant) -> None:
        super().__init__()
        self._contestant = contestant

    def start(self) -> Any:
        raise NotImplementedError("xoscar grows on its loop")

    def stop(self, member: Any) -> None:
        raise NotImplementedError("xoscar shrinks on its loop")

    def grow(self, count: int) -> list[int]:
        taken: list[int] = self._contestant.run(self._grow(count))
        return taken

    async def _grow(self, count: int) -> list[int]:
        taken = []
        address = self._contestant.address
        for _ in range(count):
            begin = perf_counter_ns()
            member = await xoscar.create_actor(Idler, address=address)
            taken.append(perf_counter_ns() - begin)
            self.members.append(member)
        return taken

    def shrink(self, leaving: Sequence[Any]) -> list[int]:
        taken: list[int] = self._contestant.run(self._shrink(leaving))
        return taken

    async def _shrink(self, leaving: Sequence[Any]) -> list[int]:
        taken = []
        for member in leaving:
            begin = perf_counter_ns()
            await xoscar.destroy_actor(member)
            taken.append(perf_counter_ns() - begin)
        return taken


class Contestant(Contender):
    prefers_loop = True

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._numbers = itertools.count()
        self._pool = self.run(xoscar.create_actor_pool("127.0.0.1", n_process=0))
        self.address: str = self._pool.external_address

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        refs = self.run(self._start(actors))
        try:
            if kind == "tell":
                yield Stage(async_calls=[teller(ref) for ref in refs], async_drain=asker(refs[0]))
            else:
                asks = [asker(ref) for ref in refs]
                yield Stage(calls=[self._from_a_thread(ask) for ask in asks], async_calls=asks)
        finally:
            self.run(self._stop(refs))

    async def _start(self, actors: int) -> list[Any]:
        names = [f"keeper-{next(self._numbers)}" for _ in range(actors)]
        for name in names:
            await xoscar.create_actor(Keeper, address=self.address, uid=name)
        # Looked up, a reference is a local one, which is much faster than the one just returned.
        return [await xoscar.actor_ref(self.address, name) for name in names]

    async def _stop(self, refs: list[Any]) -> None:
        for ref in refs:
            await xoscar.destroy_actor(ref)

    def _from_a_thread(self, ask: AwaitableCall) -> Call:
        loop = self._loop

        async def wait_for(key: int) -> object:
            return await ask(key)

        return lambda key: asyncio.run_coroutine_threadsafe(wait_for(key), loop).result()

    def population(self) -> Population:
        return XoscarPopulation(self)

    def close(self) -> None:
        self.run(self._pool.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def asker(ref: Any) -> AwaitableCall:
    def ask(key: int) -> Awaitable[object]:
        answer: Awaitable[object] = ref.touch(key)
        return answer

    return ask


def teller(ref: Any) -> AwaitableCall:
    def tell(key: int) -> Awaitable[object]:
        sent: Awaitable[object] = ref.touch.tell(key)
        return sent

    return tell
