"""The code of docs/anthropic.md, run. Its clients find an endpoint on loopback in the environment, in
the place of Anthropic's, and the memory provider, which is whoever's, is a list."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frameworks_kit import DOCS, blocks, run

from greenroom import Greenroom
from greenroom.integrations.anthropic import follow

PAGE = DOCS / "anthropic.md"

SAID = [
    [{"type": "tool_use", "id": "call-1", "name": "weather", "input": {"city": "Rome"}}],
    ["It is sunny in Rome, Ada: ", "24 degrees."],
    ["You are ", "Ada."],
]
"""What the model says in the first program of the page."""


@pytest.fixture
def elsewhere(endpoint: Any, patience: float) -> Iterator[Any]:
    """An endpoint that runs beside the page, on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def do(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(patience)

    running = endpoint(*SAID)
    do(running.__aenter__())
    yield running
    do(running.__aexit__())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(patience)
    loop.close()


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Any) -> Iterator[dict[str, Any]]:
    """The names of the page, and what it printed. All but its first program are definitions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", elsewhere.url)
    with run(PAGE) as names:
        yield names


def test_the_first_program_prints_what_the_page_says(page: dict[str, Any]) -> None:
    assert page["printed"] == blocks(PAGE, "text")[0]


def test_the_rest_of_the_page_works(page: dict[str, Any], elsewhere: Any, patience: float) -> None:
    elsewhere.answers += [["Well."], ["From a thread."]]

    async def use() -> None:
        async with Greenroom(page["build"], prepare=follow) as room:
            assert await page["first_words"](room, "Hello") == "Well."
            assert not room.has_uncommitted("telegram:12345")
            async with room.turn("a", page["spec"], ephemeral=True) as turn:
                client = turn.agent.client
                assert turn.agent.options["model"] == "claude-sonnet-5-5"
                assert not client.is_closed()
        assert client.is_closed()

    asyncio.run(use())
    assert [tool["name"] for tool in elsewhere.requests[-1]["tools"]] == ["weather", "note"]
    assert elsewhere.requests[-1]["cache_control"] == {"type": "ephemeral"}
    assert page["on_message"]("telegram:1", "Hello") == "From a thread."
    assert page["room"].commit("telegram:1", timeout=patience)
    assert page["provider"].extracted == [("telegram:1/1", 2)]
