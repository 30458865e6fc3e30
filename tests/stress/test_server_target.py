"""A server as what is stressed: a real one, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from greenroom import Policy
from greenroom.gateway.agents.offline import offline
from greenroom.stress._findings import LOOKS
from greenroom.stress._result import Check, Result
from greenroom.stress._run import Run
from greenroom.stress._target import Outcome, Planned
from greenroom.stress.server._checks import ServerWitness
from greenroom.stress.server._looks import Metrics, level_of, parse_metrics
from greenroom.stress.server._target import NoServer, ServerTarget
from tests.gateway.clients import playing
from tests.gateway.guarded import ANNA, CHIEF, TOKENS, bearer, guarded
from tests.gateway.serving import serving

HIDDEN = "a message that nobody may find"


def planned(number: int, key: str = "k", **more: Any) -> Planned:
    return Planned(at=0.0, number=number, key=key, seconds=0.0, **more)


def checks_of(result: Result) -> dict[str, bool | None]:
    return {check.name: check.held for check in result.checks}


def drive(target: ServerTarget, *turns: Planned) -> Result:
    run = Run(target, turns, duration=0.2, title="t", settings={})
    return asyncio.run(run.play())


def meet(target: ServerTarget, *turns: Planned) -> list[Outcome]:
    """Have these turns, one after the other, and no end of the run."""

    async def have() -> list[Outcome]:
        await target.open()
        try:
            return [await target.turn(one, time.perf_counter()) for one in turns]
        finally:
            await target.close()

    return asyncio.run(have())


@contextlib.contextmanager
def answering(body: str) -> Iterator[str]:
    """Somebody else's server: it has the same answer for everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_is_driven_and_left_as_it_was(stream: bool) -> None:
    with serving(offline, policy=Policy(cap=2)) as server:
        target = ServerTarget(server.url, stream=stream, message=HIDDEN, seed=7)
        result = drive(target, *(planned(number, f"k{number % 4}") for number in range(12)))
        left = httpx.get(f"{server.url}/v1/sessions?stored=true").json()["data"]
    assert result.held
    assert result.target == server.url
    assert (result.totals.turns, result.totals.refused, result.totals.failures) == (12, 0, 0)
    assert result.latencies["start"].count == 12
    assert result.totals.builds is not None
    assert result.totals.builds >= 4
    assert result.series[-1].cap == 2
    assert left == []
    assert checks_of(result) == {
        "no teardown in a turn": None,
        "agents within the cap": True,
        "one commit at a time": True,
        "no turn forgotten": True,
        "every turn answered": True,
        "one teardown an agent": None,
        "nobody waits for the hung": None,
    }
    assert all(check.remark for check in result.checks if check.held is None)
    assert HIDDEN not in str(result.to_json())


def test_sessions_are_called_by_the_seed_and_counted() -> None:
    with playing() as play:
        target = ServerTarget(play.server.url, seed=7)

        async def have() -> list[str]:
            await target.open()
            for number, key in enumerate(("telegram:1", "telegram:2", "telegram:1")):
                await target.turn(planned(number, key), time.perf_counter())
            there = await asyncio.to_thread(play.stage.room.keys)
            await target.close()
            return sorted(there)

        assert asyncio.run(have()) == ["local/stress-7-1", "local/stress-7-2"]


def test_what_is_said_has_the_number_and_the_length() -> None:
    with playing() as play:
        target = ServerTarget(play.server.url, message="turn {number} of {seconds} s", model="mine")
        meet(target, Planned(at=0.0, number=3, key="k", seconds=0.25))
        (request,) = play.troupe.requests
    assert request.messages[0]["content"] == "turn 3 of 0.250 s"
    assert request.model == "mine"


