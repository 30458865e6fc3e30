"""The rules of the house hold, and each of them can be broken."""

import configparser
import functools
import importlib
import tomllib
from pathlib import Path
from types import ModuleType

import pykka
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.house import (
    BARE_NAMES,
    MAY_IMPORT,
    NOT_SHIPPED,
    ROOT,
    broken,
    imports_of_sessions,
    imports_that_are_not_absolute,
    locks,
    private_names,
    shipped_folders,
    shipped_packages,
    sources,
    untidy_init,
    wrong_directions,
)

# Imports


@pytest.mark.parametrize(("folder", "place"), shipped_folders().items())
def test_imports_point_one_way(folder: str, place: str) -> None:
    rule = functools.partial(wrong_directions, folder=folder)
    assert broken(sources(ROOT, place), rule) == []


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("messages", "from greenroom.actors import Actor"),
        ("messages", "import greenroom.actors.runtime._future"),
        ("messages", "from greenroom import actors"),
        ("messages", "from greenroom import Policy"),
        ("actors", "from greenroom.supervisor import Supervisor"),
        ("actors", "def late():\n    from greenroom import Greenroom"),
        ("actors", "if TYPE_CHECKING:\n    import greenroom"),
        ("supervisor", "from greenroom.store import open_store"),
        ("greenroom", "from greenroom.gateway import app"),
        ("store", "from greenroom.messages import ChildFailed"),
        ("gateway", "from greenroom.actors import Actor"),
        ("integrations", "from greenroom.gateway import app"),
        ("stress", "from greenroom.actors import Actor"),
    ],
)
def test_an_import_against_the_direction_is_found(folder: str, source: str) -> None:
    assert len(wrong_directions(source, folder)) == 1


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("messages", "from greenroom.messages._runtime import ChildFailed"),
        ("messages", "import dataclasses"),
        ("actors", "from greenroom.messages import ChildFailed"),
        ("supervisor", "from greenroom import actors, messages"),
        ("greenroom", "from greenroom._policy import Policy"),
        ("gateway", "from greenroom import Greenroom"),
        ("gateway", "import supervisor.xmlrpc"),
    ],
)
def test_an_import_along_the_direction_is_fine(folder: str, source: str) -> None:
    assert wrong_directions(source, folder) == []


def test_imports_are_absolute_everywhere() -> None:
    paths = sources(ROOT, *shipped_folders().values(), *NOT_SHIPPED)
    assert broken(paths, imports_that_are_not_absolute) == []


@pytest.mark.parametrize(
    "source",
    [
        "import messages",
        "import actors.simulation as simulation",
        "from benchmarks.stress import _run",
        "from messages import ChildFailed",
        "def late():\n    from messages._runtime import ChildFailed",
        "from . import _future",
        "from ._future import Future",
    ],
)
def test_a_bare_or_relative_import_is_found(source: str) -> None:
    assert len(imports_that_are_not_absolute(source)) == 1


def test_lint_bans_the_bare_name_of_every_folder() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    banned = settings["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(banned) == BARE_NAMES


# Locks


def test_no_lock_outside_the_runtime() -> None:
    folders = [place for folder, place in shipped_folders().items() if folder != "actors"]
    folders += ["actors/ledger", "actors/session", "actors/simulation"]
    assert broken(sources(ROOT, *folders), locks) == []


def test_the_runtime_knows_nothing_of_sessions() -> None:
    assert broken(sources(ROOT, "actors/runtime"), imports_of_sessions) == []
    assert imports_of_sessions("from greenroom.actors.session.card import Card")
    assert imports_of_sessions("def f():\n    import greenroom.actors.ledger")
    assert imports_of_sessions("from greenroom.actors import Policy")


@pytest.mark.parametrize(
    "source",
    [
        "import threading\nx = threading.Lock()",
        "import threading as t\nx = t.Event()",
        "from threading import RLock",
        "from threading import Barrier as Gate",
        "from threading import *",
        "import _thread\nx = _thread.allocate_lock",
        "import asyncio\nx = asyncio.Event()",
        "from asyncio import Condition",
        "from multiprocessing import Event",
        "def f(self): return self.tools.threading.BoundedSemaphore(3)",
    ],
)
def test_a_lock_is_found(source: str) -> None:
    assert len(locks(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import threading\nx = threading.current_thread()",
        "from greenroom._events import Event\nx = Event()",
        "import telegram\nx = telegram.Event",
    ],
)
def test_what_only_sounds_like_a_lock_is_fine(source: str) -> None:
    assert locks(source) == []


# Private names of others


def test_no_private_name_of_others_is_imported_or_read() -> None:
    assert broken(sources(ROOT, *shipped_folders().values()), private_names) == []


@pytest.mark.parametrize(
    "source",
    [
        "from asyncio import _get_running_loop",
        "from pykka.messages import _ActorStop as Stop",
        "import pykka._envelope",
        "import asyncio\nx = asyncio._get_running_loop()",
        "import sqlalchemy as sa\nx = sa._util",
        "import asyncio\nx = asyncio.events._get_running_loop()",
    ],
)
def test_a_private_name_of_others_is_found(source: str) -> None:
    assert len(private_names(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations",
        "from greenroom.actors.runtime._mailbox import _hand_over_ready",
        "import os\nos._exit(0)",
        "import pykka\nx = pykka.__version__",
    ],
)
def test_a_name_that_is_public_or_ours_is_fine(source: str) -> None:
    assert private_names(source) == []


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (pykka.Actor, "_create_actor_inbox"),
        (pykka.Actor, "_create_future"),
        (pykka.Actor, "_start_actor_loop"),
        (HttpToolsProtocol, "_unsupported_upgrade_warning"),
    ],
)
def test_a_private_method_of_others_that_we_override_is_still_there(owner: type, name: str) -> None:
    """Nobody would call what we put in its place. `setup.cfg` bounds the versions of both."""
    assert callable(getattr(owner, name))


