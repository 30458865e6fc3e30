"""What a release leaves alone and a close does not: processes, terminal and browser of a session."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools import browser_tool, terminal_tool
from tools.environments.local import LocalEnvironment
from tools.process_registry import process_registry

from greenroom.integrations.hermes import converse

KEY = "telegram:12345"


class Session:
    """What a session has in Hermes's registries: a background process, a shell, and a browser.

    All are real but the browser, which needs a download: its daemon is another process that sleeps, in
    the registry and with the file of its id as Hermes leaves them."""

    def __init__(self, session_id: str, folder: Path) -> None:
        self.session_id = session_id
        self.process = process_registry.spawn_local("exec sleep 600", str(folder), task_id=session_id)
        self.terminal = LocalEnvironment(cwd=str(folder))
        terminal_tool._active_environments[session_id] = self.terminal
        self.daemon = subprocess.Popen(["sleep", "600"])
        name = f"greenroom_{self.daemon.pid}"
        self.sockets = Path(browser_tool._socket_safe_tmpdir()) / f"agent-browser-{name}"
        self.sockets.mkdir()
        (self.sockets / f"{name}.pid").write_text(str(self.daemon.pid))
        browser_tool._active_sessions[session_id] = {"session_name": name, "bb_session_id": None}

    def what_lives(self) -> set[str]:
        lives = {
            "process": process_registry.poll(self.process.id)["status"] == "running",
            "terminal": terminal_tool._active_environments.get(self.session_id) is self.terminal,
            "browser": self.session_id in browser_tool._active_sessions,
            "daemon": self.daemon.poll() is None,
        }
        return {name for name, alive in lives.items() if alive}

    def is_whole(self) -> bool:
        return self.what_lives() == {"process", "terminal", "browser", "daemon"}

    def is_gone(self) -> bool:
        return not self.what_lives()

    def clear(self) -> None:
        process_registry.kill_all(task_id=self.session_id)
        terminal_tool._active_environments.pop(self.session_id, None)
        browser_tool._active_sessions.pop(self.session_id, None)
        self.terminal.cleanup()
        self.daemon.kill()
        self.daemon.wait()
        shutil.rmtree(self.sockets, ignore_errors=True)


@pytest.fixture
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    session = Session(f"session-of-{request.node.name}", tmp_path)
    yield session
    session.clear()


def test_a_release_leaves_them_alone_and_the_next_agent_has_them(
    open_room: Any, spec: Any, session: Any
) -> None:
    """S1, S3"""
    room = open_room()
    with room.turn(KEY, spec(), session_id=session.session_id) as turn:
        first = turn.agent
    room.evict(KEY)
    room.settle(60.0)
    assert first.client is None
    assert session.is_whole()

    with room.turn(KEY, spec(), session_id=session.session_id) as turn:
        assert turn.agent is not first
        assert turn.agent.session_id == first.session_id == session.session_id
        assert turn.agent._gateway_session_key == KEY
        assert turn.agent.client is not None
        assert session.terminal.execute("echo still here")["output"].strip() == "still here"
    assert session.is_whole()


def test_a_close_ends_them(open_room: Any, spec: Any, session: Any, until: Any) -> None:
    """S2"""
    room = open_room()
    with room.turn(KEY, spec(), session_id=session.session_id) as turn:
        agent = turn.agent
    room.end(KEY)
    room.settle(60.0)
    assert agent.client is None
    until(session.is_gone, "gone")


def test_a_session_that_ends_without_an_agent_ends_them_too(
    open_room: Any, spec: Any, session: Any, until: Any
) -> None:
    """S2, S3"""
    room = open_room()
    with room.turn(KEY, spec(), session_id=session.session_id):
        pass
    room.evict(KEY)
    room.settle(60.0)
    assert KEY not in room
    assert session.is_whole()

    room.end(KEY)
    room.settle(60.0)
    until(session.is_gone, "gone")


def test_every_conversation_of_the_session_is_cleared_up(
    open_room: Any, spec: Any, session: Any, tmp_path: Path, until: Any
) -> None:
    """S2"""
    other = Session(f"{session.session_id}-2", tmp_path)
    try:
        room = open_room()
        for session_id in (session.session_id, other.session_id, session.session_id):
            with room.turn(KEY, spec(), session_id=session_id):
                pass
        room.end(KEY)
        room.settle(60.0)
        until(session.is_gone, "gone")
        until(other.is_gone, "gone")
    finally:
        other.clear()


def test_another_session_is_not_touched(open_room: Any, spec: Any, session: Any, endpoint: Any) -> None:
    """S2"""
    room = open_room()
    with room.turn(KEY, spec(), session_id=session.session_id):
        pass
    with room.turn("telegram:2", spec(url=endpoint.url), session_id="of-somebody-else") as turn:
        # To Hermes's registry of processes, no task at all means everybody's.
        converse(turn, "hello", task_id=None)
    room.end("telegram:2")
    room.settle(60.0)
    assert session.is_whole()


def test_a_drain_leaves_the_conversation_open_in_the_database(
    open_room: Any, spec: Any, session: Any, database: Any, until: Any
) -> None:
    """D1"""
    database.create_session(session.session_id, "telegram")
    room = open_room(session_db=database)
    with room.turn(KEY, spec(), session_id=session.session_id):
        pass
    room.close()
    until(session.is_gone, "gone")
    assert database.get_session(session.session_id)["ended_at"] is None


def test_hooks_can_end_the_conversation_in_the_database_too(database: Any, spec: Any) -> None:
    """S2"""
    from greenroom.integrations.hermes import hermes_hooks, hermes_room

    database.create_session("s1", "telegram")
    settings = {"skip_context_files": True, "skip_memory": True}
    hooks = hermes_hooks(end_sessions=True)
    with hermes_room(settings, session_db=database, hooks=hooks) as room:
        with room.turn(KEY, spec(), session_id="s1"):
            pass
        room.end(KEY)
        room.settle(60.0)
    assert database.get_session("s1")["end_reason"] == "agent_close"
