"""`greenroom stress --record`: writes down what a server is asked, until Ctrl-C or for a while."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from greenroom._cli_terminal import CommandFailed, console, count, plain, say
from greenroom.stress.command._asked import Asked
from greenroom.stress.command._board import clock
from greenroom.stress.command._play import when_asked_to_end
from greenroom.stress.traces._record import Recorded, Recorder, RecordError

__all__ = ["run_record"]

OFTEN = 0.25
"""Seconds between two times that the line is written anew."""


def run_record(asked: Asked) -> None:
    """Record, and say how it goes on stderr."""
    values = asked.values
    quiet = values.get("quiet", False)
    with _told(quiet=quiet) as tell:
        recorder = Recorder(
            values["url"],
            values["record"],
            token=values["token"],
            seconds=asked.workload.duration if "duration" in asked.said else None,
            plain_keys=values.get("plain_keys", False),
            watch=tell,
        )
        try:
            done = asyncio.run(_record(recorder))
        except RecordError as error:
            raise CommandFailed(plain(str(error)), exit_code=2) from None
    if not recorder.path.exists():
        say("Nothing was recorded: the server had not let us listen yet.")
    elif not quiet:
        say(f"{_described(done)} in {recorder.path}.")


async def _record(recorder: Recorder) -> Recorded:
    when_asked_to_end(lambda _: recorder.stop())
    return await recorder.run()


def _described(so_far: Recorded) -> str:
    gaps = f", {count(so_far.gaps, 'gap')}" if so_far.gaps else ""
    turns, sessions = count(so_far.turns, "turn"), count(so_far.sessions, "session")
    return f"{turns} of {sessions} in {clock(so_far.seconds)}{gaps}"


@contextmanager
def _told(*, quiet: bool) -> Iterator[Callable[[Recorded], None]]:
    """Where the state goes: a line in place on a terminal; elsewhere only what changes matters."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        due = 0.0
        with console(sys.stderr).status("Listening …") as status:

            def show(so_far: Recorded) -> None:
                nonlocal due
                if time.monotonic() >= due or not so_far.connected:
                    due = time.monotonic() + OFTEN
                    lost = "" if so_far.connected else "; the server is away, and is tried again"
                    status.update(f"Recording: {_described(so_far)}{lost}. Ctrl-C ends it.")

            yield show
    else:
        before: bool | None = None

        def say_it(so_far: Recorded) -> None:
            nonlocal before
            if so_far.connected != before:
                before = so_far.connected
                say("Recording." if before else f"The server is away ({_described(so_far)}).")

        yield say_it
