"""`/metrics` says what happened, as Prometheus wants to hear it, and the page about it is true."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from fastapi import Request
from fastapi.routing import APIRoute
from prometheus_client.openmetrics import parser as openmetrics_parser

from greenroom import (
    AgentReused,
    BuildFailed,
    HookFailure,
    LostOwnership,
    Overloaded,
    Policy,
    Reason,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    StoreAway,
    StoreFailure,
    TurnTimeout,
)
from greenroom.gateway import BadRequest, ChatRequest, Unavailable
from greenroom.gateway._admission import TooManySessions
from greenroom.gateway._errors import ApiError, api_error
from greenroom.gateway._naming import Caller
from greenroom.gateway._performance import Interrupted, TookTooLong
from greenroom.gateway.api._replies import ClientGone
from greenroom.gateway.watch._metrics import DURATIONS, MOST_TENANTS, STORE_DURATIONS, Metrics, router
from greenroom.gateway.watch._outcomes import OUTCOMES, outcome_of
from tests.actors.actors import PATIENCE, Gate, in_thread, join_all
from tests.gateway.figures import (
    Figures,
    after_some_traffic,
    build,
    client,
    fetch,
    figures,
    say,
)
from tests.gateway.serving import LOCAL, Serving, serving
from tests.room.agents import until

PAGE = Path(__file__).parents[2] / "docs/metrics.md"


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving(build) as server:
        yield server


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return after_some_traffic(tmp_path_factory.mktemp("store"))


# Turns


def test_turns_are_counted_and_timed(server: Serving) -> None:
    for _ in range(3):
        say(server)

    now = figures(server)
    assert now("greenroom_turns_total", tenant="local", result="ok", outcome="ok") == 3
    assert now("greenroom_turn_duration_seconds_count") == 3
    assert now("greenroom_turn_wait_seconds_count") == 3
    assert now("greenroom_builds_total") == 1
    assert now("greenroom_build_duration_seconds_count", outcome="ok") == 1
    assert now("greenroom_hits_total") == 2
    assert now("greenroom_sessions", state="cached") == 1
    assert now("greenroom_sessions", state="dirty") == 1


def test_an_agent_that_fails_is_an_error_and_one_that_cannot_be_built_never_began(
    server: Serving,
) -> None:
    with pytest.raises(openai.InternalServerError):
        say(server, "fail")
    with pytest.raises(openai.InternalServerError):
        say(server, session="unbuildable")

    now = figures(server)
    assert now("greenroom_turns_total", result="error", outcome="agent_failed") == 1
    assert now("greenroom_turns_total", result="error", outcome="agent_not_built") == 1
    assert now("greenroom_build_failures_total") == 1
    assert now("greenroom_build_duration_seconds_count", outcome="error") == 1
    assert now("greenroom_turn_duration_seconds_count") == 1


class Held:
    """Answers when the gate is opened, on a thread of its own."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def answer(self, _: ChatRequest) -> str:
        self._gate.wait()
        return "at last"


def test_what_runs_and_what_waits_is_seen_while_it_does() -> None:
    gate = Gate()
    with serving(lambda _, **__: Held(gate), max_running=1) as server:
        threads = [in_thread(lambda: say(server, session="a"))]
        gate.wait_reached()
        threads.append(in_thread(lambda: say(server, session="b")))
        until(lambda: server.call(_figures_of(server)) == (1, 1), "one that runs and one that waits")
        now = Figures(fetch(server)[0])
        with pytest.raises(openai.ConflictError):
            say(server, session="a", extra_body={"busy": "reject"})
        gate.open()
        join_all(threads)
        then = figures(server)

    assert now("greenroom_turns_running") == 1
    assert now("greenroom_turns_waiting", place="admission") == 1
    assert now("greenroom_turns_running_limit") == 1
    assert now("greenroom_sessions", state="in_turn") == 1
    assert then("greenroom_turns_running") == 0
    assert then("greenroom_turns_total", outcome="ok") == 2
    assert then("greenroom_turns_total", result="refused", outcome="session_busy") == 1


async def _figures_of(server: Serving) -> tuple[int, int]:
    running, waiting = await server.stage.admission.figures()
    return running, waiting


class Endless:
    """Never comes to an end by itself, and tells when it was ended."""

    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended

    async def answer(self, _: ChatRequest) -> AsyncIterator[str]:
        try:
            yield "once"
            await asyncio.Event().wait()
        finally:
            self._ended.set()


def test_a_client_that_hangs_up_and_a_turn_that_is_interrupted_are_told_apart() -> None:
    ended = threading.Event()
    with serving(lambda _, **__: Endless(ended)) as server, client(server) as speaking:
        asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        for interrupt in (False, True):
            ended.clear()
            stream = speaking.chat.completions.create(**asked, user="a", stream=True)
            assert next(iter(stream)) is not None
            if interrupt:
                assert server.call(server.stage.interrupt(LOCAL.key("a")))
                with pytest.raises(openai.APIError, match="interrupted"):
                    list(stream)
            else:
                stream.close()
                assert ended.wait(PATIENCE)
                server.call(_over(server))
        now = figures(server)

    assert now("greenroom_turns_total", result="stopped", outcome="client_gone") == 1
    assert now("greenroom_turns_total", result="stopped", outcome="interrupted") == 1


