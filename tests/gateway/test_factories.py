"""Agents are found by name, and what is wrong with a name is explained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from greenroom.gateway.agents.offline import offline
from greenroom.gateway.config import _factories
from greenroom.gateway.config._factories import GROUP, BadAgent, check_options, find_factory
from greenroom.gateway.config._sources import read_config

Write = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module into the current directory; returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    names: list[str] = []

    def write(source: str) -> str:
        name = f"agents_of_{tmp_path.name.replace('-', '_')}_{len(names)}"
        (tmp_path / f"{name}.py").write_text(source)
        names.append(name)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


def wrong(name: str) -> str:
    with pytest.raises(BadAgent) as raised:
        find_factory(name)
    return str(raised.value)


def unfit(factory: Any, **options: Any) -> str:
    with pytest.raises(BadAgent) as raised:
        check_options(factory, options)
    return str(raised.value)


def test_an_installed_agent_is_found_by_its_name() -> None:
    assert find_factory("offline") is offline


@pytest.mark.parametrize("named_by", ["file", "option"])
def test_a_factory_is_found_beside_whoever_names_it(
    module: Write, tmp_path: Path, named_by: str
) -> None:
    only, both = module("build = str"), module("here = print")
    etc = tmp_path / "etc"
    etc.mkdir()
    (tmp_path / f"{only}.py").rename(etc / f"{only}.py")
    (etc / f"{both}.py").write_text("there = print")
    (etc / "greenroom.toml").write_text(f'agent = "{only}:build"')
    options = {"config": etc / "greenroom.toml", "store": "none"}
    if named_by == "option":
        options["agent"] = f"{only}:build"

    loaded = read_config(options, {})
    factory: Any = find_factory(loaded.config.agent, loaded.folders)
    assert factory is str
    first = "there" if named_by == "file" else "here"
    factory = find_factory(f"{both}:{first}", loaded.folders)
    assert factory is print
    with pytest.raises(BadAgent, match=f"nor in .*{tmp_path}.* or .*{tmp_path}"):
        find_factory("no_such_module:build", loaded.folders)


def test_a_factory_in_the_current_directory_is_found(module: Write) -> None:
    name = module("def build(context): return 'built'\nclass Shop:\n    make = staticmethod(build)\n")
    factory: Any = find_factory(f"{name}:build")
    assert factory(None) == "built"
    factory = find_factory(f"{name}:Shop.make")
    assert factory(None) == "built"


def test_an_unknown_name_gets_a_suggestion() -> None:
    assert wrong("ofline").endswith("Did you mean offline?")
    assert "installed are offline, openai" in wrong("telepathy")
    assert "as in telepathy:factory" in wrong("telepathy")
    assert "as in mine.agents:build" in wrong("mine.agents.build")


def test_a_module_that_is_not_there_is_named(module: Write) -> None:
    name = module("import nowhere_to_be_found")
    assert "there is no module 'nowhere_at_all'" in wrong("nowhere_at_all.x:build")
    assert wrong(f"{name}:build").endswith(
        "needs the package 'nowhere_to_be_found': pip install nowhere_to_be_found"
    )
    assert "cannot be the name of a module" in wrong("a b:build")
    assert "cannot be the name of a module" in wrong(":build")


def test_a_module_that_fails_says_where(module: Write) -> None:
    name = module("x = 1\n1 / 0\n")
    text = wrong(f"{name}:build")
    assert f"importing {name} failed: ZeroDivisionError: division by zero" in text
    assert f"{name}.py, line 2" in text
    name = module("def\n")
    assert "SyntaxError: invalid syntax" in wrong(f"{name}:build")


def test_what_a_module_has_is_told(module: Write) -> None:
    name = module("import json\ndef build(context): ...\ndef other(context): ...\nfigure = 3\n")
    assert wrong(f"{name}:biuld").endswith("has no 'biuld'. Did you mean build?")
    assert wrong(f"{name}:zzz").endswith("It has build, other")
    assert "which function" in wrong(f"{name}:")
    assert "is of type int: it must be a function that makes agents" in wrong(f"{name}:figure")


def test_the_extra_that_brings_a_package_is_named(
    monkeypatch: pytest.MonkeyPatch, module: Write
) -> None:
    name = module("import openai")
    monkeypatch.setitem(sys.modules, "openai", None)
    (installed,) = (one for one in entry_points(group=GROUP) if one.name == "openai")
    entry = EntryPoint("needy", f"{name}:build", GROUP)
    vars(entry)["dist"] = installed.dist
    monkeypatch.setattr(_factories, "entry_points", lambda group: [entry] if group else [])
    monkeypatch.setattr(sys, "path", [str(Path.cwd()), *sys.path])
    assert wrong("needy") == "agent 'needy' needs the package 'openai': pip install 'greenroom[agents]'"


# Options


def test_options_that_fit_are_fine() -> None:
    check_options(offline, {"answer_seconds": 0.5})

    def takes_all(context: Any, /, **options: Any) -> None: ...
    def takes_one(context: Any, *, a: int, b: int = 1) -> None: ...

    check_options(takes_all, {"anything": 1})
    check_options(takes_one, {"a": 1})


def test_options_that_do_not_fit_are_named() -> None:
    def build(context: Any, delay: float, *, words: int = 1) -> None: ...
    def takes_two(context: Any, other: Any, /, **options: Any) -> None: ...

    assert unfit(build, delay=1, wrods=1) == "it takes no option 'wrods'. Did you mean words?"
    assert unfit(build, delay=1, zzz=1) == "it takes no option 'zzz', it takes delay, words"
    assert unfit(build) == "it needs the option 'delay', as in --agent-option delay=…"
    assert "takes a context first" in unfit(lambda: None)
    assert "do not fit" in unfit(takes_two)


def test_a_factory_checks_the_values_of_its_options() -> None:
    assert unfit(offline, answr_seconds=1) == (
        "it takes no option 'answr_seconds'. Did you mean answer_seconds?"
    )
    assert "answer_seconds must be a number" in unfit(offline, answer_seconds="slow")


def test_a_package_that_the_options_need_is_named() -> None:
    def options(**_: Any) -> None:
        raise ModuleNotFoundError(name="frobnicate")

    def build(context: Any, **_: Any) -> None: ...

    build.options = options  # type: ignore[attr-defined]  # functions take any attribute
    assert unfit(build) == "it needs the package 'frobnicate': pip install frobnicate"
