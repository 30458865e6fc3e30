"""What docs/hermes.md shows is run, so that it stays true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "hermes.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_the_first_lines_run(endpoint: Any, capsys: pytest.CaptureFixture[str]) -> None:
    first = blocks()[0]
    assert "http://127.0.0.1:11434/v1" in first
    names: dict[str, Any] = {}
    exec(first.replace("http://127.0.0.1:11434/v1", endpoint.url), names)
    assert "llama3.3 heard hello" in capsys.readouterr().out
    row = names["database"].get_session("20261115-a1")
    assert (row["message_count"], row["ended_at"]) == (2, None)
    names["database"].close()


def test_the_lines_for_its_gateway_run(
    open_room: Any, endpoint: Any, database: Any, gateway_runner: Any
) -> None:
    names: dict[str, Any] = {}
    exec(blocks()[1], names)
    room = open_room(session_db=database)
    runtime = {"api_key": "test", "base_url": endpoint.url, "provider": "custom", "command": None}
    seen: list[Any] = []
    chat = {
        "toolsets": [],
        "prompt": "Be brief.",
        "cache_keys": gateway_runner._extract_cache_busting_config({}),
        "user_id": "7654321",
        "platform": "telegram",
        "status_callback": lambda *event: seen.append(event),
    }
    for text in ("hello", "and again"):
        history = database.get_messages_as_conversation("s1")
        route = {"model": "some-model", "runtime": runtime}
        result = names["run_turn"](room, "telegram:42", "s1", text, history, route, chat)
        assert result["final_response"] == f"some-model heard {text}"
    assert room.stats().builds == 1
