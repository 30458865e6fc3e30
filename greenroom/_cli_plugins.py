"""Commands of other packages, and of our own optional ones: the entry points of `greenroom.commands`.

    [options.entry_points]
    greenroom.commands =
        hello = mypackage.commands:hello      # a function, as for Typer, or a typer.Typer of several

Only the command that is asked for is imported; all are when none is (for the list in the help, or to
suggest what was meant). One that cannot be imported says so when it is used, and disturbs no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from greenroom._cli_terminal import CommandFailed, plain

__all__ = ["GROUP", "add_plugins"]

GROUP = "greenroom.commands"


def add_plugins(
    app: typer.Typer, arguments: Sequence[str], installed: Iterable[EntryPoint] | None = None
) -> None:
    """Add to the app what these arguments may need. What the app has already is left as it is."""
    taken = {name for name in _names(app) if name is not None}
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    if wanted in taken or "--version" in arguments[:1]:
        return
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP) if installed is None else installed:
        if entry.name not in taken:
            found.setdefault(entry.name, entry)
    for name, entry in found.items():
        if wanted not in found or wanted == name:
            _add(app, name, entry)


def _names(app: typer.Typer) -> Iterable[str | None]:
    yield from (command.name for command in app.registered_commands)
    yield from (group.name for group in app.registered_groups)


def _add(app: typer.Typer, name: str, entry: EntryPoint) -> None:
    try:
        loaded: Any = entry.load()
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name)
        elif callable(loaded):
            app.command(name)(loaded)
        else:
            raise TypeError(f"{entry.value} is a {type(loaded).__name__}, and not a command")
    except Exception as error:  # whatever it is, it comes from somebody's package
        _add_excuse(app, name, entry, error)


def _add_excuse(app: typer.Typer, name: str, entry: EntryPoint, error: Exception) -> None:
    owner = f" of the package {entry.dist.name}" if entry.dist is not None else ""
    reason = plain(" ".join(f"{type(error).__name__}: {error}".split()))
    text = f"the command {name!r}{owner} cannot be loaded: {reason}"

    def excuse() -> None:
        raise CommandFailed(text, exit_code=2)

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    help = f"(Cannot be loaded: {reason})"
    app.command(name, help=help, context_settings=settings, add_help_option=False)(excuse)
