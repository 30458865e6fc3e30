"""The apps of the contenders, each with what is behind it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from fastapi import APIRouter, FastAPI

from benchmarks.gateway import PARTS
from benchmarks.gateway.agents import KINDS, PATH, agent_for, session_name
from benchmarks.gateway.plain import Agents, Record, bare_app, forget, plain_route, record_in
from benchmarks.gateway.scenarios import SESSIONS
from greenroom import BuildContext, Policy, open_store
from greenroom.gateway import Config, Stage
from greenroom.gateway._naming import Caller
from greenroom.gateway.api import _chat
from greenroom.gateway.app import create_app

MOST = 20_000
"""More sessions, and more turns at once, than any scenario has: nothing is evicted, and nobody waits."""

HOUR = 3600.0
"""Nothing is swept in the middle of a measurement."""


LOCAL = Caller("local")
"""Who everybody is, where there are no tokens."""


class Production:
    """An app and its stage. Without a stage, there is none."""

    def __init__(self, name: str, url: str) -> None:
        part = PARTS[name]
        self._agents: Agents = {}
        self.stage: Stage | None = None
        self._built: list[str] = []
        if part.app == "bare":
            self.app = bare_app(self._agents)
            return
        self._plain = part.app == "plain"
        self._record: Record = forget
        if self._plain and part.store:
            self._record = record_in(url, every_session())
        elif part.durability == "off":
            make_sessions(url)
        config = Config(
            store=url if part.store and not self._plain else None,
            durability=part.durability,
            policy=Policy(cap=MOST, idle_ttl=HOUR, sweep_every=HOUR, session_ttl=HOUR),
            max_running=MOST,
            max_sessions_per_token=MOST,
        )
        self.stage = Stage(config, self._build)
        self.app = self._without_greenroom() if self._plain else create_app(self.stage)

    def _build(self, context: BuildContext, /, **options: Any) -> Any:
        _, _, session = context.key.partition("/")
        self._built.append(session)
        return agent_for(session)

    def _without_greenroom(self) -> FastAPI:
        """The whole app, guard and all, with the plain route in the place of greenroom's."""
        theirs = _chat.router

        def router(stage: Stage) -> APIRouter:
            routes = theirs(stage)
            others = [route for route in routes.routes if getattr(route, "path", None) != PATH]
            assert len(others) == len(routes.routes) - 1, f"{PATH} is not where it was"
            routes.routes[:] = [*plain_route(self._agents, self._record).routes, *others]
            return routes

        assert self.stage is not None
        with patch.object(_chat, "router", router):
            return create_app(self.stage)

    def check(self) -> None:
        """Make sure that each route did what it is here for: built every agent once, and by itself."""
        ours = self.stage is not None and not self._plain
        assert bool(self._built) == ours, f"the room built {len(self._built)} agents"
        assert bool(self._agents) != ours, f"the plain route made {len(self._agents)} agents"
        assert len(self._built) == len(set(self._built)), "agents were built again"
        if self.stage is not None:
            failures = self.stage.room.stats().store_failures
            assert failures == 0, f"the store could not be reached, {failures} times"

    def close(self) -> None:
        """End what is behind the app."""
        if self.stage is not None:
            self.stage.close()


def every_session() -> list[str]:
    """The names that clients give."""
    return [session_name(kind, number) for kind in KINDS for number in range(SESSIONS)]


def make_sessions(url: str) -> None:
    """The rows of all sessions: a room that only reads makes none, and looks for them in vain."""
    with open_store(url) as store:
        for key in map(LOCAL.key, every_session()):
            store.create_session(key, key=key)