# __init__.py and __all__


def test_each_init_holds_a_docstring_imports_and_a_sorted_all() -> None:
    inits = [ROOT / folder / "__init__.py" for folder in shipped_packages().values()]
    assert broken(inits, untidy_init) == []


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("__all__ = []", "docstring"),
        ('"""Doc."""', "no __all__"),
        ('"""Doc."""\n__all__ = []\nx = 1', "line 3"),
        ('"""Doc."""\nimport os\n__all__ = []', "line 2"),
        ('"""Doc."""\nfrom os import *\n__all__ = []', "line 2"),
        ('"""Doc."""\nif True:\n    from os import path\n__all__ = []', "line 2"),
        ('"""Doc."""\nfrom a import b, c\n__all__ = ["c", "b"]', "sorted"),
        ('"""Doc."""\nfrom a import b\n__all__ = ["b", "b"]', "sorted"),
        ('"""Doc."""\nfrom a import b\n__all__ = []', "['b']"),
        ('"""Doc."""\nfrom a import b as c\n__all__ = ["b"]', "['b', 'c']"),
        ('"""Doc."""\n__all__ = ["b"]', "['b']"),
        ('"""Doc."""\nfrom a import b\n__all__ = ["b"] + others', "no __all__"),
    ],
)
def test_an_untidy_init_is_found(source: str, complaint: str) -> None:
    assert complaint in "; ".join(untidy_init(source))


def test_a_tidy_init_is_fine() -> None:
    assert untidy_init('"""Doc."""\nfrom a import B, c\n__all__ = ["B", "c"]') == []


@pytest.mark.parametrize("package", sorted(shipped_packages()))
def test_all_names_what_is_there(package: str) -> None:
    module = importlib.import_module(package)
    there = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    exported = {name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)}
    assert {name for name in exported if not name.startswith("_")} == there


# Layout


def test_every_folder_has_a_rule() -> None:
    assert set(shipped_folders()) <= set(MAY_IMPORT)


def test_setup_cfg_names_every_package_that_is_there() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", "utf-8")
    listed = setup["options"]["packages"].split()
    assert listed == sorted(shipped_packages())


def test_setup_cfg_installs_folder_x_as_greenroom_x() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", "utf-8")
    lines = setup["options"]["package_dir"].strip().splitlines()
    mapped = dict(line.replace(" ", "").split("=") for line in lines)
    places = shipped_folders().values()
    assert mapped == {name: folder for name, folder in shipped_packages().items() if folder in places}


def test_each_folder_is_linked_into_the_package() -> None:
    links = {path.name: path.readlink() for path in (ROOT / "greenroom").iterdir() if path.is_symlink()}
    assert links == {
        name: Path("..", place) for name, place in shipped_folders().items() if name != "greenroom"
    }


def test_pyright_is_told_of_every_folder() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    linked = {f"greenroom/{folder}" for folder in shipped_folders() if folder != "greenroom"}
    assert set(settings["tool"]["pyright"]["include"]) == linked | NOT_SHIPPED | {"greenroom"}
