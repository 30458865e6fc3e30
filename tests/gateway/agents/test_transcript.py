"""Transcripts: what is new, what is written, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom.gateway._agent import BadRequest
from greenroom.gateway.agents import Transcript, text_of
from greenroom.gateway.watch._timed_store import TimedStore
from greenroom.store import Store, StoreError, StoreUnavailable, open_store
from tests.gateway.agents.plays import Context, assistant, on_a_loop, request, system, user
from tests.store.foreign import execute


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", durability="off") as store:
        yield store


@pytest.fixture(params=["memory", "store"])
def context(request: pytest.FixtureRequest) -> Context:
    return Context(None if request.param == "memory" else request.getfixturevalue("store"))


def in_store(store: Store, session_id: str = "a") -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in store.messages(session_id)]


# What is new


def test_of_a_session_that_has_none_all_messages_are_new(context: Context) -> None:
    transcript = Transcript(context.it)
    transcript.load()
    messages = (user("1"), assistant("2"), user("3"))
    assert transcript.new(request(*messages)) == messages


@on_a_loop
async def test_later_only_what_follows_the_last_message_of_the_assistant_is_new(
    context: Context,
) -> None:
    transcript = Transcript(context.it)
    await transcript.load_soon()
    await transcript.add_soon(request("1"), "2")

    whole = request("1", assistant("2"), "3", "4")
    assert transcript.new(whole) == (user("3"), user("4"))
    assert transcript.new(request("3")) == (user("3"),)
    await transcript.add_soon(whole, "5")
    assert transcript.messages == (user("1"), assistant("2"), user("3"), user("4"), assistant("5"))


@on_a_loop
async def test_what_an_agent_is_shown_is_what_was_said_before_and_what_is_new(context: Context) -> None:
    transcript = Transcript(context.it)
    await transcript.load_soon()
    await transcript.add_soon(request("1"), "2")
    assert transcript.prompt(request(system("x"), "3")) == [user("1"), assistant("2"), user("3")]
    assert len(transcript) == 2


@on_a_loop
async def test_a_complete_request_that_goes_on_adds_only_what_is_new(context: Context) -> None:
    transcript = Transcript(context.it)
    await transcript.load_soon()
    await transcript.add_soon(request("1"), "2")
    whole = request("1", assistant("2"), "3", complete=True)
    assert transcript.new(whole) == (user("3"),)
    assert transcript.prompt(whole) == list(whole.messages)


@on_a_loop
async def test_a_complete_request_that_differs_is_the_whole_conversation_from_then_on(
    context: Context,
) -> None:
    transcript = Transcript(context.it)
    await transcript.load_soon()
    await transcript.add_soon(request(system("be brief"), "1"), "2")

    other = request("one", assistant("two"), "three", complete=True)
    assert transcript.new(other) == other.messages
    assert transcript.prompt(other) == list(other.messages)
    await transcript.add_soon(other, "four")
    assert transcript.messages == (*other.messages, assistant("four"))
    assert transcript.instructions == ""


@on_a_loop
async def test_a_conversation_that_was_begun_anew_is_so_after_a_restart(store: Store) -> None:
    transcript = Transcript(Context(store).it)
    await transcript.load_soon()
    await transcript.add_soon(request(system("be brief"), "1"), "2")
    await transcript.add_soon(request("one", complete=True), "two")

    later = Transcript(Context(store).it)
    await later.load_soon()
    assert later.messages == (user("one"), assistant("two"))
    assert later.instructions == ""
    assert len(store.messages("a")) == 6, "what was said before stays in the store"


@pytest.mark.parametrize(
    "messages",
    [
        (system("be brief"),),
        (user("1"), assistant("2")),
    ],
)
def test_a_request_with_nothing_to_answer_is_refused(
    context: Context, messages: tuple[Any, ...]
) -> None:
    transcript = Transcript(context.it)
    transcript.load()
    with pytest.raises(BadRequest, match="nothing to answer"):
        transcript.new(request(*messages))


@pytest.mark.parametrize("role", ["robot", None, 7])
def test_a_role_that_there_is_not_is_refused(context: Context, role: Any) -> None:
    transcript = Transcript(context.it)
    with pytest.raises(BadRequest, match=r"messages\[1\].role"):
        transcript.new(request("1", {"role": role, "content": "2"}))


# Instructions


@on_a_loop
async def test_system_messages_at_the_head_are_instructions_and_no_part_of_the_conversation(
    context: Context,
) -> None:
    transcript = Transcript(context.it)
    await transcript.load_soon()
    first = request(system("be brief"), {"role": "developer", "content": "and kind"}, "1")
    assert transcript.instructions_for(first) == "be brief\n\nand kind"
    await transcript.add_soon(first, "2")
    assert list(transcript.messages) == [user("1"), assistant("2")]

    again = request(system("be brief"), {"role": "developer", "content": "and kind"}, "3")
    await transcript.add_soon(again, "4")
    assert list(transcript.messages) == [user("1"), assistant("2"), user("3"), assistant("4")]


@on_a_loop
async def test_instructions_last_until_others_come_and_survive_a_restart(store: Store) -> None:
    transcript = Transcript(Context(store).it)
    await transcript.load_soon()
    await transcript.add_soon(request(system("be brief"), "1"), "2")
    await transcript.add_soon(request(system("be brief"), "3"), "4")
    assert transcript.instructions_for(request("5")) == "be brief"
    await transcript.add_soon(request(system("be long"), "5"), "6")
    assert [row for row in in_store(store) if row[0] == "system"] == [
        ("system", "be brief"),
        ("system", "be long"),
    ]

    later = Transcript(Context(store).it)
    await later.load_soon()
    assert later.instructions == "be long"
    assert len(later) == 6


@on_a_loop
async def test_instructions_for_one_turn_are_added_and_do_not_last(context: Context) -> None:
    transcript = Transcript(context.it)
    await transcript.load_soon()
    once = request(system("be brief"), "1", instructions="rhyme")
    assert transcript.instructions_for(once) == "be brief\n\nrhyme"
    await transcript.add_soon(once, "2")
    assert transcript.instructions_for(request("3")) == "be brief"


@on_a_loop
async def test_a_system_message_in_the_middle_stays_where_it_is(store: Store) -> None:
    transcript = Transcript(Context(store).it)
    await transcript.load_soon()
    await transcript.add_soon(request("1", system("now in French"), "2"), "3")

    later = Transcript(Context(store).it)
    await later.load_soon()
    expected = (user("1"), system("now in French"), user("2"), assistant("3"))
    assert transcript.messages == later.messages == expected
    assert later.instructions == ""


# Writing


@on_a_loop
async def test_what_was_added_is_there_after_a_restart(store: Store) -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    calls = [{"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]
    answers: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
        assistant("It is noon."),
    ]
    transcript = Transcript(Context(store).it)
    await transcript.load_soon()
    await transcript.add_soon(request({**user(parts), "name": "ada"}, user(parts)), answers)

    later = Transcript(Context(store).it)
    later.load()
    assert later.messages == ({**user(parts), "name": "ada"}, user(parts), *answers)
    assert in_store(store)[1] == ("user", parts)
    assert in_store(store)[-1] == ("assistant", "It is noon.")


def test_threads_write_the_same(store: Store) -> None:
    transcript = Transcript(Context(store).it)
    transcript.load()
    transcript.add(request(system("be brief"), "1"), "2")
    assert in_store(store) == [("system", "be brief"), ("user", "1"), ("assistant", "2")]
    assert transcript.messages == (user("1"), assistant("2"))


@on_a_loop
async def test_of_an_ephemeral_request_nothing_is_kept(store: Store) -> None:
    transcript = Transcript(Context(store).it)
    await transcript.load_soon()
    await transcript.add_soon(request(system("be brief"), "1", ephemeral=True), "2")
    assert transcript.messages == ()
    assert store.sessions() == []


@on_a_loop
async def test_nothing_is_in_memory_after_it_was_let_go_and_all_is_in_the_store(store: Store) -> None:
    transcript = Transcript(Context(store).it)
    await transcript.load_soon()
    await transcript.add_soon(request("1"), "2")
    transcript.forget()
    assert transcript.messages == ()
    assert len(in_store(store)) == 2


@on_a_loop
async def test_what_another_program_wrote_is_read_as_far_as_a_model_can_use_it(store: Store) -> None:
    store.create_session("a", key="a")
    store.append("a", role="user", content="1")
    store.append("a", role="note", content="not for models")
    store.append("a", role="assistant", content={"text": "2"})
    transcript = Transcript(Context(store).it)
    await transcript.load_soon()
    assert transcript.messages == (user("1"), assistant('{"text": "2"}'))


# When it goes wrong


class SlowStore:
    """A store that adds messages when a gate is open, or fails then."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def extend_soon(self, session_id: str, said: Any) -> None:
        self.reached.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        await self.store.extend_soon(session_id, said)


