"""Coherence between processes: H1 to H5. Who writes elsewhere is really another process."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom
from greenroom.store import UnknownSession, open_store
from tests.actors.actors import PATIENCE
from tests.crash.databases import sqlite_url
from tests.crash.foreign import Foreign, Reader, Row, Shelf
from tests.crash.process import Family, Puppet
from tests.postgres import PostgresServer
from tests.room.agents import Agent, Cast, touch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from greenroom import Turn


# Processes take long to start where many tests run at once.
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def puppet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Puppet]:
    with Family(tmp_path_factory.mktemp("children")) as family:
        yield family.puppet()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, puppet: Puppet) -> str:
    """A database of the test's own, with the sessions s1 and s2 in it."""
    if request.param == "sqlite":
        url = sqlite_url(tmp_path / "greenroom.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.fresh_url()
    puppet.ask("open_store", url=url)
    for session_id in ("s1", "s2"):
        puppet.ask("create", session_id=session_id, key="a")
    return url


@pytest.fixture(params=["store", "plain"])
def foreign(request: pytest.FixtureRequest, puppet: Puppet, url: str) -> Foreign:
    return Foreign(puppet, url, request.param == "plain")


@pytest.fixture
def cast() -> Iterator[Cast]:
    cast = Cast(kind=Reader)
    yield cast
    cast.finish()


def take(
    room: Greenroom,
    session_id: str = "s1",
    during: Callable[[Turn], object] | None = None,
    **kwargs: Any,
) -> Turn:
    """Take a turn of the key `a`."""
    with room.turn("a", session_id=session_id, **kwargs) as turn:
        if during is not None:
            during(turn)
    return turn


def say(turn: Turn) -> None:
    """Write to the transcript in the turn, as an agent does."""
    agent: Reader = turn.agent
    agent.write(turn.session_id)


# H1


def test_own_writes_in_turns_cause_no_rebuild(cast: Cast, url: str) -> None:
    """H1"""
    room = cast.room(store=url)

    turns = [take(room, during=say) for _ in range(4)]

    assert [turn.reused for turn in turns] == [False, True, True, True]
    assert cast.did("build") == ["a/1"]


def test_own_messages_that_are_added_together_cause_no_rebuild(cast: Cast, url: str) -> None:
    """H1"""
    room = cast.room(store=url)

    def exchange(turn: Turn) -> None:
        agent: Reader = turn.agent
        agent.store.extend(turn.session_id, [("user", "a"), ("tool", "b"), ("assistant", "c")])

    turns = [take(room, during=exchange) for _ in range(3)]

    assert [turn.reused for turn in turns] == [False, True, True]


def test_own_writes_in_turns_that_are_not_completed_cause_no_rebuild(cast: Cast, url: str) -> None:
    """H1"""
    room = cast.room(store=url)

    def fail(turn: Turn) -> None:
        say(turn)
        raise ZeroDivisionError

    def cancel(turn: Turn) -> None:
        say(turn)
        turn.cancel()

    take(room, during=say)
    with pytest.raises(ZeroDivisionError):
        take(room, during=fail)
    take(room, during=cancel)
    take(room, during=say, ephemeral=True)

    assert take(room).reused
    assert cast.did("build") == ["a/1"]


def test_own_writes_between_turns_cause_no_rebuild(cast: Cast, url: str) -> None:
    """H1: the room knows what its own store wrote, in a turn or not."""
    with open_store(url) as store:
        room = cast.room(store=store)
        take(room)
        store.append("s1", role="user", content="ours")
        assert take(room).reused
        store.append("s1", role="user", content="ours")
        store.append("s1", role="user", content="ours")
        assert take(room, during=say).reused
        assert take(room).reused
        assert cast.did("build") == ["a/1"]
        room.close()


def test_what_was_written_before_the_agent_was_built_causes_no_rebuild(
    cast: Cast, url: str, foreign: Foreign
) -> None:
    """H1"""
    foreign.write("s1")
    room = cast.room(store=url)

    assert take(room).rebuild_reason is None
    assert take(room).reused


# H2


def test_a_foreign_write_makes_the_next_turn_rebuild(cast: Cast, url: str, foreign: Foreign) -> None:
    """H2: what was uncommitted is committed by the agent that goes; the one that comes has read it."""
    room = cast.room(store=url)
    take(room)
    foreign.write("s1", "news")

    read: list[Any] = []
    turn = take(room, during=lambda turn: read.extend(turn.agent.read))
    room.settle()

    assert (turn.reused, turn.rebuild_reason) == (False, "coherence")
    assert read == ["news"]
    assert cast.done_to("a/1") == ["build", "commit", "release"]
    assert cast.done_to("a/2") == ["build"]
    assert turn.generation == 2


def test_foreign_writes_cause_one_rebuild_and_not_a_storm(
    cast: Cast, url: str, foreign: Foreign
) -> None:
    """H2"""
    room = cast.room(store=url)
    take(room)
    for _ in range(3):
        foreign.write("s1")

    turns = [take(room, during=say) for _ in range(3)]

    assert [turn.reused for turn in turns] == [False, True, True]


def test_each_foreign_write_is_noticed(cast: Cast, url: str, foreign: Foreign) -> None:
    """H2"""
    room = cast.room(store=url)
    take(room)
    for _ in range(3):
        foreign.write("s1")
        assert take(room, during=say).rebuild_reason == "coherence"
        assert take(room, during=say).reused


def test_own_writes_do_not_hide_a_foreign_one(cast: Cast, url: str, foreign: Foreign) -> None:
    """H2"""
    with open_store(url) as store:
        room = cast.room(store=store)
        take(room, during=say)
        store.append("s1", role="user", content="ours")
        foreign.write("s1")
        store.append("s1", role="user", content="ours")

        assert take(room).rebuild_reason == "coherence"
        room.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE greenroom_messages SET content = 'theirs' WHERE session_id = ?",
        "DELETE FROM greenroom_messages WHERE session_id = ?",
    ],
    ids=["changed", "deleted"],
)
def test_a_message_that_another_program_changes_or_deletes_makes_the_next_turn_rebuild(
    cast: Cast, url: str, puppet: Puppet, sql: str
) -> None:
    """H2"""
    room = cast.room(store=url)
    take(room, during=say)
    Foreign(puppet, url, plain=True).execute(sql, "s1")

    assert take(room).rebuild_reason == "coherence"