def test_a_planned_end_ends_the_session() -> None:
    with playing() as play:
        target = ServerTarget(play.server.url)

        async def have() -> tuple[Outcome, dict[str, str]]:
            await target.open()
            await target.turn(planned(1, "stays"), time.perf_counter())
            outcome = await target.turn(planned(2, "ends", ends=True), time.perf_counter())
            there = await asyncio.to_thread(play.sessions)
            await target.close()
            return outcome, there

        outcome, there = asyncio.run(have())
    assert outcome.error is None
    assert list(there) == ["local/stress-0-1"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_that_fails_is_told_by_its_code(stream: bool) -> None:
    with playing() as play:
        target = ServerTarget(play.server.url, stream=stream, message=f"!boom {HIDDEN}")
        (outcome,) = meet(target, planned(1))
    assert outcome.error is not None
    assert "agent_failed" in outcome.error
    assert HIDDEN not in outcome.error
    assert not outcome.refused


def test_a_refusal_counts_as_one_and_what_is_behind_the_agent_does_not() -> None:
    with playing() as play:
        busy = meet(ServerTarget(play.server.url, message="!busy"), planned(1))[0]
        away = meet(ServerTarget(play.server.url, message="!away"), planned(1))[0]
    assert (busy.refused, busy.error, busy.start) == (True, None, None)
    assert not away.refused
    assert away.error == "status 503 (agent_unavailable)"


def test_a_request_without_an_answer_violates_a_promise() -> None:
    with playing() as play:
        target = ServerTarget(play.server.url, message="@door", timeout=0.2)
        result = drive(target, planned(1))
    assert not result.held
    assert checks_of(result)["every turn answered"] is False
    assert list(result.totals.errors) == ["no answer within 0.2 s (ReadTimeout)"]


def test_who_is_no_operator_is_told_that_levels_cannot_be_seen() -> None:
    with guarded(offline, tokens=TOKENS) as server:
        result = drive(ServerTarget(server.url, token=ANNA.secret), planned(1))
        whole = drive(ServerTarget(server.url, token=CHIEF.secret), planned(1))
        assert httpx.get(f"{server.url}/v1/sessions", headers=bearer(ANNA)).json()["data"] == []
    assert result.held
    assert result.series[-1].cached is None
    cap = next(check for check in result.checks if check.name == "agents within the cap")
    assert (cap.held, cap.remark) == (
        None,
        "The server's metrics are for operators, and this token is not one's.",
    )
    assert checks_of(result)["no turn forgotten"] is True
    assert whole.series[-1].cached is not None
    assert ANNA.secret not in str(result.to_json())
    assert CHIEF.secret not in str(whole.to_json())


def test_without_a_good_token_nothing_begins() -> None:
    with guarded(offline, tokens=TOKENS) as server:
        for token in (None, "not-the-right-one-at-all"):
            with pytest.raises(NoServer, match="wants a token: set GREENROOM_TOKEN"):
                meet(ServerTarget(server.url, token=token))


def test_what_is_no_server_of_ours_is_said() -> None:
    with (
        serving(offline) as server,
        pytest.raises(NoServer, match="no server of greenroom's: /v1/models gave 404"),
    ):
        meet(ServerTarget(f"{server.url}/elsewhere"))


def test_a_url_may_have_the_apis_path() -> None:
    assert ServerTarget("http://127.0.0.1:8765/v1/").name == "http://127.0.0.1:8765"
    assert ServerTarget("127.0.0.1:8765").name == "http://127.0.0.1:8765"


def test_a_servers_bounds_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="a server's cap cannot be changed over HTTP"):
        asyncio.run(ServerTarget("http://x").configure({"cap": 3}))


def test_figures_of_a_server_count_from_the_runs_beginning() -> None:
    def scrape(builds: int, capacity: int) -> Any:
        return parse_metrics(
            [
                "# HELP greenroom_builds_total x",
                f"greenroom_builds_total {builds}",
                f'greenroom_releases_total{{reason="capacity"}} {capacity}',
                'greenroom_releases_total{reason="idle"} 3',
                'greenroom_closes_total{reason="explicit"} 0',
                f'greenroom_closes_total{{reason="shutdown"}} {builds}',
                "greenroom_session_cap +Inf",
                'greenroom_sessions{state="cached"} 5',
                "not a metric",
            ]
        )

    level = level_of(scrape(17, 9), scrape(10, 2))
    assert (level.builds, level.evictions, level.cap, level.cached) == (7, {"capacity": 7}, None, 5)
    assert level.hits is None


# The witness.


def told(**figures: int) -> Any:
    lines = [f'greenroom_sessions{{state="{name}"}} {value}' for name, value in figures.items()]
    return parse_metrics([*lines, "greenroom_session_cap 4"])


def verdict(see: Callable[[ServerWitness], object], name: str) -> Check:
    witness = ServerWitness()
    see(witness)
    return next(check for check in witness.checks() if check.name == name)


def look_at(witness: ServerWitness, *cached: int) -> list[bool]:
    return [witness.metrics(told(cached=n, in_turn=1, busy=1), 1.0) for n in cached]


def test_agents_beyond_the_cap_must_be_explained() -> None:
    fine = verdict(
        lambda witness: witness.metrics(told(cached=6, in_turn=1, busy=1), 1.0), "agents within the cap"
    )
    bad = verdict(lambda witness: look_at(witness, *[7] * LOOKS), "agents within the cap")
    assert fine.held is True
    assert bad.held is False
    assert "7 agents with a cap of 4" in bad.violations[0]


