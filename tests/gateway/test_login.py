"""The login: how a browser gets a cookie for a token, and what that is good for."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from http.cookies import Morsel, SimpleCookie
from urllib.parse import urlencode

import pytest

from greenroom.gateway.config._config import Config, Token
from greenroom.gateway.guard._keys import COOKIE, LIFETIME, Keys
from greenroom.gateway.guard._login import Attempts
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.guarded import ANNA, BERT, CHIEF, TOKENS, Guarded, guarded
from tests.gateway.raw import Answer, ask, connect, request
from tests.room.agents import until

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Guarded]:
    """One server for all: in all these tests together it sees fewer wrong tokens than it takes."""
    with guarded(Troupe(), tokens=TOKENS, allowed_origins=("https://chat.example.org",)) as server:
        yield server


def log_in(server: Guarded, secret: str, **headers: str) -> Answer:
    body = json.dumps({"token": secret}).encode()
    return ask(server.port, "POST", "/login", {**JSON, **headers}, body)


def morsel(answer: Answer) -> Morsel[str]:
    return SimpleCookie(answer.headers["set-cookie"])[COOKIE]


def cookie(answer: Answer) -> dict[str, str]:
    return {"Cookie": f"other=1; {COOKIE}={morsel(answer).value}; more=2"}


def models(server: Guarded, headers: dict[str, str]) -> int:
    return ask(server.port, "GET", "/v1/models", headers).status


def test_a_token_is_exchanged_for_a_cookie_that_does_as_well(shared: Guarded) -> None:
    answer = log_in(shared, CHIEF.secret)
    assert (answer.status, answer.json) == (200, {"needed": True, "who": "chief", "operator": True})
    assert models(shared, cookie(answer)) == 200


def test_scripts_and_other_sites_do_not_get_the_cookie(shared: Guarded) -> None:
    one = morsel(log_in(shared, ANNA.secret))
    assert (one["httponly"], one["samesite"].lower(), one["path"]) == (True, "strict", "/")
    assert one["max-age"] == str(LIFETIME) == str(12 * 3600)
    assert not one["domain"]
    assert ANNA.secret not in one.value


def test_the_cookie_stays_with_tls_if_the_browser_speaks_it(shared: Guarded) -> None:
    assert not morsel(log_in(shared, ANNA.secret))["secure"]
    assert not morsel(log_in(shared, ANNA.secret, Origin="http://localhost"))["secure"]
    assert morsel(log_in(shared, ANNA.secret, Origin="https://localhost"))["secure"]


def test_a_form_does_as_well_and_leads_to_the_page(shared: Guarded) -> None:
    body = urlencode({"token": ANNA.secret}).encode()
    answer = ask(shared.port, "POST", "/login", FORM, body)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert models(shared, cookie(answer)) == 200


def test_the_page_is_told_whether_a_login_is_needed_and_who_it_is(shared: Guarded) -> None:
    def state(headers: dict[str, str]) -> object:
        return ask(shared.port, "GET", "/login/state", headers).json

    assert state({}) == {"needed": True, "who": None, "operator": False}
    assert state(cookie(log_in(shared, ANNA.secret))) == {
        "needed": True,
        "who": "anna",
        "operator": False,
    }
    with guarded(Troupe()) as alone:
        assert ask(alone.port, "GET", "/login/state").json == {
            "needed": False,
            "who": "local",
            "operator": True,
        }
        answer = log_in(alone, "anything")
        assert (answer.status, "set-cookie" in answer.headers) == (200, False)


def test_logging_out_takes_the_cookie_away(shared: Guarded) -> None:
    answer = ask(shared.port, "POST", "/logout", cookie(log_in(shared, ANNA.secret)))
    assert answer.status == 204
    assert (morsel(answer).value, morsel(answer)["max-age"]) == ("", "0")


@pytest.mark.parametrize(
    "secret", ["", "anna", ANNA.secret[:-1], f"{ANNA.secret} ", f"Bearer {ANNA.secret}"]
)
def test_a_wrong_token_gets_no_cookie(shared: Guarded, secret: str) -> None:
    answer = log_in(shared, secret)
    assert (answer.status, answer.code) == (401, "invalid_api_key")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b'{"token": 1}', b'{"token": "\xc3\xa9"}', b"\xff", b"[" * 5000, b'"', b"{}"],
)
@pytest.mark.parametrize("kind", [JSON, FORM])
def test_what_is_no_login_is_refused(shared: Guarded, body: bytes, kind: dict[str, str]) -> None:
    assert ask(shared.port, "POST", "/login", kind, body).status == 400


def test_a_login_is_no_place_for_a_large_body(shared: Guarded) -> None:
    assert log_in(shared, "x" * 10_000).status == 413


def test_another_page_cannot_log_a_browser_in(shared: Guarded) -> None:
    assert log_in(shared, ANNA.secret, Origin="https://evil.example").status == 403


def test_the_cookie_is_for_our_own_page(shared: Guarded) -> None:
    """A browser sends it to all ports of a host, whoever's page asks."""
    have = cookie(log_in(shared, CHIEF.secret))
    assert models(shared, {**have, "Origin": "http://localhost"}) == 200
    assert models(shared, {**have, "Origin": "http://localhost:3000"}) == 403
    assert models(shared, {**have, "Sec-Fetch-Site": "same-site"}) == 403
    assert models(shared, {**have, "Origin": "https://chat.example.org"}) == 401


