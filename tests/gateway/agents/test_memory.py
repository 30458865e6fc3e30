"""Facts: what counts as one, and that each is kept once, however often a commit is tried."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom import Generation
from greenroom.gateway.agents import FactMemory
from greenroom.gateway.agents.memory import facts_in, memory_of
from greenroom.gateway.watch._timed_store import TimedStore
from greenroom.store import Store, open_store
from tests.gateway.agents.plays import Context, assistant, on_a_loop, user


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", durability="off") as store:
        store.create_session("a", key="a")
        yield store


def say(store: Store, text: Any, session_id: str = "a") -> None:
    store.append(session_id, role="user", content=text)
    store.append(session_id, role="assistant", content="I like to hear that. My name is Robot.")


def rows(store: Store, key: str = "a") -> list[Any]:
    return [message.content for message in store.messages(memory_of(key))]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Hello! My name is Ada Lovelace. What is yours?", ["your name is Ada Lovelace"]),
        ("I like tea, and I hate coffee", ["you like tea, and I hate coffee"]),
        ("I like tea. I really love rain!", ["you like tea", "you love rain"]),
        ("please remember that the key is under the mat.", ["the key is under the mat"]),
        ("Remember: milk", ["milk"]),
        ("my   dog's name\tis  Rex", ["your dog's name is Rex"]),
        ("I like tea. I like tea.", ["you like tea"]),
        ("What is my name?", []),
        ("It is likely that I dislike it", []),
        ("", []),
    ],
)
def test_facts_are_found_in_what_users_say(text: str, facts: list[str]) -> None:
    assert facts_in([text]) == facts


def test_a_fact_is_no_novel() -> None:
    assert len(facts_in(["I like " + "x" * 10_000])[0]) == 500


@on_a_loop
async def test_a_commit_keeps_the_facts_that_users_told_and_a_later_agent_knows_them(
    store: Store,
) -> None:
    say(store, "my name is Ada")
    say(store, [{"type": "text", "text": "I like tea"}])
    assert await FactMemory(Context(store).it).commit(Generation(2, "a")) == (
        "your name is Ada",
        "you like tea",
    )
    later = FactMemory(Context(store).it)
    assert not later.facts
    await later.load_soon()
    assert later.facts == ("your name is Ada", "you like tea")


@on_a_loop
async def test_the_same_commit_again_adds_nothing_by_whichever_agent(store: Store) -> None:
    say(store, "my name is Ada")
    memory = FactMemory(Context(store).it)
    await memory.commit(Generation(1, "a"))
    say(store, "I like tea")  # the next turn, which another commit is for
    assert await memory.commit(Generation(1, "a")) == ()
    assert await FactMemory(Context(store).it).commit(Generation(1, "a")) == ()
    assert [row["facts"] for row in rows(store)] == [["your name is Ada"]]

    assert await memory.commit(Generation(2, "a")) == ("you like tea",)
    assert [row["token"] for row in rows(store)] == ["a/1", "a/2"]


class Reads:
    """A store that notes from where on transcripts are read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.after: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def messages_soon(self, session_id: str, *, after: int = 0) -> Any:
        if session_id == "a":
            self.after.append(after)
        return self.store.messages_soon(session_id, after=after)


@on_a_loop
async def test_what_was_said_is_read_once_by_a_later_agent_too(store: Store) -> None:
    reads = Reads(store)
    memory = FactMemory(Context(reads).it)
    for number, text in enumerate(["my name is Ada", "hello", "I like tea"], start=1):
        say(store, text)
        await memory.commit(Generation(number, "a"))
    await FactMemory(Context(reads).it).commit(Generation(4, "a"))
    assert reads.after == [0, 2, 4, 6]


@on_a_loop
async def test_a_commit_goes_on_where_the_last_one_ended(store: Store) -> None:
    memory = FactMemory(Context(store).it)
    say(store, "my name is Ada")
    await memory.commit(Generation(1, "a"))
    say(store, "hello")
    assert await memory.commit(Generation(2, "a")) == ()
    say(store, "I like tea")
    await memory.commit(Generation(3, "a"))
    assert [(row["through"], row["facts"]) for row in rows(store)] == [
        (2, ["your name is Ada"]),
        (6, ["you like tea"]),
    ]


