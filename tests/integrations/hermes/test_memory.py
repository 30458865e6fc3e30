"""Commits: a real memory manager, with a provider that writes down what it is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from greenroom.integrations.hermes import conclude
from greenroom.integrations.hermes._hooks import commit

KEY = "telegram:12345"


def say(room: Any, spec: Any, text: str, key: str = KEY, session_id: str = "s1") -> Any:
    """A turn in which something is said, as a conversation leaves it behind. Returns the agent."""
    with room.turn(key, spec(), session_id=session_id) as turn:
        turn.agent._session_messages = [
            *turn.agent._session_messages,
            {"role": "user", "content": text},
            {"role": "assistant", "content": f"yes, {text}"},
        ]
        return turn.agent


def test_a_release_commits_the_transcript_once_and_ends_no_session(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """S1, S4, G2"""
    room = open_room(memory=True)
    said = say(room, spec, "one")._session_messages
    room.evict(KEY)
    room.settle(60.0)
    assert notebook.told == [("end", "s1", ("one", "yes, one")), ("shutdown", "s1", ())]
    assert len(said) == 2, "the list that the gateway may hold is emptied"


def test_a_close_after_a_commit_extracts_nothing_a_second_time(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """S2, G2"""
    room = open_room(memory=True)
    say(room, spec, "one")
    room.end(KEY)
    room.settle(60.0)
    assert notebook.told == [
        ("end", "s1", ("one", "yes, one")),
        ("end", "s1", ()),
        ("shutdown", "s1", ()),
    ]


def test_a_session_without_a_completed_turn_is_not_committed(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """G7, T4"""
    room = open_room(memory=True)
    with room.turn(KEY, spec(), session_id="s1") as turn:
        turn.agent._session_messages = [{"role": "user", "content": "half of a turn"}]
        turn.cancel()
    room.end(KEY)
    room.settle(60.0)
    assert notebook.told == [("end", "s1", ()), ("shutdown", "s1", ())]


def fail(notebook: Any, times: int) -> None:
    """Have the provider fail at so many extractions."""
    left = iter(range(times))

    def extract() -> None:
        if next(left, None) is not None:
            raise OSError("provider is away")

    notebook.plan["end"] = extract


def test_what_a_provider_raises_fails_the_commit_which_is_tried_again(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """G4, G9"""
    room = open_room(memory=True, retry_first=300.0, retry_most=300.0)
    agent = say(room, spec, "one")
    fail(notebook, times=1)
    assert not room.commit(KEY)
    assert room.has_uncommitted(KEY)
    assert room.stats().commit_failures == 1
    assert type(agent._memory_manager).__name__ == "MemoryManager"

    assert room.commit(KEY)
    assert not room.has_uncommitted(KEY)
    assert notebook.told == [("end", "s1", ("one", "yes, one"))] * 2


def test_a_close_hands_over_what_no_commit_could(open_room: Any, spec: Any, notebook: Any) -> None:
    """S2, D3"""
    room = open_room(memory=True, retry_first=300.0, retry_most=300.0)
    say(room, spec, "one")
    fail(notebook, times=2)
    assert not room.commit(KEY)
    report = room.close()
    assert report.failed == (KEY,)
    assert notebook.told == [("end", "s1", ("one", "yes, one"))] * 3 + [("shutdown", "s1", ())]


def test_conversations_that_were_left_are_committed_each_as_its_own(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """H3, G2"""
    room = open_room(memory=True)
    agent = say(room, spec, "one")
    assert say(room, spec, "two", session_id="s2") is agent
    assert agent.session_id == "s2"
    assert say(room, spec, "three", session_id="s1") is agent
    assert room.commit(KEY)
    assert notebook.told == [
        ("end", "s2", ("two", "yes, two")),
        ("end", "s1", ("one", "yes, one", "three", "yes, three")),
    ]


def test_a_conversation_that_was_committed_before_it_was_left_is_not_committed_again(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """H3, G2"""
    room = open_room(memory=True)
    say(room, spec, "one")
    assert room.commit(KEY)
    say(room, spec, "two", session_id="s2")
    assert room.commit(KEY)
    assert notebook.told == [("end", "s1", ("one", "yes, one")), ("end", "s2", ("two", "yes, two"))]


def test_whoever_holds_a_released_agent_holds_no_transcript(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """S4"""
    room = open_room(memory=True)
    agent = say(room, spec, "one")
    say(room, spec, "two", session_id="s2")
    room.evict(KEY)
    room.settle(60.0)
    assert agent.client is None
    assert notebook.told[-1][0] == "shutdown"
    assert agent._session_messages == []
    assert agent._greenroom.committed is None
    assert agent._greenroom.past == []


class Held:
    """An extraction that waits in the provider until it is let go."""

    def __init__(self, notebook: Any, room: Any) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self._room = room
        self._first = iter([True])
        notebook.plan["end"] = self._extract
        self._thread = threading.Thread(target=room.commit, args=(KEY,), daemon=True)

    def __enter__(self) -> Held:
        self._thread.start()
        assert self.begun.wait(60.0), "the provider was never asked"
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        self.go.set()
        self._thread.join(60.0)
        assert not self._thread.is_alive()

    def _extract(self) -> None:
        if next(self._first, False):
            self.begun.set()
            assert self.go.wait(60.0)


def test_a_turn_that_begins_during_a_commit_is_not_forgotten_when_its_conversation_is_left(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """G3, H3"""
    room = open_room(memory=True)
    say(room, spec, "one")
    with Held(notebook, room) as held, room.turn(KEY, spec(), session_id="s1") as turn:
        held.let_go()
        said = [*turn.agent._session_messages, {"role": "user", "content": "two"}]
        turn.agent._session_messages = said
    say(room, spec, "three", session_id="s2")
    assert room.commit(KEY)
    assert notebook.told == [
        ("end", "s1", ("one", "yes, one")),
        ("end", "s1", ("one", "yes, one", "two")),
        ("end", "s2", ("three", "yes, three")),
    ]


def test_a_conversation_that_is_left_while_it_is_committed_is_not_committed_again(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """G3, H3"""
    room = open_room(memory=True)
    say(room, spec, "one")
    with Held(notebook, room):
        say(room, spec, "two", session_id="s2")
    room.commit(KEY)
    assert notebook.told == [("end", "s1", ("one", "yes, one")), ("end", "s2", ("two", "yes, two"))]


def test_a_turn_that_goes_elsewhere_while_a_conversation_is_committed_stays_there(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """G3, H3"""
    room = open_room(memory=True)
    say(room, spec, "one")
    say(room, spec, "two", session_id="s2")
    with Held(notebook, room):  # which goes back to the first
        say(room, spec, "three", session_id="s3")
    room.commit(KEY)
    room.evict(KEY)
    room.settle(60.0)
    assert notebook.told == [
        ("end", "s1", ("one", "yes, one")),
        ("end", "s2", ("two", "yes, two")),
        ("end", "s3", ("three", "yes, three")),
        ("shutdown", "s3", ()),
    ]


def test_a_turn_that_goes_elsewhere_while_a_commit_reads_takes_no_memories_there(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """G3, H3"""
    room = open_room(memory=True)
    agent = say(room, spec, "one")
    first = iter([True])

    class Overtaken(type(agent)):  # type: ignore[misc]  # Hermes has no types
        """Once the transcript has been read, a turn takes the agent elsewhere."""

        @property
        def _session_messages(self) -> Any:
            messages = self.__dict__["_session_messages"]
            if next(first, False):
                say(room, spec, "two", session_id="s2")
            return messages

        @_session_messages.setter
        def _session_messages(self, messages: Any) -> None:
            self.__dict__["_session_messages"] = messages

    agent.__class__ = Overtaken
    assert room.commit(KEY)
    assert notebook.told == [("end", "s1", ("one", "yes, one")), ("end", "s2", ("two", "yes, two"))]


def test_a_commit_that_reads_while_a_turn_goes_elsewhere_takes_no_memories_there(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """G3, H3"""
    room = open_room(memory=True)
    agent = say(room, spec, "one")
    first = iter([True])

    def commit_once() -> None:
        if next(first, False):
            commit(agent)

    notebook.plan["switch"] = commit_once
    say(room, spec, "two", session_id="s2")
    assert notebook.told == [("end", "s1", ("one", "yes, one")), ("end", "s2", ())]


def test_a_close_hands_over_what_was_left_behind_as_well(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """S2, D3"""
    room = open_room(memory=True, retry_first=300.0, retry_most=300.0)
    say(room, spec, "one")
    say(room, spec, "two", session_id="s2")
    fail(notebook, times=1)
    report = room.close()
    assert report.failed == (KEY,)
    assert notebook.told == [
        ("end", "s1", ("one", "yes, one")),
        ("end", "s1", ("one", "yes, one")),
        ("end", "s2", ("two", "yes, two")),
        ("shutdown", "s2", ()),
    ]


def test_an_agent_that_is_evicted_keeps_what_could_not_be_committed(
    open_room: Any, spec: Any, notebook: Any
) -> None:
    """G4, G9"""
    room = open_room(memory=True, retry_first=300.0, retry_most=300.0)
    agent = say(room, spec, "one")
    fail(notebook, times=1)
    room.evict(KEY)
    room.settle(60.0)
    assert room.has_uncommitted(KEY)
    assert agent.client is not None
    assert room.commit(KEY)
    room.settle(60.0)
    assert notebook.told == [
        ("end", "s1", ("one", "yes, one")),
        ("end", "s1", ("one", "yes, one")),
        ("shutdown", "s1", ()),
    ]
    assert agent.client is None


def test_an_agent_that_is_not_kept_is_committed_first(open_room: Any, spec: Any, notebook: Any) -> None:
    """T6, G2"""
    room = open_room(memory=True)
    with room.turn(KEY, spec(), session_id="s1") as turn:
        turn.agent._session_messages = [{"role": "user", "content": "one"}]
        turn.agent._fallback_activated = True
        conclude(turn, {})
    room.settle(60.0)
    assert notebook.told == [("end", "s1", ("one",)), ("shutdown", "s1", ())]


@pytest.mark.parametrize("failures", [0, 1])
def test_a_commit_that_is_still_running_when_the_agent_is_closed_is_not_done_again(
    open_room: Any, spec: Any, notebook: Any, failures: int
) -> None:
    """D2, D3, G2"""
    room = open_room(memory=True, retry_first=300.0, retry_most=300.0)
    say(room, spec, "one")
    fail(notebook, times=failures)
    for _ in range(failures):
        assert not room.commit(KEY)
    with Held(notebook, room):
        report = room.drain(deadline=0.1)
        assert report.abandoned == (KEY,)
        assert notebook.told[-2:] == [("end", "s1", ()), ("shutdown", "s1", ())]
    handed = [texts for _, _, texts in notebook.told if texts]
    assert handed == [("one", "yes, one")] * (failures + 1)


@pytest.mark.parametrize("wedged", ["end", "shutdown"])
def test_a_drain_ends_although_a_provider_is_wedged(
    open_room: Any, spec: Any, notebook: Any, wedged: str
) -> None:
    """C7, D2, D3"""
    stuck, go = threading.Event(), threading.Event()
    first = iter([True])

    def wedge_the_first() -> None:
        if next(first, False):
            stuck.set()
            go.wait(100.0)

    room = open_room(memory=True)
    try:
        say(room, spec, "one", key="a", session_id="s1")
        notebook.plan[wedged] = wedge_the_first
        room.end("a")
        assert stuck.wait(60.0), "the provider was never asked"

        say(room, spec, "two", key="b", session_id="s2")
        assert room.commit("b"), "one provider holds up the others"
        report = room.drain(deadline=1.0)
        assert "a" in report.abandoned
        assert not report.failed
    finally:
        go.set()
