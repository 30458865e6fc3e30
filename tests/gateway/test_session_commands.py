"""The session commands, under `/v1/sessions`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from greenroom.gateway import _commands
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Door
from tests.gateway.clients import Play, playing, user

SESSIONS = "/v1/sessions"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store of the test's own."""
    return f"sqlite:///{tmp_path / 'x.db'}"


def say(play: Play, session: str, text: str = "a", **headers: str) -> None:
    body = {"messages": user(text), "metadata": {"session": session}}
    answer = play.http().post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text


def path_of(session: str, command: str = "") -> str:
    return f"{SESSIONS}/{quote(session, safe='')}{command}"


def error_of(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    error = answer.json()["error"]
    assert error["message"]
    return answer.status_code, error["code"], error["param"]


# Listing.


def _names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [session["id"] for session in answer.json()["data"]]


def test_sessions_are_listed_by_name_a_page_at_a_time() -> None:
    with playing() as play:
        http = play.http()
        for name in ("d", "b", "a", "c", "e"):
            say(play, name)
        page = http.get(SESSIONS, params={"limit": 2}).json()
        assert page["object"] == "list"
        assert [session["id"] for session in page["data"]] == ["a", "b"]
        assert (page["first_id"], page["last_id"], page["has_more"]) == ("a", "b", True)
        page = http.get(SESSIONS, params={"limit": 3, "after": "b"}).json()
        assert [session["id"] for session in page["data"]] == ["c", "d", "e"]
        assert page["has_more"] is False
        page = http.get(SESSIONS, params={"after": "e"}).json()
        assert (page["data"], page["first_id"], page["last_id"]) == ([], None, None)


def test_a_listed_session_has_its_figures() -> None:
    with playing() as play:
        say(play, "anna")
        say(play, "anna")
        (session,) = play.http().get(SESSIONS).json()["data"]
        assert (session["object"], session["state"], session["cached"]) == ("session", "idle", True)
        assert (session["turns"], session["uncommitted"], session["waiting"]) == (2, 2, 0)
        assert session["idle_seconds"] >= 0


def test_sessions_can_be_listed_by_state() -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        http = play.http()
        say(play, "idle")
        turn = pool.submit(say, play, "busy", "a @door")
        play.troupe.door("door").wait_reached()
        assert _names(http.get(SESSIONS, params={"state": "in turn"})) == ["busy"]
        assert _names(http.get(SESSIONS, params={"state": "idle"})) == ["idle"]
        assert error_of(http.get(SESSIONS, params={"state": "asleep"})) == (400, None, "state")
        play.troupe.open_all()
        turn.result(PATIENCE)


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"after": "x" * 201}, {"after": "\0"}]
)
def test_a_page_that_makes_no_sense_is_refused(query: dict[str, str]) -> None:
    with playing() as play:
        answer = play.http().get(SESSIONS, params=query)
        assert error_of(answer) == (400, None, next(iter(query)))


def test_sessions_that_only_the_store_has_are_listed_on_request(url: str) -> None:
    with playing(store=url) as play:
        for name in ("a", "b", "c", "d"):
            say(play, name)
    with playing(store=url, tenants=True) as play:
        http = play.http()
        say(play, "b")
        say(play, "bb")
        say(play, "x", **{"X-Tenant": "local2"})
        say(play, "x", **{"X-Tenant": "loca"})
        assert _names(http.get(SESSIONS)) == ["b", "bb"]
        everything = http.get(SESSIONS, params={"stored": "true"}).json()["data"]
        assert [session["id"] for session in everything] == ["a", "b", "bb", "c", "d"]
        assert [session["state"] for session in everything][::2] == ["stored", "idle", "stored"]
        assert everything[0]["turns"] == 1
        seen: list[str] = []
        more = True
        while more:
            query: dict[str, Any] = {"stored": "true", "limit": 2, "after": seen[-1] if seen else ""}
            page = http.get(SESSIONS, params=query).json()
            seen += [session["id"] for session in page["data"]]
            more = page["has_more"]
        assert seen == ["a", "b", "bb", "c", "d"]
        stored: dict[str, Any] = {"stored": "true", "state": "stored", "limit": 2}
        assert _names(http.get(SESSIONS, params=stored)) == ["a", "c"]
        assert _names(http.get(SESSIONS, params={**stored, "after": "c"})) == ["d"]
        assert _names(http.get(SESSIONS, params={"stored": "true", "state": "idle"})) == ["b", "bb"]