def test_a_foreign_write_to_another_session_is_none_of_ours(
    cast: Cast, url: str, foreign: Foreign
) -> None:
    """H2"""
    room = cast.room(store=url)
    take(room)
    foreign.write("s2")

    assert take(room).reused


def test_a_foreign_write_makes_the_next_turn_on_a_loop_rebuild(
    cast: Cast, url: str, foreign: Foreign
) -> None:
    """H2"""
    room = cast.room(store=url)

    async def turn() -> Turn:
        async with room.turn("a", session_id="s1") as turn:
            pass
        return turn

    async def main() -> None:
        await turn()
        assert (await turn()).reused
        foreign.write("s1")
        assert (await turn()).rebuild_reason == "coherence"
        assert (await turn()).reused

    asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


# H3


def test_another_session_of_the_key_and_back_again_reuses_the_agent(
    cast: Cast, url: str, foreign: Foreign
) -> None:
    """H3: transcripts of different length, and nothing is compared across."""
    for _ in range(3):
        foreign.write("s2")
    room = cast.room(store=url)
    take(room, "s1", during=say)

    turns = [take(room, session_id, during=say) for session_id in ("s2", "s1", "s2", "s2", "s1")]

    assert [turn.reused for turn in turns] == [True] * 5
    assert cast.did("build") == ["a/1"]


def test_a_foreign_write_to_a_session_that_the_agent_was_not_in_is_not_compared(
    cast: Cast, url: str, foreign: Foreign
) -> None:
    """H3"""
    room = cast.room(store=url)
    take(room, "s1")
    foreign.write("s2")

    assert take(room, "s2").reused


# H4


def test_another_session_after_the_remembered_one_was_ended_rebuilds(
    cast: Cast, url: str, foreign: Foreign
) -> None:
    """H4"""
    room = cast.room(store=url)
    take(room, "s1")
    foreign.end("s1")

    turn = take(room, "s2")

    assert (turn.reused, turn.rebuild_reason) == (False, "coherence")
    assert take(room, "s2").reused


def test_the_end_of_the_remembered_session_counts_though_nobody_has_written_to_the_next() -> None:
    """H4, with a store that has no ledger, and so no row for a conversation before its first message."""
    shelf = Shelf()
    cast = Cast()
    room = cast.room(store=shelf)
    try:
        take(room, "a")
        assert take(room, "next").reused
        shelf.rows["a"] = Row(version=1, ended=1.0)

        turn = take(room, "next")

        assert (turn.reused, turn.rebuild_reason) == (False, "coherence")
        assert take(room, "next").reused
    finally:
        cast.finish()


def test_the_end_of_a_session_that_is_not_the_remembered_one_rebuilds_nothing(
    cast: Cast, url: str, foreign: Foreign
) -> None:
    """H4"""
    room = cast.room(store=url)
    foreign.puppet.ask("create", session_id="s3", key="a")
    take(room, "s1")
    foreign.end("s3")

    assert take(room, "s2").reused


# H5


@pytest.mark.parametrize("trouble", [OSError("no route"), KeyError("a")], ids=["unreadable", "unknown"])
def test_a_store_that_does_not_tell_costs_no_agent(trouble: Exception, caplog: Any) -> None:
    """H5: no rebuild; it is logged and counted. Once the store tells again, it is compared again."""
    shelf = Shelf()
    cast = Cast()
    room = cast.room(store=shelf)
    try:
        touch(room, "a")
        assert room.stats().store_failures == 0
        shelf.trouble = trouble
        with caplog.at_level(logging.DEBUG, "greenroom"):
            touch(room, *["a"] * 5)

        assert cast.did("build") == ["a/1"]
        assert room.stats().store_failures >= 5
        assert any("store" in text and "'a'" in text for text in caplog.messages), caplog.messages

        shelf.trouble = None
        touch(room, "a", "a")
        assert cast.did("build") == ["a/1"]
        shelf.rows["a"] = Row(version=2)
        touch(room, "a", "a")
        assert cast.did("build") == ["a/1", "a/2"]
    finally:
        cast.finish()


def test_a_store_that_never_tells_builds_one_agent_as_well(url: str) -> None:
    """H5: a room that only reads its store, and a session that is not in there."""
    cast = Cast()
    with Greenroom(cast.build, store=url, durability="off") as room:
        touch(room, *["unknown"] * 3)
        assert cast.did("build") == ["unknown/1"]
        assert room.stats().store_failures >= 1
    with open_store(url) as store, pytest.raises(UnknownSession):
        store.session("unknown")


def test_an_agent_without_a_remembered_version_is_reused(cast: Cast, url: str, foreign: Foreign) -> None:
    """H5: an adopted agent has none, and has one when its first turn is over."""
    foreign.write("s1")
    room = cast.room(store=url)
    agent = Agent(cast, "a", "a/adopted")
    room.adopt("a", agent, session_id="s1")

    agents: list[Agent] = []
    turn = take(room, during=lambda turn: agents.append(turn.agent))
    assert turn.reused
    assert agents == [agent]

    foreign.write("s1")
    assert take(room).rebuild_reason == "coherence"
