"""Spans of OpenTelemetry: one for each turn, with what belongs to it.

    (the request's own span, wherever that was begun: from the traceparent header)
    └── greenroom.turn            from the request's arrival to the turn's end
        ├── greenroom.wait        until the turn began
        │   └── greenroom.build   if its agent had to be built
        └── what the agent traces itself: the span of the turn is the current one while it runs

    greenroom.commit, greenroom.release, greenroom.close, and builds that are for no turn: traces of
    their own, linked to the last turn of their session. A commit may come an hour after it.

Everything here is the event loop's. Events of the room come on a thread of the room's, and are handed
over with the time at which they came.

1. a session builds its agent  2. the room says so  3. the turn begins, on the loop. 2 may be heard
before 3 or after it. So a build is kept for a moment, for the turn that it was for; and a turn that did
not find its agent there is owed a build until that is heard of.

No span has anything of a transcript, nor the text of an error, which may quote one: errors are told by
their outcome and their class.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Link, Status, StatusCode

from greenroom import (
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    BuildFailure,
    CommitFailure,
    CommitSucceeded,
)
from greenroom.gateway.watch._outcomes import OUTCOMES, outcome_of
from greenroom.gateway.watch._trace_context import TraceContext

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from greenroom import Event
    from greenroom.gateway._performance import Performance
    from greenroom.gateway._stage import Stage

__all__ = ["Tracing"]

NAMES: dict[type[Event], str] = {
    AgentBuilt: "greenroom.build",
    AgentClosed: "greenroom.close",
    AgentReleased: "greenroom.release",
    BuildFailure: "greenroom.build",
    CommitFailure: "greenroom.commit",
    CommitSucceeded: "greenroom.commit",
}
"""Which events are spans."""

MOST_SESSIONS = 2048
"""Of how many sessions the last turn is remembered, so that commits can be linked to it."""

MOMENT = 1.0
"""For how many seconds a build is kept for the turn that it was for."""


class _Turn:
    """The span of a turn."""

    __slots__ = ("arrived", "owed", "span", "token")

    def __init__(self, span: Span, arrived: int) -> None:
        self.span = span
        self.arrived = arrived
        self.owed: tuple[Context, int] | None = None
        """Where the span of its build belongs, and when that was over at the latest: if there was one,
        and it was not heard of yet."""
        self.token: Token[Context] | None = None


class _Past:
    """Something that is over, and when it was heard of (nanoseconds since 1970)."""

    __slots__ = ("event", "heard")

    def __init__(self, event: Any, heard: int) -> None:
        self.event = event
        self.heard = heard


class Tracing:
    """Traces a stage."""

    middleware = TraceContext
    """What goes on with the traces that requests belong to."""

    def __init__(self, stage: Stage, provider: TracerProvider | None = None) -> None:
        self._stage = stage
        self._provider = provider
        self._tracer = trace.get_tracer("greenroom", version("greenroom"), provider)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: deque[_Past] = deque(maxlen=MOST_SESSIONS)
        """What happened before the loop was known."""
        self._running: dict[Performance, _Turn] = {}
        self._last: OrderedDict[str, _Turn] = OrderedDict()
        self._builds: dict[str, _Past] = {}

    def attach(self) -> Callable[[], None]:
        """Watch the stage from now on. Returns what ends that."""
        stage = self._stage
        stage.watchers.append(self)
        stop_listening = stage.events.listen(self.happened)

        def stop() -> None:
            stop_listening()
            stage.watchers.remove(self)

        return stop

    @property
    def _heard(self) -> bool:
        """Whether anybody wants spans: until the operator has configured something, nobody does."""
        provider = self._provider or trace.get_tracer_provider()
        return not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider))

    # Turns.

    def began(self, performance: Performance) -> None:
        """A turn has begun: its span is the current one, until it ends."""
        if not self._heard:
            return
        turn = self._start(performance)
        if turn is None:
            return
        now = time.time_ns()
        inside = trace.set_span_in_context(turn.span)
        wait = self._tracer.start_span("greenroom.wait", inside, start_time=turn.arrived)
        wait.end(now)
        if not performance.ran.reused:
            self._owe_build(performance.key, turn, trace.set_span_in_context(wait), now)
        turn.span.set_attributes(_begun(performance))
        turn.token = otel_context.attach(inside)
        self._running[performance] = turn

    def ended(self, performance: Performance, error: BaseException | None) -> None:
        """A turn is over, or never began."""
        turn = self._running.pop(performance, None)
        if turn is None and performance.began is None and self._heard:
            turn = self._start(performance)
        if turn is None:
            return
        if turn.token is not None:
            otel_context.detach(turn.token)
        now, outcome = time.time_ns(), outcome_of(error)
        if outcome == "agent_not_built":
            self._owe_build(performance.key, turn, trace.set_span_in_context(turn.span), now)
        turn.span.set_attribute("greenroom.outcome", outcome)
        if error is not None and OUTCOMES[outcome] in ("error", "refused"):
            _fail(turn.span, outcome, error)
        turn.span.end(now)

    def _start(self, performance: Performance) -> _Turn | None:
        """Start the span of a turn. `None`: nobody traces."""
        self._loop = self._loop or asyncio.get_running_loop()
        while self._early:
            self._take(self._early.popleft())
        arrived = time.time_ns() - int((time.monotonic() - performance.arrived) * 1e9)
        span = self._tracer.start_span("greenroom.turn", start_time=arrived)
        # One that is not sampled is not recorded, and is still the parent: its children are not, either.
        if not span.get_span_context().is_valid:
            return None
        request = performance.request
        span.set_attributes(
            {
                "greenroom.session": performance.key,
                "greenroom.request_id": request.request_id,
                "gen_ai.request.model": request.model or self._stage.config.model,
            }
        )
        turn = self._last[performance.key] = _Turn(span, arrived)
        self._last.move_to_end(performance.key)
        if len(self._last) > MOST_SESSIONS:
            self._last.popitem(last=False)
        return turn

    def _owe_build(self, key: str, turn: _Turn, parent: Context, latest: int) -> None:
        build = self._builds.pop(key, None)
        if build is None:
            turn.owed = parent, latest
        else:
            self._record(build, parent, latest)

    # Events.

    def happened(self, event: Event) -> None:
        """Something happened to a session: on a thread of the room's."""
        loop = self._loop
        if event.__class__ not in NAMES or getattr(event, "adopted", False) or not self._heard:
            return
        past = _Past(event, time.time_ns())
        if loop is None:
            self._early.append(past)
            return
        try:
            loop.call_soon_threadsafe(self._take, past)
        except RuntimeError:
            pass  # the loop is closed: nobody traces any more

    def _take(self, past: _Past) -> None:
        key = past.event.key
        turn = self._last.get(key)
        if NAMES[past.event.__class__] != "greenroom.build":
            self._record_linked(past)
        elif turn is not None and turn.owed is not None:
            (parent, latest), turn.owed = turn.owed, None
            self._record(past, parent, latest)
        else:
            self._builds[key] = past
            asyncio.get_running_loop().call_later(MOMENT, self._let_go, past)

    def _let_go(self, build: _Past) -> None:
        """Nobody's turn began with this build."""
        if self._builds.get(build.event.key) is build:
            del self._builds[build.event.key]
            self._record_linked(build)

    def _record_linked(self, past: _Past) -> None:
        turn = self._last.get(past.event.key)
        links = () if turn is None else (Link(turn.span.get_span_context()),)
        self._record(past, otel_context.Context(), past.heard, links)

    def _record(self, past: _Past, parent: Context, latest: int, links: tuple[Link, ...] = ()) -> None:
        event, ended = past.event, min(past.heard, latest)
        span = self._tracer.start_span(
            NAMES[event.__class__],
            parent,
            start_time=ended - int(event.seconds * 1e9),
            links=links,
            attributes=_about(event),
        )
        error = getattr(event, "error", None)
        if error is not None:
            _fail(span, "failed", error)
        span.end(ended)


def _begun(performance: Performance) -> dict[str, AttributeValue]:
    turn, began = performance.ran, performance.began or performance.arrived
    attributes: dict[str, AttributeValue] = {
        "greenroom.reused": turn.reused,
        "greenroom.wait_seconds": began - performance.arrived,
    }
    if turn.rebuild_reason is not None:
        attributes["greenroom.rebuild_reason"] = turn.rebuild_reason.value
    return attributes


def _about(event: Any) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {"greenroom.session": event.key}
    for name in ("incarnation", "turns", "generation", "tries"):
        value = getattr(event, name, None)
        if value is not None:
            attributes[f"greenroom.{name}"] = int(value)
    reason = getattr(event, "reason", None)
    if reason is not None:
        attributes["greenroom.reason"] = str(reason)
    return attributes


def _fail(span: Span, outcome: str, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, outcome))