def test_a_cookie_does_not_help_a_wrong_token(shared: Guarded) -> None:
    have = cookie(log_in(shared, CHIEF.secret))
    assert models(shared, {**have, "Authorization": "Bearer wrong"}) == 401


def test_no_token_is_logged(shared: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        value = morsel(log_in(shared, CHIEF.secret)).value
        log_in(shared, "almost-a-right-token")
        models(shared, {"Cookie": f"{COOKIE}={value}"})
    assert "/login 200" in caplog.text
    for secret in (CHIEF.secret, "almost-a-right-token", value):
        assert secret not in caplog.text


# What is in the cookie.


def keys(*tokens: Token) -> Keys:
    return Keys(Config(tokens=tokens))


def held(value: str) -> bytes:
    return f"{COOKIE}={value}".encode()


def test_a_cookie_is_good_until_it_is_not() -> None:
    value = keys(ANNA).cookie(ANNA, 1000)
    assert keys(ANNA, BERT).caller_of_cookie(held(value), 999.0) == keys(ANNA).caller(ANNA)
    assert keys(ANNA).caller_of_cookie(held(value), 1000.0) is None


def test_a_cookie_ends_with_its_token() -> None:
    value = held(keys(ANNA).cookie(ANNA, 1000))
    assert keys(replace(ANNA, secret="another-secret-of-anna")).caller_of_cookie(value, 0.0) is None
    assert keys(BERT).caller_of_cookie(value, 0.0) is None


def test_a_cookie_says_what_its_token_may_do_now() -> None:
    value = held(keys(CHIEF).cookie(CHIEF, 1000))
    caller = keys(replace(CHIEF, operator=False)).caller_of_cookie(value, 0.0)
    assert caller is not None
    assert not caller.operator


def test_nothing_of_a_cookie_can_be_changed() -> None:
    good = keys(*TOKENS).cookie(ANNA, 1000)
    _, until, mac = good.split(".")
    changed = [
        f"chief.{until}.{mac}",
        f"anna.9999.{mac}",
        f"anna.{until}.{mac[:-1]}",
        f"anna.{until}.",
        f"anna.{until}.{mac}.{mac}",
        f"anna.x.{mac}",
        f"anna..{mac}",
        ".." + good,
        "",
        "." * 100,
        good + "x" * 300,
        "anna.\xb2." + mac,
    ]
    for value in changed:
        assert keys(*TOKENS).caller_of_cookie(held(value), 0.0) is None, value


# Guessing.


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_whoever_guesses_has_to_wait() -> None:
    with guarded(Troupe(), tokens=TOKENS) as server:
        assert [log_in(server, "a-wrong-one").status for _ in range(10)] == [401] * 10
        for secret in ("a-wrong-one", ANNA.secret):
            answer = log_in(server, secret)
            assert (answer.status, answer.code) == (429, "too_many_attempts")
            assert 0 < int(answer.headers["retry-after"]) <= 60


def test_guessing_many_times_at_once_does_not_help() -> None:
    body = json.dumps({"token": "a-wrong-one"}).encode()
    with guarded(Troupe(), tokens=TOKENS) as server, contextlib.ExitStack() as stack:
        before = server.tasks()
        clients = [stack.enter_context(connect(server.port)) for _ in range(15)]
        for client in clients:
            client.send(request("POST", "/login", JSON, body)[:-1])
        until(lambda: server.connections == 15, "not all are connected")
        until(lambda: server.tasks() == before + 15, "not all wait for the rest of their bodies")
        answers: list[int] = []
        for client in clients:
            client.send(body[-1:])
            answers.append(client.answer().status)
        assert answers == [401] * 10 + [429] * 5


def test_right_tokens_are_not_counted(shared: Guarded) -> None:
    assert {log_in(shared, ANNA.secret).status for _ in range(15)} == {200}


def test_attempts_are_counted_for_a_minute_and_for_each_address() -> None:
    clock = Clock()
    attempts = Attempts(allowed=2, seconds=60.0, clock=clock)
    attempts.note_wrong("10.0.0.1")
    assert attempts.wait("10.0.0.1") == 0.0
    clock.now += 20.0
    attempts.note_wrong("10.0.0.1")
    assert attempts.wait("10.0.0.1") == 40.0
    assert attempts.wait("10.0.0.2") == 0.0
    clock.now += 40.0
    assert attempts.wait("10.0.0.1") == 0.0
    attempts.note_wrong("10.0.0.1")
    assert attempts.wait("10.0.0.1") == 0.0


def test_one_half_of_the_addresses_of_ipv6_counts_as_one() -> None:
    attempts = Attempts(allowed=1)
    attempts.note_wrong("2001:db8::1")
    attempts.note_wrong("fe80::1%eth0")
    assert attempts.wait("2001:db8::ffff:2")
    assert attempts.wait("fe80::2")
    assert not attempts.wait("2001:db8:0:1::1")


def test_only_so_many_addresses_are_remembered() -> None:
    attempts = Attempts(allowed=1, addresses=100)
    for number in range(1000):
        attempts.note_wrong(f"10.0.{number // 250}.{number % 250}")
    assert len(attempts) == 100
    assert attempts.wait("10.0.3.249")
