"""`greenroom stress`, as somebody at a terminal meets it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from greenroom.stress import _room_target
from greenroom.stress._target import Planned
from greenroom.stress._watched import WatchedHooks
from greenroom.stress.command._asking import asking
from greenroom.stress.command._options import OPTIONS, option_of
from tests.cli.running import Run, running
from tests.gateway.life_process import PATIENCE
from tests.house import ROOT
from tests.stress.stress_agents import Answering, Quick

LOAD = ("--duration", "0.3", "--rate", "60", "--sessions", "8")
LENGTHS = ("--turn", "1ms", "--build", "1ms", "--commit", "0", "--teardown", "0")
QUICK = (*LOAD, *LENGTHS, "--popularity", "0")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on whose terminal it runs in."""
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        if name != "GREENROOM_SWITCH_INTERVAL":
            monkeypatch.delenv(name)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process."""
    return running("stress", monkeypatch, capsys)


def test_the_help_has_every_option(stress: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ended = stress("--help")
    assert ended.code == 0
    assert [name for name in OPTIONS if option_of(name) not in ended.out] == []


# A run.


def test_a_run_that_held_says_so_and_leaves_a_report(stress: Run, tmp_path: Path) -> None:
    ended = stress(*QUICK, "--report", tmp_path / "run.html", "--title", "a quick one")
    assert ended.code == 0, ended
    assert "Everything held." in ended.out
    assert "✓ no teardown in a turn" in ended.out
    assert f"Report: {tmp_path / 'run.html'}" in ended.out
    assert "a quick one" in (tmp_path / "run.html").read_text()
    told = json.loads((tmp_path / "run.json").read_text())
    assert told["held"] is True
    assert told["totals"]["turns"] == told["totals"]["arrived"] > 0
    assert told["settings"]["sessions"] == 8


def test_without_a_terminal_there_are_plain_lines_and_no_escapes(stress: Run) -> None:
    ended = stress(*QUICK)
    assert "turns/s" in ended.out
    assert "\x1b" not in ended.out + ended.err


def test_a_quiet_run_shows_only_what_it_came_to(stress: Run) -> None:
    ended = stress(*QUICK, "--quiet")
    assert ended.out.startswith("Everything held.")


def test_the_result_can_be_had_as_json_and_nothing_else(stress: Run) -> None:
    ended = stress(*QUICK, "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["held"] is True


def test_a_violated_promise_makes_the_exit_status_1(
    stress: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    act: Any = _room_target.RoomTarget._act

    async def act_and_tear_down(target: Any, agent: Any, planned: Planned) -> None:
        # Somebody tears the agent down behind the room's back, in the middle of its turn.
        for _, hook in WatchedHooks(roster=target._roster).farewell(agent, close=False):
            hook()
        await act(target, agent, planned)

    monkeypatch.setattr(_room_target.RoomTarget, "_act", act_and_tear_down)
    ended = stress(*QUICK)
    assert ended.code == 1, ended
    assert "✗ no teardown in a turn" in ended.out
    assert "did not hold." in ended.out


def test_turns_that_fail_unplanned_make_the_exit_status_1(stress: Run) -> None:
    agents = "tests.stress.stress_agents"
    ended = stress(*LOAD, "--agent", f"{agents}:quick", "--perform", f"{agents}:fail")
    assert ended.code == 1, ended
    assert "failed that should not have." in ended.out
    assert "RuntimeError: the sky is falling" in ended.out


def test_failures_that_were_planned_are_none(stress: Run) -> None:
    ended = stress(*QUICK, "--fail-turn", "0.3", "--fail-commit", "0.2")
    assert ended.code == 0, ended
    assert "failures as planned" in ended.out


@pytest.mark.parametrize("factory", ["quick", "slow_to_come", "answering"])
def test_a_factory_of_ones_own_is_stressed(stress: Run, factory: str) -> None:
    ended = stress(*LOAD, "--agent", f"tests.stress.stress_agents:{factory}")
    assert ended.code == 0, ended
    assert "✓ one teardown an agent" in ended.out


@pytest.mark.parametrize("perform", ["act", "act_on_a_thread"])
def test_what_a_turn_does_can_be_ones_own(stress: Run, perform: str) -> None:
    agents = "tests.stress.stress_agents"
    ended = stress(*LOAD, "--agent", f"{agents}:quick", "--perform", f"{agents}:{perform}")
    assert ended.code == 0, ended


def test_an_installed_agent_is_asked_to_answer(stress: Run) -> None:
    ended = stress(*LOAD, "--agent", "offline", "--agent-option", "answer_seconds=0.001")
    assert ended.code == 0, ended


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Twenty turns of three sessions in two seconds."""
    lines = [
        {"time": at / 10, "key": f"s{at % 3}", "event": "turn", "seconds": 0.01} for at in range(20)
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return tmp_path / "mine.jsonl"


def test_a_trace_is_driven(stress: Run, trace: Path) -> None:
    ended = stress("--trace", trace, "--speed", "20", "--json", "--duration", "0.2")
    told = json.loads(ended.out)
    assert ended.code == 0
    assert told["totals"]["turns"] == 20
    assert told["settings"]["trace"] == str(trace)
    assert "rate" not in told["settings"]


def test_what_greenroom_logs_goes_to_a_file_or_nowhere(stress: Run, tmp_path: Path) -> None:
    before = list(logging.getLogger("greenroom").handlers)
    ended = stress(*QUICK, "--fail-commit", "1", "--quiet", "--log", tmp_path / "log")
    assert "commit" in (tmp_path / "log").read_text()
    assert ended.err == ""
    assert logging.getLogger("greenroom").handlers == before
    assert logging.getLogger("greenroom").propagate


def test_the_password_of_a_store_is_in_no_report(
    stress: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("greenroom.store._engine.show_url", lambda _: "as it may be shown")
    ended = stress(*QUICK, "--store", f"sqlite:///{tmp_path / 'room.db'}", "--json")
    assert json.loads(ended.out)["settings"]["store"] == "as it may be shown"
    assert str(tmp_path) not in ended.out
    assert (tmp_path / "room.db").exists()


# What cannot begin.


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--rate", "x"], "--rate must be a number, not 'x'"),
        (["--url", "http://127.0.0.1:1", "--cap", "3"], "--cap and --url cannot both be meant"),
        (["--agent", "tests.stress.stress_agents:quik"], "Did you mean quick?"),
        (["--report", "no/such/folder/x.html"], "there is no folder 'no/such/folder'"),
        (["--report", "x.json"], "must be a file that ends in .html"),
        (["--log", "no/such/folder/log"], "cannot be written"),
        (["--trace", "nowhere.jsonl"], "there is no trace 'nowhere.jsonl'"),
        (["--url", "ftp://x"], "a server is named as http://127.0.0.1:8765"),
        (["--url", "http://me:secret@x"], "use a token"),
        (["--url", "http://127.0.0.1:1"], "there is no server at http://127.0.0.1:1"),
        (["--record", "x.jsonl", "--url", "http://127.0.0.1:1"], "there is no server at"),
        (["--synthesize", "strom"], "Did you mean storm?"),
        (["--replay", "nowhere.jsonl"], "there is no trace"),
        (["--store", "nonsense://x", *QUICK], "nonsense"),
        (["--store", "sqlite:////no/such/folder/x.db", *QUICK], "make it, or choose another"),
        (["--replay", "chat", "--memory-budget", "50%"], "must be bytes, not a share such as 0.5"),
        (["--replay", "chat", "--memory-budget", "1 GiB"], "say how much an agent holds"),
        (["--report", "~nobody-at-all/x.html"], "--report: there is no home folder"),
        (["--file", "~nobody-at-all/x.toml"], "--file: there is no home folder"),
        ([*QUICK, "--sessions", "10000001"], "sessions must be at most 10,000,000"),
        ([*QUICK, "--reconfigure", "9s:cap=3"], "turns arrive for 0.3 s only"),
        (
            ["--trace", "chat", "--speed", "600", "--duration", "2", "--reconfigure", "9s:cap=3"],
            "for 2 s",
        ),
    ],
)
def test_what_cannot_begin_is_explained_in_a_line_and_ends_with_2(
    stress: Run, arguments: list[str], told: str
) -> None:
    ended = stress(*arguments)
    assert ended.code == 2, ended
    assert told in ended.err
    assert ended.err.startswith("greenroom: ")
    assert len(ended.err.splitlines()) == 1
    assert "secret" not in ended.err


