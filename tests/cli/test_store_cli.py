"""`greenroom store`, as somebody at a terminal or a script meets it."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from greenroom.__main__ import main
from greenroom.store import Store, open_store
from greenroom.store._schema import LATEST
from tests.postgres import PostgresServer
from tests.store.engines import sql

COMMANDS = ("info", "check", "dirty", "retry --all", "vacuum", "export")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it wrote for programs."""
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on whose terminal it runs in."""
    for name in ("GREENROOM_STORE", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def greenroom(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["greenroom", *map(str, arguments)])
        capsys.readouterr()
        try:
            code = main()
        except SystemExit as exit:
            code = int(exit.code or 0)
        written = capsys.readouterr()
        return Outcome(code=code, out=written.out, err=written.err)

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, file: Path) -> str:
    """The URL of a database without a store in it."""
    if request.param == "sqlite":
        return f"sqlite:///{file}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()


@pytest.fixture
def filled(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store with something of everything in it; the environment names it, too."""
    url = f"sqlite:///{file}"
    with open_store(url) as store:
        fill(store)
    monkeypatch.setenv("GREENROOM_STORE", url)
    return url


def fill(store: Store) -> None:
    """A session that is clean, one that a room holds, one left by a dead room, one waiting, one dead."""
    store.create_session("clean", key="chat:0")
    for number in range(3):
        store.append("clean", role="user", content=f"message {number}")
    store.end_session("clean")
    with store.transaction() as ledger:
        ledger.beat("room-alive", ttl=1000.0, host="one", pid=11)
        ledger.beat("room-gone", ttl=-500.0, host="two", pid=22)
        for session_id, owner, tries, most in (
            ("held", "room-alive", 0, 9),
            ("left", "room-gone", 0, 9),
            ("waiting", "room-alive", 2, 9),
            ("dead", "room-alive", 3, 3),
        ):
            epoch = ledger.take(session_id, key=f"chat:{session_id}", owner=owner).epoch
            ledger.complete(session_id, owner=owner, epoch=epoch, generation=4, linger=60.0)
            ledger.commit(session_id, owner=owner, epoch=epoch, generation=1)
            for _ in range(tries):
                epoch = ledger.take(session_id, key=f"chat:{session_id}", owner=owner).epoch
                ledger.fail(
                    session_id, owner=owner, epoch=epoch, problem="no answer", pause=90.0, most=most
                )


def one_line(outcome: Outcome, code: int = 1) -> str:
    """The one line of an error, and nothing else."""
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith("greenroom: ")
    assert outcome.err.count("\n") == 1
    return outcome.err


# The app


def test_it_tells_its_version(greenroom: Run) -> None:
    outcome = greenroom("--version")
    assert outcome.code == 0
    assert outcome.out.startswith("greenroom 0.")


def test_without_a_command_it_shows_its_help(greenroom: Run) -> None:
    for arguments, word in (((), "store"), (("store",), "export")):
        outcome = greenroom(*arguments)
        assert word in outcome.out + outcome.err


def test_an_unknown_command_is_a_matter_of_usage(greenroom: Run) -> None:
    assert greenroom("store", "frobnicate").code == 2
    assert greenroom("store", "info", "--frobnicate").code == 2


def test_it_is_a_module_as_well() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "greenroom", "--version"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"greenroom 0.")


def test_starting_does_not_import_sqlalchemy() -> None:
    code = "import sys, greenroom._cli; sys.exit('sqlalchemy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_base_install_says_what_to_install(
    greenroom: Run, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert f"needs {package}: pip install 'greenroom[cli]'" in one_line(greenroom("--version"), 2)


