"""`greenroom stress`: understands what is asked, plays it, shows it and writes the report.

No option has a type but text, so that whatever is wrong with any of them, and with the file, is told in
one go. What is slow to import is imported when it is needed.

Exit status:

    0      every promise held, and nothing failed that was not planned to
    1      a promise did not hold, or turns failed; or the report could not be written
    2      it could not begin: what is asked for makes no sense, or there is no server, or no package
    130    a second Ctrl-C ended it at once
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from greenroom import GreenroomError
from greenroom._cli_terminal import CommandFailed, plain, say, write_json
from greenroom.stress.command._options import METAVARS, OPTIONS, Option, option_of

if TYPE_CHECKING:
    from greenroom.stress._result import Result
    from greenroom.stress.command._asked import Asked

__all__ = ["stress"]

WRONG = 2
"""The exit status for what cannot begin."""


def stress(**options: Any) -> None:
    """Put a load on a room, or on a server, and see whether everything that is promised holds.

    Without any option: 1,000 sessions and 100 turns a second for half a
    minute, in a room in this process, with agents that are made for it.
    Times are seconds, or such as 500ms, 30s, 10m, 1h. A LENGTH is a time,
    200ms, or log-normal, 200ms~0.8 (median~sigma), and may have a share that
    never ends, 200ms~0.8!0.001. A SHARE is 0.02 or 2%. What is in brackets is
    what holds if nothing is said. Ctrl-C ends a run early, with its report;
    a second one at once. Exit status: 0 all held, 1 something did not, 2 it
    could not begin, 130 ended at once.
    """
    from greenroom.stress.command._asked import read
    from greenroom.stress.command._file import BadInput
    from greenroom.stress.server._target import NoServer
    from greenroom.stress.traces._trace import TraceError

    try:
        asked = read(options, os.environ)
        for note in asked.notes:
            say(f"greenroom: {note}", style="yellow")
        raise typer.Exit(_run(asked))
    except BadInput as bad:
        for problem in bad.problems:
            say(f"greenroom: {plain(problem)}", style="red")
        raise typer.Exit(WRONG) from None
    except (NoServer, TraceError) as error:
        raise CommandFailed(str(error), exit_code=WRONG) from None


def _run(asked: Asked) -> int:
    if asked.mode in ("room", "server"):
        return _drive(asked)
    if asked.mode == "record":
        from greenroom.stress.command._record_cli import run_record

        run_record(asked)
    else:
        from greenroom.stress.command._replay_cli import run_replay, run_synthesize

        run_replay(asked) if asked.mode == "replay" else run_synthesize(asked)
    return 0


def _drive(asked: Asked) -> int:
    from greenroom.stress._run import Run
    from greenroom.stress.command._driving import drive_of
    from greenroom.stress.command._live import view
    from greenroom.stress.command._play import play
    from greenroom.stress.command._summary import show_summary

    report: Path | None = asked.values.get("report")
    if report is not None:
        _check_report(report)
    drive = drive_of(asked)
    as_json = asked.values.get("json", False)
    quiet = as_json or asked.values.get("quiet", False)
    with _logging(asked.values.get("log")), view(drive.headline, drive.duration, quiet=quiet) as shown:
        run = Run(
            drive.target,
            drive.turns,
            duration=drive.duration,
            changes=asked.workload.reconfigure,
            at_once=asked.workload.at_once,
            watch=shown.watch,
            title=drive.title,
            settings=drive.settings,
        )
        try:
            result = play(run, shown)
        except Exception as error:
            if not _explains_itself(error):
                raise
            msg = f"the run could not begin: {type(error).__name__}: {error}"
            raise CommandFailed(msg, exit_code=WRONG) from error
    if as_json:
        write_json(result.to_json())
    else:
        show_summary(result, report)
    if report is not None:
        _write(result, report)
    return 0 if result.held else 1


def _explains_itself(error: Exception) -> bool:
    """Whether its text is for whoever typed the command. A store's errors are told by where they are
    from: who names no store need not have what they are made of."""
    known = isinstance(error, (GreenroomError, ImportError, OSError, ValueError))
    return known or type(error).__module__.startswith("greenroom.store.")


def _check_report(path: Path) -> None:
    """See that the report can be written, before the run and not after it."""
    from greenroom.stress.command._file import BadInput

    folder = path.parent
    if path.suffix.lower() not in (".html", ".htm"):
        raise BadInput(
            f"--report must be a file that ends in .html, not {str(path)!r}: the JSON goes beside it"
        )
    if not folder.is_dir():
        raise BadInput(f"--report: there is no folder {str(folder)!r}")
    if path.is_dir():
        raise BadInput(f"--report: {str(path)!r} is a folder")
    target = path if path.exists() else folder
    if not os.access(target, os.W_OK) or not os.access(folder, os.W_OK):
        raise BadInput(f"--report: {str(target)!r} cannot be written")


def _write(result: Result, path: Path) -> None:
    from greenroom.stress.report._report import write_report

    try:
        write_report(result, path)
    except OSError as error:
        raise CommandFailed(f"the report cannot be written to {path}: {error.strerror}") from error


@contextmanager
def _logging(path: Path | None) -> Iterator[None]:
    """Have what greenroom logs in a file, or nowhere: failures are planned, and told in the report."""
    handler: logging.Handler = logging.NullHandler()
    if path is not None:
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            raise CommandFailed(
                f"--log: {path} cannot be written: {error.strerror}", exit_code=WRONG
            ) from None
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger = logging.getLogger("greenroom")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)
        handler.close()


# The command line


def _parameter(option: Option) -> inspect.Parameter:
    kinds: Mapping[str, Any] = {"switch": bool, "names": list[str] | None}
    declared = typer.Option(
        option_of(option.name),
        help=option.help,
        rich_help_panel=option.panel,
        metavar=None if option.kind == "switch" else option.metavar or METAVARS[option.kind],
        show_default=False,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.kind == "switch" else None,
        annotation=Annotated[kinds.get(option.kind, str | None), declared],
    )


def _declare(command: Callable[..., None]) -> None:
    """Give the command the parameters that Typer reads off it: one for each option."""
    parameters = [_parameter(option) for option in OPTIONS.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # as inspect reads it
    command.__annotations__ = {one.name: one.annotation for one in parameters}


_declare(stress)