@on_a_loop
async def test_what_a_room_that_was_thought_dead_writes_late_counts_once(store: Store) -> None:
    say(store, "my name is Ada")
    await FactMemory(Context(store).it).commit(Generation(1, "a"))
    late = {**rows(store)[0], "facts": ["your name is Bob"]}
    store.append(memory_of("a"), role="memory", content=late)
    memory = FactMemory(Context(store).it)
    memory.load()
    assert memory.facts == ("your name is Ada",)


@on_a_loop
async def test_numbers_that_begin_again_without_a_ledger_lose_no_facts(store: Store) -> None:
    say(store, "my name is Ada")
    await FactMemory(Context(store).it).commit(Generation(1, None))
    say(store, "I like tea")
    await FactMemory(Context(store).it).commit(Generation(1, None))
    assert [row["facts"] for row in rows(store)] == [["your name is Ada"], ["you like tea"]]


@on_a_loop
async def test_facts_belong_to_the_key_and_each_conversation_is_read_for_itself(store: Store) -> None:
    store.create_session("a#2", key="a")
    store.create_session("b", key="b")
    say(store, "my name is Ada")
    say(store, "I like tea", "a#2")
    say(store, "my name is Bob", "b")
    memory = FactMemory(Context(store, "a", "a#2").it)
    await memory.commit(Generation(1, "a#2"))
    await memory.commit(Generation(1, "a"))  # its agent served that conversation before
    await FactMemory(Context(store, "b").it).commit(Generation(1, "b"))

    later = FactMemory(Context(store, "a", "a#3").it)
    await later.load_soon()
    assert later.facts == ("you like tea", "your name is Ada")


@on_a_loop
async def test_a_commit_without_anything_new_writes_nothing(store: Store) -> None:
    say(store, "hello")
    await FactMemory(Context(store).it).commit(Generation(1, "a"))
    assert [row.session_id for row in store.sessions()] == ["a"]


@on_a_loop
async def test_the_place_of_the_facts_is_made_once(store: Store) -> None:
    told: list[str] = []
    memory = FactMemory(Context(TimedStore(store, lambda name, *_: told.append(name))).it)
    for number, text in enumerate(("I like tea", "I like rain", "I like snow"), 1):
        say(store, text)
        await memory.commit(Generation(number, "a"))
    assert (told.count("create_session"), told.count("append")) == (1, 3)


@on_a_loop
async def test_facts_are_kept_again_after_somebody_deleted_those_before(store: Store) -> None:
    memory = FactMemory(Context(store).it)
    say(store, "I like tea")
    await memory.commit(Generation(1, "a"))
    store.delete_session(memory_of("a"))
    for number, text in enumerate(("I like rain", "I like snow"), 2):
        say(store, text)
        await memory.commit(Generation(number, "a"))
    assert [row["facts"] for row in rows(store)] == [["you like rain"], ["you like snow"]]


@on_a_loop
async def test_many_commits_of_the_same_at_once_are_one(store: Store) -> None:
    say(store, "my name is Ada. I like tea.")
    memories = [FactMemory(Context(store).it) for _ in range(8)]
    await asyncio.gather(*(memory.commit(Generation(1, "a")) for memory in memories))
    later = FactMemory(Context(store).it)
    await later.load_soon()
    assert later.facts == ("your name is Ada", "you like tea")


@on_a_loop
async def test_without_a_store_facts_last_as_long_as_the_session() -> None:
    context = Context()
    memory = FactMemory(context.it)
    memory.hear([user("my name is Ada"), assistant("I like that"), user([{"text": "I like tea"}])])
    assert not memory.facts
    assert await memory.commit(Generation(1, None)) == ("your name is Ada", "you like tea")
    assert await memory.commit(Generation(2, None)) == ()
    later = FactMemory(context.again())
    await later.load_soon()
    assert later.facts == ("your name is Ada", "you like tea")
    assert FactMemory(Context().it).facts == ()


@on_a_loop
async def test_a_store_that_cannot_be_read_fails_the_commit(store: Store) -> None:
    memory = FactMemory(Context(store).it)
    store.close()
    with pytest.raises(Exception, match="closed"):
        await memory.commit(Generation(1, "a"))
    with pytest.raises(Exception, match="closed"):
        memory.load()


def test_the_longest_key_has_a_place_for_its_facts() -> None:
    assert memory_of("k" * 490) == "memory of " + "k" * 490
    assert len(memory_of("k" * 491)) <= 500
    assert memory_of("k" * 491) != memory_of("k" * 492)
