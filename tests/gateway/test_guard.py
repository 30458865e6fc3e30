"""The guard: who is let in, under which name, from which page, with how much."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from greenroom.gateway.config._config import Config, Token
from greenroom.gateway.guard._hosts import Hosts
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.guarded import ANNA, CHIEF, TOKENS, Guarded, bearer, guarded
from tests.gateway.raw import Answer, ask, chat, connect, request
from tests.room.agents import until

PAGE = "https://chat.example.org"


class Thing(BaseModel):
    a: str


def probes(app: FastAPI) -> None:
    """Routes that tell what reaches them."""

    @app.api_route("/v1/probe", methods=["GET", "POST"], include_in_schema=False)
    async def probe(request: Request) -> dict[str, Any]:
        state = request.scope["state"]
        return {
            "tenant": state["caller"].tenant,
            "operator": state["caller"].operator,
            "id": state["request_id"],
            "size": len(await request.body()),
        }

    @app.get("/page/probe.css", include_in_schema=False)
    @app.get("/healthz", include_in_schema=False)
    @app.get("/room/probe", include_in_schema=False)
    @app.get("/metrics", include_in_schema=False)
    async def nothing() -> Response:
        return Response("here")

    @app.post("/v1/thing")
    async def thing(thing: Thing) -> Response:
        return Response(thing.a)

    @app.get("/v1/fails")
    async def fails() -> Response:
        raise LookupError("a secret of the server's")

    @app.get("/v1/kept")
    async def kept() -> Response:
        return Response(headers={"cache-control": "max-age=60", "content-security-policy": "sandbox"})


@pytest.fixture(scope="module")
def alone() -> Iterator[Guarded]:
    """A server without tokens."""
    with guarded(Troupe(), add=probes, max_body=2048, max_header=2048, body_timeout=30.0) as server:
        yield server


@pytest.fixture(scope="module")
def shared() -> Iterator[Guarded]:
    """A server with tokens, and a page elsewhere that may call it."""
    config: dict[str, Any] = {"tokens": TOKENS, "allowed_origins": (PAGE,)}
    config["allowed_hosts"] = ("room.example.org",)
    with guarded(Troupe(), add=probes, **config) as server:
        yield server


# Request ids.


def test_a_request_keeps_the_id_that_its_client_gave_it(alone: Guarded) -> None:
    answer = ask(alone.port, "GET", "/v1/probe", {"X-Request-Id": "my-id_1.2"})
    assert answer.json["id"] == answer.headers["x-request-id"] == "my-id_1.2"


@pytest.mark.parametrize("wanted", ["", "a b", "x" * 129, "é", "a;b"])
def test_an_id_that_makes_no_sense_is_replaced(alone: Guarded, wanted: str) -> None:
    answer = ask(alone.port, "GET", "/v1/probe", {"X-Request-Id": wanted})
    assert answer.json["id"] == answer.headers["x-request-id"]
    assert answer.json["id"].startswith("req_")


def test_no_two_requests_have_the_same_id(alone: Guarded) -> None:
    assert ask(alone.port, "GET", "/v1/probe").json != ask(alone.port, "GET", "/v1/probe").json


def test_what_is_refused_has_an_id_as_well(shared: Guarded) -> None:
    assert ask(shared.port, "GET", "/v1/probe", {"X-Request-Id": "me"}).headers["x-request-id"] == "me"


# The access log.


def find(caplog: pytest.LogCaptureFixture, begin: str, end: str) -> bool:
    lines = [record.getMessage() for record in caplog.records if "access" in record.name]
    return any(line.startswith(begin) and line.endswith(end) for line in lines)


def test_each_request_leaves_a_line_without_its_query_or_its_token(
    shared: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "greenroom.gateway.access"):
        ask(shared.port, "GET", "/v1/probe?token=hush", bearer(ANNA))
        ask(shared.port, "GET", "/v1/probe%0aforged", bearer(CHIEF))
        # The line is written when the answer has been sent; that of another test's may come in between.
        until(lambda: find(caplog, "GET /v1/probe 200 ", " ms anna"), "the first line")
        until(lambda: find(caplog, "GET /v1/probe%0aforged 404 ", " ms chief"), "the second line")
    assert "hush" not in caplog.text
    assert ANNA.secret not in caplog.text


# Hosts.


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8765", "[::1]", "[0:0::1]:80", "localhost."],
)
def test_names_of_loopback_are_answered_to(alone: Guarded, host: str) -> None:
    assert ask(alone.port, "GET", "/v1/probe", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "localhost.evil.example",
        "10.0.0.1",
        "[2001:db8::1]",
        "",
        "[::1",
        "a b",
    ],
)
def test_other_names_are_not_answered_to(alone: Guarded, host: str) -> None:
    """A page whose name was rebound to this address calls us by its own name."""
    answer = ask(alone.port, "GET", "/healthz", host=host)
    assert (answer.status, answer.code) == (421, "wrong_host")


def test_a_request_without_a_host_is_refused(alone: Guarded) -> None:
    assert ask(alone.port, "GET", "/healthz", host=None).code == "host_missing"


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization"])
def test_what_may_be_there_once_is_refused_twice(alone: Guarded, name: str) -> None:
    answer = ask(alone.port, "GET", "/v1/probe", [(name, "localhost"), (name, "localhost")])
    assert answer.status == 400


def test_a_configured_name_is_answered_to(shared: Guarded) -> None:
    assert ask(shared.port, "GET", "/v1/probe", bearer(ANNA), host="room.example.org:99").status == 200


def hosts(host: str = "127.0.0.1", *allowed: str) -> Hosts:
    return Hosts(Config(host=host, allowed_hosts=allowed, tokens=TOKENS))


def test_a_server_for_other_machines_answers_to_addresses_but_not_to_names() -> None:
    """An address cannot be rebound."""
    for there in ("0.0.0.0", "::", "10.0.0.7"):
        assert hosts(there).allows(b"10.0.0.7:8765")
        assert hosts(there).allows(b"[fe80::1]")
        assert not hosts(there).allows(b"evil.example")


def test_a_configured_name_may_stand_for_those_below_it_or_for_one_port() -> None:
    assert hosts("::1", "*.example.org").allows(b"a.example.org")
    assert not hosts("::1", "*.example.org").allows(b"example.org")
    assert not hosts("::1", "*.example.org").allows(b"evilexample.org")
    assert not hosts("::1", "*.example.org").allows(b"not a host")
    assert hosts("::1", "*.example.org:80").allows(b"a.example.org:80")
    assert not hosts("::1", "*.example.org:80").allows(b"a.example.org:81")
    assert hosts("::1", "example.org:80").allows(b"EXAMPLE.org:80")
    assert not hosts("::1", "example.org:80").allows(b"example.org:81")
    assert not hosts("::1", "example.org:80").allows(b"example.org")
    assert hosts("::1", "2001:db8::1").allows(b"[2001:db8:0::1]:8765")
    assert hosts("::1", "[2001:db8::1]:80").allows(b"[2001:db8::1]:80")
    assert not hosts("::1", "[2001:db8::1]:80").allows(b"[2001:db8::1]")


def test_names_that_were_answered_to_are_remembered_to_some_number_only() -> None:
    anything = hosts("::1", "*.example.org")
    assert all(anything.allows(f"h{number}.example.org".encode()) for number in range(1000))
    assert len(anything._known) == 256


# Origins.


def post(
    server: Guarded, headers: dict[str, str], path: str = "/v1/probe", method: str = "POST"
) -> Answer:
    return ask(server.port, method, path, headers, b"{}" if method == "POST" else b"")


@pytest.mark.parametrize("origin", ["http://localhost", "https://localhost", "HTTP://LOCALHOST"])
def test_the_servers_own_page_may_call(alone: Guarded, origin: str) -> None:
    assert post(alone, {"Origin": origin, "Sec-Fetch-Site": "same-origin"}).status == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "ftp://localhost", "http://localhost:3000", "", "localhost"],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_another_page_may_not(alone: Guarded, origin: str, method: str) -> None:
    answer = post(alone, {"Origin": origin}, method=method)
    assert (answer.status, answer.code) == (403, "wrong_origin")
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "what?"])
def test_a_browser_that_says_it_is_another_page_is_believed(alone: Guarded, site: str) -> None:
    assert post(alone, {"Sec-Fetch-Site": site}).code == "wrong_origin"
    assert post(alone, {"Sec-Fetch-Site": site}, method="GET").code == "wrong_origin"
    own = {"Sec-Fetch-Site": site, "Origin": "http://localhost"}
    assert post(alone, own).code == "wrong_origin"


def test_a_link_may_lead_here_from_anywhere(alone: Guarded) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert post(alone, link, method="GET").status == 200
    assert post(alone, link).code == "wrong_origin"
    assert post(alone, {"Sec-Fetch-Site": "cross-site"}, "/healthz", "GET").status == 200


def test_a_page_that_is_named_may_call_and_read_the_answer(shared: Guarded) -> None:
    answer = post(shared, {"Origin": PAGE, "Sec-Fetch-Site": "cross-site", **bearer(ANNA)})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["vary"] == "Origin"
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    assert post(shared, {"Origin": PAGE}).headers["access-control-allow-origin"] == PAGE


def test_a_page_that_is_named_may_ask_before_it_calls(shared: Guarded) -> None:
    wants = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,x-stainless-os",
    }
    answer = ask(shared.port, "OPTIONS", "/v1/chat/completions", {"Origin": PAGE, **wants})
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "authorization,x-stainless-os"
    other = ask(
        shared.port, "OPTIONS", "/v1/chat/completions", {"Origin": f"{PAGE}.evil.example", **wants}
    )
    assert (other.status, other.code) == (403, "wrong_origin")


# Tokens.


def test_without_tokens_everybody_is_the_operator_of_this_machine(alone: Guarded) -> None:
    answer = ask(alone.port, "GET", "/v1/probe", {"Authorization": "Bearer whatever"})
    assert (answer.json["tenant"], answer.json["operator"]) == ("local", True)


def test_a_token_says_who_calls(shared: Guarded) -> None:
    for token in TOKENS:
        answer = ask(shared.port, "GET", "/v1/probe", bearer(token)).json
        assert (answer["tenant"], answer["operator"]) == (token.name, token.operator)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {ANNA.secret[:-1]}",
        f"Bearer {ANNA.secret}x",
        f"Bearer {ANNA.secret} {CHIEF.secret}",
        f"Basic {ANNA.secret}",
        ANNA.secret,
        "Bearer anna",
        "Bearer \xe9\xff",
    ],
)
def test_anything_else_is_refused(shared: Guarded, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = ask(shared.port, "POST", "/v1/chat/completions", headers, chat("hello"))
    assert (answer.status, answer.code) == (401, "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert ANNA.secret not in answer.body.decode()


@pytest.mark.parametrize(
    "path", ["/v1/models", "/docs/", "/openapi.json", "/nowhere", "/page", "/healthz/x", "//"]
)
def test_all_but_a_few_paths_need_a_token(shared: Guarded, path: str) -> None:
    assert ask(shared.port, "GET", path).status == 401


@pytest.mark.parametrize("path", ["/healthz", "/page/probe.css", "/login/state", "/", "/docs"])
def test_those_few_do_not(shared: Guarded, path: str) -> None:
    assert ask(shared.port, "GET", path).status == 200
    assert ask(shared.port, "GET", path, {"Authorization": "Bearer wrong"}).status == 200


@pytest.mark.parametrize(
    "path", ["/page/../room/probe", "/page/%2e%2e/room/probe", "/page/..%2froom/probe"]
)
def test_no_open_path_leads_to_another(shared: Guarded, path: str) -> None:
    assert ask(shared.port, "GET", path).status == 404


@pytest.mark.parametrize("path", ["/room/probe", "/metrics", "/room", "/room/", "/metrics/"])
def test_the_room_is_for_operators(shared: Guarded, path: str) -> None:
    answer = ask(shared.port, "GET", path, bearer(ANNA))
    assert (answer.status, answer.code) == (403, "operators_only")
    assert ask(shared.port, "GET", path, bearer(CHIEF)).status in (200, 307, 404)


def test_any_token_may_read_the_description(shared: Guarded) -> None:
    assert ask(shared.port, "GET", "/openapi.json", bearer(ANNA)).status == 200


def test_wrong_tokens_are_warned_of_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    with guarded(Troupe(), tokens=TOKENS) as server, caplog.at_level(logging.WARNING):
        for _ in range(20):
            ask(server.port, "GET", "/v1/models", {"Authorization": "Bearer a-wrong-one"})
    # Not the runtime's, which warns of what takes long on a machine that is busy.
    (record,) = [record for record in caplog.records if record.name.startswith("greenroom.gateway")]
    assert record.getMessage() == "A request from 127.0.0.1 had a wrong token"
    assert "a-wrong-one" not in caplog.text


def test_a_token_that_is_taken_away_is_not_good_any_more() -> None:
    with guarded(Troupe(), tokens=(ANNA, CHIEF)) as server:
        assert ask(server.port, "GET", "/v1/models", bearer(ANNA)).status == 200
        changed = Token("anna", "anna-has-a-new-secret")
        server.stage.config = replace(server.stage.config, tokens=(changed,))
        assert ask(server.port, "GET", "/v1/models", bearer(ANNA)).status == 401
        assert ask(server.port, "GET", "/v1/models", bearer(changed)).status == 200


# Sizes.


def test_headers_may_take_so_many_bytes_in_all(alone: Guarded) -> None:
    assert ask(alone.port, "GET", "/v1/probe", {"A": "x" * 1000, "B": "x" * 900}).status == 200
    for headers, path in (({"A": "x" * 1100, "B": "x" * 1000}, ""), ({}, "?" + "x" * 2100)):
        answer = ask(alone.port, "GET", f"/v1/probe{path}", headers)
        assert (answer.status, answer.code) == (431, "headers_too_large")


def test_a_body_may_have_so_many_bytes(alone: Guarded) -> None:
    assert ask(alone.port, "POST", "/v1/probe", body=b"x" * 2048).json["size"] == 2048
    for path in ("/v1/probe", "/v1/thing"):
        answer = ask(alone.port, "POST", path, body=b"x" * 2049)
        assert (answer.status, answer.code) == (413, "body_too_large")


def test_a_body_that_is_said_to_be_too_large_is_not_waited_for(alone: Guarded) -> None:
    with connect(alone.port) as client:
        client.send(
            request("POST", "/v1/probe", {"Content-Length": "99999999999", "Expect": "100-continue"})
        )
        assert client.answer().status == 413


@pytest.mark.parametrize("path", ["/v1/probe", "/v1/thing", "/v1/chat/completions"])
def test_a_body_of_unknown_length_is_counted_as_it_comes(alone: Guarded, path: str) -> None:
    with connect(alone.port) as client:
        client.send(
            request("POST", path, {"Transfer-Encoding": "chunked", "Content-Type": "application/json"})
        )
        client.send(b"3e8\r\n" + b" " * 1000 + b"\r\n")
        client.send(b"500\r\n" + b" " * 1280 + b"\r\n")
        assert client.answer().code == "body_too_large"


def test_what_is_left_of_a_refused_body_is_not_taken_for_a_request(alone: Guarded) -> None:
    forged = request("GET", "/v1/probe", {"X-Request-Id": "forged"})
    with connect(alone.port) as client:
        client.send(request("POST", "/v1/probe", body=forged + b"x" * 5000))
        assert client.answer().status == 413
        client.send(request("GET", "/v1/probe", {"X-Request-Id": "next"}))
        assert client.answer().json["id"] == "next"


def test_what_comes_behind_a_body_is_left_alone(alone: Guarded) -> None:
    with connect(alone.port) as client:
        client.send(
            request("POST", "/v1/probe", {"Transfer-Encoding": "chunked", "X-Request-Id": "first"})
        )
        client.send(b"2\r\nhi\r\n0\r\nX-Request-Id: behind\r\nHost: evil.example\r\n\r\n")
        answer = client.answer()
        assert (answer.json["id"], answer.json["size"]) == ("first", 2)


def test_an_upgrade_is_a_request_like_others(alone: Guarded) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = ask(alone.port, "GET", "/v1/probe", headers)
    assert answer.json["tenant"] == "local"


@pytest.mark.parametrize("name", ["Upgrade", "upgrade", "UPGRADE"])
def test_a_wish_for_another_protocol_costs_a_request_nothing(alone: Guarded, name: str) -> None:
    """Java's client asks with its first request, whatever that is."""
    body = b"\r\nUpgrade: this is a body\r\n\r\n"
    headers = {"Connection": "Upgrade, HTTP2-Settings", name: "h2c", "HTTP2-Settings": "AAMAAABk"}
    with connect(alone.port) as client:
        client.send(request("POST", "/v1/probe", headers, body))
        assert client.answer().json["size"] == len(body)
        client.send(request("POST", "/v1/probe", {}, body))
        assert client.answer().json["size"] == len(body)


