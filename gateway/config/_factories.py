"""Finds what makes agents, by its name, and explains what is wrong if it cannot.

offline, openai             an entry point of the group `greenroom.agents`, of this package or another
mypackage.agents:build      a function (or class) of a module, which may be in the current directory, or
                            beside the file of the configuration
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, requires
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from greenroom.gateway._stage import Factory

__all__ = ["GROUP", "BadAgent", "check_options", "find_factory"]

GROUP = "greenroom.agents"
"""The group of entry points that agents are installed under."""


class BadAgent(ValueError):
    """There is no such agent, or it does not take these options."""


def find_factory(name: str, folders: Sequence[str] = ()) -> Factory:
    """Find what makes the agents of this name. Raises `BadAgent`.

    A module is looked for in `folders` first, in this order; without any, in the current directory.
    """
    module, colon, attribute = name.partition(":")
    if colon:
        # As `python -m` does: whoever has their agent in a file beside them means that one.
        folders = folders or [os.getcwd()]
        sys.path[:] = [*folders, *(path for path in sys.path if path not in folders)]
        return _attribute(_module(module, name, folders=folders), attribute, name)
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in installed:
        raise BadAgent(_no_such_agent(name, sorted(installed)))
    entry = installed[name]
    return _attribute(_module(entry.module, name, entry), entry.attr, name)


def _no_such_agent(name: str, installed: list[str]) -> str:
    there = f"no agent is called {name!r}, installed are {', '.join(installed) or 'none'}"
    close = difflib.get_close_matches(name, installed, n=1)
    if close:
        return f"{there}. Did you mean {close[0]}?"
    before, dot, after = name.rpartition(".")
    example = f"{before}:{after}" if dot else f"{name}:factory"
    return f"{there}. For one of your own, name its module and factory, as in {example}"


def _module(
    module: str, agent: str, entry: EntryPoint | None = None, folders: Sequence[str] = ()
) -> ModuleType:
    if not re.fullmatch(r"\w+(\.\w+)*", module):
        msg = f"{agent!r} is no module:factory: {module!r} cannot be the name of a module"
        raise BadAgent(msg)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BadAgent(_not_found(module, agent, error.name or "", entry, folders)) from error
    except Exception as error:  # whatever it is, it comes from somebody's module
        raise BadAgent(f"importing {module} failed: {_described(error)}") from error


def _not_found(
    module: str, agent: str, missing: str, entry: EntryPoint | None, folders: Sequence[str]
) -> str:
    if missing == module or module.startswith(f"{missing}."):
        return f"there is no module {missing!r}, neither installed nor in {' or '.join(folders)}"
    return f"agent {agent!r} needs the package {missing!r}: pip install {_installable(missing, entry)}"


def _installable(package: str, entry: EntryPoint | None) -> str:
    """What to install for a package that an agent needs: the extra that brings it, if there is one."""
    owner = entry.dist.name if entry is not None and entry.dist is not None else None
    try:
        needs = requires(owner) or [] if owner else []
    except PackageNotFoundError:
        needs = []
    for need in needs:
        found = re.fullmatch(r"([\w.-]+).*extra == ['\"](\w+)['\"].*", need)
        if found and found[1].lower().replace("-", "_") == package.partition(".")[0].lower():
            return f"'{owner}[{found[2]}]'"
    return package.partition(".")[0]


def _attribute(module: ModuleType, path: str, agent: str) -> Factory:
    found: Any = module
    for step in path.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            raise BadAgent(_no_such_attribute(module, step, path)) from None
    if not callable(found):
        msg = f"{agent!r} is of type {type(found).__name__}: it must be a function that makes agents"
        raise BadAgent(msg)
    return cast("Factory", found)


def _no_such_attribute(module: ModuleType, step: str, path: str) -> str:
    there = sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", "") == module.__name__
    )
    if not path:
        msg = f"which function of {module.__name__} makes agents? Say {module.__name__}:factory"
    else:
        msg = f"module {module.__name__} has no {path!r}"
    close = difflib.get_close_matches(step, there, n=1)
    if close:
        return f"{msg}. Did you mean {close[0]}?"
    shown = ", ".join(there[:10]) + (", …" if len(there) > 10 else "")
    return f"{msg}. It has {shown or 'no functions at all'}"


def check_options(factory: Factory, options: Mapping[str, Any]) -> None:
    """See whether a factory takes these options, without making an agent. Raises `BadAgent`.

    A factory with an attribute `options`, something that takes the same options and raises if they make
    no sense, has them checked by that as well.
    """
    _check_names(factory, options, context=(None,))
    check: Callable[..., Any] | None = getattr(factory, "options", None)
    if not callable(check):
        return
    _check_names(check, options, context=())
    try:
        check(**options)
    except ModuleNotFoundError as error:
        text = f"it needs the package {error.name!r}: pip install {error.name}"
        raise BadAgent(str(error) if "pip install" in str(error) else text) from error
    except Exception as error:
        raise BadAgent(str(error) or type(error).__name__) from error


def _check_names(
    takes: Callable[..., Any], options: Mapping[str, Any], *, context: tuple[object, ...]
) -> None:
    try:
        signature = inspect.signature(takes)
    except (TypeError, ValueError):  # of something built in: it will tell by itself
        return
    try:
        signature.bind(*context, **options)
    except TypeError as error:
        raise BadAgent(_does_not_fit(signature, options, str(error), len(context))) from error


def _does_not_fit(
    signature: inspect.Signature, options: Mapping[str, Any], text: str, positional: int
) -> str:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = [name for name, one in signature.parameters.items() if one.kind in named]
    if positional and not signature.parameters:
        return "an agent's factory takes a context first: def factory(context, **options)"
    if positional and known and next(iter(signature.parameters.values())).kind in named[:1]:
        known = known[1:]
    open_ended = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    needed = [name for name in known if signature.parameters[name].default is inspect.Parameter.empty]
    missing = [name for name in needed if name not in options]
    if missing:
        return f"it needs the option {missing[0]!r}, as in --agent-option {missing[0]}=…"
    unknown = [name for name in options if name not in known]
    if not unknown or open_ended:
        return f"its options do not fit: {text}"
    close = difflib.get_close_matches(unknown[0], known, n=1)
    hint = f". Did you mean {close[0]}?" if close else f", it takes {', '.join(known) or 'none'}"
    return f"it takes no option {unknown[0]!r}{hint}"


def _described(error: Exception) -> str:
    where = ""
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    trace = error.__traceback__
    while trace is not None:
        where = f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{where}"
