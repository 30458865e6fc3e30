"""`POST /v1/responses`, with the official client, and as it goes over the wire."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from greenroom.gateway._endings import Endings
from greenroom.gateway._naming import new_response_id
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.clients import Play, playing


def ask(play: Play, said: Any, /, **options: Any) -> Any:
    return play.client().responses.create(model="m", input=said, **options)


@pytest.mark.parametrize("threaded", [False, True])
def test_a_plain_response_has_all_that_the_client_reads(threaded: bool) -> None:
    with playing(Troupe(threaded=threaded)) as play:
        response = ask(
            play,
            "hello there",
            instructions="be nice",
            metadata={"color": "green"},
            temperature=0.5,
            max_output_tokens=9,
        )
        assert (response.object, response.status, response.model) == ("response", "completed", "m")
        assert response.output_text == "1: hello there"
        assert response.id.startswith("resp_")
        assert (response.instructions, response.metadata) == ("be nice", {"color": "green"})
        assert (response.temperature, response.max_output_tokens) == (0.5, 9)
        assert (response.usage.input_tokens, response.usage.output_tokens) == (2, 3)
        assert response.output[0].role == "assistant"
        (request,) = play.troupe.requests
        assert (request.instructions, request.model) == ("be nice", "m")
        assert request.options == {"temperature": 0.5, "max_completion_tokens": 9}


def test_a_response_is_valid_as_the_client_itself_sees_it() -> None:
    """Strictly: the client's own parsing lets nearly everything through."""
    from openai.types.responses import Response

    with playing() as play:
        answer = play.http().post("/v1/responses", json={"model": "m", "input": "a"})
        Response.model_validate(answer.json(), strict=False)


TYPES = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


def test_a_stream_is_typed_events_in_order() -> None:
    with playing() as play:
        events = list(ask(play, "a", stream=True))
        assert [event.type for event in events] == TYPES
        assert [event.sequence_number for event in events] == list(range(len(TYPES)))
        assert [event.delta for event in events if event.type.endswith("delta")] == ["1:", " a"]
        assert events[6].text == "1: a"
        final = events[-1].response
        assert (final.status, final.output_text, final.usage.total_tokens) == ("completed", "1: a", 3)
        assert events[0].response.id == final.id
        assert events[0].response.status == "in_progress"
        assert {event.item_id for event in events[3:8]} == {final.output[0].id}


def test_every_event_is_valid_as_the_client_itself_sees_it() -> None:
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    with playing() as play:
        for text in ("a", "a #length"):
            answer = play.http().post("/v1/responses", json={"input": text, "stream": True})
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            for block in answer.text.strip().split("\n\n"):
                name, data = block.split("\n")
                event = json.loads(data.removeprefix("data: "))
                assert name == f"event: {event['type']}"
                adapter.validate_python(event)


def test_pieces_come_as_the_agent_says_them() -> None:
    with playing() as play:
        events = ask(play, "a @door b", stream=True)
        deltas = (event.delta for event in events if event.type == "response.output_text.delta")
        assert [next(deltas), next(deltas)] == ["1:", " a"]
        play.troupe.door("door").wait_reached()
        play.troupe.door("door").open()
        assert list(deltas) == [" b"]


def test_the_streaming_helper_of_the_client_puts_it_together() -> None:
    with playing() as play, play.client().responses.stream(model="m", input="a b") as events:
        texts = [event.snapshot for event in events if event.type == "response.output_text.delta"]
        assert texts == ["1:", "1: a", "1: a b"]
        assert events.get_final_response().output_text == "1: a b"


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_answer_that_is_cut_short_is_incomplete(finish: str, reason: str) -> None:
    with playing() as play:
        response = ask(play, f"a #{finish}")
        assert (response.status, response.incomplete_details.reason) == ("incomplete", reason)
        last = list(ask(play, f"a #{finish}", stream=True))[-1]
        assert (last.type, last.response.incomplete_details.reason) == ("response.incomplete", reason)


def test_a_stream_that_fails_ends_with_the_failed_response() -> None:
    with playing() as play:
        *_, last = ask(play, "a !boom", stream=True)
        assert (last.type, last.response.status) == ("response.failed", "failed")
        assert last.response.error.code == "agent_failed"
        assert last.response.output_text == "1: a"
        assert "secret" not in last.to_json()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_response_that_failed_leaves_no_session_that_was_made_for_it(
    streamed: bool, tmp_path: Path
) -> None:
    with playing(store=f"sqlite:///{tmp_path / 'x.db'}") as play:
        if streamed:
            list(ask(play, "a !boom", stream=True))
        else:
            with pytest.raises(openai.InternalServerError):
                ask(play, "a !boom")
        assert play.sessions() == {}
        assert play.stored() == []