def test_without_sqlalchemy_it_says_what_to_install(
    greenroom: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    outcome = greenroom("store", "info", "--store", "sqlite:///x.db")
    assert "pip install 'greenroom[store]'" in one_line(outcome, 2)


# Which store


@pytest.mark.parametrize("command", COMMANDS)
def test_it_asks_which_store(greenroom: Run, command: str) -> None:
    assert "--store URL or set GREENROOM_STORE" in one_line(greenroom("store", *command.split()), 2)


@pytest.mark.usefixtures("filled")
def test_the_option_goes_before_the_environment(greenroom: Run, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    open_store(other).close()
    assert greenroom("store", "info", "--json").json["sessions"] == 5
    assert greenroom("store", "info", "--json", "--store", other).json["sessions"] == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_makes_a_store(greenroom: Run, file: Path, command: str) -> None:
    outcome = greenroom("store", *command.split(), "--store", f"sqlite:///{file}")
    assert f"there is no store at sqlite:///{file}" in one_line(outcome)
    assert list(file.parent.iterdir()) == []


def test_a_database_without_a_store_is_left_alone(
    greenroom: Run, postgres_server: PostgresServer
) -> None:
    url = postgres_server.fresh_url()
    for _ in range(2):
        said = one_line(greenroom("store", "info", "--store", url))
        assert "there is no store at postgresql://postgres:***@" in said


def test_the_file_of_another_program_is_left_alone(greenroom: Run, file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE cookies (name TEXT)")
        other.commit()
    before = file.read_bytes()
    assert "there is no store" in one_line(greenroom("store", "info", "--store", f"sqlite:///{file}"))
    assert file.read_bytes() == before


def test_a_file_that_is_no_database_is_an_error(greenroom: Run, file: Path) -> None:
    file.write_text("Dear diary, " * 100)
    assert "not a database" in one_line(greenroom("store", "info", "--store", f"sqlite:///{file}"))


@pytest.mark.parametrize("url", ["mysql://me:hunter2@host/x", "hunter2", "sqlite://"])
def test_a_url_of_no_store_is_a_matter_of_usage(greenroom: Run, url: str) -> None:
    assert "hunter2" not in one_line(greenroom("store", "info", "--store", url), 2)


def test_a_password_is_never_shown(greenroom: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/nowhere"
    monkeypatch.setenv("GREENROOM_STORE", url)
    assert "hunter2" not in one_line(greenroom("store", "info"))
    helped = greenroom("store", "info", "--help")
    assert helped.code == 0
    assert "hunter2" not in helped.out + helped.err


@pytest.mark.usefixtures("filled")
def test_a_store_of_a_later_version_is_an_error(greenroom: Run, file: Path) -> None:
    with closing(sqlite3.connect(file)) as later:
        later.execute("UPDATE greenroom_schema SET version = 99")
        later.commit()
    assert "upgrade greenroom" in one_line(greenroom("store", "info"))


# info


def test_info_tells_what_is_there(greenroom: Run, filled: str) -> None:
    outcome = greenroom("store", "info")
    assert (outcome.code, outcome.err) == (0, "")
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert lines[0] == f"store {filled}"
    assert f"schema version {LATEST}" in lines
    assert "sessions 5, 1 of them ended" in lines
    assert "messages 3" in lines
    assert "uncommitted 12 turns of 4 sessions, 1 dead letter" in lines
    assert "rooms 2, 1 of them alive" in lines
    assert any(line.startswith("room-alive one 11") and line.endswith("alive") for line in lines)
    assert any(line.startswith("room-gone two 22 expired 8 min") for line in lines)


def test_info_for_programs(greenroom: Run, url: str) -> None:
    with open_store(url) as store:
        fill(store)
        shown = store.url
    found = greenroom("store", "info", "--json", "--store", url).json
    assert (found["url"], found["schema_version"], found["sessions"], found["ended"]) == (
        shown,
        LATEST,
        5,
        1,
    )
    assert (found["dirty"], found["uncommitted"], found["dead"]) == (4, 12, 1)
    assert [(room["room"], room["alive"]) for room in found["rooms"]] == [
        ("room-alive", True),
        ("room-gone", False),
    ]
    assert found["size"] > 0


def test_info_of_an_empty_store(greenroom: Run, file: Path) -> None:
    open_store(f"sqlite:///{file}").close()
    lines = greenroom("store", "info", "--store", f"sqlite:///{file}").out.splitlines()
    assert [" ".join(line.split()) for line in lines][3:] == [
        "sessions 0",
        "messages 0",
        "uncommitted nothing",
        "rooms none",
    ]


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_ids_are_folded_and_not_cut(
    greenroom: Run, filled: str, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with open_store(filled) as store, store.transaction() as ledger:
        lease = ledger.take("Q" * 100, key="k", owner="room-alive")
        ledger.complete("Q" * 100, owner="room-alive", epoch=lease.epoch, generation=1, linger=0.0)
    outcome = greenroom("store", "dirty")
    assert max(map(len, outcome.out.splitlines())) <= int(columns)
    assert outcome.out.count("Q") == 100


# check


def test_check_finds_nothing(greenroom: Run, filled: str) -> None:
    assert greenroom("store", "check") == Outcome(code=0, out="No problems.\n", err="")
    assert greenroom("store", "check", "--json").json == {"url": filled, "problems": []}


@pytest.mark.usefixtures("filled")
def test_check_lists_problems_and_fails(greenroom: Run, file: Path) -> None:
    with closing(sqlite3.connect(file)) as foreign:
        foreign.execute("UPDATE greenroom_sessions SET message_count = 9 WHERE session_id = 'clean'")
        foreign.commit()
    problem = "session 'clean': it says 9 messages and has 3"
    assert greenroom("store", "check") == Outcome(code=1, out=f"{problem}\n1 problem.\n", err="")
    outcome = greenroom("store", "check", "--json")
    assert (outcome.code, outcome.json["problems"]) == (1, [problem])


# dirty


@pytest.mark.usefixtures("filled")
def test_dirty_says_who_is_to_commit_what_and_when(greenroom: Run) -> None:
    outcome = greenroom("store", "dirty")
    assert (outcome.code, outcome.err) == (0, "")
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()][2:]
    assert lines[0] == "dead chat:dead 3 of 4 dead letter after 3 tries"
    assert lines[1] == "no answer"
    assert lines[2] == "held chat:held 3 of 4 held by room-alive (alive)"
    assert lines[3] == "left chat:left 3 of 4 left by room-gone (gone), due now"
    assert lines[4].startswith("waiting chat:waiting 3 of 4 2 failed tries, next in 1 min")
    assert len(lines) == 6


@pytest.mark.usefixtures("filled")
def test_dirty_for_programs(greenroom: Run) -> None:
    found = greenroom("store", "dirty", "--json").json
    assert found["more"] is False
    rows = {row["session_id"]: row for row in found["sessions"]}
    assert set(rows) == {"dead", "held", "left", "waiting"}
    assert (rows["dead"]["dead"], rows["dead"]["tries"], rows["dead"]["problem"]) == (
        True,
        3,
        "no answer",
    )
    assert [rows[name]["owner_alive"] for name in ("dead", "held", "left")] == [None, True, False]
    assert 0 < rows["waiting"]["due_in"] <= 90
    assert rows["dead"]["due_in"] is rows["held"]["due_in"] is None


@pytest.mark.usefixtures("filled")
def test_dirty_can_be_read_page_by_page(greenroom: Run) -> None:
    first = greenroom("store", "dirty", "--limit", "3", "--json").json
    assert [row["session_id"] for row in first["sessions"]] == ["dead", "held", "left"]
    assert first["more"] is True
    rest = greenroom("store", "dirty", "--limit", "3", "--after", "left", "--json").json
    assert [row["session_id"] for row in rest["sessions"]] == ["waiting"]
    assert rest["more"] is False
    assert "--after left" in greenroom("store", "dirty", "--limit", "3").err
    assert greenroom("store", "dirty", "--limit", "4").err == ""
    assert greenroom("store", "dirty", "--limit", "0").code == 2


@pytest.mark.usefixtures("filled")
def test_dirty_lists_dead_letters_alone(greenroom: Run) -> None:
    found = greenroom("store", "dirty", "--dead", "--json").json
    assert [row["session_id"] for row in found["sessions"]] == ["dead"]


def test_nothing_dirty_is_said(greenroom: Run, file: Path) -> None:
    open_store(f"sqlite:///{file}").close()
    outcome = greenroom("store", "dirty", "--store", f"sqlite:///{file}")
    assert outcome == Outcome(code=0, out="No uncommitted turns.\n", err="")


def test_what_a_stranger_wrote_cannot_steer_the_terminal(greenroom: Run, filled: str) -> None:
    with open_store(filled) as store, store.transaction() as ledger:
        epoch = ledger.take("[red]s\x1b[2J", key="k", owner="room-alive").epoch
        ledger.complete("[red]s\x1b[2J", owner="room-alive", epoch=epoch, generation=1, linger=0.0)
    outcome = greenroom("store", "dirty")
    assert "\x1b" not in outcome.out
    assert r"[red]s\x1b[2J" in outcome.out


# retry


def test_retry_of_all_says_how_many(greenroom: Run, filled: str) -> None:
    outcome = greenroom("store", "retry", "--all")
    assert outcome.out == "2 sessions will be tried by the next room that looks.\n"
    with open_store(filled) as store, store.transaction() as ledger:
        due = [row.session_id for row in ledger.orphans(owner="room-new", limit=10)]
    assert {"dead", "waiting"} <= set(due)
    assert greenroom("store", "retry", "--all").out.startswith("Nothing to retry")


def test_retry_of_some(greenroom: Run, filled: str) -> None:
    assert greenroom("store", "retry", "dead", "held", "dead").out.startswith("1 session will be tried")
    with open_store(filled) as store:
        assert (store.session("dead").dead, store.session("waiting").tries) == (False, 2)


def test_retry_of_an_unknown_session_touches_nothing(greenroom: Run, filled: str) -> None:
    said = one_line(greenroom("store", "retry", "dead", "nobody"))
    assert "there is no session 'nobody'" in said
    with open_store(filled) as store:
        assert store.session("dead").dead


@pytest.mark.parametrize("arguments", [[], ["dead", "--all"]])
@pytest.mark.usefixtures("filled")
def test_retry_wants_sessions_or_all(greenroom: Run, arguments: list[str]) -> None:
    assert "--all" in one_line(greenroom("store", "retry", *arguments), 2)


# vacuum


def test_vacuum_tells_the_sizes(greenroom: Run, filled: str) -> None:
    with open_store(filled) as store:
        for _ in range(30):
            store.append("clean", role="user", content="long " * 2000)
        sql(store._engine, "DELETE FROM greenroom_messages WHERE position > 3")
        before = store.counts().size
    outcome = greenroom("store", "vacuum")
    with open_store(filled) as store:
        after = store.counts().size
    assert outcome.out == f"{before / 1000:.1f} kB before, {after / 1000:.1f} kB after.\n"
    assert after < before


# export and import


def test_a_store_goes_through_a_file(greenroom: Run, url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    with open_store(f"sqlite:///{tmp_path / 'source.db'}") as source:
        fill(source)
        records = list(source.export())
    outcome = greenroom("store", "export", copy, "--store", f"sqlite:///{tmp_path / 'source.db'}")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == f"Exported 5 sessions and 3 messages to {copy}.\n"
    assert [json.loads(line) for line in copy.read_text().splitlines()] == records
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    imported = greenroom("store", "import", copy, "--store", url)
    assert imported == Outcome(code=0, out="Imported 5 sessions and 3 messages.\n", err="")
    with open_store(url) as target:
        assert list(target.export()) == records


@pytest.mark.usefixtures("filled")
def test_a_store_goes_through_a_pipe(
    greenroom: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = greenroom("store", "export")
    assert exported.err == "Exported 5 sessions and 3 messages.\n"
    assert greenroom("store", "export", "-").out == exported.out
    with (tmp_path / "pipe").open("w+") as pipe:
        pipe.write(exported.out)
        pipe.seek(0)
        monkeypatch.setattr(sys, "stdin", pipe)
        target = f"sqlite:///{tmp_path / 'target.db'}"
        assert greenroom("store", "import", "-", "--store", target).code == 0
    assert greenroom("store", "export", "--store", target).out == exported.out


@pytest.mark.usefixtures("filled")
def test_export_replaces_a_file_only_by_force(greenroom: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_text("precious")
    assert "--force" in one_line(greenroom("store", "export", copy))
    assert copy.read_text() == "precious"
    assert greenroom("store", "export", copy, "--force").code == 0
    assert len(copy.read_text().splitlines()) == 8


@pytest.mark.usefixtures("filled")
def test_a_file_appears_when_it_is_complete(
    greenroom: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    there: list[bool] = []

    def fail_at_the_end(*_: object) -> Any:
        yield {"kind": "session"}
        there.append((folder / "copy.jsonl").exists())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "export", fail_at_the_end)
    said = one_line(greenroom("store", "export", folder / "copy.jsonl"))
    assert "No space left on device" in said
    assert there == [False]
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("filled")
def test_export_follows_a_link(greenroom: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "copy.jsonl")
    assert greenroom("store", "export", tmp_path / "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "copy.jsonl").is_file()


@pytest.mark.parametrize(
    ("path", "problem"),
    [(os.devnull, "no regular file"), (".", "no regular file"), ("no/such/folder", "No such file")],
)
@pytest.mark.usefixtures("filled")
def test_a_file_that_cannot_be_written_is_an_error(greenroom: Run, path: str, problem: str) -> None:
    assert problem in one_line(greenroom("store", "export", path, "--force"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: [lines[0], "{", *lines[1:]], "line 2: it is no JSON"),
        (lambda lines: [*lines, "\xff"], "line 9: it is no UTF-8 text"),
        (lambda lines: ["[]", *lines], "line 1: it is of type list, not an object"),
        (lambda lines: [lines[0], "", *lines[1:]], "line 2: it is empty, and there is more after it"),
        (lambda lines: lines[:2], "line 1: session 'clean' has 3 messages, but 1 follow it"),
        (lambda lines: [*lines, '{"kind": "memo"}'], "line 9: its kind is 'memo'"),
    ],
    ids=["json", "utf-8", "list", "empty", "cut", "kind"],
)
@pytest.mark.usefixtures("filled")
def test_a_bad_line_is_refused_before_anything_is_written(
    greenroom: Run,
    tmp_path: Path,
    change: Callable[[list[str]], list[str]],
    problem: str,
) -> None:
    lines = greenroom("store", "export").out.splitlines()
    (tmp_path / "bad").write_text("\n".join(change(lines)) + "\n", "latin-1")
    said = one_line(
        greenroom("store", "import", tmp_path / "bad", "--store", f"sqlite:///{tmp_path}/n.db")
    )
    assert f"bad, {problem}" in said
    assert not (tmp_path / "n.db").exists()


@pytest.mark.usefixtures("filled")
def test_a_bad_line_from_a_pipe_is_refused_with_its_session(
    greenroom: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("greenroom.store._transfer.BATCH", 1)
    lines = greenroom("store", "export").out.splitlines()
    (tmp_path / "pipe").write_text("\n".join([*lines[:6], "{", *lines[6:]]))
    target = f"sqlite:///{tmp_path / 'target.db'}"
    with (tmp_path / "pipe").open() as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        said = one_line(greenroom("store", "import", "-", "--store", target))
    assert "line 7: it is no JSON" in said
    assert said.endswith("; the first 5 records were imported\n")
    assert greenroom("store", "info", "--json", "--store", target).json["sessions"] == 2


@pytest.mark.usefixtures("filled")
def test_empty_lines_at_the_end_are_fine(greenroom: Run, tmp_path: Path) -> None:
    (tmp_path / "copy").write_text(greenroom("store", "export").out + "\n\n")
    outcome = greenroom("store", "import", tmp_path / "copy", "--store", f"sqlite:///{tmp_path}/n.db")
    assert outcome.code == 0


@pytest.mark.usefixtures("filled")
def test_an_import_refuses_a_session_that_is_there(greenroom: Run, tmp_path: Path) -> None:
    greenroom("store", "export", tmp_path / "copy")
    said = one_line(greenroom("store", "import", tmp_path / "copy"))
    assert "there is a session 'clean' already, and nothing of it was imported" in said


def test_an_import_of_no_file_makes_no_store(greenroom: Run, tmp_path: Path) -> None:
    outcome = greenroom("store", "import", tmp_path / "none", "--store", f"sqlite:///{tmp_path}/n.db")
    assert "No such file" in one_line(outcome)
    assert list(tmp_path.iterdir()) == []


# Signals and pipes, with real processes


def start_an_export(url: str) -> subprocess.Popen[bytes]:
    """Start one that has written something, and waits for somebody to read the rest."""
    with open_store(url, durability="normal") as store:
        store.create_session("big", key="k")
        store.append("big", role="user", content="x" * 5_000_000)
    command = [sys.executable, "-m", "greenroom", "store", "export", "--store", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.read(1) == b"{"
    return process


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What is started in the background ignores Ctrl-C, and so do its children: perhaps these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_it_without_a_traceback(file: Path) -> None:
    with start_an_export(f"sqlite:///{file}") as process:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")


def test_a_reader_that_goes_away_is_no_error_to_speak_of(file: Path) -> None:
    with start_an_export(f"sqlite:///{file}") as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=30)
    assert err == b""


def test_a_locale_without_the_character_is_no_error(filled: str) -> None:
    with open_store(filled) as store, store.transaction() as ledger:
        epoch = ledger.take("é", key="→", owner="room-alive").epoch
        ledger.complete("é", owner="room-alive", epoch=epoch, generation=1, linger=0.0)
    done = subprocess.run(
        [sys.executable, "-m", "greenroom", "store", "dirty", "--store", filled],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    assert "\\xe9" in last
    assert "\\u2192" in last
