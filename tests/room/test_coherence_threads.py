"""Coherence within a process: H1, with threads. What other processes write: `test_coherence.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from greenroom.store import open_store
from tests.actors.actors import all_at_once
from tests.crash.databases import sqlite_url
from tests.crash.foreign import Reader
from tests.room.agents import Cast

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "greenroom.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()


def test_own_writes_at_the_same_time_as_turns_cause_no_rebuild(url: str) -> None:
    """H1: however the two come to lie."""
    cast = Cast(kind=Reader)
    with open_store(url) as store:
        store.create_session("s1", key="a")
        room = cast.room(store=store)

        def write() -> None:
            for _ in range(40):
                store.append("s1", role="user", content="ours")

        def turn() -> None:
            for _ in range(40):
                with room.turn("a", session_id="s1") as taken:
                    taken.agent.write("s1")

        with room.turn("a", session_id="s1"):
            pass
        all_at_once([write, turn, write])

        assert cast.did("build") == ["a/1"]
        cast.finish()
