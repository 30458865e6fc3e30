"""The official Python client against a running server: sync, async, streams, errors, retries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from greenroom import Policy
from greenroom.gateway import Config
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.clients import Play, playing, user


def say(client: openai.OpenAI, text: str, **options: Any) -> str:
    answer = client.chat.completions.create(model="m", messages=user(text), **options)
    return answer.choices[0].message.content or ""


def stream(client: openai.OpenAI, text: str, **options: Any) -> Any:
    return client.chat.completions.create(model="m", messages=user(text), stream=True, **options)


@pytest.mark.parametrize("threaded", [False, True])
def test_a_plain_answer_has_all_that_the_client_reads(threaded: bool) -> None:
    with playing(Troupe(threaded=threaded)) as play:
        answer = play.client().chat.completions.create(model="some", messages=user("hello there"))
        assert answer.object == "chat.completion"
        assert answer.id.startswith("chatcmpl-")
        assert (answer.model, answer.choices[0].finish_reason) == ("some", "stop")
        assert answer.choices[0].message.role == "assistant"
        assert answer.choices[0].message.content == "1: hello there"
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 3)
        assert answer.usage.total_tokens == 5


@pytest.mark.parametrize("threaded", [False, True])
def test_a_stream_comes_piece_by_piece_and_ends_with_why(threaded: bool) -> None:
    with playing(Troupe(threaded=threaded)) as play:
        chunks = stream(play.client(), "a @door b", stream_options={"include_usage": True})
        seen = [next(chunks) for _ in range(3)]
        assert [chunk.choices[0].delta.content for chunk in seen] == ["", "1:", " a"]
        play.troupe.door("door").wait_reached()
        play.troupe.door("door").open()
        rest = list(chunks)
        assert [chunk.choices[0].delta.content for chunk in rest[:-1]] == [" b", None]
        assert rest[-2].choices[0].finish_reason == "stop"
        assert (rest[-1].choices, rest[-1].usage.total_tokens) == ([], 7)
        assert len({chunk.id for chunk in [*seen, *rest]}) == 1


def test_the_streaming_helper_of_the_client_puts_it_together() -> None:
    with (
        playing() as play,
        play.client().chat.completions.stream(model="m", messages=user("a b")) as events,
    ):
        final = events.get_final_completion()
        assert final.choices[0].message.content == "1: a b"


def test_the_agent_says_why_it_stopped() -> None:
    with playing() as play:
        answer = play.client().chat.completions.create(model="m", messages=user("a #length"))
        assert answer.choices[0].finish_reason == "length"


def test_the_async_client_does_the_same() -> None:
    async def use(play: Play) -> None:
        async with openai.AsyncOpenAI(base_url=f"{play.server.url}/v1", api_key="x") as client:
            create = client.chat.completions.create
            answer = await create(model="m", messages=user("one"), user="anna")
            assert answer.choices[0].message.content == "1: one"
            chunks = await create(model="m", messages=user("two"), user="anna", stream=True)
            said = [chunk.choices[0].delta.content or "" async for chunk in chunks]
            assert "".join(said) == "2: two"
            with pytest.raises(openai.BadRequestError):
                await create(model="m", messages=user("!bad"), user="anna")
            first = await client.responses.create(model="m", input="three", user="anna")
            assert first.output_text == "3: three"
            async with client.responses.stream(
                model="m", input="four", previous_response_id=first.id
            ) as events:
                assert (await events.get_final_response()).output_text == "4: four"

    with playing() as play:
        asyncio.run(use(play))


def test_many_at_once_get_each_their_own_answer() -> None:
    async def use(play: Play) -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=f"{play.server.url}/v1", api_key="x") as client:
            asked = [
                client.chat.completions.create(model="m", messages=user(f"word{at}"), user=f"u{at % 7}")
                for at in range(70)
            ]
            answers = await asyncio.gather(*asked)
            return [answer.choices[0].message.content for answer in answers]

    with playing(max_running=5) as play:
        said = asyncio.run(use(play))
        assert [(text or "").partition(": ")[2] for text in said] == [f"word{at}" for at in range(70)]
        for chat in range(7):
            turns = sorted(int((said[at] or "").partition(":")[0]) for at in range(chat, 70, 7))
            assert turns == list(range(1, 11))
            assert play.turns(f"local/u{chat}") == 10
        assert play.figures() == (0, 0)


def test_the_models_are_listed_and_shown() -> None:
    with playing(model="some/agent") as play:
        client = play.client()
        assert [model.id for model in client.models.list()] == ["some/agent"]
        assert client.models.retrieve("some/agent").owned_by == "greenroom"
        with pytest.raises(openai.NotFoundError) as caught:
            client.models.retrieve("other")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


# Sessions.


def test_a_session_goes_on_by_header_by_metadata_and_by_user() -> None:
    with playing() as play:
        client = play.client()
        assert say(client, "a", extra_headers={"X-Greenroom-Session": "one"}) == "1: a"
        assert say(client, "b", metadata={"session": "one"}) == "2: b"
        assert say(client, "c", metadata={"session_id": "one"}) == "3: c"
        assert say(client, "d", user="one") == "4: d"
        assert say(client, "e", user="two") == "1: e"
        assert set(play.sessions()) == {"local/one", "local/two"}


def test_the_header_weighs_more_than_metadata_and_that_more_than_the_user() -> None:
    with playing() as play:
        client = play.client()
        say(client, "a", user="u", metadata={"session": "m"}, extra_headers={"X-Greenroom-Session": "h"})
        say(client, "a", user="u", metadata={"session": "m"})
        assert set(play.sessions()) == {"local/h", "local/m"}


def test_the_answer_names_its_session() -> None:
    with playing() as play:
        raw = play.client().chat.completions.with_raw_response.create(
            model="m", messages=user("a"), user="anna"
        )
        assert raw.headers["x-greenroom-session"] == "anna"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("text", ["a", "!boom", "!bad"])
def test_a_request_without_a_session_leaves_none_behind(
    streamed: bool, text: str, tmp_path: Path
) -> None:
    with playing(store=f"sqlite:///{tmp_path / 'x.db'}") as play:
        client = play.client()
        try:
            if streamed:
                list(stream(client, text))
            else:
                assert say(client, text) == "1: a"
        except openai.APIError:
            assert text != "a"
        assert play.sessions() == {}
        assert play.stored() == []
        assert (len(play.troupe.built), len(play.troupe.closed)) == (1, 1)
        assert play.troupe.committed == []


def test_a_request_without_a_session_is_the_whole_conversation() -> None:
    with playing() as play:
        say(play.client(), "a")
        say(play.client(), "a", user="anna")
        once, named = play.troupe.requests
        assert (once.complete, once.ephemeral) == (True, True)
        assert (named.complete, named.ephemeral) == (False, False)


# Errors.


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("!bad", openai.BadRequestError, None),
        ("!away", openai.InternalServerError, "agent_unavailable"),
        ("!boom", openai.InternalServerError, "agent_failed"),
        ("!busy", openai.RateLimitError, "overloaded"),
    ],
)
def test_what_an_agent_raises_is_an_error_of_the_right_class(
    text: str, kind: type[openai.APIStatusError], code: str | None
) -> None:
    with playing() as play:
        with pytest.raises(kind) as caught:
            say(play.client(), text, user="anna")
        assert caught.value.code == code
        assert "secret" not in str(caught.value)
        assert play.turns("local/anna") == 0
        assert say(play.client(), "fine", user="anna") == "1: fine"


def test_what_is_away_says_when_to_come_back() -> None:
    with playing() as play:
        with pytest.raises(openai.InternalServerError) as caught:
            say(play.client(), "!away")
        assert caught.value.status_code == 503
        assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("text", ["a !boom", "a !bad"])
def test_an_error_in_the_middle_of_a_stream_is_raised_by_the_client(text: str) -> None:
    with playing() as play:
        chunks = stream(play.client(), text, user="anna")
        said = [next(chunks).choices[0].delta.content for _ in range(3)]
        assert said == ["", "1:", " a"]
        with pytest.raises(openai.APIError) as caught:
            next(chunks)
        assert "secret" not in str(caught.value)
        assert play.turns("local/anna") == 0


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages.0.role"),
        ({"messages": user("x"), "n": 2}, "n"),
        ({"messages": user("x"), "tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"messages": user("x"), "user": "x" * 201}, "user"),
        ({"messages": user("x"), "extra_body": {"busy": "panic"}}, "busy"),
        ({"messages": user("x"), "extra_headers": {"X-Greenroom-Busy": "panic"}}, "x-greenroom-busy"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_name(body: dict[str, Any], param: str) -> None:
    with playing() as play:
        with pytest.raises(openai.BadRequestError) as caught:
            play.client().chat.completions.create(model="m", **body)
        assert caught.value.param == param
        assert play.troupe.requests == []


def test_a_path_that_is_not_there_is_an_error_in_the_same_form() -> None:
    with playing() as play, pytest.raises(openai.NotFoundError) as caught:
        play.client().embeddings.create(model="m", input="x")
    assert caught.value.code == "unknown_url"


# Busy sessions.


def _in_turn(play: Play, pool: ThreadPoolExecutor, text: str = "a @door b", **options: Any) -> Any:
    turn = pool.submit(say, play.client(), text, user="anna", **options)
    play.troupe.door("door").wait_reached()
    return turn


def test_a_second_message_waits_and_the_order_is_kept() -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        first = _in_turn(play, pool)
        later = []
        for number, text in enumerate(("second", "third"), 1):
            later.append(pool.submit(say, play.client(), text, user="anna"))
            play.wait_waiting(number)
        play.troupe.door("door").open()
        assert first.result(PATIENCE) == "1: a b"
        assert [turn.result(PATIENCE) for turn in later] == ["2: second", "3: third"]


@pytest.mark.parametrize(
    "how", [{"extra_body": {"busy": "reject"}}, {"extra_headers": {"X-Greenroom-Busy": "reject"}}]
)
def test_a_second_message_that_does_not_want_to_wait_is_refused(how: dict[str, Any]) -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        first = _in_turn(play, pool)
        with pytest.raises(openai.ConflictError) as caught:
            say(play.client(), "second", user="anna", **how)
        assert (caught.value.status_code, caught.value.code) == (409, "session_busy")
        assert say(play.client(), "second", user="berta", **how) == "1: second"
        play.troupe.door("door").open()
        assert first.result(PATIENCE) == "1: a b"


@pytest.mark.parametrize("server_wide", [False, True])
def test_a_second_message_interrupts_the_first_if_it_says_so(server_wide: bool) -> None:
    config: dict[str, Any] = {"busy": "interrupt"} if server_wide else {}
    how: dict[str, Any] = {} if server_wide else {"extra_body": {"busy": "interrupt"}}
    with playing(**config) as play, ThreadPoolExecutor() as pool:
        first = _in_turn(play, pool)
        assert say(play.client(), "second", user="anna", **how) == "1: second"
        with pytest.raises(openai.ConflictError) as caught:
            first.result(PATIENCE)
        assert caught.value.code == "interrupted"
        assert play.turns("local/anna") == 1


def test_too_many_waiting_is_429_with_retry_after() -> None:
    policy = Policy(max_waiting=1)
    with playing(policy=policy) as play, ThreadPoolExecutor() as pool:
        _in_turn(play, pool)
        pool.submit(say, play.client(), "second", user="anna")
        play.wait_waiting(1)
        with pytest.raises(openai.RateLimitError) as caught:
            say(play.client(), "third", user="anna")
        assert caught.value.code == "overloaded"
        assert int(caught.value.response.headers["retry-after"]) >= 1
        play.troupe.open_all()


def test_who_waits_for_too_long_is_told_so() -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        first = _in_turn(play, pool)
        play.stage.reconfigure(Config(wait_timeout=0.05))  # not for the first one, which is to be built
        with pytest.raises(openai.RateLimitError) as caught:
            say(play.client(), "second", user="anna")
        assert caught.value.code == "wait_timeout"
        assert play.figures() == (1, 0)
        play.troupe.open_all()
        assert first.result(PATIENCE) == "1: a b"


def test_a_turn_that_takes_too_long_is_ended() -> None:
    with playing(turn_timeout=0.05) as play:
        with pytest.raises(openai.InternalServerError) as caught:
            say(play.client(), "a @door", user="anna")
        assert (caught.value.status_code, caught.value.code) == (504, "turn_timeout")
        assert play.turns("local/anna") == 0
        play.stage.reconfigure(Config())  # this one may take its time
        assert say(play.client(), "fine", user="anna") == "1: fine"


def test_the_client_tries_again_when_it_is_told_to_and_gets_its_answer() -> None:
    """Refused with 429 and Retry-After first, because another waits; then let in."""
    with playing(policy=Policy(max_waiting=0)) as play, ThreadPoolExecutor() as pool:
        first = _in_turn(play, pool)
        refused: list[int] = []

        class Counting(openai.OpenAI):
            def _should_retry(self, response: Any, *args: Any, **kwargs: Any) -> bool:
                refused.append(response.status_code)
                play.troupe.door("door").open()
                first.result(PATIENCE)
                return super()._should_retry(response, *args, **kwargs)

        with Counting(base_url=f"{play.server.url}/v1", api_key="x", max_retries=2) as client:
            assert say(client, "second", user="anna") == "2: second"
        assert refused == [429]


def test_while_the_server_drains_no_turn_begins() -> None:
    with playing() as play:
        play.server.call(play.stage.drain(5.0))
        with pytest.raises(openai.InternalServerError) as caught:
            say(play.client(), "late")
        assert (caught.value.status_code, caught.value.code) == (503, "draining")
        assert int(caught.value.response.headers["retry-after"]) >= 1


# Hanging up.


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_hanging_up_in_mid_stream_frees_the_session_and_does_not_count_the_turn(api: str) -> None:
    with playing() as play:
        client = play.client()
        chunks: Any
        if api == "chat":
            chunks = stream(client, "a @door b", user="anna")
        else:
            chunks = client.responses.create(model="m", input="a @door b", user="anna", stream=True)
        next(chunks)
        play.troupe.door("door").wait_reached()
        chunks.close()
        play.troupe.door("door").wait_left()
        assert say(client, "after", user="anna") == "1: after"
        assert (play.turns("local/anna"), play.figures()) == (1, (0, 0))


def _hang_up(play: Play, text: str, when: Callable[[], None]) -> None:
    """Ask for a plain answer of anna's session, and hang up at this moment."""

    async def use() -> None:
        async with openai.AsyncOpenAI(base_url=f"{play.server.url}/v1", api_key="x") as client:
            create = client.chat.completions.create
            asking = asyncio.ensure_future(create(model="m", messages=user(text), user="anna"))
            await asyncio.to_thread(when)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(use())


