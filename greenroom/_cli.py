"""The app of the command line, in one place: what there is besides is a module for each sub-command.

A sub-command is a `typer.Typer` called `commands` in a module `_cli_<name>.py`, with one line here. What
all of them keep to:

- What cannot be done is one line on stderr, without a traceback, and exit code 1; 2 if the command line
  itself is wrong or a package is missing; 130 after Ctrl-C. They raise `CommandFailed` for it.
- Results go to stdout, everything else to stderr. A reader that goes away (`| head`) is no error to
  speak of.
- Starting is quick: what is slow to import (SQLAlchemy, Rich) is imported by the command that needs it.

Further commands come from entry points of the group `greenroom.commands`, of whatever is installed: see
`_cli_plugins.py`.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated

import typer

from greenroom import _cli_store
from greenroom._cli_plugins import add_plugins
from greenroom._cli_terminal import CommandFailed, say

__all__ = ["app", "run"]

app = typer.Typer(
    name="greenroom",
    no_args_is_help=True,
    # A traceback with the variables in it shows the passwords in them.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(_cli_store.commands, name="store")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"greenroom {version('greenroom')}")
        raise typer.Exit


@app.callback()
def greenroom(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Keeps the live agents of a chat gateway: one actor a session, a bounded number in memory."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line; return what to exit with, or raise `SystemExit` with it as Typer does."""
    for stream in (sys.stdout, sys.stderr):
        # In a locale without the character, show its number rather than fail.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    add_plugins(app, arguments)
    try:
        app(args=list(arguments), prog_name="greenroom")
    except CommandFailed as failure:
        say(f"greenroom: {failure}", style="red")
        return failure.exit_code
    return 0
