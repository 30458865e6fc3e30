"""A running server can be recorded, whatever happens to it or to the recorder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom.gateway import Token
from greenroom.stress.traces import _record
from greenroom.stress.traces._record import Recorded, Recorder, RecordError, record
from greenroom.stress.traces._replay import Trace
from greenroom.stress.traces._trace import Entry, read_trace, with_lengths
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.page_serving import page_serving
from tests.gateway.serving import Serving
from tests.gateway.test_live import later, order, say
from tests.house import ROOT


@pytest.fixture
def troupe() -> Iterator[Troupe]:
    """Agents, whose doors are open in the end."""
    troupe = Troupe()
    yield troupe
    troupe.open_all()


class Recording:
    """A recorder at work on a thread of its own, and what it has told."""

    def __init__(self, url: str, path: Path, **options: Any) -> None:
        self._changed = threading.Condition()
        self._told: Recorded | None = None
        self._url, self._path, self._options = url, path, options
        self._result: Recorded | BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = asyncio.run(self._record())
        except BaseException as error:
            self._result = error
        with self._changed:
            self._changed.notify_all()

    async def _record(self) -> Recorded:
        self._loop = asyncio.get_running_loop()
        self._recorder = Recorder(self._url, self._path, watch=self._tell, **self._options)
        return await self._recorder.run()

    def _tell(self, told: Recorded) -> None:
        with self._changed:
            self._told = told
            self._changed.notify_all()

    def until(self, seen: Callable[[Recorded], bool]) -> Recorded:
        """Wait until it has told something."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: self._result is not None or (self._told is not None and seen(self._told)),
                PATIENCE,
            ), self._told
        assert not isinstance(self._result, BaseException), self._result
        assert self._told is not None
        return self._told

    def stop(self) -> Recorded:
        """End it, if it has not been."""
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._recorder.stop)
        self._thread.join(PATIENCE)
        assert isinstance(self._result, Recorded), self._result
        return self._result


@contextlib.contextmanager
def recording(server: Serving, path: Path, **options: Any) -> Iterator[Recording]:
    """Record while the block runs, from when the server has answered."""
    recording = Recording(server.url, path, **options)
    recording.until(lambda told: told.connected)
    try:
        yield recording
    finally:
        recording.stop()


def events(path: Path) -> list[tuple[str, str]]:
    """What a trace says, in short."""
    return [(entry.key, entry.event) for entry in read_trace(path)]


def test_every_turn_is_recorded_with_its_length_and_without_its_name(
    troupe: Troupe, tmp_path: Path
) -> None:
    path = tmp_path / "trace.jsonl"
    with page_serving(troupe) as server, recording(server, path) as one:
        for session in ("alice", "alice", "bob", "alice"):
            say(server, session)
        order(server, "end", "alice")
        one.until(lambda told: told.turns == 4 and len(events(path)) == 9)  # it ends behind the answer
        say(server, "carl")
        one.until(lambda told: told.turns == 5 and len(events(path)) == 11)
        assert one.stop().turns == 5
    assert "alice" not in path.read_text("utf-8")
    turns = with_lengths(read_trace(path))
    assert [(turn.key, turn.event) for turn in turns] == [
        ("s1", "turn"),
        ("s1", "turn"),
        ("s2", "turn"),
        ("s1", "turn"),
        ("s1", "end"),
        ("s3", "turn"),
    ]
    assert all(turn.seconds is not None for turn in turns if turn.event == "turn")
    trace = Trace.of(read_trace(path))
    assert (trace.turns, trace.sessions, trace.without_length) == (5, 3, 0)


def test_the_names_of_sessions_are_recorded_where_they_are_asked_for(
    troupe: Troupe, tmp_path: Path
) -> None:
    path = tmp_path / "trace.jsonl.gz"
    with page_serving(troupe) as server, recording(server, path, plain_keys=True) as one:
        say(server, "alice")
        one.until(lambda told: told.turns == 1 and len(events(path)) == 2)
        assert events(path) == [("local/alice", "turn"), ("local/alice", "done")]