# Beginning.


def test_a_session_can_be_begun_before_its_first_turn(url: str) -> None:
    with playing(store=url) as play:
        http = play.http()
        answer = http.post(SESSIONS, json={"session": "anna", "metadata": {"color": "green"}})
        assert answer.status_code == 201
        begun = answer.json()
        assert (begun["id"], begun["object"], begun["turns"]) == ("anna", "session", 0)
        assert begun["metadata"] == {"color": "green"}
        assert _names(http.get(SESSIONS)) == ["anna"]
        say(play, "anna")
        shown = http.get(path_of("anna")).json()
        assert (shown["turns"], shown["metadata"]) == (1, {"color": "green"})


@pytest.mark.parametrize("sent", [{"json": {}}, {}])
def test_a_session_that_is_begun_without_a_name_gets_one(sent: dict[str, Any]) -> None:
    with playing() as play:
        names = {play.http().post(SESSIONS, **sent).json()["id"] for _ in range(2)}
        assert len(names) == 2
        assert all(name.startswith("chat-") for name in names)


def test_a_name_can_be_had_once(url: str) -> None:
    with playing(store=url) as play:
        http = play.http()
        say(play, "turned")
        assert http.post(SESSIONS, json={"session": "begun"}).status_code == 201
        for name in ("turned", "begun"):
            answer = http.post(SESSIONS, json={"session": name})
            assert error_of(answer) == (409, "session_exists", "session")
    with playing(store=url) as play:
        answer = play.http().post(SESSIONS, json={"session": "begun"})
        assert error_of(answer) == (409, "session_exists", "session")


def test_a_body_that_is_empty_may_be_of_any_kind() -> None:
    """`curl -d ''` says that it is a form."""
    with playing() as play:
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert play.http().post(SESSIONS, headers=form, content=b"").status_code == 201
        assert play.http().post(SESSIONS, headers=form, content=b"a=b").status_code == 400


def test_of_many_who_begin_the_same_session_one_does() -> None:
    with playing() as play, ThreadPoolExecutor(8) as pool:
        clients = [play.http() for _ in range(8)]
        answers = list(pool.map(lambda http: http.post(SESSIONS, json={"session": "anna"}), clients))
        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7


def test_a_name_that_is_taken_after_it_was_looked_for_is_refused_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nobody_knows(*_: object) -> bool:
        return False

    monkeypatch.setattr(_commands, "is_known", nobody_knows)
    with playing() as play:
        answers = [play.http().post(SESSIONS, json={"session": "anna"}) for _ in range(2)]
        assert answers[0].status_code == 201
        assert error_of(answers[1]) == (409, "session_exists", "session")


def test_a_session_that_the_store_could_not_take_can_be_begun_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with playing(store=url) as play:
        with monkeypatch.context() as patch:
            patch.setattr(play.stage.room.store, "create_session_soon", _failing)
            answer = play.http().post(SESSIONS, json={"session": "anna"})
            assert error_of(answer)[:2] == (503, "store_away")
            assert answer.headers["retry-after"]
        assert play.sessions() == {}
        assert play.http().post(SESSIONS, json={"session": "anna"}).status_code == 201