# What can be sent.


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a"}),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"role": "user", "content": "a"},
        ),
        (
            {"role": "user", "content": [{"type": "input_text", "text": t} for t in "ab"]},
            {"role": "user", "content": [{"type": "text", "text": t} for t in "ab"]},
        ),
        (
            {
                "id": "msg_1",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "a", "annotations": []}],
            },
            {"role": "assistant", "content": "a"},
        ),
        (
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": "data:x", "detail": "low"}],
            },
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}],
            },
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": "x", "filename": "f"}]},
            {"role": "user", "content": [{"type": "file", "file": {"file_data": "x", "filename": "f"}}]},
        ),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        ),
    ],
)
def test_items_become_messages(item: dict[str, Any], message: dict[str, Any]) -> None:
    with playing() as play:
        ask(play, [item, {"role": "user", "content": "end"}])
        assert play.troupe.requests[0].messages[0] == message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": 7}, "input.str"),
        ({"input": [{"role": "king", "content": "a"}]}, "input.0.role"),
        ({"input": [{"role": "user"}]}, "input.0.content"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input.0"),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input.0.content.0"),
        ({"input": [{"role": "user", "content": ["a"]}]}, "input.0.content.0"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}]},
            "input.0.content.0.text",
        ),
        ({"input": "a", "tools": [{"type": "web_search"}]}, "tools"),
        ({"input": "a", "background": True}, "background"),
        ({"input": "a", "text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"input": "a", "temperature": 3}, "temperature"),
        ({"input": "a", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "a", "conversation": {"name": "x"}}, "conversation"),
        ({"input": "a", "conversation": "x" * 201}, "conversation"),
        ({"input": "a", "user": "anna", "conversation": "berta"}, "conversation"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_name(body: dict[str, Any], param: str) -> None:
    with playing() as play:
        answer = play.http().post("/v1/responses", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == param
        assert play.troupe.requests == []


def test_options_have_the_names_of_the_other_api() -> None:
    with playing() as play:
        schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
        ask(
            play,
            "a",
            reasoning={"effort": "low"},
            text={"format": schema, "verbosity": "low"},
            top_p=0.5,
            tool_choice="none",
            include=[],
            extra_body={"own_thing": 1},
        )
        assert play.troupe.requests[0].options == {
            "reasoning_effort": "low",
            "verbosity": "low",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
            },
            "top_p": 0.5,
            "own_thing": 1,
        }


# Sessions.


def test_a_response_without_a_session_begins_one_that_stays() -> None:
    with playing() as play:
        response = ask(play, "a")
        assert response.conversation is not None
        assert play.sessions() == {f"local/{response.conversation.id}": "idle"}
        assert ask(play, "b", previous_response_id=response.id).output_text == "2: b"
        assert ask(play, "c", conversation=response.conversation.id).output_text == "3: c"


def test_what_is_not_to_be_stored_leaves_nothing_behind(tmp_path: Path) -> None:
    with playing(store=f"sqlite:///{tmp_path / 'x.db'}") as play:
        response = ask(play, "a", store=False)
        assert response.conversation is None
        assert play.sessions() == {}
        assert play.stored() == []
        with pytest.raises(openai.NotFoundError):
            ask(play, "b", previous_response_id=response.id)


def test_a_session_goes_on_by_header_conversation_metadata_and_user() -> None:
    with playing() as play:
        ways: list[dict[str, Any]] = [
            {"extra_headers": {"X-Greenroom-Session": "one"}},
            {"conversation": "one"},
            {"conversation": {"id": "one"}},
            {"metadata": {"session": "one"}},
            {"user": "one"},
            {"user": "one", "conversation": "one", "store": False},
        ]
        said = [ask(play, "a", **way).output_text for way in ways]
        assert said == [f"{number}: a" for number in range(1, 7)]


def test_both_apis_share_a_session() -> None:
    with playing() as play:
        first = ask(play, "a", user="anna")
        chat = play.client().chat.completions.create(
            model="m", messages=[{"role": "user", "content": "b"}], user="anna"
        )
        assert chat.choices[0].message.content == "2: b"
        assert ask(play, "c", previous_response_id=first.id).output_text == "3: c"


# Continuing.


def _refused(play: Play, status: int, code: str, **options: Any) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        ask(play, "x", **options)
    error = caught.value
    assert (error.status_code, error.code, error.param) == (status, code, "previous_response_id")


@pytest.mark.parametrize(
    "wrong", ["resp_1", "nonsense", "resp_0123456789abcdef", "resp_0123456789abcdef1", "x" * 1000]
)
def test_an_id_that_is_none_is_not_found(wrong: str) -> None:
    with playing() as play:
        _refused(play, 404, "previous_response_not_found", previous_response_id=wrong)


def test_a_response_of_a_session_that_nobody_knows_is_not_found(tmp_path: Path) -> None:
    with playing(store=f"sqlite:///{tmp_path / 'x.db'}") as play:
        _refused(play, 404, "previous_response_not_found", previous_response_id=new_response_id("no"))
        assert play.sessions() == {}
        assert play.stored() == []


def test_a_response_of_a_session_that_has_ended_is_not_found_unless_the_store_has_it() -> None:
    with playing() as play:
        response = ask(play, "a", user="anna")
        assert play.http().delete("/v1/sessions/anna").json()["ended"]
        assert play.sessions() == {}
        _refused(play, 404, "previous_response_not_found", previous_response_id=response.id)


def test_a_response_is_not_found_before_the_room_has_said_that_its_session_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Endings, "_happened", lambda *_: None)
    with playing() as play:
        response = ask(play, "a", user="anna")
        assert play.http().delete("/v1/sessions/anna").json()["ended"]
        assert play.sessions() == {}
        _refused(play, 404, "previous_response_not_found", previous_response_id=response.id)


def test_only_the_last_response_can_be_continued() -> None:
    with playing() as play:
        first = ask(play, "a", user="anna")
        second = ask(play, "b", previous_response_id=first.id)
        _refused(play, 400, "previous_response_not_last", previous_response_id=first.id)
        assert play.turns("local/anna") == 2
        assert ask(play, "c", previous_response_id=second.id).output_text == "3: c"


def test_an_empty_id_is_none() -> None:
    with playing() as play:
        for number in (1, 2):
            response = ask(play, "a", conversation="c", previous_response_id="")
            assert response.output_text == f"{number}: a"


def test_a_response_whose_continuation_failed_can_be_continued_again() -> None:
    with playing() as play:
        first = ask(play, "a", user="anna")
        with pytest.raises(openai.InternalServerError):
            ask(play, "!boom", previous_response_id=first.id)
        assert ask(play, "b", previous_response_id=first.id).output_text == "2: b"


@pytest.mark.parametrize("streamed", [False, True])
def test_of_two_who_continue_the_same_response_at_once_one_does(streamed: bool) -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        first = ask(play, "a", user="anna")
        one = pool.submit(ask, play, "b @door", previous_response_id=first.id)
        play.troupe.door("door").wait_reached()
        two = pool.submit(ask, play, "c", previous_response_id=first.id, stream=streamed)
        play.wait_waiting(1)
        play.troupe.door("door").open()
        assert one.result(PATIENCE).output_text == "2: b"
        with pytest.raises(openai.BadRequestError) as caught:
            two.result(PATIENCE)
        assert caught.value.code == "previous_response_not_last"
        assert play.turns("local/anna") == 2


def test_a_response_and_a_session_that_contradict_each_other_are_refused() -> None:
    with playing() as play:
        response = ask(play, "a", user="anna")
        for other in ({"user": "berta"}, {"conversation": "berta"}):
            _refused(play, 400, "session_mismatch", previous_response_id=response.id, **other)
        for same in ({"user": "anna"}, {"conversation": "anna"}):
            response = ask(play, "b", previous_response_id=response.id, **same)
        assert response.output_text == "3: b"


def test_nobody_continues_a_response_of_somebody_else() -> None:
    with playing(tenants=True) as play:
        anna = play.client(default_headers={"X-Tenant": "anna"})
        response = anna.responses.create(model="m", input="a")
        assert response.conversation is not None
        berta = play.client(default_headers={"X-Tenant": "berta"})
        with pytest.raises(openai.NotFoundError) as caught:
            berta.responses.create(model="m", input="b", previous_response_id=response.id)
        assert caught.value.code == "previous_response_not_found"
        same_name = berta.responses.create(model="m", input="b", user=response.conversation.id)
        assert same_name.output_text == "1: b"


def test_after_a_restart_a_response_is_continued_by_what_the_store_knows(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with playing(store=url) as play:
        first = ask(play, "a", user="anna")
        second = ask(play, "b", previous_response_id=first.id)
    with playing(store=url) as play:
        assert ask(play, "c", previous_response_id=second.id).status == "completed"
        assert play.turns("local/anna") == 3
