"""The stage: where a request becomes a turn.

    performance begins    a ticket at the admission: one turn a session, a limit on all, fair
                          a turn of the room: the session's agent, built if need be
    pieces                what the agent answers, as it comes
    performance ends      normally: the turn is completed, and in the ledger before the client is told
                          that all is well. With an exception (the client has gone, the agent has failed,
                          time is up): it is not, and the agent is given back as it is; one that is still
                          at work on a thread after the grace is let go

What if two come for one session: see `_admission.py`. What if the server drains: the room refuses
(`RoomClosed`), and what runs may end.

A request without a session gets one of its own, which is ended behind its answer, and leaves nothing in
the store.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, cast

from greenroom import AgentSpec, BuildContext, Greenroom, open_store
from greenroom.gateway._admission import Admission, Door
from greenroom.gateway._aside import on_a_thread
from greenroom.gateway._commands import drop
from greenroom.gateway._endings import Endings
from greenroom.gateway._events import Events
from greenroom.gateway._performance import Performance
from greenroom.gateway.watch._timed_store import TimedStore

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from greenroom import DrainReport, Event, Turn
    from greenroom.gateway._agent import ChatRequest
    from greenroom.gateway._naming import Caller
    from greenroom.gateway._performance import Watcher
    from greenroom.gateway.config._config import Config

    Durability = Literal["full", "normal", "off"]

__all__ = ["Factory", "Stage"]

logger = logging.getLogger("greenroom.gateway")


RECOUNT_EVERY = 5.0
"""Seconds. Counting asks every session."""

Factory = Callable[..., Any]
"""What makes agents: of a `BuildContext`, and of the options that the operator gave. It may be async."""


class Stage:
    """A room, and who may enter it."""

    def __init__(self, config: Config, factory: Factory) -> None:
        self.config = config
        self.draining = False
        """Whether the server is about to end: no turn begins any more."""
        self.watchers: list[Watcher] = []
        self.farewells: list[Callable[[], Awaitable[object]]] = []
        """What is to be awaited when the room has drained, before connections are ended."""
        self._factory = factory
        self._spec = spec_of(config)
        self.store = (
            None
            if config.store is None
            else TimedStore(open_store(config.store, durability=config.durability))
        )
        try:
            self.room = Greenroom(
                self._build_on_loop if inspect.iscoroutinefunction(factory) else self._build,
                policy=config.policy,
                store=self.store,
                durability=cast("Durability", config.durability),
            )
        except BaseException:
            self._close_store()
            raise
        admission = self.room.runtime.start(Admission, **_limits(config))
        self.door = Door(admission)
        """The admission, for turns."""
        self.admission = admission.proxy()
        """The admission, for everything else."""
        self._chores: set[asyncio.Task[Any]] = set()
        self._recount_after = 0.0
        self._recounting: asyncio.Task[Any] | None = None
        self.events = Events(self.room)
        """What happens in the room."""
        self.events.listen(self._happened)
        self.endings = Endings(self.events)
        """When sessions end."""

    def _build(self, context: BuildContext) -> Any:
        return self._factory(context, **self.config.agent_options)

    async def _build_on_loop(self, context: BuildContext) -> Any:
        return await self._factory(context, **self.config.agent_options)

    def _happened(self, event: Event) -> None:
        if event.kind == "end":
            self.admission.ended(event.key)

    def reconfigure(self, config: Config) -> None:
        """Use another configuration from now on, as far as that can be changed while turns run."""
        spec = spec_of(config)  # what it refuses changes nothing
        self.room.configure(**{name: getattr(config.policy, name) for name in config.policy.names()})
        self.admission.allow(**_limits(config))
        self.config, self._spec = config, spec

    def performance(
        self,
        caller: Caller,
        session: str,
        request: ChatRequest,
        *,
        busy: str | None = None,
    ) -> Performance:
        """Make a turn, for `async with`."""
        return Performance(self, caller, session, request, busy or self.config.busy)

    def turn_of(self, key: str, *, ephemeral: bool) -> Turn:
        """A turn of the room, for a session that the admission has let in."""
        return self.room.turn(key, self._spec, ephemeral=ephemeral)

    async def interrupt(self, key: str) -> bool:
        """Interrupt the turn that runs for this key. False if there is none."""
        return bool(await self.admission.interrupt(key))

    def behind(self, chore: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Have a coroutine run to its end, for nobody. What it raises is logged."""
        task = asyncio.get_running_loop().create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._chore_done)
        return task

    def _chore_done(self, task: asyncio.Task[Any]) -> None:
        self._chores.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.warning("A chore failed: %s", task.exception())

    async def drop(self, key: str) -> None:
        """End a session that was for one request, and leave nothing of it in the store."""
        await drop(self, key)

    async def recount(self) -> bool:
        """Tell the admission which sessions there are. False if it was told a moment ago."""
        now = time.monotonic()
        if self._recounting is None:
            if now < self._recount_after:
                return False
            self._recount_after = now + RECOUNT_EVERY
            self._recounting = self.behind(self._recount())
        await asyncio.shield(self._recounting)  # all who come meanwhile wait for the same
        return True

    async def _recount(self) -> None:
        try:
            rows = await on_a_thread(self.room.snapshot)
            await self.admission.recount(frozenset(row.key for row in rows))
        finally:
            self._recounting = None

    async def wait_chores(self) -> None:
        """Wait until all that runs behind answers is done."""
        while self._chores:
            await asyncio.wait(list(self._chores))

    async def drain(self, deadline: float) -> DrainReport:
        """Begin no turn any more, let those that run end, commit, and close every agent."""
        self.draining = True
        self.admission.shut()
        report = await self.room.supervisor.drain(deadline)
        for farewell in self.farewells:
            await farewell()
        return report

    def close(self) -> None:
        """Close the room for good. Blocks: not for the event loop, if it was not drained before."""
        self.events.stop()
        self.room.close(self.config.drain_deadline)
        self._close_store()

    def _close_store(self) -> None:
        if self.store is not None:
            self.store.close()


def spec_of(config: Config) -> AgentSpec:
    """What agents are built from: when it changes, the next turn of each session builds anew."""
    return AgentSpec(config.model, extra={"agent": config.agent, "options": dict(config.agent_options)})


def _limits(config: Config) -> dict[str, int]:
    return {
        "running": config.max_running,
        "waiting": config.max_waiting_total,
        "waiting_each": config.policy.max_waiting,
        "sessions_each": config.max_sessions_per_token,
    }
