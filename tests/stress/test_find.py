"""What the command line names: factories, functions, agents that are installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from greenroom.stress.command._file import BadInput
from greenroom.stress.command._find import find, find_agent

SOURCE = """
class Maker:
    @staticmethod
    def build(context): return "agent"
def build(context, *, depth=1): return depth
def nothing(): pass
number = 3
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in the current directory, forgotten afterwards."""
    (tmp_path / "stress_fine.py").write_text(SOURCE)
    (tmp_path / "stress_broken.py").write_text("1 / 0\n")
    (tmp_path / "stress_leaving.py").write_text("raise SystemExit(7)\n")
    (tmp_path / "stress_unread.py").write_text("x = 1\ndef x(:\n")
    (tmp_path / "stress_lacking.py").write_text("import no_such_package_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("stress_fine", "stress_broken", "stress_leaving", "stress_unread", "stress_lacking"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_factory_may_be_in_the_current_directory() -> None:
    context: Any = None
    assert find_agent("stress_fine:build", {})(context) == 1
    assert find_agent("stress_fine:Maker.build", {})(context) == "agent"


def test_a_factory_gets_its_options() -> None:
    assert find_agent("stress_fine:build", {"depth": 7})(None) == 7


def test_an_agent_that_is_installed_is_found_by_its_name() -> None:
    from greenroom.gateway.agents.offline import offline

    assert find_agent("offline", {}) is offline


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("stress_fine:bild", "has no 'bild'. Did you mean build?"),
        ("stress_fine:number", "is of type int, and cannot be called"),
        ("stress_fine:nothing", "is called with a context"),
        ("stress_none:build", "there is no module 'stress_none'"),
        ("stress_broken:build", "importing stress_broken failed: ZeroDivisionError"),
        ("stress_leaving:build", "importing stress_leaving failed: SystemExit: 7"),
        ("stress_unread:build", "SyntaxError: invalid syntax (stress_unread.py, line 2)"),
        ("stress_lacking:build", "needs the package 'no_such_package_at_all'"),
        ("stress fine:build", "must be module:function"),
        ("stress_fine:", "must be module:function"),
        ("ofline", "Did you mean offline?"),
        ("mine", "For one of your own: mine:factory"),
    ],
)
def test_what_is_not_there_is_explained(name: str, told: str) -> None:
    with pytest.raises(BadInput, match="--agent") as caught:
        find_agent(name, {})
    assert told in str(caught.value)
    assert "frozen" not in str(caught.value)


def test_options_that_a_factory_does_not_take_are_told_before_the_run() -> None:
    with pytest.raises(BadInput, match="unexpected keyword argument 'width'"):
        find_agent("stress_fine:build", {"width": 3})


def test_a_function_is_found_for_another_option() -> None:
    with pytest.raises(BadInput, match="--perform: stress_fine has no 'act'"):
        find("stress_fine:act", "--perform")
