"""`GET /metrics`: what Prometheus scrapes. docs/metrics.md lists all of it.

    the event loop     tells of every turn (`began`, `ended`)
    the room's events  builds, releases, closes, commits, failures: by reason, and how long (`happened`)
    the store          tells of every call, if it is a `TimedStore` (`stored`)
    a scrape           asks the room and the admission for their figures (`_metrics_room.py`)

No label ever names a session. Tenants are the names of tokens, which the operator chose; beyond the
first `MOST_TENANTS` they are counted together. All other labels have a handful of values, which are
there from the beginning, so that the first failure of a kind is a step from 0 and not a series out of
nowhere.

Registry and metrics belong to one stage. The library's metrics may be used by any thread.
"""

from __future__ import annotations

import platform
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, Info, ProcessCollector
from prometheus_client.exposition import choose_encoder

from greenroom import (
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    BuildFailure,
    CommitFailure,
    CommitSucceeded,
    HookFailure,
    Reason,
    StoreFailure,
)
from greenroom.gateway._aside import on_a_thread
from greenroom.gateway._errors import ApiError
from greenroom.gateway.api._description import errors
from greenroom.gateway.watch._metrics_room import Scrape, figures_of
from greenroom.gateway.watch._outcomes import OUTCOMES, outcome_of
from greenroom.gateway.watch._timed_store import OPERATIONS, TimedStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom import Event
    from greenroom.gateway._performance import Performance
    from greenroom.gateway._stage import Stage

__all__ = ["DURATIONS", "MOST_TENANTS", "STORE_DURATIONS", "Metrics", "router"]

DURATIONS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
"""Seconds, from a turn without a model to the longest that a turn may take by default."""

