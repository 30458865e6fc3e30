"""Finds what somebody names on the command line: a factory, a function, an installed agent.

    mypackage.agents:build      of a module, which may be in the current directory
    offline, openai             an entry point of the group `greenroom.agents`

Nothing is imported but what is named.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from greenroom.stress.command._file import BadInput, meant

__all__ = ["find", "find_agent"]

GROUP = "greenroom.agents"


def find_agent(name: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The factory of this name, with its options. Raises `BadInput`."""
    if ":" in name:
        factory = find(name, "--agent")
    else:
        installed = {entry.name: entry for entry in entry_points(group=GROUP)}
        if name not in installed:
            there = (
                f"no agent is called {name!r}; installed are {', '.join(sorted(installed)) or 'none'}"
            )
            hint = meant(name, installed) or f". For one of your own: {name}:factory"
            raise BadInput(f"--agent: {there}{hint}")
        factory = find(f"{installed[name].module}:{installed[name].attr}", "--agent")
    _check_call(factory, name, options)
    return functools.partial(factory, **options) if options else factory


def find(name: str, option: str) -> Callable[..., Any]:
    """The function that `module:function` names. Raises `BadInput`."""
    module_name, _, path = name.partition(":")
    if not re.fullmatch(r"\w+(\.\w+)*", module_name) or not re.fullmatch(r"\w+(\.\w+)*", path):
        raise BadInput(f"{option} must be module:function, not {name!r}")
    here = os.getcwd()
    if here not in sys.path:  # as `python -m` does
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            msg = f"{option}: there is no module {error.name!r}, neither installed nor in {here}"
        else:
            msg = f"{option}: {module_name} needs the package {error.name!r}, which is not installed"
        raise BadInput(msg) from None
    except (Exception, SystemExit) as error:  # whatever it is, it comes from somebody's module
        raise BadInput(f"{option}: importing {module_name} failed: {_described(error)}") from error
    for step in path.split("."):
        if not hasattr(found, step):
            close = difflib.get_close_matches(step, dir(found), n=1)
            hint = f". Did you mean {close[0]}?" if close else ""
            raise BadInput(f"{option}: {module_name} has no {path!r}{hint}")
        found = getattr(found, step)
    if not callable(found):
        raise BadInput(f"{option}: {name} is of type {type(found).__name__}, and cannot be called")
    return found  # type: ignore[no-any-return]  # what it returns is its own affair


def _check_call(factory: Callable[..., Any], name: str, options: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # of something built in: it will tell by itself
        return
    try:
        signature.bind(None, **options)
    except TypeError as error:
        raise BadInput(
            f"--agent {name} takes {signature}, and is called with a context and its options ({error})"
        ) from None


def _described(error: BaseException) -> str:
    where, trace = "", error.__traceback__
    if isinstance(error, SyntaxError):  # it says where by itself, and was raised by the importer
        return f"{type(error).__name__}: {error}"
    while trace is not None:
        where = f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{where}"
