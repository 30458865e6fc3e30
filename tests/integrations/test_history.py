"""A history: whole exchanges, in the store's rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom.integrations._history import History
from greenroom.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/chats.db") as opened:
        yield opened


def history_in(store: Any, session_id: str = "s1") -> History:
    return History(store, "key", session_id, role="framework")


def test_an_exchange_is_one_row_and_comes_back(store: Store) -> None:
    async def say() -> list[Any]:
        history = history_in(store)
        await history.load()
        await history.add(["Hello", {"said": "Hi"}])
        await history.add(["Bye"])
        again = history_in(store)
        await again.load()
        return again.items

    assert asyncio.run(say()) == ["Hello", {"said": "Hi"}, "Bye"]
    assert [row.role for row in store.messages("s1")] == ["framework", "framework"]


def test_what_replaces_a_history_is_all_that_comes_back_and_the_store_keeps_the_rest(
    store: Store,
) -> None:
    async def say() -> tuple[list[Any], list[Any]]:
        history = history_in(store)
        await history.load()
        await history.add(["old"])
        await history.replace(["summary"])
        await history.add(["new"])
        again = history_in(store)
        await again.load()
        return history.items, again.items

    assert asyncio.run(say()) == (["summary", "new"], ["summary", "new"])
    assert len(store.messages("s1")) == 3


@pytest.mark.parametrize("content", ["text", {"items": "no list"}, {}, [1, 2]])
def test_rows_of_another_role_or_form_are_left_alone(store: Store, content: Any) -> None:
    store.create_session("s1", key="key")
    store.append("s1", role="user", content={"items": ["another's"]})
    store.append("s1", role="framework", content=content)
    store.append("s1", role="framework", content={"items": ["ours"]})

    async def read() -> list[Any]:
        history = history_in(store)
        await history.load()
        return history.items

    assert asyncio.run(read()) == ["ours"]


def test_a_session_that_somebody_else_creates_meanwhile_is_written_to_all_the_same(store: Store) -> None:
    async def say() -> None:
        history = history_in(store)
        await history.load()
        store.create_session("s1", key="another")
        await history.add(["Hello"])

    asyncio.run(say())
    assert len(store.messages("s1")) == 1


def test_what_could_not_be_written_is_not_in_memory_either(store: Store) -> None:
    async def say() -> list[Any]:
        history = history_in(store)
        await history.load()
        with pytest.raises(TypeError):
            await history.add([object()])
        return history.items

    assert asyncio.run(say()) == []


class _SlowStore:
    """A store that appends when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_write = asyncio.Event()
        self.written: list[Any] = []

    async def messages_soon(self, session_id: str) -> list[Any]:
        return []

    async def append_soon(self, session_id: str, *, role: str, content: Any) -> None:
        self.asked.set()
        await self.may_write.wait()
        self.written.append(content)


def test_who_is_cancelled_while_an_exchange_is_written_goes_on_when_it_is() -> None:
    async def say() -> None:
        store = _SlowStore()
        history = history_in(store)
        adding = asyncio.create_task(history.add(["Hello"]))
        await store.asked.wait()
        for _ in range(2):  # two timeouts, say
            adding.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not adding.done()
        store.may_write.set()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert store.written == [{"items": ["Hello"]}]
        assert history.items == ["Hello"]

    asyncio.run(say())


@pytest.mark.parametrize("store", [None, object()])
def test_without_a_store_of_messages_a_history_lasts_as_long_as_its_object(store: Any) -> None:
    async def say() -> list[Any]:
        history = history_in(store)
        await history.load()
        await history.add(["Hello"])
        await history.load()
        return history.items

    assert asyncio.run(say()) == ["Hello"]


def test_nobody_s_list_is_the_history_s_own() -> None:
    async def say() -> list[Any]:
        history = history_in(None)
        given = ["Hello"]
        await history.add(given)
        given.append("forged")
        history.items.append("forged")
        return history.items

    assert asyncio.run(say()) == ["Hello"]
