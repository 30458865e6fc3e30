"""The code of docs/langgraph.md, run. Its model needs no network, and the memory provider, which is
whoever's, is a list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frameworks_kit import DOCS, blocks, run

from greenroom import Greenroom
from greenroom.integrations.langgraph import follow

PAGE = DOCS / "langgraph.md"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names of the page, and what it printed. All but its two programs are definitions."""
    monkeypatch.chdir(tmp_path)
    with run(PAGE) as names:
        yield names


def test_the_programs_print_what_the_page_says(page: dict[str, Any]) -> None:
    assert page["printed"] == "".join(blocks(PAGE, "text"))


def test_the_rest_of_the_page_works(page: dict[str, Any], patience: float) -> None:
    async def use() -> None:
        async with Greenroom(page["build"], prepare=follow) as room:
            assert await page["first_words"](room, "Hello") == "H"
            assert not room.has_uncommitted("telegram:12345")
            async with room.turn("telegram:12345", page["spec"], ephemeral=True) as turn:
                assert turn.agent.config["configurable"] == {"user": "telegram:12345"}
                assert len(await turn.agent.history()) == 4  # of the first program
        async with Greenroom(page["riddles"], prepare=follow) as room, room.turn("a") as turn:
            assert await turn.agent.run("ho") == "oh"

    asyncio.run(use())
    page["model"].responses = ["From a thread."]
    page["model"].i = 0
    assert page["on_message"]("telegram:1", "Hello") == "From a thread."
    assert page["room"].commit("telegram:1", timeout=patience)
    assert page["provider"].extracted == [("telegram:1/1", 2)]
