"""H1–H5 on Hermes's own database: real `SessionDB`s on SQLite, and a second process that writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from greenroom import Reason, StoreFailure
from greenroom.integrations.hermes import SessionDBStore, converse

KEY = "telegram:12345"

WRITER = """
import pathlib, sys
from hermes_state import SessionDB

database = SessionDB(db_path=pathlib.Path(sys.argv[1]))
{}
database.close()
"""


def elsewhere(database: Any, what: str) -> None:
    """Do something to the database in another process."""
    command = [sys.executable, "-P", "-c", WRITER.format(what), str(database.db_path)]
    subprocess.run(command, check=True, timeout=100.0, cwd=Path(database.db_path).parent)


@pytest.fixture
def say(open_room: Any, spec: Any, database: Any, endpoint: Any) -> Any:
    """A function that runs a real turn in a room on the database, and returns what it had."""
    room = open_room(session_db=database)

    def say_in(session_id: str, text: str = "hello", key: str = KEY) -> Any:
        with room.turn(key, spec(url=endpoint.url), session_id=session_id) as turn:
            history = database.get_messages_as_conversation(session_id)
            result = converse(turn, text, conversation_history=history)
            assert result["final_response"] == f"test-model heard {text}"
            return SimpleNamespace(agent=turn.agent, rebuild_reason=turn.rebuild_reason)

    say_in.room = room  # type: ignore[attr-defined]  # beside the function, for those who need it
    return say_in


def test_own_turns_never_cause_a_rebuild(say: Any, database: Any) -> None:
    """H1"""
    agent = say("s1").agent
    counts = [database.get_session("s1")["message_count"]]
    for number in range(4):
        assert say("s1", f"hello {number}").agent is agent
        counts.append(database.get_session("s1")["message_count"])
    assert counts == [2, 4, 6, 8, 10]
    assert say.room.stats().builds == 1


def test_a_turn_may_add_to_the_transcript_as_the_gateway_does(say: Any, database: Any) -> None:
    """H1"""
    agent = say("s1").agent
    with say.room.turn(KEY, session_id="s1"):
        database.append_message("s1", role="session_meta", content="{}")
    assert say("s1").agent is agent


def test_another_process_that_writes_makes_the_next_turn_rebuild(say: Any, database: Any) -> None:
    """H2"""
    agent = say("s1").agent
    elsewhere(database, "database.append_message('s1', role='user', content='from the dashboard')")
    turn = say("s1")
    assert turn.agent is not agent
    assert turn.rebuild_reason is Reason.COHERENCE
    assert turn.agent.session_id == "s1"
    assert agent.client is None
    assert say("s1").agent is turn.agent


def test_another_process_that_compacts_makes_the_next_turn_rebuild(say: Any, database: Any) -> None:
    """H2"""
    say("s1")
    agent = say("s1").agent
    elsewhere(database, "database.archive_and_compact('s1', [{'role': 'user', 'content': 'in short'}])")
    assert say("s1").agent is not agent


def test_another_conversation_reuses_the_agent_and_so_does_the_way_back(say: Any, database: Any) -> None:
    """H3"""
    agent = say("s1").agent
    assert say("s2").agent is agent
    assert say("s1").agent is agent
    assert [database.get_session(name)["message_count"] for name in ("s1", "s2")] == [4, 2]


def test_a_write_to_the_conversation_that_was_left_is_noticed_on_the_way_back(
    say: Any, database: Any
) -> None:
    """H2, H3"""
    agent = say("s1").agent
    say("s2")
    elsewhere(database, "database.append_message('s1', role='user', content='from the dashboard')")
    assert say("s2").agent is agent
    assert say("s1").agent is not agent


def test_an_agent_whose_conversation_has_ended_is_not_used_for_another(say: Any, database: Any) -> None:
    """H4"""
    agent = say("s1").agent
    # What a reset does, in whichever process: the one ends, and there is a row for the other.
    elsewhere(database, "database.end_session('s1', 'session_reset')")
    database.create_session("s2", "telegram")
    turn = say("s2")
    assert turn.agent is not agent
    assert turn.agent.session_id == "s2"


def test_that_it_has_ended_counts_though_the_other_has_no_row_yet(say: Any, database: Any) -> None:
    """H4"""
    agent = say("s1").agent
    elsewhere(database, "database.end_session('s1', 'session_reset')")
    assert database.get_session("s2") is None
    turn = say("s2")
    assert turn.agent is not agent
    assert turn.rebuild_reason is Reason.COHERENCE
    assert turn.agent.session_id == "s2"
    assert database.get_session("s2")["message_count"] == 2
    assert say("s2").agent is turn.agent
    assert say.room.stats().builds == 2


def test_another_conversation_that_has_no_row_yet_reuses_the_agent(say: Any, database: Any) -> None:
    """H3, H5"""
    agent = say("s1").agent
    assert database.get_session("s2") is None
    assert say("s2").agent is agent
    elsewhere(database, "database.append_message('s2', role='user', content='from the dashboard')")
    assert say("s2").agent is not agent


def test_a_write_of_this_process_between_turns_costs_one_agent_and_no_more(
    say: Any, database: Any
) -> None:
    """H1, H2: which the agent does not know of, whoever it was."""
    agent = say("s1").agent
    database.append_message("s1", role="user", content="from a job")
    turn = say("s1")
    assert turn.agent is not agent
    assert say("s1").agent is turn.agent
    assert say.room.stats().builds == 2


def test_two_keys_with_one_conversation_see_what_the_other_wrote(say: Any, database: Any) -> None:
    """H2"""
    one = say("s1", key="telegram:1").agent
    two = say("s1", key="telegram:2").agent
    assert two is not one
    turn = say("s1", key="telegram:1")
    assert turn.rebuild_reason is Reason.COHERENCE
    assert say("s1", key="telegram:1").agent is turn.agent
    assert database.get_session("s1")["message_count"] == 8


def test_after_a_compression_the_next_turn_is_of_an_agent_of_the_new_conversation(
    say: Any, database: Any
) -> None:
    """H1, H4"""
    agent = say("s1").agent
    # What a compression in the middle of a turn leaves behind.
    with say.room.turn(KEY, session_id="s1") as turn:
        turn.agent.session_id = "s1-continued"
        database.end_session("s1", "compression")
        database.create_session("s1-continued", "telegram", parent_session_id="s1")
        database.append_message("s1-continued", role="user", content="in short")
    turn = say("s1-continued")
    assert turn.agent is not agent
    assert turn.agent.session_id == "s1-continued"
    assert say("s1-continued").agent is turn.agent
    assert say.room.stats().builds == 2


def test_a_gateway_that_keeps_the_old_name_keeps_the_agent_after_a_compression(
    say: Any, database: Any
) -> None:
    """H1"""
    agent = say("s1").agent
    with say.room.turn(KEY, session_id="s1") as turn:
        turn.agent.session_id = "s1-continued"
        database.end_session("s1", "compression")
        database.create_session("s1-continued", "telegram", parent_session_id="s1")
    turn = say("s1")
    assert turn.agent is agent
    assert turn.agent.session_id == "s1-continued"
    assert database.get_session("s1-continued")["message_count"] == 2


def test_a_database_that_cannot_be_read_costs_no_agent(
    say: Any, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    """H5"""
    agent = say("s1").agent
    failures: list[Any] = []
    say.room.events(lambda event: failures.append(event) if isinstance(event, StoreFailure) else None)

    def be_locked(_: str) -> Any:
        raise OSError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(say.room.store.db, "get_session", be_locked)
        with say.room.turn(KEY, session_id="s1") as turn:
            assert turn.agent is agent
    assert say("s1").agent is agent
    assert say.room.stats().builds == 1
    until(lambda: failures, "told of the failure")


def test_an_unknown_conversation_is_an_error_of_the_store_and_costs_no_agent(
    say: Any, database: Any
) -> None:
    """H5"""
    store = SessionDBStore(database)
    with pytest.raises(LookupError, match="there is no session 'nowhere'"):
        store.session("nowhere")
    agent = say("s1").agent
    database.delete_session("s1")
    assert say("s1").agent is agent
    assert say.room.stats().builds == 1


def test_the_facade_for_event_loops_will_do(database: Any) -> None:
    from hermes_state import AsyncSessionDB

    database.create_session("s1", "telegram")
    database.append_message("s1", role="user", content="hello")
    store = SessionDBStore(AsyncSessionDB(database))
    assert store.session("s1") == (1, False)
    database.end_session("s1", "session_reset")
    assert store.session("s1") == (1, True)