async def _failing(*_: object, **__: object) -> None:
    raise OSError("the disk is gone")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"session": ""}, "session"),
        ({"session": "x" * 201}, "session"),
        ({"session": "a\nb"}, "session"),
        ({"session": 7}, "session"),
        ({"previous": ""}, "previous"),
        ({"session": "anna", "previous": "anna"}, "previous"),
        ({"metadata": {"x": 1}}, "metadata.x"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_a_beginning_that_makes_no_sense_is_refused(body: dict[str, Any], param: str) -> None:
    with playing() as play:
        assert error_of(play.http().post(SESSIONS, json=body)) == (400, None, param)


def test_beginning_a_session_commits_the_previous_one_behind_the_answer() -> None:
    with playing() as play:
        http = play.http()
        say(play, "one")
        play.troupe.commit_door = Door()
        answer = http.post(SESSIONS, json={"session": "two", "previous": "one"})
        assert (answer.status_code, answer.json()["previous"]) == (201, "one")
        play.troupe.commit_door.wait_reached()
        assert play.troupe.committed == []
        say(play, "two")
        play.troupe.commit_door.open()
        play.wait_chores()
        assert play.troupe.committed == [("local/one", 1)]
        assert http.get(path_of("one")).json()["uncommitted"] == 0


def test_a_commit_at_the_boundary_that_fails_is_no_error_of_the_new_session() -> None:
    with playing() as play:
        say(play, "one")
        play.troupe.commit_error = RuntimeError("no")
        answer = play.http().post(SESSIONS, json={"session": "two", "previous": "one"})
        assert answer.status_code == 201
        play.wait_chores()
        play.troupe.commit_error = None


def test_a_session_cannot_follow_one_that_nobody_knows() -> None:
    with playing() as play:
        answer = play.http().post(SESSIONS, json={"session": "two", "previous": "one"})
        assert error_of(answer) == (404, "session_not_found", "previous")
        assert play.sessions() == {}


def test_sessions_that_are_begun_count_for_the_limit_of_sessions() -> None:
    with playing(max_sessions_per_token=2) as play:
        http = play.http()
        assert [http.post(SESSIONS).status_code for _ in range(2)] == [201, 201]
        answer = http.post(SESSIONS)
        assert error_of(answer) == (429, "too_many_sessions", None)
        assert answer.headers["retry-after"]


def test_while_the_server_drains_no_session_begins() -> None:
    with playing() as play:
        play.server.call(play.stage.drain(5.0))
        assert error_of(play.http().post(SESSIONS))[:2] == (503, "draining")


# Showing.


def test_a_session_is_shown_with_why_it_is_as_it_is() -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        turn = pool.submit(say, play, "anna", "a @door")
        play.troupe.door("door").wait_reached()
        shown = play.http().get(path_of("anna")).json()
        assert (shown["id"], shown["state"]) == ("anna", "in turn")
        assert shown["why"][0].startswith("Its agent is in a turn")
        play.troupe.open_all()
        turn.result(PATIENCE)


def test_a_session_that_only_the_store_has_is_shown(url: str) -> None:
    with playing(store=url) as play:
        say(play, "anna")
    with playing(store=url) as play:
        shown = play.http().get(path_of("anna")).json()
        assert (shown["state"], shown["turns"], shown["cached"]) == ("stored", 1, False)
        assert shown["messages"] == 0
        assert "not in memory" in shown["why"][0]
        assert play.sessions() == {}


def test_what_went_wrong_inside_is_shown_to_operators_only() -> None:
    with playing(tenants=True) as play:
        say(play, "anna")
        play.troupe.commit_error = RuntimeError("a secret")
        for headers, told in (({}, False), ({"X-Operator": "1"}, True)):
            http = play.http(headers=headers)
            answer = http.post(path_of("anna", "/commit"))
            assert error_of(answer)[:2] == (502, "commit_failed")
            assert ("secret" in answer.text) is told
            shown = http.get(path_of("anna"))
            assert ("secret" in shown.text) is told
            assert (shown.json()["figures"] is not None) is told
        play.troupe.commit_error = None


COMMANDS = [("GET", ""), ("DELETE", ""), ("POST", "/commit"), ("POST", "/evict"), ("POST", "/interrupt")]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("method", "command"), [*COMMANDS, ("DELETE", "?forget=true")])
def test_a_session_that_nobody_knows_is_not_found(
    method: str, command: str, stored: bool, url: str
) -> None:
    with playing(store=url if stored else None) as play:
        answer = play.http().request(method, path_of("nobody", command))
        assert error_of(answer) == (404, "session_not_found", "session")
        assert play.sessions() == {}


# Commands.


def test_a_commit_is_waited_for_and_says_what_it_came_to() -> None:
    with playing() as play:
        http = play.http()
        say(play, "anna")
        say(play, "anna")
        done = http.post(path_of("anna", "/commit")).json()
        assert (done["id"], done["outcome"], done["committed"], done["left"]) == (
            "anna",
            "committed",
            2,
            0,
        )
        assert play.troupe.committed == [("local/anna", 2)]
        assert http.post(path_of("anna", "/commit")).json()["outcome"] == "nothing"


