"""`/v1/chat/completions` and `/v1/models` as they go over the wire."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.agents_for_tests import Troupe
from tests.gateway.clients import playing, user

if TYPE_CHECKING:
    from greenroom import BuildContext
    from greenroom.gateway import ChatRequest

CHAT = "/v1/chat/completions"


def _events(text: str) -> list[Any]:
    """What stands behind `data:` in a stream, decoded where it is JSON."""
    lines = [block.removeprefix("data: ") for block in text.split("\n\n") if block]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_a_stream_is_events_that_no_proxy_keeps_and_ends_with_done() -> None:
    with playing() as play:
        answer = play.http().post(CHAT, json={"messages": user("a"), "stream": True})
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        *chunks, done = _events(answer.text)
        assert done == "[DONE]"
        assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
        assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
        assert not any("usage" in chunk for chunk in chunks)


def test_a_stream_that_fails_ends_with_the_error_and_without_done() -> None:
    with playing() as play:
        answer = play.http().post(CHAT, json={"messages": user("a !boom"), "stream": True})
        assert answer.status_code == 200
        last = _events(answer.text)[-1]
        assert (last["error"]["code"], last["error"]["type"]) == ("agent_failed", "server_error")
        assert "secret" not in answer.text


def test_what_fails_before_the_first_word_has_its_own_status_in_a_stream_too() -> None:
    with playing() as play:
        play.server.call(play.stage.drain(5.0))
        answer = play.http().post(CHAT, json={"messages": user("a"), "stream": True})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "draining")
        assert answer.headers["content-type"] == "application/json"


def test_the_agent_gets_what_the_client_sent_and_the_gateway_keeps_what_is_its_own() -> None:
    with playing() as play:
        sent = {
            "model": "some",
            "messages": [
                {"role": "system", "content": "be nice"},
                {"role": "user", "content": [{"type": "text", "text": "a b"}], "name": "anna"},
            ],
            "user": "anna",
            "metadata": {"color": "green"},
            "temperature": 0.5,
            "max_tokens": 7,
            "busy": "queue",
            "own_thing": {"x": 1},
        }
        answer = play.http().post(CHAT, json=sent)
        assert answer.json()["choices"][0]["message"]["content"] == "1: a b"
        (request,) = play.troupe.requests
        assert list(request.messages) == sent["messages"]
        assert (request.model, request.instructions) == ("some", None)
        assert request.options == {"temperature": 0.5, "max_tokens": 7, "own_thing": {"x": 1}}


@pytest.mark.parametrize(
    ("content", "media", "what"),
    [
        (b"{", "application/json", "JSON"),
        (b"", "application/json", "JSON"),
        (b"[]", "application/json", "object"),
        (b'{"messages": [{"role": "user", "content": "\xff"}]}', "application/json", "JSON"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "application/json", "JSON"),
        (b'{"messages": [{"role": "user", "content": "a", "x": NaN}]}', "application/json", "JSON"),
        (
            b'{"messages": [{"role": "user", "content": "a"}], "x": -Infinity}',
            "application/json",
            "JSON",
        ),
        (b"messages=1", "application/x-www-form-urlencoded", "application/json"),
    ],
)
def test_a_body_that_is_none_is_refused(content: bytes, media: str, what: str) -> None:
    with playing() as play:
        answer = play.http().post(CHAT, content=content, headers={"content-type": media})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert what in error["message"]


def test_another_method_is_refused_in_the_same_form() -> None:
    with playing() as play:
        answer = play.http().get(CHAT)
        assert answer.status_code == 405
        assert "GET" in answer.json()["error"]["message"]
        assert answer.headers["allow"] == "POST"


def test_text_that_is_no_ascii_comes_through_both_ways() -> None:
    with playing() as play:
        for stream in (False, True):
            sent = {"messages": user("çà 🎭 \u2028"), "stream": stream}
            answer = play.http().post(CHAT, json=sent)
            said = (
                "".join(c["choices"][0]["delta"].get("content", "") for c in _events(answer.text)[:-1])
                if stream
                else answer.json()["choices"][0]["message"]["content"]
            )
            assert said == "1: çà 🎭"


def test_words_that_would_be_numbers_elsewhere_may_be_said() -> None:
    with playing() as play:
        answer = play.http().post(CHAT, json={"messages": user("NaN Infinity")})
        assert answer.json()["choices"][0]["message"]["content"] == "1: NaN Infinity"


@pytest.mark.parametrize("stream", [False, True])
def test_half_a_character_of_the_agents_does_not_cost_the_answer(stream: bool) -> None:
    with playing(Halves()) as play:
        answer = play.http().post(CHAT, json={"messages": user("a"), "stream": stream})
        assert answer.status_code == 200
        assert "one ? two" in answer.text
        answer = play.http().post("/v1/responses", json={"input": "a", "stream": stream})
        assert answer.status_code == 200
        assert "one ? two" in answer.text
        assert "failed" not in answer.text


class Halves(Troupe):
    """Its agents say what cannot be written in UTF-8."""

    def __call__(self, context: BuildContext, **_: Any) -> Any:
        async def answer(_: ChatRequest) -> str:
            return "one \ud83c two"

        return SimpleNamespace(answer=answer)


def test_a_model_may_have_any_name() -> None:
    """Its name stands in every chunk, before the text."""
    with playing() as play:
        sent = {"messages": user("a"), "stream": True, "model": "\0here"}
        *chunks, _ = _events(play.http().post(CHAT, json=sent).text)
        assert {chunk["model"] for chunk in chunks} == {"\0here"}
        assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "1: a"


def test_the_models_have_the_form_that_clients_expect() -> None:
    with playing(model="mine") as play:
        model = {"id": "mine", "object": "model", "created": 0, "owned_by": "greenroom"}
        assert play.http().get("/v1/models").json() == {"object": "list", "data": [model]}
        assert play.http().get("/v1/models/mine").json() == model
        assert play.http().get("/v1/models/no/such").status_code == 404