def test_hanging_up_before_a_plain_answer_ends_the_turn() -> None:
    with playing() as play:
        _hang_up(play, "a @door b", play.troupe.door("door").wait_reached)
        play.troupe.door("door").wait_left()
        assert say(play.client(), "after", user="anna") == "1: after"
        assert (play.turns("local/anna"), play.figures()) == (1, (0, 0))


def test_hanging_up_while_waiting_for_a_turn_gives_the_place_to_the_next() -> None:
    with playing() as play, ThreadPoolExecutor() as pool:
        first = _in_turn(play, pool)
        _hang_up(play, "second", lambda: play.wait_waiting(1))
        play.wait_waiting(0)
        third = pool.submit(say, play.client(), "third", user="anna")
        play.wait_waiting(1)
        play.troupe.door("door").open()
        assert first.result(PATIENCE) == "1: a b"
        assert third.result(PATIENCE) == "2: third"
        assert [request.messages[-1]["content"] for request in play.troupe.requests] == [
            "a @door b",
            "third",
        ]


def test_a_thread_that_works_on_after_its_client_has_gone_is_not_met_by_the_next_turn() -> None:
    with playing(Troupe(threaded=True), interrupt_grace=0.05) as play:
        client = play.client()
        chunks = stream(client, "a @door b", user="anna")
        next(chunks)
        play.troupe.door("door").wait_reached()
        chunks.close()
        assert say(client, "after", user="anna") == "1: after"
        assert play.troupe.built == ["local/anna", "local/anna"]
        play.troupe.door("door").open()
        play.troupe.door("door").wait_left()
