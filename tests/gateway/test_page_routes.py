"""The page's files, and what its commands answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from greenroom.gateway._errors import ApiError
from greenroom.gateway._naming import Caller
from greenroom.gateway.watch._page import check_operator
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.page_serving import page_serving
from tests.gateway.serving import Serving


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """A server."""
    with page_serving(Troupe()) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/page/page.js", "text/javascript; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ],
)
def test_a_file_has_its_type_and_a_strict_policy(server: Serving, path: str, kind: str) -> None:
    answer = httpx.get(server.url + path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == kind
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy


def test_a_file_that_has_not_changed_is_not_sent_again(server: Serving) -> None:
    first = httpx.get(f"{server.url}/page/page.css")
    again = httpx.get(f"{server.url}/page/page.css", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = httpx.get(f"{server.url}/page/page.css", headers={"if-none-match": '"another"'})
    assert other.content == first.content


@pytest.mark.parametrize("name", ["nothing.js", "..%2fapp.py", "%2e%2e%2fapp.py", "page.css%00", "..."])
def test_what_is_no_part_of_the_page_is_not_found(server: Serving, name: str) -> None:
    answer = httpx.get(f"{server.url}/page/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "unknown_url"


def test_pages_ask_nothing_of_another_host_and_hold_no_script_or_style(server: Serving) -> None:
    for path in ("/", "/docs"):
        text = httpx.get(server.url + path).text
        assert "//" not in text.replace("<!doctype html>", "")
        assert " style=" not in text
        assert "<style" not in text
        assert text.count("<script") == text.count('<script type="module" src="/page/')


def test_scripts_never_read_data_as_markup(server: Serving) -> None:
    for name in (
        "page",
        "dom",
        "table",
        "feed",
        "session",
        "glance",
        "docs",
        "room",
        "stream",
        "words",
        "api",
    ):
        text = httpx.get(f"{server.url}/page/{name}.js").text
        assert not {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} & set(
            text.split()
        )
        assert "HTML" not in text.replace("text/html", "")


@pytest.mark.parametrize("what", ["commit", "evict", "end", "interrupt"])
def test_a_command_for_nobody_is_404_and_for_nothing_400(server: Serving, what: str) -> None:
    url = f"{server.url}/room/sessions/{what}"
    assert httpx.post(url, json={"key": "local/nobody"}).status_code == 404
    assert httpx.post(url, json={"key": ""}).status_code == 400
    assert httpx.post(url, json={"key": "local/x", "more": 1}).status_code == 400
    assert httpx.post(url, json={}).status_code == 400


def test_an_explanation_says_why() -> None:
    with page_serving(Troupe()) as server:
        httpx.post(
            f"{server.url}/v1/chat/completions",
            json={"model": "greenroom", "messages": [{"role": "user", "content": "hello"}]},
            headers={"x-greenroom-session": "why"},
        )
        told = httpx.get(f"{server.url}/room/sessions/explain", params={"key": "local/why"}).json()
        assert told["state"] == "idle"
        assert any("not committed" in sentence for sentence in told["why"])


def test_there_is_nothing_to_explain_about_nobody(server: Serving) -> None:
    nobody = httpx.get(f"{server.url}/room/sessions/explain", params={"key": "local/nobody"})
    assert nobody.status_code == 404


@pytest.mark.parametrize("caller", [None, Caller("guest", operator=False)])
def test_without_a_guard_only_operators_get_in_all_the_same(caller: Any) -> None:
    with pytest.raises(ApiError) as refused:
        check_operator({"state": {"caller": caller}})
    assert refused.value.status == 403
    assert check_operator({"state": {"caller": Caller("boss", operator=True)}})
