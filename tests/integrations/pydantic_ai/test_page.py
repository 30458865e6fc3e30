"""The code of docs/pydantic-ai.md, run. Its model needs no network; where it names a client, no request
is made, and the memory provider, which is whoever's, is a list."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.agent import Agent
from pydantic_ai.models.test import TestModel

from greenroom import Greenroom
from greenroom.integrations.pydantic_ai import conversations, follow

PAGE = Path(__file__).parents[3] / "docs" / "pydantic-ai.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


class Provider:
    """A memory provider."""

    def __init__(self) -> None:
        self.extracted: list[tuple[str, int]] = []

    async def extract(self, said: list[Any], idempotency_key: str) -> None:
        self.extracted.append((idempotency_key, len(said)))


@pytest.fixture
def page(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    patience: float,
) -> Iterator[dict[str, Any]]:
    """The names of the page, and what it printed. All but its first program are definitions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    before = frozenset(threading.enumerate())
    names: dict[str, Any] = {"provider": Provider()}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    (running,) = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith("greenroom")
    ]
    yield names | {"printed": capsys.readouterr().out}
    names["room"].close()
    names["loop"].call_soon_threadsafe(names["loop"].stop)
    running.join(patience)
    assert not running.is_alive()
    names["loop"].close()


def test_the_first_program_prints_what_the_page_says(page: dict[str, Any]) -> None:
    assert page["printed"] == blocks("text")[0]


def test_the_rest_of_the_page_works(page: dict[str, Any], patience: float) -> None:
    async def use() -> None:
        agent = Agent(TestModel(custom_output_text="Well."))
        async with Greenroom(conversations(agent), prepare=follow) as room:
            assert "Well.".startswith(await page["first_words"](room, "Hello"))
            assert not room.has_uncommitted("telegram:12345")
        async with (
            Greenroom(page["build"], prepare=follow) as room,
            room.turn("a", page["spec"], ephemeral=True) as turn,
        ):
            client = turn.agent.agent.model.client
            assert turn.agent.options["deps"] == {"chat": "a"}
            assert not client.is_closed()
        assert client.is_closed()

    asyncio.run(use())
    page["agent"].model = TestModel(custom_output_text="From a thread.")
    assert page["on_message"]("telegram:1", "Hello") == "From a thread."
    assert page["room"].commit("telegram:1", timeout=patience)
    assert page["provider"].extracted == [("telegram:1/1", 2)]
