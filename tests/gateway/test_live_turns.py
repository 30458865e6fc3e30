"""Who asks for it is told of every turn: warm ones, too. Nobody else is."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from greenroom.gateway import Token
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.listening import Ear, listening
from tests.gateway.page_serving import live_of, page_serving
from tests.gateway.serving import Serving
from tests.gateway.test_live import later, order, say


class TurnEar(Ear):
    """Hears of turns as well."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        super().__init__(response)
        self.turns: list[dict[str, Any]] = []

    def _take(self, name: str, data: Any) -> None:
        super()._take(name, data)
        if name == "turns":
            self.turns += data


@contextlib.contextmanager
def listening_to_turns(server: Serving) -> Iterator[TurnEar]:
    """Listen while the block runs; the whole room has been heard."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/room/events?turns=1")
        response = connection.getresponse()
        assert response.status == 200, response.read()
        with contextlib.closing(response):
            ear = TurnEar(response)
            assert ear.hear() == "room"
            yield ear


@pytest.fixture
def troupe() -> Iterator[Troupe]:
    """Agents, whose doors are open in the end."""
    troupe = Troupe()
    yield troupe
    troupe.open_all()


def kinds(ear: TurnEar) -> list[tuple[str, str]]:
    """What was heard of turns, in short."""
    return [
        (turn["key"], "end" if "reason" in turn else "over" if "seconds" in turn else "began")
        for turn in ear.turns
    ]


def test_every_turn_is_told_and_the_end_of_a_session(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening_to_turns(server) as ear:
        say(server, "alice")
        say(server, "alice")
        say(server, "bob")
        order(server, "end", "alice")
        ear.until(lambda: len(ear.turns) == 7)
        assert kinds(ear) == [
            ("local/alice", "began"),
            ("local/alice", "over"),
            ("local/alice", "began"),
            ("local/alice", "over"),
            ("local/bob", "began"),
            ("local/bob", "over"),
            ("local/alice", "end"),
        ]
        moments = [turn["at"] for turn in ear.turns]
        assert moments == sorted(moments)
        assert all(turn["seconds"] >= 0 for turn in ear.turns if "seconds" in turn)
        assert ear.turns[-1]["reason"] == "explicit"


def test_a_turn_is_told_when_it_begins_and_again_when_it_is_over(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening_to_turns(server) as ear:
        turn = later(server, "alice", "wait @door")
        ear.until(lambda: kinds(ear) == [("local/alice", "began")])
        troupe.door("door").open()
        ear.until(lambda: kinds(ear) == [("local/alice", "began"), ("local/alice", "over")])
        turn.join(PATIENCE)


def test_a_turn_that_failed_is_over_too(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening_to_turns(server) as ear:
        assert say(server, "alice", "confidential !boom").status_code == 500
        ear.until(lambda: len(ear.turns) == 2)
        assert kinds(ear) == [("local/alice", "began"), ("local/alice", "over")]
        assert "confidential" not in json.dumps(ear.turns)


def test_who_did_not_ask_is_not_told(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as other, listening_to_turns(server) as ear:
        other.hear()
        say(server, "alice")
        say(server, "alice")
        ear.until(lambda: len(ear.turns) == 4)
        other.heard("build", "local/alice")
        order(server, "end", "alice")
        other.heard("end", "local/alice")
        assert "turns" not in other.names


def test_nothing_is_kept_when_nobody_asks(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening(server) as other:
        other.hear()
        with listening_to_turns(server) as ear:
            say(server, "alice")
            ear.until(lambda: len(ear.turns) == 2)
        live = live_of(server)
        say(server, "bob")
        other.until(lambda: not live._turn_streams)
        before = len(live._turned)
        say(server, "bob")
        assert len(live._turned) <= before


def test_the_last_turns_are_told_before_the_goodbye(troupe: Troupe) -> None:
    with page_serving(troupe) as server, listening_to_turns(server) as ear:

        async def note_and_end() -> None:
            live = live_of(server)
            live._turned.append({"key": "local/late", "at": 1.0})
            await live.end()

        server.call(note_and_end())
        while ear.hear():
            pass
        assert ear.names[-2:] == ["turns", "bye"]
        assert ear.turns == [{"key": "local/late", "at": 1.0}]


def test_a_wrong_value_is_refused_with_what_is_right(troupe: Troupe) -> None:
    with page_serving(troupe) as server:
        wrong = httpx.get(f"{server.url}/room/events?turns=maybe")
        assert wrong.status_code == 400
        assert "turns must be 1 (to be told of every turn) or 0, not 'maybe'" in wrong.text


def test_only_an_operator_is_told_of_turns(troupe: Troupe) -> None:
    tokens = (Token("boss", "b" * 20), Token("guest", "g" * 20, operator=False))
    with page_serving(troupe, tokens=tokens) as server:
        headers = {"authorization": f"Bearer {'g' * 20}"}
        assert httpx.get(f"{server.url}/room/events?turns=1", headers=headers).status_code == 403
        assert httpx.get(f"{server.url}/room/events?turns=1").status_code == 401
