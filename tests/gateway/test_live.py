"""Whoever watches the room sees what happens, and a room that nobody watches is not looked at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from greenroom import Policy
from greenroom.gateway import Token
from greenroom.gateway.watch import _live
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.listening import listening
from tests.gateway.page_serving import live_of, page_serving
from tests.gateway.serving import Serving


def say(server: Serving, session: str, text: str = "hello") -> httpx.Response:
    """Take a turn."""
    return httpx.post(
        f"{server.url}/v1/chat/completions",
        json={"model": "greenroom", "messages": [{"role": "user", "content": text}]},
        headers={"x-greenroom-session": session},
        timeout=PATIENCE,
    )


def heard_of_all(server: Serving) -> None:
    """Wait until everything that has happened so far was told: listeners hear of it a little later."""
    server.stage.room._ending.flush_events(PATIENCE)


def order(server: Serving, what: str, session: str, **more: Any) -> httpx.Response:
    """Command a session."""
    body = {"key": f"local/{session}", **more}
    return httpx.post(f"{server.url}/room/sessions/{what}", json=body, timeout=PATIENCE)


@pytest.fixture
def troupe() -> Iterator[Troupe]:
    """Agents, whose doors are open in the end."""
    troupe = Troupe()
    yield troupe
    troupe.open_all()


def later(server: Serving, session: str, text: str) -> threading.Thread:
    """Take a turn on a thread."""
    thread = threading.Thread(target=say, args=(server, session, text), daemon=True)
    thread.start()
    return thread


def test_a_watcher_first_gets_the_whole_room(troupe: Troupe) -> None:
    with page_serving(troupe, max_running=7) as server:
        say(server, "alice")
        heard_of_all(server)
        with listening(server) as ear:
            assert ear.hear() == "room"
            assert list(ear.rows) == ["local/alice"]
            assert ear.rows["local/alice"]["dirty"] == 1
            assert ear.room["stats"]["cached"] == ear.room["total"] == 1
            assert ear.room["policy"]["cap"] == 128
            assert ear.room["turns"] == {"running": 0, "most": 7, "waiting": 0, "most_waiting": 1000}
            assert ear.room["memory"]["held"] > 1_000_000
            assert [event["kind"] for event in ear.happened] == ["build"]


def test_a_turn_is_seen_while_it_runs_and_when_it_is_over(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as ear:
        ear.hear()
        turn = later(server, "alice", "wait @door")
        row = ear.state("local/alice", "in turn")
        assert row["turn_at"] is not None
        ear.until(lambda: ear.room["turns"]["running"] == 1)
        troupe.door("door").open()
        assert ear.state("local/alice", "idle")["dirty"] == 1
        turn.join(PATIENCE)


def test_commands_are_carried_out_and_seen(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as ear:
        say(server, "alice")
        assert order(server, "commit", "alice").json()["outcome"] == "committed"
        assert ear.heard("commit", "local/alice")["turns"] == 1
        assert order(server, "evict", "alice").json()["evicted"] is True
        assert ear.heard("release", "local/alice")["reason"] == "explicit"
        ear.state("local/alice", "known")
        assert order(server, "end", "alice").json()["ended"] is True
        assert ear.heard("end", "local/alice")
        ear.until(lambda: "local/alice" not in ear.rows)


def test_an_interrupted_turn_is_told(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as ear:
        turn = later(server, "alice", "wait @door")
        troupe.door("door").wait_reached()
        assert order(server, "interrupt", "alice").json()["interrupted"] is True
        assert ear.heard("interrupt", "local/alice")
        turn.join(PATIENCE)


def test_a_failed_turn_is_told_with_its_error_and_without_what_was_said(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as ear:
        assert say(server, "alice", "confidential !boom").status_code == 500
        told = ear.heard("failure", "local/alice")
        assert told["failed"] == "turn"
        assert told["error"] == "RuntimeError: a secret of the agent's"
        assert "confidential" not in str(ear.happened)


def test_what_is_the_clients_fault_is_no_failure(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as ear:
        assert say(server, "alice", "!bad").status_code == 400
        order(server, "end", "alice")
        ear.heard("end", "local/alice")
        assert "failure" not in {event["kind"] for event in ear.happened}


def test_an_agent_that_is_kept_for_its_commit_is_told_once(troupe: Troupe) -> None:
    troupe.commit_error = OSError("no memory provider")
    policy = Policy(retry_first=0.01, retry_most=0.01)
    with page_serving(troupe, policy=policy) as server, listening(server) as ear:
        say(server, "alice")
        order(server, "evict", "alice")
        ear.until(lambda: sum(event["kind"] == "failure" for event in ear.happened) >= 4)
        assert [event["kind"] for event in ear.happened].count("retain") == 1
        assert ear.state("local/alice", "retained")["error"]
        troupe.commit_error = None
        ear.heard("commit", "local/alice")


def test_what_happened_before_anybody_watched_is_told(troupe: Troupe) -> None:
    with page_serving(troupe) as server:
        for number in range(3):
            say(server, f"s{number}")
        heard_of_all(server)
        with listening(server) as ear:
            ear.hear()
            assert [event["key"] for event in ear.happened] == ["local/s0", "local/s1", "local/s2"]
            assert [event["number"] for event in ear.happened] == [1, 2, 3]


def test_nobody_looks_at_the_room_when_nobody_watches(troupe: Troupe) -> None:
    with page_serving(troupe) as server:
        live = live_of(server)
        assert looking(live) is None
        with listening(server) as ear:
            ear.hear()
            task = looking(live)
            assert task is not None
        server.call(_over(task))
        assert looking(live) is None
        assert live.watching == 0
        assert live._picture is None


def looking(live: _live.Live) -> asyncio.Task[None] | None:
    """The task that looks, if there is one."""
    return live._looking


async def _over(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


def test_a_quiet_stream_has_a_heartbeat(troupe: Troupe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "BEAT_AFTER", 0.1)
    with page_serving(troupe) as server, listening(server) as ear:
        ear.until(lambda: ear.names.count("beat") >= 2)


def test_one_stream_too_many_is_refused(troupe: Troupe) -> None:
    with page_serving(troupe, max_streams=1) as server, listening(server) as ear:
        ear.hear()
        refused = httpx.get(f"{server.url}/room/events")
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "too_many_streams"
        assert refused.headers["retry-after"]


def test_at_the_end_everybody_is_told_goodbye(troupe: Troupe) -> None:
    with page_serving(troupe) as server:
        with listening(server) as ear:
            ear.hear()
            server.call(live_of(server).end())
            while ear.hear():
                pass
            assert ear.names[-1] == "bye"
        assert httpx.get(f"{server.url}/room/events").json()["error"]["code"] == "draining"


def test_when_tokens_change_everybody_has_to_show_one_again(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as ear:
        ear.hear()
        tokens = (Token("boss", "b" * 20),)
        server.stage.config = replace(server.stage.config, tokens=tokens)
        while ear.hear():
            pass
        assert "bye" not in ear.names
        assert httpx.get(f"{server.url}/room/events").status_code == 401


def test_agents_that_use_all_threads_of_the_loop_keep_nobody_from_looking(troupe: Troupe) -> None:
    free = threading.Event()

    async def take_all_threads() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        loop.run_in_executor(None, free.wait)

    with page_serving(troupe) as server, listening(server) as ear:
        server.call(take_all_threads())
        try:
            assert ear.hear() == "room"
            for path in ("/room/state", "/metrics"):
                assert httpx.get(server.url + path).status_code == 200
            server.call(live_of(server).end())
            ear.until(lambda: ear.names[-1] == "bye")
        finally:
            free.set()


def test_a_drain_is_seen(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as ear:
        turn = later(server, "alice", "wait @door")
        ear.state("local/alice", "in turn")
        drain = asyncio.run_coroutine_threadsafe(server.stage.drain(PATIENCE), server.loop)
        ear.until(lambda: ear.room["draining"])
        troupe.door("door").open()
        assert drain.result(PATIENCE)
        turn.join(PATIENCE)
        ear.until(lambda: ear.names[-1] == "bye")


def test_the_state_can_be_had_once_and_searched(troupe: Troupe) -> None:
    with page_serving(troupe) as server:
        for name in ("alice", "bob", "Alina"):
            say(server, name)
        order(server, "commit", "bob")
        found = httpx.get(f"{server.url}/room/state", params={"text": "ALI"}).json()
        assert [row["key"] for row in found["sessions"]] == ["local/Alina", "local/alice"]
        assert (found["found"], found["total"]) == (2, 3)
        clean = httpx.get(f"{server.url}/room/state", params={"state": "dirty", "limit": 1}).json()
        assert (len(clean["sessions"]), clean["found"]) == (1, 2)
        wrong = httpx.get(f"{server.url}/room/state", params={"state": "happy"})
        assert wrong.status_code == 400
        assert "'happy'" in wrong.json()["error"]["message"]


def test_a_search_while_somebody_watches_costs_no_look_of_its_own(
    troupe: Troupe, monkeypatch: pytest.MonkeyPatch
) -> None:
    with page_serving(troupe) as server:
        say(server, "alice")
        with listening(server) as ear:
            ear.hear()
            monkeypatch.delattr(_live, "Survey")  # nobody makes another one
            found = httpx.get(f"{server.url}/room/state", params={"text": "alice"}).json()
            assert found["found"] == 1


def test_who_is_no_operator_sees_nothing(troupe: Troupe) -> None:
    tokens = (Token("boss", "b" * 20), Token("guest", "g" * 20, operator=False))
    with page_serving(troupe, tokens=tokens) as server:
        for path in ("/room/events", "/room/state", "/room/sessions/explain?key=boss/x"):
            headers = {"authorization": f"Bearer {'g' * 20}"}
            assert httpx.get(server.url + path, headers=headers).status_code == 403
            assert httpx.get(server.url + path).status_code == 401