def test_a_wish_for_a_websocket_in_the_second_half_of_a_head_is_answered_and_not_logged(
    alone: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    whole = request("GET", "/v1/probe", {"Connection": "Upgrade", "Upgrade": "websocket"})
    half = whole.index(b"Upgrade: websocket")
    with connect(alone.port) as client:
        # Behind another request, so that its answer tells when the first half has been read.
        client.send(request("GET", "/v1/probe") + whole[:half])
        assert client.answer().status == 200
        client.send(whole[half:])
        assert client.answer().json["tenant"] == "local"
    assert "WebSocket library" not in caplog.text


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_body_behind_a_wish_for_another_protocol_is_never_taken_for_a_request(
    alone: Guarded, pieces: int, caplog: pytest.LogCaptureFixture
) -> None:
    """And the request itself is not begun."""
    caplog.set_level(logging.INFO, "greenroom.gateway.access")
    # A request leaves its line behind its answer: that of the test before this one may still come.
    assert ask(alone.port, "GET", "/healthz").status == 200
    until(lambda: "/healthz" in caplog.text, "the line of a first request")
    caplog.clear()
    body = request("GET", "/v1/probe")
    whole = request("POST", "/v1/probe", {"Connection": "Upgrade", "Upgrade": "h2c"}, body)
    half, end = whole.index(b"Upgrade: h2c"), len(whole) - (len(body) if pieces == 2 else 0)
    with connect(alone.port) as client:
        # Behind another request, so that its answer tells when the first half has been read.
        client.send(request("GET", "/v1/probe") + whole[:half])
        assert client.answer().status == 200
        client.send(whole[half:end])
        assert client.answer().status == 400
        with contextlib.suppress(ConnectionError):
            client.send(whole[end:])
        assert client.rest() == b""
    assert ask(alone.port, "GET", "/healthz").status == 200
    until(lambda: "/healthz" in caplog.text, "the line of the last request")
    assert [record.getMessage().split()[:2] for record in caplog.records] == [
        ["GET", "/v1/probe"],
        ["GET", "/healthz"],
    ]


def test_a_wish_for_another_protocol_with_a_body_of_no_length_is_answered(alone: Guarded) -> None:
    wish = {"Connection": "Upgrade", "Upgrade": "h2c", "Content-Length": "0"}
    whole = request("POST", "/v1/probe", wish)
    half = whole.index(b"Upgrade: h2c")
    with connect(alone.port) as client:
        client.send(request("GET", "/v1/probe") + whole[:half])
        assert client.answer().status == 200
        client.send(whole[half:])
        assert client.answer().json["size"] == 0


# Answers.


@pytest.mark.parametrize(
    "nonsense",
    [
        b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: \x0b\r\n\r\n",
        request("POST", "/v1/probe", [("Content-Length", "2"), ("Content-Length", "3")]) + b"{}",
        request("POST", "/v1/probe", {"Transfer-Encoding": "chunked"}) + b"no chunk\r\n",
    ],
)
def test_nonsense_is_refused_as_all_else_is(alone: Guarded, nonsense: bytes) -> None:
    with connect(alone.port) as client:
        client.send(nonsense)
        answer = client.answer()
        assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.rest() == b""


@pytest.mark.parametrize(
    "path", ["/v1/models", "/nowhere", "/v1/fails", "/page/probe.css", "/openapi.json"]
)
def test_every_answer_has_the_headers_that_keep_browsers_in_check(alone: Guarded, path: str) -> None:
    headers = ask(alone.port, "GET", path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "permissions-policy" in headers
    assert not [name for name in headers if name.startswith("access-control")]


def test_an_answer_that_says_for_itself_what_may_be_kept_is_left_alone(alone: Guarded) -> None:
    headers = ask(alone.port, "GET", "/v1/kept").headers
    assert headers["cache-control"] == "max-age=60"
    assert headers["content-security-policy"] == "sandbox"
    assert headers["x-content-type-options"] == "nosniff"


def test_what_a_route_raises_is_an_answer_that_tells_nothing(
    alone: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ask(alone.port, "GET", "/v1/fails", {"X-Request-Id": "look-here"})
    assert (answer.status, answer.code) == (500, "server_failed")
    assert "look-here" in answer.body.decode()
    assert b"secret" not in answer.body
    (record,) = [record for record in caplog.records if record.exc_info]
    assert "look-here" in record.getMessage()


# WebSockets, from a server that knows them.


def test_a_websocket_is_refused() -> None:
    with guarded(Troupe()) as server:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/v1/models", "headers": [], "query_string": b""}
        asyncio.run(server.app(scope, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