def test_a_servers_passing_moment_beyond_the_cap_is_looked_at_again_and_fine() -> None:
    seen: list[bool] = []
    check = verdict(
        lambda witness: seen.extend(look_at(witness, *[9] * (LOOKS - 1), 8, 6)), "agents within the cap"
    )
    assert check.held is True
    assert seen == [True] * LOOKS + [False]


def test_a_server_that_was_restarted_goes_on_being_counted() -> None:
    def scrape(builds: int, **releases: int) -> Metrics:
        lines = [f"greenroom_builds_total {builds}"]
        for reason, n in releases.items():
            lines.append(f'greenroom_releases_total{{reason="{reason}"}} {n}')
        return parse_metrics(lines)

    first, last, now = scrape(100, idle=7), scrape(110, idle=9, capacity=1), scrape(3, capacity=2)
    level = level_of(now, first.since_restart(last, now))
    assert level.builds == 13
    assert level.evictions == {"idle": 2, "capacity": 3}
    assert first.since_restart(first, last) is first


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:port"])
def test_a_url_with_an_impossible_port_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not .http://127.*[Pp]ort"):
        ServerTarget(url)


@pytest.mark.parametrize("token", ["tokén", "a\nb"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="no header can carry") as refused:
        ServerTarget("http://127.0.0.1:8765", token=token)
    assert token not in str(refused.value)


@pytest.mark.parametrize("body", [{}, [1], None, {"data": []}])
def test_a_server_without_models_is_none_of_ours(body: Any) -> None:
    with answering(json.dumps(body)) as url, pytest.raises(NoServer, match="lists no model"):
        asyncio.run(ServerTarget(url).open())


def test_what_is_no_url_is_said() -> None:
    with pytest.raises(NoServer, match="is no URL of a server"):
        asyncio.run(ServerTarget("http://127.0.0.1:1/\x01").open())


def test_turns_that_become_fewer_are_a_violation() -> None:
    def see(witness: ServerWitness) -> None:
        witness.session("a", {"turns": 3, "uncommitted": 1}, 1.0)
        witness.session("a", {"turns": 2, "uncommitted": 1}, 2.0)

    check = verdict(see, "one commit at a time")
    assert check.held is False
    assert "a had 3 turns, and now 2" in check.violations[0]


def test_more_uncommitted_turns_than_there_are_is_a_violation() -> None:
    check = verdict(
        lambda witness: witness.session("a", {"turns": 3, "uncommitted": 4}, 1.0), "one commit at a time"
    )
    assert check.held is False


def test_a_session_that_was_ended_may_begin_again() -> None:
    def see(witness: ServerWitness) -> None:
        witness.completed("a")
        witness.session("a", {"turns": 3, "uncommitted": 1}, 1.0)
        witness.ended("a")
        witness.session("a", {"turns": 4, "uncommitted": 1}, 2.0)  # an answer that comes late
        witness.session("a", {"turns": 1, "uncommitted": 1}, 3.0)
        witness.completed("a")
        witness.session_ttl = None
        witness.all_told(3.0)

    assert verdict(see, "one commit at a time").held is True
    assert verdict(see, "no turn forgotten").held is None


@pytest.mark.parametrize(
    ("turns", "session_ttl", "held"),
    [
        (2, None, True),
        (1, None, False),
        (None, None, False),
        (None, 600.0, False),
        (None, 5.0, None),
        (1, 5.0, None),
        (1, 600.0, False),
    ],
)
def test_completed_turns_must_be_known_unless_their_session_has_expired(
    turns: int | None, session_ttl: float | None, held: bool | None
) -> None:
    def see(witness: ServerWitness) -> None:
        witness.session_ttl = session_ttl
        for _ in range(2):
            witness.answered("a", 1.0, None)
            witness.completed("a")
        if turns is not None:
            witness.last_session("a", {"turns": turns, "uncommitted": 1}, 10.0)
        witness.all_told(10.0)

    check = verdict(see, "no turn forgotten")
    assert check.held is held
    if held:
        assert check.remark == "1 sessions had uncommitted turns at the end."


def test_a_session_that_has_expired_between_two_turns_may_count_from_nothing() -> None:
    def see(witness: ServerWitness) -> None:
        witness.session_ttl = 5.0
        for at, turns in ((1.0, 1), (2.0, 2), (9.0, 1), (10.0, 2)):
            witness.answered("a", at, None)
            witness.completed("a")
            witness.session("a", {"turns": turns, "uncommitted": 0}, at)
        witness.session("a", {"turns": 0, "uncommitted": 0}, 16.0)
        witness.last_session("a", {"turns": 2, "uncommitted": 0}, 11.0)
        witness.all_told(11.0)

    assert verdict(see, "one commit at a time").violations == ()
    assert verdict(see, "no turn forgotten").held is True