def test_a_report_that_cannot_be_written_is_told_before_the_run(stress: Run, tmp_path: Path) -> None:
    (tmp_path / "taken.html").mkdir()
    ended = stress(*QUICK, "--report", tmp_path / "taken.html")
    assert ended.code == 2
    assert "is a folder" in ended.err
    assert ended.out == ""


# Traces.


def test_a_replay_shows_a_table_and_gives_advice(stress: Run, trace: Path) -> None:
    ended = stress("--replay", trace, "--cap", "1,3", "--idle-ttl", "10m", "--build-seconds", "2")
    assert ended.code == 0
    assert "Take a cap of 3" in ended.out
    assert "waiting" in ended.out


@pytest.mark.parametrize("option", ["--replay", "--trace"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b'{"time": 1, "key": "a", "event": "end"}\n'])
def test_a_trace_without_a_turn_is_a_mistake(
    stress: Run, tmp_path: Path, option: str, content: bytes
) -> None:
    (tmp_path / "empty.jsonl").write_bytes(content)
    ended = stress(option, tmp_path / "empty.jsonl")
    assert ended.code == 2
    assert "has no turns in it" in ended.err
    assert ended.out == ""


def test_a_replay_can_be_had_as_json(stress: Run, trace: Path) -> None:
    told = json.loads(stress("--replay", trace, "--cap", "1,none", "--json").out)
    assert [one["policy"]["cap"] for one in told["policies"]] == [1, None]
    assert [one["builds"] for one in told["policies"]] == [20, 3]


