"""Spans of turns, as the SDK of OpenTelemetry records them; nothing where it is not installed."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler
from opentelemetry.trace import StatusCode

from greenroom import AgentBuilt, BuildContext
from greenroom.gateway import ChatRequest
from greenroom.gateway.watch import _spans
from greenroom.gateway.watch._spans import Tracing
from greenroom.gateway.watch._tracing import tracing_of
from tests.actors.actors import PATIENCE
from tests.gateway.figures import build, say
from tests.gateway.serving import LOCAL, Serving, serving

ROOT = Path(__file__).parents[2]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Recorded(InMemorySpanExporter):
    """Spans that are over. Whoever waits for one is told when it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._news = threading.Condition()

    def export(self, spans: Sequence[ReadableSpan]) -> Any:
        with self._news:
            result = super().export(spans)
            self._news.notify_all()
        return result

    def find(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.get_finished_spans() if span.name == name]

    def wait_for(self, name: str, count: int = 1) -> ReadableSpan:
        """The last of so many spans of this name."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.find(name)) >= count, PATIENCE), name
        return self.find(name)[count - 1]


class Traced:
    """A server with tracing, and what was recorded."""

    def __init__(self, server: Serving, sampler: Sampler | None = None) -> None:
        self.server = server
        self.recorded = Recorded()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self.recorded))
        self.tracer = self.provider.get_tracer("the agent's own")
        self.tracing = Tracing(server.stage, self.provider)
        server.app.add_middleware(self.tracing.middleware)
        self.stop = self.tracing.attach()

    def stop_listening(self) -> None:
        """Watch turns, and hear of events no more."""
        self.stop()
        self.server.stage.watchers.append(self.tracing)
        self.stop = lambda: None


class OnLoop:
    """Traces its own work, on the event loop."""

    def __init__(self, traced: Traced, context: BuildContext) -> None:
        self.traced = traced
        if "unbuildable" in context.key:
            raise RuntimeError("with a secret in its text")

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        with self.traced.tracer.start_as_current_span("model"):
            await asyncio.sleep(0)
        if request.messages[-1]["content"] == "fail":
            raise RuntimeError("with a secret in its text")
        yield "done"

    def commit_memory_session(self) -> None:
        pass


class OnThread(OnLoop):
    """The same on a thread."""

    def answer(self, request: ChatRequest) -> str:  # type: ignore[override]  # agents may do either
        with self.traced.tracer.start_as_current_span("model"):
            return "done"


@contextlib.contextmanager
def traced_server(kind: type[OnLoop] = OnLoop, sampler: Sampler | None = None) -> Iterator[Traced]:
    """A server with agents of this kind, traced."""
    theirs: list[Traced] = []
    with serving(lambda context, **_: kind(theirs[0], context)) as server:
        theirs.append(Traced(server, sampler))
        yield theirs[0]
        theirs[0].stop()


@pytest.fixture(autouse=True)
def long_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late a turn begins behind its build, that is its own."""
    monkeypatch.setattr(_spans, "MOMENT", PATIENCE)


@pytest.fixture
def kind() -> type[OnLoop]:
    return OnLoop


