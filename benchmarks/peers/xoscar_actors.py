"""xoscar: one actor pool in this process, an actor for each session, on its event loop.

An actor is a few objects and no thread, and runs one coroutine at a time: turns of one session wait
for each other. What blocks is handed to threads, as on any event loop.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import itertools
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.peers.agents import Holder, Recipe
from benchmarks.peers.peer import SLOW, AsyncTurn, Peer, Runner
from benchmarks.peers.registry import Entry, Registry

# By name, because xoscar carries no types.
xoscar: Any = importlib.import_module("xoscar")

_numbers = itertools.count()


class Session(xoscar.Actor):  # type: ignore[misc]  # xoscar carries no types
    def __init__(self, recipe: Recipe, key: str) -> None:
        super().__init__()
        self._holder = Holder(recipe, key)

    async def turn(self, seconds: float) -> None:
        if seconds:
            await asyncio.to_thread(self._holder.turn, seconds)
        else:  # an agent that awaits its model, and has it at once
            self._holder.turn(seconds)

    async def release(self) -> None:
        await asyncio.to_thread(self._holder.release)

    async def close(self) -> None:
        await asyncio.to_thread(self._holder.close)


@functools.cache
def running_loop() -> asyncio.AbstractEventLoop:
    """One for all pools of this process: xoscar keeps connections by loop, and has tasks on each."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(SLOW))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class Contestant(Peer):
    def __init__(self, recipe: Recipe, *, cap: int, idle_ttl: float) -> None:
        self._recipe = recipe
        self._registry = Registry(cap=cap, idle_ttl=idle_ttl)
        self._leaving: set[asyncio.Task[None]] = set()
        self._loop = running_loop()
        self._pool = self._run(xoscar.create_actor_pool("127.0.0.1", n_process=0))
        self._address: str = self._pool.external_address

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def on_loop(self) -> tuple[Runner, AsyncTurn]:
        return self._run, self._turn

    def begin_end(self, key: str) -> None:
        self._run(self._turn(key))

    def turn(self, key: str, seconds: float) -> None:
        self._run(self._turn(key, seconds))

    async def _turn(self, key: str, seconds: float = 0.0) -> None:
        entry = await self._enter(key)
        try:
            # `result()` would block the loop while another task starts the actor.
            handle = entry.handle
            actor = handle.result() if handle.done() else await asyncio.wrap_future(handle)
            await actor.turn(seconds)
        finally:
            self._let_leave(self._registry.exit(entry))

    async def _enter(self, key: str) -> Entry:
        while not isinstance(found := self._registry.enter(key), tuple):
            await asyncio.wrap_future(found)
        entry, made = found
        if made:
            try:
                entry.handle.set_result(await self._start(key))
            except BaseException as error:
                entry.handle.set_exception(error)
        return entry

    async def _start(self, key: str) -> Any:
        name = f"session-{next(_numbers)}"
        await xoscar.create_actor(Session, self._recipe, key, address=self._address, uid=name)
        # Looked up, a reference is a local one, which is much faster than the one just returned.
        return await xoscar.actor_ref(self._address, name)

    def _let_leave(self, leaving: Sequence[Entry]) -> None:
        for entry in leaving:
            task = self._loop.create_task(self._part(entry))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _part(self, entry: Entry) -> None:
        try:
            await entry.handle.result().release()
            await xoscar.destroy_actor(entry.handle.result())
        finally:
            self._registry.left(entry)

    def sweep(self) -> int:
        idle = self._registry.idle()
        if idle:
            self._loop.call_soon_threadsafe(self._let_leave, idle)
        return len(idle)

    def drain(self, deadline: float = 30.0) -> None:
        self._run(self._drain(deadline))

    async def _drain(self, deadline: float) -> None:
        entries, leaving = self._registry.close()
        closing = [asyncio.ensure_future(self._close(entry)) for entry in entries]
        tasks = [*closing, *(asyncio.wrap_future(left) for left in leaving)]
        if tasks:
            await asyncio.wait(tasks, timeout=deadline)

    async def _close(self, entry: Entry) -> None:
        actor = await asyncio.wrap_future(entry.handle)
        await actor.close()
        await xoscar.destroy_actor(actor)

    def close(self) -> None:
        self.drain()
        self._run(self._pool.stop())

    def __len__(self) -> int:
        return len(self._registry)
