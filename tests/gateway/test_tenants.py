"""No path, header, field or id leads from one token to another's sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from greenroom.gateway._naming import new_response_id
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.guarded import ANNA, BERT, TOKENS, bearer
from tests.gateway.raw import Answer, ask, chat
from tests.gateway.serving import Serving, serving

HERS = "diary"

NAMES = [
    HERS,
    f"anna/{HERS}",
    f"/anna/{HERS}",
    f"../anna/{HERS}",
    f"bert/../anna/{HERS}",
    f"..%2fanna%2f{HERS}",
    f"%2e%2e/anna/{HERS}",
    f"..\\anna\\{HERS}",
    f"anna\uff0f{HERS}",
    f"./{HERS}",
    "../anna",
    "..",
    "*",
    "anna/%",
]
"""What Bert may call a session in the hope that it is Anna's."""

UNPRINTABLE = [f"anna/{HERS}\0", f"x\r\nX-Greenroom-Session: anna/{HERS}", f"\u202eanna/{HERS}"]


def fields_for(name: str) -> list[dict[str, Any]]:
    """The fields of a body that may name a session."""
    return [{"user": name}, {"metadata": {"session": name}}, {"metadata": {"session_id": name}}]


class World:
    """A server where Anna has a session with one turn, and somebody who knows that."""

    def __init__(self, server: Serving, troupe: Troupe) -> None:
        self.port = server.port
        self.stage = server.stage
        self.troupe = troupe
        assert self.ask_chat(ANNA, "dear diary", session=HERS).status == 200
        self._before = self.hers()

    def ask_chat(self, token: Any, text: str, *, session: str | None = None, **fields: Any) -> Answer:
        headers = {**bearer(token), "Content-Type": "application/json"}
        if session is not None:
            headers["X-Greenroom-Session"] = session
        return ask(self.port, "POST", "/v1/chat/completions", headers, chat(text, **fields))

    def post(self, path: str, fields: dict[str, Any] | None = None) -> Answer:
        headers = {**bearer(BERT), "Content-Type": "application/json"}
        return ask(self.port, "POST", path, headers, json.dumps(fields or {}).encode())

    def hers(self) -> Any:
        """Her session, but for how long it has not been used."""
        (row,) = [row for row in self.stage.room.snapshot() if row.key == f"anna/{HERS}"]
        return (row.state, row.generation, row.committed, row.cached)

    def check(self) -> None:
        """Bert has built nothing but his own, and Anna's session is as it was."""
        assert self.troupe.built.count(f"anna/{HERS}") == 1
        assert {key.partition("/")[0] for key in self.troupe.built} <= {"anna", "bert"}
        assert self.hers() == self._before


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    troupe = Troupe()
    with serving(troupe, tokens=TOKENS, store=f"sqlite:///{tmp_path / 'room.db'}") as server:
        yield World(server, troupe)


def test_one_name_is_two_sessions_for_two_tokens(world: World) -> None:
    assert "1: hello" in world.ask_chat(ANNA, "hello", session="letters").body.decode()
    assert "1: hello" in world.ask_chat(BERT, "hello", session="letters").body.decode()
    assert "2: again" in world.ask_chat(ANNA, "again", session="letters").body.decode()


def test_no_name_of_a_session_leads_to_anothers(world: World) -> None:
    for name in NAMES:
        if name.isascii():
            world.ask_chat(BERT, "mine now?", session=name)
        for fields in fields_for(name):
            assert world.ask_chat(BERT, "mine now?", **fields).status == 200, name
    world.check()


def test_what_cannot_be_printed_is_no_name(world: World) -> None:
    for name in UNPRINTABLE:
        for fields in fields_for(name):
            assert world.ask_chat(BERT, "mine now?", **fields).status == 400
    world.check()


def test_no_header_changes_who_calls(world: World) -> None:
    headers = {
        "X-Forwarded-User": "anna",
        "X-Greenroom-Tenant": "anna",
        "X-Tenant": "anna",
        "Forwarded": "for=anna",
        "Cookie": "greenroom=anna.9999999999.00",
        "OpenAI-Organization": "anna",
        **bearer(BERT),
        "Content-Type": "application/json",
        "X-Greenroom-Session": HERS,
    }
    assert ask(world.port, "POST", "/v1/chat/completions", headers, chat("hello")).status == 200
    assert world.troupe.built[-1] == f"bert/{HERS}"
    world.check()


def test_no_path_leads_a_command_to_anothers_session(world: World) -> None:
    for name in NAMES:
        for written in {quote(name, safe=""), quote(name), quote(quote(name, safe=""), safe="")}:
            path = f"/v1/sessions/{written}"
            assert ask(world.port, "GET", path, bearer(BERT)).status == 404, path
            for command in ("commit", "evict", "interrupt"):
                assert world.post(f"{path}/{command}").status == 404, path
            for more in ("?interrupt=true", "?forget=true"):
                assert ask(world.port, "DELETE", path + more, bearer(BERT)).status == 404, path
    world.check()


def test_nobody_sees_anothers_sessions_in_a_list(world: World) -> None:
    world.ask_chat(BERT, "hello", session="his")
    for after in ("", "../anna/", "anna/", "0"):
        path = f"/v1/sessions?limit=1000&stored=true&after={quote(after)}"
        answer = ask(world.port, "GET", path, bearer(BERT))
        assert [session["id"] for session in answer.json["data"]] == ["his"]


def test_no_session_can_follow_anothers(world: World) -> None:
    for name in NAMES:
        assert world.post("/v1/sessions", {"session": "his", "previous": name}).status < 500
    world.check()


def test_no_response_can_be_continued_by_another(world: World) -> None:
    for name in NAMES:
        answer = world.post(
            "/v1/responses", {"input": "and?", "previous_response_id": new_response_id(name)}
        )
        assert answer.status == 404, (name, answer)
    world.check()
    for name in NAMES:
        assert world.post("/v1/responses", {"input": "hello", "conversation": name}).status == 200
    world.check()


def test_the_operators_own_paths_are_closed_to_others(world: World) -> None:
    for path in ("state", "events", "sessions/explain", "sessions/end", "sessions/commit"):
        for more in ("", f"?key=anna/{HERS}"):
            assert ask(world.port, "GET", f"/room/{path}{more}", bearer(BERT)).status == 403
            assert world.post(f"/room/{path}{more}", {"key": f"anna/{HERS}"}).status == 403
    world.check()