@on_a_loop
async def test_who_is_cancelled_while_an_exchange_is_written_leaves_the_whole_of_it(
    store: Store,
) -> None:
    slow = SlowStore(store)
    transcript = Transcript(Context(slow).it)
    await transcript.load_soon()
    adding = asyncio.ensure_future(transcript.add_soon(request("1"), "2"))
    await slow.reached.wait()
    adding.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not adding.done(), "the session's next turn would not find it in memory"
    slow.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert in_store(store) == [("user", "1"), ("assistant", "2")]
    assert transcript.messages == (user("1"), assistant("2"))


@on_a_loop
async def test_nothing_of_an_exchange_is_in_memory_when_the_store_fails(store: Store) -> None:
    slow = SlowStore(store)
    slow.error = StoreUnavailable("gone")
    slow.gate.set()
    transcript = Transcript(Context(slow).it)
    await transcript.load_soon()
    with pytest.raises(StoreUnavailable):
        await transcript.add_soon(request("1"), "2")
    assert in_store(store) == []
    assert transcript.messages == ()


@on_a_loop
async def test_of_an_exchange_that_the_database_refuses_in_the_middle_nothing_is_there(
    store: Store,
) -> None:
    transcript = Transcript(Context(store).it)
    await transcript.load_soon()
    await transcript.add_soon(request("1"), "2")
    execute(store.url, "CREATE UNIQUE INDEX once ON greenroom_messages (content)")
    with pytest.raises(StoreError):
        await transcript.add_soon(request("3"), "2")
    with pytest.raises(StoreError):
        transcript.add(request("3"), "2")
    assert in_store(store) == [("user", "1"), ("assistant", "2")]
    assert transcript.messages == (user("1"), assistant("2"))


