"""The included agents in a real server, asked by the official client; and one server behind another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from greenroom.gateway.agents import offline, openai_agent
from tests.gateway.agents.plays import PATIENCE
from tests.gateway.serving import Serving, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with serving(offline, store=f"sqlite:///{tmp_path / 'offline.db'}") as server:
        yield server


@pytest.fixture
def front(server: Serving, tmp_path: Path) -> Iterator[Serving]:
    """A server whose agents ask the other server."""
    options = {"model": "greenroom", "base_url": f"{server.url}/v1", "max_retries": 0}
    url = f"sqlite:///{tmp_path / 'front.db'}"
    with serving(openai_agent, store=url, agent_options=options) as front:
        yield front


def ask(server: Serving, text: str, session: str | None = "kitchen") -> str:
    with client_of(server) as client:
        more: dict[str, Any] = {} if session is None else {"user": session}
        messages: Any = [{"role": "user", "content": text}]
        answer = client.chat.completions.create(model="greenroom", messages=messages, **more)
        return answer.choices[0].message.content or ""


def client_of(server: Serving) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_the_offline_agent_goes_on_with_a_session(server: Serving) -> None:
    assert ask(server, "hello").endswith("We have just begun. You said: hello")
    assert ask(server, "again").endswith("I remember 2 messages. You said: again")
    assert ask(server, "hello", session=None).endswith("We have just begun. You said: hello")
    assert ask(server, "/long 3") == "word1 word2 word3"


@pytest.mark.parametrize(("text", "status"), [("/refuse", 400), ("/fail", 500)])
def test_the_offline_agent_shows_how_failures_look(server: Serving, text: str, status: int) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        ask(server, text)
    assert caught.value.status_code == status


def test_the_openai_agent_asks_another_server(front: Serving) -> None:
    # What is behind keeps no session: the agent in front sends the whole conversation each time.
    assert ask(front, "hello").endswith("You said: hello")
    assert ask(front, "again").endswith("You said: again")
    with pytest.raises(openai.BadRequestError, match="told to refuse"):
        ask(front, "/refuse")


def test_a_server_behind_that_fails_is_unavailable_in_front(front: Serving) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        ask(front, "/fail")
    assert caught.value.status_code == 503


def test_who_hangs_up_in_front_hangs_up_behind(server: Serving, front: Serving) -> None:
    ended = threading.Event()
    errors: list[BaseException | None] = []

    class Watch:
        def began(self, performance: Any) -> None: ...

        def ended(self, performance: Any, error: BaseException | None) -> None:
            errors.append(error)
            ended.set()

    server.stage.watchers.append(Watch())
    with client_of(front) as client:
        messages: Any = [{"role": "user", "content": "/long 100000"}]
        stream = client.chat.completions.create(model="greenroom", messages=messages, stream=True)
        assert any(chunk.choices and chunk.choices[0].delta.content for chunk in stream)
        stream.close()
        assert ended.wait(PATIENCE)
    assert [type(error).__name__ for error in errors] == ["ClientGone"]
