"""`greenroom store export` and `import`: a store as a file of JSON lines, and back.

A file that is exported is there as a whole or not at all, and readable by its owner alone: it holds
transcripts. A file that is imported is read twice, so that a bad line is refused before anything is
written; what comes through a pipe can only be read once, and is taken session by session.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import typer

from greenroom._cli_terminal import CommandFailed, Progress, count, plain, progress_bar, say

if TYPE_CHECKING:
    from greenroom.store import Store

__all__ = ["PIPE", "export_to", "import_from", "readable"]

PIPE = Path("-")
"""Stands for stdin or stdout."""


def export_to(store: Store, path: Path, *, force: bool) -> None:
    """Write the whole store into a file, or to stdout."""
    sessions = messages = 0
    with _target(path, force=force) as target:
        # A bar between the lines of a transcript would be no use to anyone.
        quiet = path == PIPE and sys.stdout.isatty()
        with progress_bar("exporting", unit="records", shown=not quiet) as progress:
            for record in store.export(progress):
                sessions += record["kind"] == "session"
                messages += record["kind"] == "message"
                target.write(json.dumps(record, allow_nan=False) + "\n")
            target.flush()
    where = "" if path == PIPE else f" to {path}"
    say(f"Exported {count(sessions, 'session')} and {count(messages, 'message')}{where}.")


@contextmanager
def readable(path: Path) -> Iterator[BinaryIO]:
    """Open a file that `export` wrote, or stdin, and look through it if it can be read twice."""
    from greenroom.store._transfer import BadRecord, transcripts

    try:
        with nullcontext(sys.stdin.buffer) if path == PIPE else path.open("rb") as source:
            if path != PIPE and source.seekable():
                with progress_bar("checking", unit="bytes") as progress:
                    deque(transcripts(_records(source, progress)), maxlen=0)
                source.seek(0)
            yield source
    except BadRecord as bad:
        raise CommandFailed(f"{path}, line {bad.number}: {bad.problem}") from bad
    except OSError as error:
        where = "stdin" if path == PIPE else path
        raise CommandFailed(f"cannot read {where}: {error.strerror}") from error


def import_from(store: Store, source: BinaryIO) -> None:
    """Read what is in the file into the store."""
    from greenroom.store import SessionExists
    from greenroom.store._transfer import BadRecord

    before = 0

    def remember(done: int, _: int | None) -> None:
        nonlocal before
        before = done

    try:
        with progress_bar("importing", unit="bytes") as progress:
            sessions, messages = store.import_(_records(source, progress), remember)
    except (BadRecord, SessionExists) as error:
        if isinstance(error, BadRecord):  # in what could not be looked through before
            msg = f"line {error.number}: {error.problem}"
        else:
            msg = f"there is a session {error.session_id!r} already, and nothing of it was imported"
        rest = f"; the first {count(before, 'record')} were imported" if before else ""
        raise CommandFailed(msg + rest) from error
    typer.echo(f"Imported {count(sessions, 'session')} and {count(messages, 'message')}.")


@contextmanager
def _target(path: Path, *, force: bool) -> Iterator[IO[str]]:
    if path == PIPE:
        yield sys.stdout
        return
    path = path.resolve()  # what a link leads to is replaced, not the link
    if path.exists() and not path.is_file():
        raise CommandFailed(f"{path} is no regular file: for a pipe or a device, write to stdout")
    if path.exists() and not force:
        raise CommandFailed(f"{path} is there already: name another file, or say --force")
    try:
        with _replacing(path) as target:
            yield target
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """Write into a file beside it, which takes its place when all is on the disk."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as target:
            yield target
            target.flush()
            os.fsync(target.fileno())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _records(source: BinaryIO, progress: Progress) -> Iterator[Any]:
    """Read the records, one a line. Empty lines are fine at the end only, so that numbers stay true."""
    from greenroom.store._transfer import BadRecord

    total = os.fstat(source.fileno()).st_size or None
    done = empty = 0
    for number, line in enumerate(source, 1):
        if not line.strip():
            empty = empty or number
            continue
        if empty:
            raise BadRecord(empty, "it is empty, and there is more after it")
        try:
            yield json.loads(line.decode())
        except UnicodeDecodeError as error:
            raise BadRecord(number, "it is no UTF-8 text") from error
        except (ValueError, RecursionError) as error:
            raise BadRecord(number, f"it is no JSON: {plain(str(error))}") from error
        done += len(line)
        if number % 200 == 0:
            progress(done, total)
