"""The code of docs/openai-agents.md, run. Its model needs no network; where it names a client, no
request is made, and the memory provider, which is whoever's, is a list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent
from agents.testing import ScriptedModel, assistant_message
from frameworks_kit import DOCS, blocks, run

from greenroom import Greenroom
from greenroom.integrations.openai_agents import conversations, follow

PAGE = DOCS / "openai-agents.md"


def host(*texts: str) -> Any:
    return Agent(name="Host", model=ScriptedModel([[assistant_message(text)] for text in texts]))


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names of the page, and what it printed. All but its first program are definitions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with run(PAGE) as names:
        yield names


def test_the_first_program_prints_what_the_page_says(page: dict[str, Any]) -> None:
    assert page["printed"] == blocks(PAGE, "text")[0]


def test_the_rest_of_the_page_works(page: dict[str, Any], patience: float) -> None:
    async def use() -> None:
        async with Greenroom(conversations(host("Well.")), prepare=follow) as room:
            assert await page["first_words"](room, "Hello") == "Well."
            assert not room.has_uncommitted("telegram:12345")
        async with (
            Greenroom(page["build"], prepare=follow) as room,
            room.turn("a", page["spec"], ephemeral=True) as turn,
        ):
            client = turn.agent.agent.model._client
            assert turn.agent.options["context"] == {"chat": "a"}
            assert not client.is_closed()
        assert client.is_closed()

    asyncio.run(use())
    page["agent"].model = host("From a thread.").model
    assert page["on_message"]("telegram:1", "Hello") == "From a thread."
    assert page["room"].commit("telegram:1", timeout=patience)
    assert page["provider"].extracted == [("telegram:1/1", 2)]