@pytest.fixture
def traced(kind: type[OnLoop]) -> Iterator[Traced]:
    with traced_server(kind) as traced:
        yield traced


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def own(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return format(span.context.trace_id, "032x")


@pytest.mark.parametrize("kind", [OnLoop, OnThread])
def test_a_turn_is_a_span_with_its_wait_its_build_and_the_agents_own_inside(traced: Traced) -> None:
    say(traced.server)

    turn = traced.recorded.wait_for("greenroom.turn")
    wait, build, model = map(traced.recorded.wait_for, ("greenroom.wait", "greenroom.build", "model"))
    assert parent(turn) is None
    assert parent(wait) == parent(model) == own(turn)
    assert parent(build) == own(wait)
    assert len({trace_of(span) for span in (turn, wait, build, model)}) == 1
    times = [build.start_time, build.end_time, wait.end_time, model.start_time, turn.end_time]
    assert times == sorted(times, key=lambda time: time or 0)
    assert turn.start_time == wait.start_time


def test_what_is_known_of_a_turn_is_on_its_span(traced: Traced) -> None:
    say(traced.server)
    say(traced.server)
    first, second = (traced.recorded.wait_for("greenroom.turn", count) for count in (1, 2))
    room = traced.server.stage.room
    room.evict(LOCAL.key("a"))
    room.settle(PATIENCE)
    say(traced.server)
    third = traced.recorded.wait_for("greenroom.turn", 3)

    assert first.attributes is not None
    assert second.attributes is not None
    assert third.attributes is not None
    assert first.attributes["greenroom.session"] == "local/a"
    assert first.attributes["gen_ai.request.model"] == "m"
    assert first.attributes["greenroom.outcome"] == "ok"
    assert first.attributes["greenroom.reused"] is False
    assert "greenroom.rebuild_reason" not in first.attributes
    assert second.attributes["greenroom.reused"] is True
    assert third.attributes["greenroom.rebuild_reason"] == "explicit"
    assert float(str(first.attributes["greenroom.wait_seconds"])) > 0
    assert first.status.status_code is StatusCode.UNSET


def test_the_trace_of_the_request_is_continued(traced: Traced) -> None:
    say(traced.server, extra_headers=TRACEPARENT)

    turn = traced.recorded.wait_for("greenroom.turn")
    assert trace_of(turn) == TRACE
    assert f"{parent(turn):016x}" == PARENT
    assert trace_of(traced.recorded.wait_for("model")) == TRACE


def test_requests_do_not_see_each_others_traces(traced: Traced) -> None:
    say(traced.server, extra_headers=TRACEPARENT)
    say(traced.server)

    turn = traced.recorded.wait_for("greenroom.turn", 2)
    assert turn.parent is None
    assert trace_of(turn) != TRACE


def test_a_span_that_somebody_else_began_for_the_request_is_the_parent(traced: Traced) -> None:
    class Instrumented:
        """As the packages that instrument frameworks do."""

        def __init__(self, app: Any) -> None:
            self._app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            with traced.tracer.start_as_current_span("POST"):
                await self._app(scope, receive, send)

    traced.server.app.add_middleware(Instrumented)
    say(traced.server, extra_headers=TRACEPARENT)

    assert parent(traced.recorded.wait_for("greenroom.turn")) == own(traced.recorded.wait_for("POST"))


def test_when_a_turn_is_over_its_span_is_current_no_more(traced: Traced) -> None:
    request = ChatRequest(messages=({"role": "user", "content": "x"},))
    current: list[str] = []

    async def take() -> None:
        for error in (None, RuntimeError("x")):
            with contextlib.suppress(RuntimeError):
                async with traced.server.stage.performance(LOCAL, "a", request):
                    current.append(trace.get_current_span().name)  # type: ignore[attr-defined]  # the SDK's
                    if error is not None:
                        raise error
            assert not trace.get_current_span().get_span_context().is_valid

    traced.server.call(take())
    assert current == ["greenroom.turn", "greenroom.turn"]


def test_when_a_request_is_over_its_trace_is_current_no_more() -> None:
    seen: list[bool] = []

    async def app(*_: Any) -> None:
        seen.append(trace.get_current_span().get_span_context().is_valid)

    async def ask() -> None:
        headers = [(name.encode(), value.encode()) for name, value in TRACEPARENT.items()]
        await Tracing.middleware(app)({"type": "http", "headers": headers}, _nothing, _nothing)
        await Tracing.middleware(app)({"type": "lifespan"}, _nothing, _nothing)
        seen.append(trace.get_current_span().get_span_context().is_valid)

    asyncio.run(ask())
    assert seen == [True, False, False]


async def _nothing(*_: Any) -> Any:
    return None


def test_a_build_that_was_heard_of_before_the_first_turn_is_that_turns(traced: Traced) -> None:
    traced.stop_listening()
    built = AgentBuilt(
        key="local/a", incarnation=1, session_id="a", reason=None, adopted=False, seconds=2.0
    )
    traced.tracing.happened(built)
    say(traced.server)

    wait, build = map(traced.recorded.wait_for, ("greenroom.wait", "greenroom.build"))
    assert parent(build) == own(wait)
    assert build.start_time is not None
    assert build.end_time is not None
    assert build.end_time - build.start_time == 2_000_000_000


def test_an_error_is_told_by_its_class_and_not_by_its_text(traced: Traced) -> None:
    with pytest.raises(openai.InternalServerError):
        say(traced.server, "fail")

    turn = traced.recorded.wait_for("greenroom.turn")
    assert turn.attributes is not None
    assert turn.status.status_code is StatusCode.ERROR
    assert turn.attributes["greenroom.outcome"] == turn.status.description == "agent_failed"
    assert turn.attributes["error.type"] == "RuntimeError"
    assert "secret" not in turn.to_json()


def test_a_turn_that_never_began_has_a_span_and_so_has_its_build(traced: Traced) -> None:
    with pytest.raises(openai.InternalServerError):
        say(traced.server, session="unbuildable")

    turn, build = map(traced.recorded.wait_for, ("greenroom.turn", "greenroom.build"))
    assert turn.attributes is not None
    assert turn.attributes["greenroom.outcome"] == "agent_not_built"
    assert parent(build) == own(turn)
    assert build.status.status_code is StatusCode.ERROR
    assert "secret" not in build.to_json()
    assert traced.recorded.find("greenroom.wait") == []


def test_a_commit_is_a_trace_of_its_own_and_linked_to_the_turn(traced: Traced) -> None:
    say(traced.server)
    turn = traced.recorded.wait_for("greenroom.turn")
    traced.server.stage.room.commit(LOCAL.key("a"))
    commit = traced.recorded.wait_for("greenroom.commit")

    assert commit.parent is None
    assert trace_of(commit) != trace_of(turn)
    assert [link.context.span_id for link in commit.links] == [own(turn)]
    assert commit.attributes is not None
    assert commit.attributes["greenroom.turns"] == 1
    assert commit.attributes["greenroom.session"] == "local/a"


def test_a_release_tells_its_reason(traced: Traced) -> None:
    say(traced.server)
    traced.recorded.wait_for("greenroom.turn")
    traced.server.stage.room.evict(LOCAL.key("a"))
    release = traced.recorded.wait_for("greenroom.release")

    assert release.attributes is not None
    assert release.attributes["greenroom.reason"] == "explicit"


def test_what_is_not_sampled_is_not_sampled_as_a_whole() -> None:
    with traced_server(sampler=ParentBased(ALWAYS_OFF)) as traced:
        say(traced.server)
        say(traced.server, extra_headers=TRACEPARENT)
        turn = traced.recorded.wait_for("greenroom.turn")

    assert trace_of(turn) == TRACE
    assert len(traced.recorded.find("greenroom.turn")) == len(traced.recorded.find("model")) == 1


def test_without_an_sdk_nothing_is_kept_of_a_turn() -> None:
    with serving(build) as server:
        tracing = Tracing(server.stage, trace.NoOpTracerProvider())
        stop = tracing.attach()
        say(server)
        stop()

    assert tracing._running == {}
    assert not tracing._last


def test_until_somebody_has_configured_tracing_nothing_is_taken_down() -> None:
    with serving(build) as server:
        tracing = Tracing(server.stage)
        built = AgentBuilt(
            key="local/b", incarnation=1, session_id="b", reason=None, adopted=False, seconds=0.1
        )
        tracing.happened(built)
        stop = tracing.attach()
        say(server)
        tracing.happened(built)
        server.call(asyncio.sleep(0))
        stop()
        kept = [*tracing._early, *tracing._builds, *tracing._last, *tracing._running]

    assert kept == []


def test_it_is_there_where_the_package_is(traced: Traced) -> None:
    assert isinstance(tracing_of(traced.server.stage), Tracing)


WITHOUT = """
import sys

import fastapi  # new ones of it need the package themselves

for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
    del sys.modules[name]

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())

import asyncio
from greenroom.gateway import ChatRequest, Config, Stage
from greenroom.gateway.watch._metrics import Metrics
from greenroom.gateway._naming import Caller
from greenroom.gateway.watch._tracing import tracing_of

class Agent:
    async def answer(self, request):
        return "done"

async def main():
    stage = Stage(Config(), lambda context, **_: Agent())
    assert tracing_of(stage) is None
    Metrics(stage).attach()
    request = ChatRequest(messages=({"role": "user", "content": "x"},))
    async with stage.performance(Caller("local"), "a", request) as performance:
        print([piece async for piece in performance])
    await stage.drain(10)
    stage.close()

asyncio.run(main())
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
assert "greenroom.gateway.watch._spans" not in sys.modules
"""


def test_without_the_package_nothing_is_imported_and_turns_go_on() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "['done']\n"
