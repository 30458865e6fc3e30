"""What the page about stress shows is run, so that it stays true."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom.__main__ import main
from greenroom.stress._workload import Workload
from greenroom.stress.command._asked import read
from greenroom.stress.command._file import policy_names
from greenroom.stress.command._options import OPTIONS, option_of
from tests.house import ROOT
from tests.test_documentation import blocks, served

PAGE = "docs/stress.md"
SERVER = "http://127.0.0.1:8765"


def commands() -> list[str]:
    lines = "".join(blocks(PAGE, "sh")).splitlines()
    return [line for line in lines if line.startswith("greenroom stress ")]


class Shell:
    """Does what a shell does with a line, in a folder of somebody's: in this process, to be quick."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, written: Any) -> None:
        self._monkeypatch = monkeypatch
        self._written = written
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", list(sys.path))
        for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
            monkeypatch.delenv(name)

    def run(self, line: str) -> str:
        """A run of three seconds shows no more than one of a second does."""
        command, _, target = line.replace("--duration 3", "--duration 1").partition(" > ")
        self._monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            sys.exit(main())
        out, err = self._written.readouterr()
        assert ended.value.code in (0, None), f"{line}: {out}{err}"
        if target:
            Path(target).write_text(out)
        return str(out)


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    """With the module of the page in its folder."""
    (module,) = blocks(PAGE, "python")
    (tmp_path / "my_agents.py").write_text(module)
    yield Shell(tmp_path, monkeypatch, capsys)
    sys.modules.pop("my_agents", None)


@pytest.mark.parametrize("line", [line for line in commands() if not re.search("8765|storm", line)])
def test_a_command_of_the_page_works_when_pasted(line: str, shell: Shell) -> None:
    out = shell.run(line)
    assert ("Take a cap of" if "--replay" in line else "Everything held.") in out
    if "--report" in line:
        assert Path("report.html").exists()
        assert Path("report.json").exists()


def test_a_trace_that_was_made_up_as_the_page_says_is_driven(shell: Shell) -> None:
    make, drive = [line for line in commands() if "storm" in line]
    shell.run(make)
    assert "Everything held." in shell.run(drive)


def test_the_commands_for_a_server_work_when_pasted(tmp_path: Path, shell: Shell) -> None:
    lines = [line for line in commands() if SERVER in line]
    assert len(lines) == 2
    with served(tmp_path) as page:
        for line in lines:
            assert "Everything held." in shell.run(line.replace(SERVER, page.rstrip("/")))


def test_the_file_of_the_page_says_what_holds_if_nothing_is_said(tmp_path: Path) -> None:
    (text,) = blocks(PAGE, "toml")
    (tmp_path / "workload.toml").write_text(text)
    asked = read({"file": tmp_path / "workload.toml"}, {})
    changed = {"reconfigure", "policy"}
    for name in set(Workload.__dataclass_fields__) - changed:
        assert getattr(asked.workload, name) == getattr(Workload(), name), name
    assert asked.workload.make_policy() == Workload().make_policy()
    assert asked.workload.reconfigure[0].changes == {"cap": 64}


def test_the_file_of_the_page_has_every_name() -> None:
    (text,) = blocks(PAGE, "toml")
    whole = tomllib.loads(re.sub(r"^# (\[?\w)", r"\1", text, flags=re.MULTILINE))
    named = {name for name in whole if name not in ("policy", "agent_options", "reconfigure")}
    in_file = {option.name for option in OPTIONS.values() if option.in_file and option.part != "policy"}
    assert named | {"reconfigure", "agent_option", "file"} == in_file
    assert set(whole["policy"]) <= set(policy_names())
    assert whole["agent_options"]


@pytest.mark.parametrize("name", ["--record", "--report", "--replay", "--trace", "--perform", "--log"])
def test_the_page_speaks_of_what_people_look_for(name: str) -> None:
    assert name in (ROOT / PAGE).read_text()


def test_every_option_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"(--[a-z][a-z-]+)", (ROOT / PAGE).read_text()))
    assert named - {option_of(name) for name in OPTIONS} == set()