async def _over(server: Serving) -> None:
    # An answer that is there already is not waited for, and whoever ends the turn is on the same loop.
    while (await server.stage.admission.figures())[0]:  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(0)


ERRORS: list[BaseException] = [
    BadRequest("x"),
    BuildFailed("x"),
    Interrupted("x"),
    LostOwnership("x"),
    Overloaded("x"),
    RoomClosed("x"),
    RuntimeError("x"),
    SessionBusy("x"),
    SessionFailed("x"),
    StoreAway("x"),
    TookTooLong("x"),
    TooManySessions("x"),
    TurnTimeout("x"),
    Unavailable("x"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_outcomes_are_called_what_clients_are_told(error: BaseException) -> None:
    assert outcome_of(error) == (api_error(error).code or "bad_request")


def test_every_outcome_can_come_about() -> None:
    known = {outcome_of(error) for error in (*ERRORS, None, ClientGone(), asyncio.CancelledError())}
    assert known == set(OUTCOMES)


def test_a_great_many_tenants_are_counted_together(server: Serving) -> None:
    metrics = Metrics(server.stage)
    request = ChatRequest(messages=({"role": "user", "content": "x"},))

    async def come_and_go() -> str:
        for number in range(MOST_TENANTS + 10):
            caller = Caller(f"tenant-{number}")
            metrics.ended(server.stage.performance(caller, "a", request), None)
        return (await metrics.scrape())[0].decode()

    now = Figures(server.call(come_and_go()))
    tenants = {labels["tenant"] for name, labels, _ in now.samples if name == "greenroom_turns_total"}
    assert len(tenants) == MOST_TENANTS + 1
    assert now("greenroom_turns_total", tenant="other") == 11
    assert now("greenroom_turns_total", tenant="tenant-0", outcome="ok") == 1


def test_no_label_names_a_session(some: Figures) -> None:
    values = {value for _, labels, _ in some.samples for value in labels.values()}
    assert not values & {"a", "b", "c", "local/a", "unbuildable", "local/unbuildable"}


# The room


def test_evictions_releases_and_closes_are_counted_by_reason() -> None:
    with serving(build, policy=Policy(cap=1)) as server:
        for session in ("a", "b"):
            say(server, session=session)
        server.stage.room.settle(PATIENCE)
        server.stage.room.evict(LOCAL.key("b"))
        server.stage.room.settle(PATIENCE)
        say(server, session="a")
        server.stage.room.end(LOCAL.key("a"))
        now = figures(server)

    assert now("greenroom_evictions_total", reason="capacity") == 1
    assert now("greenroom_evictions_total") == 1
    assert now("greenroom_releases_total", reason="capacity") == 1
    assert now("greenroom_releases_total", reason="explicit") == 1
    assert now("greenroom_rebuilds_total", reason="capacity") == 1
    assert now("greenroom_closes_total", reason="explicit") == 1
    assert now("greenroom_release_duration_seconds_count") == 2
    assert now("greenroom_close_duration_seconds_count") == 1
    assert now("greenroom_session_cap") == 1
    assert now("greenroom_commits_total") == now("greenroom_commit_duration_seconds_count") == 3


def test_commits_and_hooks_that_fail_are_counted() -> None:
    with serving(build, policy=Policy(retry_first=300.0)) as server:
        for session in ("uncommittable", "unreleasable"):
            say(server, session=session)
            server.stage.room.evict(LOCAL.key(session))
        now = figures(server)

    assert now("greenroom_commit_failures_total") == 1
    assert now("greenroom_commit_duration_seconds_count", outcome="error") == 1
    assert now("greenroom_agents_retained") == 1
    assert now("greenroom_hook_failures_total", hook="release_clients") == 1
    assert now("greenroom_hook_failures_total") == 1


def test_every_reason_is_there_from_the_beginning(server: Serving) -> None:
    now = figures(server)
    for name in ("rebuilds", "releases", "closes"):
        for reason in Reason:
            assert now(f"greenroom_{name}_total", reason=reason.value) == 0


def test_the_store_is_timed_by_operation(some: Figures) -> None:
    seconds = "greenroom_store_operation_duration_seconds"
    assert some(f"{seconds}_count", operation="append") == 6
    assert some(f"{seconds}_count", operation="transaction") >= 6
    assert some(f"{seconds}_sum", operation="transaction") > 0
    assert some("greenroom_store_operation_failures_total") == 0


def test_memory_is_shown_beside_its_budget(some: Figures) -> None:
    assert some("greenroom_memory_budget_bytes") == 2**40
    assert 2**20 < some("process_resident_memory_bytes") < 2**40


def test_a_room_without_a_cap_or_a_budget_says_so() -> None:
    with serving(build, policy=Policy(cap=None)) as server:
        now = figures(server)
    assert now("greenroom_session_cap") == float("inf")
    assert "greenroom_memory_budget_bytes" not in now.names


def test_what_goes_wrong_rarely_is_counted_under_its_name(server: Serving) -> None:
    metrics = Metrics(server.stage)
    error, reason = RuntimeError("x"), Reason.EXPLICIT
    for hook in ("interrupt", "resource db", "resource pool", "one of tomorrow"):
        metrics.happened(HookFailure(key="a", incarnation=1, hook=hook, reason=reason, error=error))
    for what in ("record", "one of tomorrow"):
        metrics.happened(StoreFailure(key="a", session_id="a", what=what, error=error))
    metrics.happened(AgentReused(key="a", incarnation=1))
    metrics.stored("append", 0.1, True)
    metrics.stored("append", 0.1, False)
    request = ChatRequest(messages=({"role": "user", "content": "x"},))

    async def end() -> str:
        performance = server.stage.performance(LOCAL, "a", request)
        performance.recorded = False
        metrics.ended(performance, None)
        return (await metrics.scrape())[0].decode()

    now = Figures(server.call(end()))
    counted = {
        hook: now("greenroom_hook_failures_total", hook=hook)
        for hook in ("interrupt", "resource", "other")
    }
    assert counted == {"interrupt": 1, "resource": 2, "other": 1}
    assert now("greenroom_store_failures_total", what="record") == 1
    assert now("greenroom_store_failures_total", what="other") == 1
    assert now("greenroom_store_operation_failures_total", operation="append") == 1
    assert now("greenroom_store_operation_duration_seconds_count", operation="append") == 2
    assert now("greenroom_turns_not_recorded_total") == 1


# Scrapes


def test_prometheus_gets_the_format_that_it_asks_for(server: Serving) -> None:
    say(server)
    text, plain = fetch(server)
    newer, media = fetch(server, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")

    assert plain.startswith("text/plain; version=0.0.4")
    assert media.startswith("application/openmetrics-text; version=1.0.0")
    assert newer.endswith("# EOF\n")
    parse: Any = openmetrics_parser.text_string_to_metric_families
    names = {sample.name for family in parse(newer) for sample in family.samples}
    assert names == Figures(text).names
    assert not any(name.endswith("_created") for name in names)


def test_the_metrics_are_the_operators(server: Serving) -> None:
    (route,) = router(Metrics(server.stage)).routes
    assert isinstance(route, APIRoute)
    state = {"caller": Caller("anna"), "request_id": "r"}
    request = Request(
        {"type": "http", "method": "GET", "path": "/metrics", "headers": [], "state": state}
    )

    with pytest.raises(ApiError, match="'anna' is not one of theirs") as refused:
        server.call(route.endpoint(request))
    assert refused.value.status == 403


def test_a_server_that_has_drained_can_still_be_scraped(server: Serving) -> None:
    say(server)
    server.call(server.stage.drain(PATIENCE))
    drained = Figures(fetch(server)[0])
    server.stage.room.close()
    closed = Figures(fetch(server)[0])

    assert drained("greenroom_draining") == closed("greenroom_draining") == 1
    assert drained("greenroom_commits_total") == closed("greenroom_commits_total") == 1


def test_stages_do_not_share_their_metrics() -> None:
    with serving(build) as one, serving(build) as other:
        say(one)
        assert figures(one)("greenroom_turns_total", outcome="ok") == 1
        assert figures(other)("greenroom_turns_total", outcome="ok") == 0


def test_nothing_is_counted_any_more_once_it_is_told_to_stop(server: Serving) -> None:
    metrics = Metrics(server.stage)
    stop = metrics.attach()
    say(server)
    stop()
    say(server)

    async def scrape() -> str:
        return (await metrics.scrape())[0].decode()

    assert Figures(server.call(scrape()))("greenroom_turns_total") == 1
    assert figures(server)("greenroom_turns_total") == 2


# The page


def test_the_page_lists_every_metric_as_it_is(some: Figures) -> None:
    listed = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `greenroom_")]
    there = [_row(some, name) for name in sorted(some.families) if name.startswith("greenroom_")]
    assert listed == there, "docs/metrics.md must have these lines:\n" + "\n".join(there)


def _row(some: Figures, name: str) -> str:
    family = some.families[name]
    labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
    shown = f"{name}_total" if family.type == "counter" else name
    named = ", ".join(f"`{label}`" for label in labels)
    return f"| `{shown}` | {family.type} | {named} | {family.documentation} |"


def test_the_page_names_the_buckets_and_the_outcomes() -> None:
    page = PAGE.read_text("utf-8")
    for buckets in (DURATIONS, STORE_DURATIONS):
        assert ", ".join(f"{bound:g}" for bound in buckets) in page
    rows = dict(re.findall(r"^\| `(ok|refused|stopped|error)` \| (.*?) \|", page, flags=re.MULTILINE))
    listed = {
        outcome: result for result, names in rows.items() for outcome in re.findall(r"`(\w+)`", names)
    }
    assert listed == OUTCOMES


def test_the_offline_build_needs_no_store() -> None:
    with serving(build) as server:
        say(server)
        assert figures(server)("greenroom_store_operation_duration_seconds_count") == 0
