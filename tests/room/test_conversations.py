"""The conversations of a key: `renew()`, and what a turn means that names none."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Greenroom, RoomClosed, StoreAway
from greenroom.actors import ManualClock
from greenroom.store import open_store
from tests.actors.actors import in_thread, join_all
from tests.crash.databases import sqlite_url
from tests.room.agents import Cast, row_of, touch, until
from tests.room.test_ledger import Moody

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from greenroom.store import Store
    from tests.postgres import PostgresServer


def session_id_of(room: Greenroom, key: str = "a", **kwargs: Any) -> str:
    """Take a turn, and tell which conversation it was of."""
    with room.turn(key, **kwargs) as turn:
        assert turn.agent.session_id == turn.session_id or kwargs
    return turn.session_id


# Without a store.


def test_a_turn_that_names_no_conversation_is_one_of_the_key_itself(cast: Cast) -> None:
    room = cast.room()

    assert [session_id_of(room) for _ in range(3)] == ["a"] * 3
    assert room.snapshot()[0].session_id == "a"


def test_renewing_ends_the_session_and_begins_another_conversation(cast: Cast) -> None:
    """S2"""
    room = cast.room()
    room.settings("a")["model"] = "override"
    with room.turn("a") as first:
        pass

    renewed = room.renew("a")
    with room.turn("a") as second:
        pass
    with room.turn("a") as warm:
        assert (warm.agent.session_id, warm.reused) == (renewed, True)
    room.settle()

    assert renewed.startswith("a#")
    assert (second.session_id, warm.session_id) == (renewed, renewed)
    assert cast.done_to("a/1") == ["build", "commit", "shutdown", "close"]
    assert dict(room.settings("a")) == {}
    assert row_of(room, "a").session_id == renewed
    # Those that are over are what they were.
    assert first.session_id == "a"
    room.renew("a")
    assert (second.session_id, warm.session_id) == (renewed, renewed)


def test_each_conversation_has_a_session_id_of_its_own(cast: Cast) -> None:
    room = cast.room()

    renewed = [room.renew("a") for _ in range(3)]

    assert len({"a", *renewed}) == 4
    assert session_id_of(room) == renewed[-1]
    assert session_id_of(room, "b") == "b"


def test_renewing_in_a_turn_takes_effect_when_the_turn_ends(cast: Cast) -> None:
    """T7"""
    room = cast.room()
    held = cast.hold(room, "a")
    waiting = cast.queue(room, "a")

    renewed = room.renew("a")
    assert room.renew("a") == renewed  # nobody has used it yet
    room.end("a")  # is no reason to forget it
    assert held.turn.session_id == "a"
    held.end()

    assert waiting.wait_begun().turn.session_id == renewed
    assert cast.agents[-1].session_id == renewed
    waiting.end()
    assert held.turn.session_id == "a"


def test_a_session_id_that_is_named_changes_nothing_for_turns_that_name_none(cast: Cast) -> None:
    room = cast.room()
    first = session_id_of(room)
    named = session_id_of(room, session_id="other")
    third = session_id_of(room)
    renewed = room.renew("a")

    assert (first, named, third) == ("a", "other", "a")
    assert session_id_of(room, session_id="a") == "a"
    assert session_id_of(room, ephemeral=True) == renewed
    assert row_of(room, "a").session_id == renewed


def test_an_eviction_does_not_forget_the_conversation_and_the_end_of_the_session_does(
    cast: Cast,
) -> None:
    """S3, C9"""
    room = cast.room()
    renewed = room.renew("a")
    with room.turn("a", ephemeral=True):
        pass
    room.evict("a")
    room.settle()
    assert session_id_of(room) == renewed

    assert room.end("a")
    room.settle()
    assert room.stats().known == 0
    assert session_id_of(room) == "a"


def test_a_conversation_that_nobody_uses_ends_with_its_session(cast: Cast) -> None:
    """S6, C9"""
    clock = ManualClock()
    room = cast.room(clock=clock, session_ttl=10.0)
    room.renew("a")
    room.renew("b")
    assert room.stats().known == 2

    assert room.end("b")
    clock.advance(11.0)
    room.sweep()
    until(lambda: room.stats().known == 0, "the end of the sessions")


def test_an_adopted_agent_is_one_of_the_current_conversation(cast: Cast) -> None:
    room = cast.room()
    renewed = room.renew("a")

    room.adopt("a", object())

    with room.turn("a") as turn:
        assert (turn.session_id, turn.reused) == (renewed, True)
    assert row_of(room, "a").session_id == renewed


def test_a_task_can_renew_and_a_room_that_is_drained_does_not(cast: Cast) -> None:
    room = cast.room()

    async def renew() -> tuple[str, str]:
        renewed = await room.session("a").renew()
        async with room.turn("a") as turn:
            return renewed, turn.session_id

    renewed, used = asyncio.run(renew())
    assert renewed == used

    held = cast.hold(room, "a")
    draining = in_thread(lambda: room.drain(30.0))
    until(lambda: room._context.draining, "a drain")
    with pytest.raises(RoomClosed):
        room.renew("a")
    held.end()
    join_all([draining])


# With a store.


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "greenroom.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url, durability="normal") as store:
        yield store


def test_a_conversation_survives_a_restart_and_the_old_one_is_ended(
    cast: Cast, url: str, store: Store
) -> None:
    """H4"""
    room = cast.room(store=url)
    touch(room, "a")
    renewed = room.renew("a")
    assert store.conversation("a") == renewed  # before anybody used it
    assert session_id_of(room) == renewed
    room.close()

    assert store.session("a").ended is not None
    assert store.session(renewed).ended is None
    assert cast.done_to("a/1") == ["build", "commit", "shutdown", "close"]
    again = cast.room(store=url)
    assert [session_id_of(again), session_id_of(again)] == [renewed, renewed]
    assert session_id_of(again, session_id="a") == "a"


def test_a_session_that_is_not_in_memory_can_be_renewed(cast: Cast, url: str, store: Store) -> None:
    room = cast.room(store=url)
    renewed = [room.renew("a"), room.renew("a")]

    assert store.conversation("a") == renewed[1]
    until(lambda: not room.snapshot(), "nothing to remember")
    assert session_id_of(room) == renewed[1]
    with pytest.raises(ValueError, match="500 characters"):
        room.turn("x" * 501)
    assert len(room.renew("x" * 500)) == 500


def test_another_room_goes_on_with_the_new_conversation(cast: Cast, url: str, store: Store) -> None:
    """M1, H4: and what it kept for the old one is closed there."""
    here, there = cast.room(store=url), cast.room(store=url, lease_ttl=30.0)
    there.settings("a")["model"] = "override"
    with there.turn("a") as first:
        pass

    renewed = here.renew("a")
    with there.turn("a") as second:
        assert (second.reused, second.agent.session_id) == (False, renewed)
    there.settle()

    assert (first.session_id, second.session_id) == ("a", renewed)
    assert cast.done_to("a/1") == ["build", "commit", "shutdown", "close"]
    assert dict(there.settings("a")) == {}
    assert session_id_of(there) == renewed
    # It had to ask for the old one to learn that, and does not keep it.
    until(lambda: store.session("a").free_at is not None, "somebody else may have the old one")


def test_when_two_rooms_renew_at_once_the_last_word_of_the_store_holds(
    cast: Cast, url: str, store: Store
) -> None:
    """M4"""
    rooms = [cast.room(store=url), cast.room(store=url)]
    renewed: list[str] = []

    def renew(room: Greenroom) -> None:
        renewed.append(room.renew("a"))

    join_all([in_thread(partial(renew, room)) for room in rooms])

    current = store.conversation("a")
    assert current in renewed
    assert [session_id_of(room) for room in rooms] == [current, current]
    (lost,) = {*renewed} - {current}
    for room in rooms:
        room.close()
    owned = [row.session_id for row in store.sessions(key="a") if row.owner is not None]
    assert lost not in owned


def test_a_turn_of_another_room_goes_on_in_the_conversation_in_which_it_began(
    cast: Cast, url: str, store: Store
) -> None:
    here, there = cast.room(store=url), cast.room(store=url)
    held = cast.hold(there, "a")

    renewed = here.renew("a")
    assert session_id_of(here) == renewed  # and waits for nobody
    held.end()

    assert held.turn.session_id == "a"
    assert (store.session("a").generation, store.session(renewed).generation) == (1, 1)
    assert session_id_of(there, on_busy="wait", timeout=20.0) == renewed


def test_a_turn_that_renews_its_own_key_ends_in_the_old_conversation(
    cast: Cast, url: str, store: Store
) -> None:
    """T7"""
    room = cast.room(store=url)
    with room.turn("a") as turn:
        renewed = room.renew("a")
        assert (turn.session_id, turn.agent.session_id) == ("a", "a")

    assert (turn.session_id, turn.completed) == ("a", True)
    assert session_id_of(room) == renewed
    assert (store.session("a").generation, store.session(renewed).generation) == (1, 1)


def test_a_room_that_only_reads_its_store_renews_there_too(cast: Cast, url: str, store: Store) -> None:
    with Greenroom(cast.build, store=url, durability="off") as room:
        touch(room, "a")
        renewed = room.renew("a")
        assert session_id_of(room) == renewed
    assert store.conversation("a") == renewed
    with Greenroom(cast.build, store=url, durability="off") as room:
        assert session_id_of(room) == renewed


def test_a_store_that_cannot_be_told_keeps_the_conversation(cast: Cast, tmp_path: Path) -> None:
    with open_store(sqlite_url(tmp_path / "greenroom.db"), durability="normal") as store:
        moody = Moody(store)
        room = cast.room(store=moody)
        touch(room, "a")

        moody.refuses.add("renew")
        with pytest.raises(StoreAway, match="renew"):
            room.renew("a")
        assert (session_id_of(room), cast.did("build")) == ("a", ["a/1"])

        moody.refuses.clear()
        assert room.renew("a") == session_id_of(room)
        room.close()


def test_a_conversation_that_was_written_without_an_answer_is_the_current_one(
    cast: Cast, tmp_path: Path
) -> None:
    """M4"""
    with open_store(sqlite_url(tmp_path / "greenroom.db"), durability="normal") as store:
        moody = Moody(store)
        room = cast.room(store=moody)
        touch(room, "a")

        moody.deaf = True
        with pytest.raises(StoreAway, match="nobody was told"):
            room.renew("a")
        moody.deaf = False

        renewed = store.conversation("a")
        assert renewed != "a"
        assert session_id_of(room) == renewed
        room.settle()
        assert cast.done_to("a/1") == ["build", "commit", "shutdown", "close"]
        room.close()


def test_whoever_renews_while_the_store_is_told_gets_the_same(cast: Cast, tmp_path: Path) -> None:
    with open_store(sqlite_url(tmp_path / "greenroom.db"), durability="normal") as store:
        moody = Moody(store)
        room = cast.room(store=moody)
        touch(room, "a")
        gate = moody.at["renew"] = cast.gate()

        first = room.session("a").renew()
        gate.wait_reached()
        second = room.session("a").renew()
        gate.open()

        assert first.get() == second.get() == store.conversation("a")
        assert moody.done.count("renew") == 1
        room.close()


def test_an_adopted_agent_is_kept_for_the_conversation_that_the_store_knows(
    cast: Cast, url: str
) -> None:
    """H1, H4"""
    with Greenroom(cast.build, store=url) as room:
        touch(room, "a")
        renewed = room.renew("a")
    room = cast.room(store=url)
    agent = object()
    room.adopt("a", agent)

    for _ in range(2):
        with room.turn("a") as turn:
            assert (turn.session_id, turn.agent) == (renewed, agent)


def test_a_transcript_that_ended_without_another_conversation_is_still_current(
    cast: Cast, url: str, store: Store
) -> None:
    """H4 is about another session id under the same key."""
    room = cast.room(store=url)
    touch(room, "a")
    store.end_session("a")

    assert [session_id_of(room), session_id_of(room)] == ["a", "a"]