def test_a_made_up_trace_can_be_read_again(stress: Run, tmp_path: Path) -> None:
    from greenroom.stress.traces._synthetic import synthesize
    from greenroom.stress.traces._trace import read_trace

    (tmp_path / "storm.jsonl").write_text(stress("--synthesize", "storm", "--seed", "3").out)
    assert list(read_trace(tmp_path / "storm.jsonl")) == list(synthesize("storm", seed=3))


# How a turn asks.


@pytest.mark.parametrize(
    "way", ["as_coroutine", "as_async_generator", "as_generator", "as_text", "as_awaitable"]
)
def test_an_agent_is_heard_in_whichever_way_it_answers(way: str) -> None:
    agent = Answering("k", way)
    planned = Planned(at=0.0, number=7, key="k", seconds=0.25)
    asyncio.run(asking("turn {number}, {seconds} s")(agent, planned))
    assert agent.heard == ["turn 7, 0.250 s"]


def test_what_an_answer_raises_is_the_turns() -> None:
    planned = Planned(at=0.0, number=7, key="k", seconds=0.0)
    with pytest.raises(LookupError, match="no words"):
        asyncio.run(asking()(Answering("k", "as_failure"), planned))


def test_an_agent_that_is_told_something_must_answer() -> None:
    planned = Planned(at=0.0, number=7, key="k", seconds=0.0)
    with pytest.raises(TypeError, match="Quick has none"):
        asyncio.run(asking("hello")(Quick("k"), planned))
    asyncio.run(asking()(Quick("k"), planned))


# Being ended.


@contextmanager
def started(*arguments: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which does not outlive the block."""
    environment = {name: value for name, value in os.environ.items() if "GREENROOM" not in name}
    with subprocess.Popen(
        [sys.executable, "-m", "greenroom", "stress", *arguments],
        cwd=ROOT,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        text=True,
        **more,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_end_a_run_ends_with_its_report(number: signal.Signals, tmp_path: Path) -> None:
    report = tmp_path / "cut.html"
    arguments = ("--duration", "1h", "--rate", "20", "--report", str(report))
    with started(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert "turns/s" in process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Everything held. It was ended before its time." in out
    assert json.loads(report.with_suffix(".json").read_text())["interrupted"] is True


def test_a_second_ctrl_c_ends_at_once_with_130(tmp_path: Path) -> None:
    report = tmp_path / "none.html"
    arguments = ("--duration", "1h", "--rate", "20", "--turn", "1h", "--report", str(report))
    with started(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "turns/s" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert "Ctrl-C again" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "ended at once" in err
    assert not report.exists()


def test_on_a_terminal_there_is_a_board() -> None:
    mine, theirs = pty.openpty()
    with started(*QUICK, "--duration", "1.5", stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(mine, 65_536):
                seen += piece
        except OSError:
            pass  # the other end is closed
        process.wait(PATIENCE)
    os.close(mine)
    assert process.returncode == 0, seen
    text = seen.decode()
    assert "a room in this process" in text
    assert "p99" in text
    assert "left" in text
    assert "Everything held." in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is given back
