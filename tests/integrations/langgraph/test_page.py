"""The code of docs/langgraph.md, run. Its model needs no network, and the memory provider, which is
whoever's, is a list."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom import Greenroom
from greenroom.integrations.langgraph import follow

PAGE = Path(__file__).parents[3] / "docs" / "langgraph.md"


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
    """The names of the page, and what it printed. All but its two programs are definitions."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"provider": Provider()}
    before = frozenset(threading.enumerate())
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    (running,) = [
        thread
        for thread in threading.enumerate()
        if thread not in before and thread.name.endswith("(run_forever)")
    ]
    yield names | {"printed": capsys.readouterr().out}
    names["room"].close()
    names["loop"].call_soon_threadsafe(names["loop"].stop)
    running.join(patience)
    assert not running.is_alive()
    names["loop"].close()


def test_the_programs_print_what_the_page_says(page: dict[str, Any]) -> None:
    assert page["printed"] == "".join(blocks("text"))


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