def test_a_commit_that_takes_longer_than_is_waited_for_goes_on() -> None:
    with playing() as play:
        http = play.http()
        say(play, "anna")
        play.troupe.commit_door = Door()
        done = http.post(path_of("anna", "/commit"), params={"timeout": 0.01}).json()
        assert (done["outcome"], done["left"]) == ("pending", 1)
        play.troupe.commit_door.open()
        assert http.post(path_of("anna", "/commit")).json()["left"] == 0
        assert play.troupe.committed == [("local/anna", 1)]


@pytest.mark.parametrize("timeout", ["-1", "nan", "inf", "x"])
def test_a_time_to_wait_that_is_none_is_refused(timeout: str) -> None:
    with playing() as play:
        say(play, "anna")
        answer = play.http().post(path_of("anna", "/commit"), params={"timeout": timeout})
        assert error_of(answer) == (400, None, "timeout")


def test_an_evicted_session_stays_and_is_built_again() -> None:
    with playing() as play:
        http = play.http()
        say(play, "anna")
        assert http.post(path_of("anna", "/evict")).json()["evicted"] is True
        assert play.sessions() == {"local/anna": "known"}
        assert http.post(path_of("anna", "/evict")).json()["evicted"] is False
        say(play, "anna")
        assert play.troupe.built == ["local/anna"] * 2
        assert play.turns("local/anna") == 2


def test_a_turn_can_be_interrupted() -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        http, body = play.http(), {"messages": user("a @door"), "user": "anna"}
        turn = pool.submit(play.http().post, "/v1/chat/completions", json=body)
        play.troupe.door("door").wait_reached()
        assert http.post(path_of("anna", "/interrupt")).json()["interrupted"] is True
        assert error_of(turn.result(PATIENCE)) == (409, "interrupted", None)
        assert http.post(path_of("anna", "/interrupt")).json()["interrupted"] is False
        assert play.turns("local/anna") == 0


def test_an_ended_session_is_gone_from_the_room_and_stays_in_the_store(url: str) -> None:
    with playing(store=url) as play:
        http = play.http()
        say(play, "anna")
        ended = http.delete(path_of("anna")).json()
        assert (ended["id"], ended["ended"], ended["forgotten"]) == ("anna", True, False)
        assert play.sessions() == {}
        assert play.troupe.closed == ["local/anna"]
        assert play.troupe.committed == [("local/anna", 1)]
        assert http.get(path_of("anna")).json()["state"] == "stored"
        assert http.delete(path_of("anna")).json()["ended"] is False


def test_ending_a_session_waits_for_its_turn_unless_it_is_interrupted() -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        http, body = play.http(), {"messages": user("a @door"), "user": "anna"}
        turn = pool.submit(play.http().post, "/v1/chat/completions", json=body)
        play.troupe.door("door").wait_reached()
        assert http.delete(path_of("anna")).json()["ended"] is True
        assert http.get(path_of("anna")).json()["state"] == "in turn"
        ended = http.delete(path_of("anna"), params={"interrupt": "true"}).json()
        assert (ended["ended"], ended["interrupted"]) == (True, True)
        assert error_of(turn.result(PATIENCE))[:2] == (409, "interrupted")
        assert play.sessions() == {}


def test_a_forgotten_session_leaves_nothing_in_the_store(url: str) -> None:
    with playing(store=url) as play:
        http, store = play.http(), play.stage.room.store
        say(play, "anna")
        say(play, "berta")
        store.append("local/anna", role="user", content="remember me")
        ended = http.delete(path_of("anna"), params={"forget": "true"}).json()
        assert (ended["ended"], ended["forgotten"]) == (True, True)
        assert play.stored() == ["local/berta"]
        assert play.troupe.committed == [("local/anna", 1)]
        assert error_of(http.get(path_of("anna")))[:2] == (404, "session_not_found")
        http.delete(path_of("berta"))
        assert play.sessions() == {}
        ended = http.delete(path_of("berta"), params={"forget": "true"}).json()
        assert (ended["ended"], ended["forgotten"]) == (False, True)
        assert play.stored() == []


def test_a_session_is_not_forgotten_before_its_turn_has_ended(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_commands, "PATIENCE", 0.01)
    with playing(store=url) as play, ThreadPoolExecutor() as pool:
        turn = pool.submit(say, play, "anna", "a @door")
        play.troupe.door("door").wait_reached()
        ended = play.http().delete(path_of("anna"), params={"forget": "true"}).json()
        assert (ended["ended"], ended["forgotten"]) == (True, False)
        assert [row.session_id for row in play.stage.room.store.sessions()] == ["local/anna"]
        play.troupe.open_all()
        turn.result(PATIENCE)
        assert play.stored() == []