STORE_DURATIONS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Seconds, from a read of a small file to when the room gives up waiting."""

MOST_TENANTS = 200
"""How many tenants have a label of their own."""

HOOKS = ("commit_memory_session", "release_clients", "close", "shutdown_memory_provider", "interrupt")
STORE_WORK = ("begin", "record", "commit", "renew")
EVICTIONS = (Reason.IDLE, Reason.CAPACITY, Reason.MEMORY)


class Metrics:
    """The metrics of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.registry = registry = CollectorRegistry()
        Info("greenroom_build", "Which greenroom this is.", registry=registry).info(
            {"version": version("greenroom"), "python": platform.python_version()}
        )
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        self._make_turn_metrics()
        self._make_room_metrics()
        self._heard: dict[type[Event], Callable[[Any], None]] = {
            AgentBuilt: self._built,
            AgentClosed: self._closed,
            AgentReleased: self._released,
            BuildFailure: lambda event: self._build_failed.observe(event.seconds),
            CommitFailure: lambda event: self._commit_failed.observe(event.seconds),
            CommitSucceeded: lambda event: self._committed.observe(event.seconds),
            HookFailure: self._hook_failed,
            StoreFailure: self._store_failed,
        }

    def _make_turn_metrics(self) -> None:
        self._wait = self._histogram(
            "greenroom_turn_wait_seconds", "From the request to the turn's begin, for turns that began."
        )
        self._turn = self._histogram(
            "greenroom_turn_duration_seconds", "From the turn's begin to its end, however it ended."
        )
        self._turns = self._counter(
            "greenroom_turns", "Turns that are over, or were refused.", "tenant", "result", "outcome"
        )
        self._tenants: dict[str, dict[str, Counter]] = {}
        for tenant in sorted({token.name for token in self._stage.config.tokens} or {"local"}):
            self._outcome(tenant, "ok")
        self._not_recorded = self._counter(
            "greenroom_turns_not_recorded",
            "Completed turns that the store could not be told of when they ended. They are kept.",
        )

    def _make_room_metrics(self) -> None:
        builds = self._histogram(
            "greenroom_build_duration_seconds", "How long builds of agents took.", "outcome"
        )
        self._build, self._build_failed = builds.labels("ok"), builds.labels("error")
        commits = self._histogram(
            "greenroom_commit_duration_seconds", "How long commits took.", "outcome"
        )
        self._committed, self._commit_failed = commits.labels("ok"), commits.labels("error")
        self._release_seconds = self._histogram(
            "greenroom_release_duration_seconds", "How long the hooks of a release took."
        )
        self._close_seconds = self._histogram(
            "greenroom_close_duration_seconds", "How long the hooks of a close took."
        )
        self._rebuilds = self._by_reason("greenroom_rebuilds", "Agents that were built again.")
        self._releases = self._by_reason(
            "greenroom_releases", "Agents that were released: their sessions go on."
        )
        self._closes = self._by_reason(
            "greenroom_closes", "Agents that were closed: their sessions are over."
        )
        self._evictions = self._by_reason(
            "greenroom_evictions", "Releases that the policy's bounds are the reason of.", EVICTIONS
        )
        hooks = self._counter("greenroom_hook_failures", "Hooks that raised, or took too long.", "hook")
        self._hooks = {name: hooks.labels(name) for name in (*HOOKS, "resource", "other")}
        work = self._counter(
            "greenroom_store_failures", "How often the room could not reach the store.", "what"
        )
        self._store_work = {name: work.labels(name) for name in (*STORE_WORK, "other")}
        self._make_store_metrics()

    def _make_store_metrics(self) -> None:
        seconds = Histogram(
            "greenroom_store_operation_duration_seconds",
            "How long calls of the store took.",
            ("operation",),
            buckets=STORE_DURATIONS,
            registry=self.registry,
        )
        failures = self._counter(
            "greenroom_store_operation_failures", "Calls of the store that failed.", "operation"
        )
        self._store = {name: (seconds.labels(name), failures.labels(name)) for name in OPERATIONS}

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=DURATIONS, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _by_reason(
        self, name: str, text: str, reasons: tuple[Reason, ...] = tuple(Reason)
    ) -> dict[Reason, Counter]:
        counter = self._counter(name, text, "reason")
        return {reason: counter.labels(reason.value) for reason in reasons}

    def attach(self) -> Callable[[], None]:
        """Watch the stage, its room and its store from now on. Returns what ends that."""
        stage = self._stage
        stage.watchers.append(self)
        store = stage.room.store
        if isinstance(store, TimedStore):
            store.observe = self.stored
        stop_listening = stage.events.listen(self.happened)

        def stop() -> None:
            stop_listening()
            stage.watchers.remove(self)
            if isinstance(store, TimedStore):
                store.observe = None

        return stop

    # Turns, on the event loop.

    def began(self, performance: Performance) -> None:
        """A turn has begun."""
        began = performance.began
        if began is not None:
            self._wait.observe(began - performance.arrived)

    def ended(self, performance: Performance, error: BaseException | None) -> None:
        """A turn is over, or never began."""
        if performance.began is not None:
            self._turn.observe(time.monotonic() - performance.began)
        self._outcome(performance.caller.tenant, outcome_of(error)).inc()
        if not performance.recorded:
            self._not_recorded.inc()

    def _outcome(self, tenant: str, outcome: str) -> Counter:
        counters = self._tenants.get(tenant)
        if counters is None:
            if len(self._tenants) >= MOST_TENANTS:
                tenant = "other"  # should a token be called that, it is counted with the rest
            counters = self._tenants.setdefault(tenant, {})
        counter = counters.get(outcome)
        if counter is None:
            counters[outcome] = counter = self._turns.labels(tenant, OUTCOMES[outcome], outcome)
        return counter

    # Events, on a thread of the room's.

    def happened(self, event: Event) -> None:
        """Something happened to a session."""
        hear = self._heard.get(event.__class__)
        if hear is not None:
            hear(event)

    def _built(self, event: AgentBuilt) -> None:
        if not event.adopted:
            self._build.observe(event.seconds)
        if event.reason is not None:
            self._rebuilds[event.reason].inc()

    def _released(self, event: AgentReleased) -> None:
        self._release_seconds.observe(event.seconds)
        self._releases[event.reason].inc()
        if event.reason in self._evictions:
            self._evictions[event.reason].inc()

    def _closed(self, event: AgentClosed) -> None:
        self._close_seconds.observe(event.seconds)
        self._closes[event.reason].inc()

    def _hook_failed(self, event: HookFailure) -> None:
        name = "resource" if event.hook.startswith("resource ") else event.hook
        (self._hooks.get(name) or self._hooks["other"]).inc()

    def _store_failed(self, event: StoreFailure) -> None:
        (self._store_work.get(event.what) or self._store_work["other"]).inc()

    # The store, on any thread.

    def stored(self, operation: str, seconds: float, failed: bool) -> None:
        """A call of the store is over."""
        durations, failures = self._store[operation]
        durations.observe(seconds)
        if failed:
            failures.inc()

    # Scrapes.

    async def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics, and the media type of that: the one that fits the `Accept` header."""
        scrape = Scrape(self.registry, await figures_of(self._stage))
        encode, media_type = choose_encoder(accept)
        # On a thread: this reads files and writes hundreds of lines, and turns are not to wait for it;
        # nor it for them, as in the loop's executor, which agents may use.
        return await on_a_thread(lambda: encode(scrape)), media_type


def router(metrics: Metrics) -> APIRouter:
    """The route. It is the operator's: tenants do not see each other's figures."""
    routes = APIRouter(tags=["Operation"])
    media: dict[str, Any] = {"text/plain": {}, "application/openmetrics-text": {}}

    @routes.get("/metrics", response_class=Response, responses={200: {"content": media}, **errors(503)})
    async def show_metrics(request: Request) -> Response:
        """Figures of the server, for Prometheus, in its text format or as OpenMetrics."""
        caller = request.scope["state"]["caller"]
        if not caller.operator:
            msg = (
                f"The metrics are the operator's, and the token {caller.tenant!r} is not one of theirs."
            )
            raise ApiError(403, msg, type="permission_error", code="operator_only")
        try:
            text, media_type = await metrics.scrape(request.headers.get("accept", ""))
        except TimeoutError:
            msg = "The room does not answer: too much is going on, or something hangs. See the log."
            raise ApiError(503, msg, type="server_error", code="room_busy", retry_after=5.0) from None
        return Response(text, headers={"content-type": media_type, "cache-control": "no-store"})

    return routes