@on_a_loop
async def test_an_exchange_is_one_write_however_many_messages_it_has(store: Store) -> None:
    told: list[str] = []
    transcript = Transcript(Context(TimedStore(store, lambda name, *_: told.append(name))).it)
    await transcript.load_soon()
    said = [message for _ in range(50) for message in (user("1"), assistant("2"))]
    await transcript.add_soon(request(*said, "3"), [assistant("4"), assistant("5")])
    await transcript.add_soon(request("6"), "7")
    transcript.add(request("8"), "9")
    assert told == ["messages", "create_session", "extend", "extend", "extend"]
    assert len(store.messages("a")) == len(transcript) == 107


@on_a_loop
async def test_a_store_that_cannot_be_read_is_no_empty_transcript(store: Store) -> None:
    store.close()
    transcript = Transcript(Context(store).it)
    with pytest.raises(Exception, match="closed"):
        await transcript.load_soon()
    with pytest.raises(Exception, match="closed"):
        transcript.load()


def test_a_store_that_keeps_no_transcripts_is_as_good_as_none() -> None:
    class OnlyVersions:
        def session(self, session_id: str) -> None: ...

    transcript = Transcript(Context(OnlyVersions()).it)
    transcript.load()
    transcript.add(request("1"), "2")
    assert len(transcript) == 2


# Text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (
            [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "input_text", "text": "b"}],
            "a\nb",
        ),
        (None, ""),
        ([1, "x", {"text": 7}], ""),
        ([], ""),
    ],
)
def test_the_text_of_a_message_is_found_in_whatever_form_it_comes(content: Any, text: str) -> None:
    assert text_of({"role": "user", "content": content}) == text


def test_a_message_without_content_has_no_text() -> None:
    assert text_of({"role": "user"}) == ""