# Names.

NAMES = [
    "a/b",
    "a b",
    "/",
    "a/",
    "/a",
    "..",
    "../berta/x",
    "%2e%2e%2fberta%2fx",
    "%2F",
    "чат 🎭",
    "a?b#c",
    "a/commit",
    "commit",
    "berta/x",
    "local/x",
    "100%",
    "a+b",
    "'; DROP TABLE greenroom_sessions; --",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_commanded(name: str, url: str) -> None:
    with playing(store=url) as play:
        http = play.http()
        say(play, name)
        assert _names(http.get(SESSIONS)) == [name]
        # `..` alone would be taken out of a path by the client, before the server sees it.
        if name == "..":
            return
        assert http.get(path_of(name)).json()["id"] == name
        assert http.post(path_of(name, "/commit")).json()["committed"] == 1
        assert http.post(path_of(name, "/interrupt")).json()["interrupted"] is False
        assert http.post(path_of(name, "/evict")).json()["evicted"] is True
        assert http.delete(path_of(name), params={"forget": "true"}).json()["forgotten"] is True
        assert play.stored() == []


@pytest.mark.parametrize(
    "session", ["x", "../anna/x", "anna/x", "/anna/x", "..%2Fanna%2Fx", "%2e%2e/anna/x"]
)
@pytest.mark.parametrize(("method", "command"), COMMANDS)
def test_no_name_reaches_the_sessions_of_another(method: str, command: str, session: str) -> None:
    with playing(tenants=True) as play:
        say(play, "x", **{"X-Tenant": "anna"})
        berta = play.http(headers={"X-Tenant": "berta"})
        for path in (path_of(session, command), f"{SESSIONS}/{session}{command}"):
            raw = httpx.URL(play.server.url).copy_with(raw_path=path.encode())
            answer = berta.request(method, raw)
            assert error_of(answer)[0] in (400, 404, 405)
        assert _names(berta.get(SESSIONS)) == []
        assert _names(berta.get(SESSIONS, params={"after": "../anna/"})) == []
        assert play.sessions() == {"local/x".replace("local", "anna"): "idle"}
        assert play.troupe.committed == []


def test_each_has_sessions_of_the_same_name() -> None:
    with playing(tenants=True) as play:
        for tenant in ("anna", "berta"):
            say(play, "x", **{"X-Tenant": tenant})
        berta = play.http(headers={"X-Tenant": "berta"})
        assert berta.delete(path_of("x")).json()["ended"] is True
        assert play.sessions() == {"anna/x": "idle"}


def test_an_empty_name_is_refused() -> None:
    with playing() as play:
        for method, path in (("GET", "/"), ("DELETE", "/"), ("POST", "//commit"), ("GET", "/%00")):
            answer = play.http().request(method, f"{SESSIONS}{path}")
            assert error_of(answer) == (400, None, "session")


# The description.


def test_the_description_names_every_command_and_what_it_answers() -> None:
    with playing() as play:
        paths = play.http().get("/openapi.json").json()["paths"]
        commands = {
            (method, path.removeprefix(SESSIONS))
            for path, methods in paths.items()
            if path.startswith(SESSIONS)
            for method in methods
        }
        assert commands == {
            ("get", ""),
            ("post", ""),
            ("get", "/{session}"),
            ("delete", "/{session}"),
            ("post", "/{session}/commit"),
            ("post", "/{session}/evict"),
            ("post", "/{session}/interrupt"),
        }
        shown = paths[f"{SESSIONS}/{{session}}"]["get"]["responses"]["200"]["content"]
        assert shown["application/json"]["schema"] == {"$ref": "#/components/schemas/SessionShown"}


def test_after_the_end_of_the_server_every_command_says_so() -> None:
    with playing() as play:
        play.stage.close()
        http = play.http()
        assert error_of(http.post(SESSIONS))[:2] == (503, "draining")
        assert error_of(http.post(path_of("x", "/interrupt")))[:2] == (503, "draining")
        assert http.get(path_of("x")).status_code == 404
        assert _names(http.get(SESSIONS)) == []