def test_a_turn_that_still_runs_is_in_the_file_already(troupe: Troupe, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with page_serving(troupe) as server, recording(server, path) as one:
        turn = later(server, "alice", "wait @door")
        one.until(lambda told: told.turns == 1)
        assert events(path) == [("s1", "turn")]
        assert one.stop().turns == 1
        troupe.door("door").open()
        turn.join(PATIENCE)
    assert events(path) == [("s1", "turn")]


def test_a_turn_that_ran_before_is_not_in_it(troupe: Troupe, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with page_serving(troupe) as server:
        turn = later(server, "alice", "wait @door")
        troupe.door("door").wait_reached()
        with recording(server, path) as one:
            troupe.door("door").open()
            turn.join(PATIENCE)
            say(server, "bob")
            one.until(lambda told: told.turns == 1 and len(events(path)) == 2)
    assert events(path) == [("s1", "turn"), ("s1", "done")]


def test_the_file_is_good_though_the_recorder_was_killed(troupe: Troupe, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    program = (
        "import asyncio, sys\n"
        "from greenroom.stress.traces._record import record\n"
        "asyncio.run(record(*sys.argv[1:], watch=lambda told: print(told.turns, flush=True)))"
    )
    with page_serving(troupe) as server:
        command = [sys.executable, "-c", program, server.url, str(path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as recorder:
            assert recorder.stdout is not None
            assert recorder.stdout.readline() == "0\n"
            for _ in range(3):
                say(server, "alice")
            while recorder.stdout.readline() != "3\n":
                pass
            recorder.kill()
    assert Trace.of(read_trace(path)).turns == 3


# What a server may refuse.


def _failure(url: str, path: Path, **options: Any) -> str:
    with pytest.raises(RecordError) as caught:
        asyncio.run(record(url, path, **options))
    assert not path.exists()
    return str(caught.value)


def test_who_may_not_watch_is_told_what_is_missing(troupe: Troupe, tmp_path: Path) -> None:
    tokens = (Token("boss", "b" * 20), Token("guest", "g" * 20, operator=False))
    path = tmp_path / "trace.jsonl"
    with page_serving(troupe, tokens=tokens) as server:
        assert "wants a token (401): give it an operator's" in _failure(server.url, path)
        wrong = _failure(server.url, path, token="w" * 20)
        assert "does not know this token (401)" in wrong
        assert "wwww" not in wrong
        assert "not an operator's" in _failure(server.url, path, token="g" * 20)
        with recording(server, path, token="b" * 20):
            pass
        assert "bbbb" not in path.read_text("utf-8")


def test_a_recording_ends_when_its_time_is_over(troupe: Troupe, tmp_path: Path) -> None:
    with page_serving(troupe) as server:
        assert asyncio.run(record(server.url, tmp_path / "trace.jsonl", seconds=0.05)) == 0


def test_one_recorder_too_many_is_told_what_the_server_says(troupe: Troupe, tmp_path: Path) -> None:
    with page_serving(troupe, max_streams=1) as server, recording(server, tmp_path / "one"):
        said = _failure(server.url, tmp_path / "two")
        assert "answers 503: 1 event streams are open already." in said


def test_where_no_server_is_that_is_said(tmp_path: Path) -> None:
    said = _failure("http://127.0.0.1:9", tmp_path / "trace.jsonl")
    assert "there is no server at http://127.0.0.1:9 (ConnectError" in said
    assert "there is no server at nonsense" in _failure("nonsense", tmp_path / "trace.jsonl")


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("precious", "utf-8")
    with pytest.raises(RecordError, match="there already, and is not written over"):
        asyncio.run(record("http://127.0.0.1:9", path))
    assert path.read_text("utf-8") == "precious"


def test_without_httpx_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert "pip install 'greenroom[stress]'" in _failure("http://127.0.0.1:9", tmp_path / "t")


# What a connection may go through: a server that says what the test wants, one script a connection.

OK = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n"
ROOM = ("room", {"now": 5.0})


def _stream(*told: tuple[str, Any]) -> str:
    return OK + "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in told)


def _answer(status: str, body: str = "{}") -> str:
    length = len(body.encode())
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )


async def _record_scripts(path: Path, *scripts: str) -> Recorded:
    """Record a server that answers one connection after the other with these, and then no more."""
    left = list(scripts)
    recorder: Recorder | None = None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if left:
            writer.write(left.pop(0).encode())
            await writer.drain()
        elif recorder is not None:
            recorder.stop()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, asyncio.timeout(PATIENCE):
        port = server.sockets[0].getsockname()[1]
        recorder = Recorder(f"http://127.0.0.1:{port}/v1/", path)
        return await recorder.run()


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Entry]]:
    """Records a server that goes by scripts; returns the trace."""
    monkeypatch.setattr(_record, "FIRST_PAUSE", 0.01)

    def run(*scripts: str) -> list[Entry]:
        path = tmp_path / "trace.jsonl"
        asyncio.run(_record_scripts(path, *scripts))
        return list(read_trace(path))

    return run


def _turn(at: float, key: str = "a") -> dict[str, Any]:
    return {"key": key, "at": at}


def _over(at: float, key: str = "a") -> dict[str, Any]:
    return {"key": key, "at": at, "seconds": 0.5}


def _short(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(entry.key, entry.event) for entry in entries]


Scripted = Callable[..., list[Entry]]


def test_a_lost_connection_is_a_gap_and_sessions_keep_their_names(scripted: Scripted) -> None:
    entries = scripted(
        _stream(ROOM, ("turns", [_turn(100.0), _turn(100.25, "b")])),
        _answer("503 Service Unavailable"),
        _stream(ROOM, ("turns", [_over(7.0), _turn(7.5, "b"), _over(8.0, "b")]), ("bye", {})),
    )
    assert _short(entries) == [
        ("s1", "turn"),
        ("s2", "turn"),
        ("", "gap"),
        ("s2", "turn"),
        ("s2", "done"),
        ("", "gap"),
    ]
    assert entries[1].time - entries[0].time == pytest.approx(0.25)
    assert entries[4].time - entries[3].time == pytest.approx(0.5)


def test_a_server_that_refuses_later_ends_the_recording_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_record, "FIRST_PAUSE", 0.01)
    path = tmp_path / "trace.jsonl"
    scripts = (_stream(ROOM, ("turns", [_turn(1.0)])), _answer("401 Unauthorized"))
    with pytest.raises(RecordError, match="wants a token"):
        asyncio.run(_record_scripts(path, *scripts))
    assert _short(list(read_trace(path))) == [("s1", "turn"), ("", "gap")]


def test_a_reader_that_was_too_slow_has_a_gap(scripted: Scripted) -> None:
    entries = scripted(_stream(ROOM, ("turns", [_turn(1.0)]), ROOM, ("turns", [_over(2.0), _turn(3.0)])))
    assert _short(entries) == [("s1", "turn"), ("", "gap"), ("s1", "turn"), ("", "gap")]


def test_only_an_end_that_somebody_asked_for_is_recorded(scripted: Scripted) -> None:
    ends = [
        {"key": key, "at": 2.0, "reason": reason}
        for key, reason in (("a", "session-expired"), ("b", "explicit"), ("never", "explicit"))
    ]
    turns = [_turn(1.0), _turn(1.0, "b"), *ends, _over(2.5, "b"), _turn(3.0), _turn(3.0, "b")]
    assert _short(scripted(_stream(ROOM, ("turns", turns))))[:-1] == [
        ("s1", "turn"),
        ("s2", "turn"),
        ("s2", "end"),
        ("s2", "done"),
        ("s1", "turn"),
        ("s3", "turn"),
    ]


def test_a_clock_that_is_set_does_not_stop_the_traces_time(scripted: Scripted) -> None:
    turns = [_turn(1e9), _turn(1e9 - 3600.0), _turn(1e9 - 3599.0), _turn(2e9), _turn(2e9 - 1.0)]
    times = [entry.time for entry in scripted(_stream(ROOM, ("turns", turns))) if entry.event == "turn"]
    assert times == sorted(times)
    assert times[2] - times[1] == pytest.approx(1.0)
    assert times[-1] < 30.0


def test_what_is_no_greenroom_server_is_told_from_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    for status in ("404 Not Found", "200 OK"):
        with pytest.raises(RecordError, match="no greenroom server: it has no /room/events"):
            asyncio.run(_record_scripts(path, _answer(status)))
    with pytest.raises(RecordError, match="answers 302: nothing else"):
        asyncio.run(_record_scripts(path, _answer("302 Found", "")))
    assert not path.exists()


def test_a_cancelled_recording_has_ended_its_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"

    async def cancel() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(_stream(ROOM, ("turns", [_turn(1.0)])).encode())
            await reader.read()  # until the recorder hangs up
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, asyncio.timeout(PATIENCE):
            port = server.sockets[0].getsockname()[1]
            task: asyncio.Task[int]

            def stop(told: Recorded) -> None:
                if told.turns:
                    task.cancel()

            task = asyncio.create_task(record(f"http://127.0.0.1:{port}", path, watch=stop))
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancel())
    assert _short(list(read_trace(path))) == [("s1", "turn")]
