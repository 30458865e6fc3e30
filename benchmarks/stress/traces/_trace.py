"""Traces: who had a turn when. A file of JSON lines that can be recorded, made up, played and replayed.

    {"greenroom_trace": 1, "started": "2026-11-16T09:00:00+00:00", "note": "the Telegram gateway"}
    {"time": 0.0, "key": "s1", "event": "turn", "seconds": 1.25}
    {"time": 4.2, "key": "s2", "event": "turn"}
    {"time": 9.9, "key": "s2", "event": "done", "seconds": 5.7}
    {"time": 12.0, "key": "s1", "event": "end"}

    time       seconds since the beginning; never less than in the line before
    turn       a turn began, and took so many `seconds`, if that is known
    done       a turn is over that began without saying how long it would take: it took `seconds`
    end        the session was ended
    gap        something is missing here (a recorder lost its connection); it has no key

The first line may be a header. Other events, other fields and empty lines are left out of account. A
last line that was cut off, as by a kill of whoever wrote it, is left out, too: what comes before is
good. A file whose name ends in `.gz` is compressed.

`done` is there for recorders: who writes lines as things happen knows the length of a turn only when it
is over, and by then lines with later times are in the file.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, cast

from greenroom.stress._target import Planned

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["FORMAT", "Entry", "TraceError", "TraceWriter", "read_trace", "turns_of", "with_lengths"]

FORMAT = 1

EVENTS = frozenset({"done", "end", "gap", "turn"})
"""Those that mean something here."""


class TraceError(ValueError):
    """A trace cannot be read, or is none. The text names the file and the line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a trace."""

    time: float
    key: str
    event: str
    seconds: float | None = None


# Reading.


def read_trace(path: str | Path) -> Iterator[Entry]:
    """Read a trace, a line at a time. Raises `TraceError` where it is wrong."""
    path = Path(path)
    try:
        with _open(path) as lines:
            yield from _entries(path, lines)
    except OSError as error:
        msg = f"{path}: the trace cannot be read: {error.strerror or error}"
        raise TraceError(msg) from error


def _open(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _entries(path: Path, lines: Any) -> Iterator[Entry]:
    last = 0.0
    for number, line in enumerate(_whole_lines(lines), 1):
        found = _parse(path, number, line)
        if found is None:
            continue
        if found.time < last:
            goes_back = f"time {found.time:g} is less than {last:g} in a line before"
            _wrong(path, number, f"{goes_back}: lines must be in order of time")
        last = found.time
        yield found


def _whole_lines(lines: Any) -> Iterator[bytes]:
    """The lines. The last one without its end, and what is missing of a compressed file, are not
    errors: whoever wrote it was killed."""
    try:
        for line in lines:
            if not line.endswith(b"\n") and not _is_json(line):
                return
            yield line
    except (EOFError, zlib.error):
        return


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _parse(path: Path, number: int, line: bytes) -> Entry | None:
    """What a line says. `None` if that is nothing to us."""
    if not line.strip():
        return None
    try:
        told: Any = json.loads(line)
    except ValueError as error:
        _wrong(path, number, f"this is not JSON ({error})")
    if not isinstance(told, dict):
        _wrong(path, number, f"{_short(told)} is not an object")
    fields = cast("dict[str, Any]", told)
    if "greenroom_trace" in fields:
        if number > 1 or fields["greenroom_trace"] != FORMAT:
            _wrong(path, number, f"only a first line is a header, and only format {FORMAT} can be read")
        return None
    event = fields.get("event")
    if not isinstance(event, str):
        _wrong(path, number, f"event must be a word such as turn or end, not {_short(event)}")
    if event not in EVENTS:
        return None
    time, key, seconds = fields.get("time"), fields.get("key", ""), fields.get("seconds")
    if not _is_time(time):
        _wrong(path, number, f"time must be seconds since the beginning, 0 or more, not {_short(time)}")
    if not isinstance(key, str) or not (key or event == "gap"):
        _wrong(path, number, f"key must be the name of a session, not {_short(key)}")
    if not (_is_time(seconds) or (seconds is None and event != "done")):
        none = "" if event == "done" else " (or left out)"
        _wrong(path, number, f"seconds must be a number, 0 or more{none}, not {_short(seconds)}")
    return Entry(float(time), key, event, None if seconds is None else float(seconds))


def _is_time(value: Any) -> TypeGuard[float]:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


def _wrong(path: Path, number: int, text: str) -> NoReturn:
    example = '{"time": 12.5, "key": "s17", "event": "turn", "seconds": 1.25}'
    msg = f"{path}, line {number}: {text}. A line of a trace looks like this: {example}"
    raise TraceError(msg)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# What is read, in other shapes.


def with_lengths(entries: Iterable[Entry]) -> list[Entry]:
    """The turns and ends, with the length of every turn that a later `done` tells."""
    kept: list[Entry] = []
    open_turns: dict[str, int] = {}
    for entry in entries:
        if entry.event == "done":
            place = open_turns.pop(entry.key, None)
            if place is not None:
                kept[place] = replace(kept[place], seconds=entry.seconds)
        elif entry.event in ("turn", "end"):
            if entry.event == "turn" and entry.seconds is None:
                open_turns[entry.key] = len(kept)
            kept.append(entry)
        elif entry.event == "gap":
            open_turns.clear()  # whatever is done next is not what was begun before
    return kept


def turns_of(
    entries: Iterable[Entry], *, speed: float = 1.0, seconds: Callable[[], float] | float = 1.0
) -> Iterator[Planned]:
    """The turns of a trace as a run has them, beginning at once.

    `speed` 10 plays ten seconds of the trace in one: turns come ten times as often, and take as long as
    ever. `seconds` is the length of a turn of which the trace does not tell it, or a function that
    tells one after the other.
    """
    if not 0 < speed < math.inf:
        msg = f"speed must be more than 0 (2 plays a trace twice as fast), not {speed!r}"
        raise ValueError(msg)
    draw = seconds if callable(seconds) else lambda: seconds
    kept = with_lengths(entries)
    last_turn: dict[str, int] = {}
    ends: set[int] = set()
    for place, entry in enumerate(kept):
        if entry.event == "turn":
            last_turn[entry.key] = place
        elif entry.key in last_turn:
            ends.add(last_turn[entry.key])
    first = kept[0].time if kept else 0.0
    number = 0
    for place, entry in enumerate(kept):
        if entry.event == "turn":
            yield Planned(
                at=(entry.time - first) / speed,
                number=number,
                key=entry.key,
                seconds=draw() if entry.seconds is None else entry.seconds,
                ends=place in ends,
            )
            number += 1


# Writing.


class TraceWriter:
    """Writes a trace, for `with`. What was flushed stays readable, whatever becomes of the writer."""

    def __init__(self, path: str | Path, *, started: str | None = None, note: str | None = None) -> None:
        """Begin a file. One that is there already is not touched: `FileExistsError`."""
        self.path = Path(path)
        raw = self.path.open("xb")
        self._raw = raw
        # Without a name and a time in its head, the same trace is the same file.
        self._file: Any = gzip.GzipFile("", "wb", 9, raw, mtime=0) if self.path.suffix == ".gz" else raw
        self.last = 0.0
        """The time of the last line."""
        header = {"greenroom_trace": FORMAT, "started": started, "note": note}
        self._line({name: value for name, value in header.items() if value is not None})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, entry: Entry) -> None:
        """Write a line. Its time must not be less than that of the last."""
        if entry.time < self.last:
            msg = f"time must not go back: {entry.time:g} comes after {self.last:g}"
            raise ValueError(msg)
        self.last = entry.time
        line: dict[str, Any] = {"time": entry.time, "key": entry.key, "event": entry.event}
        if not entry.key:
            del line["key"]
        if entry.seconds is not None:
            line["seconds"] = entry.seconds
        self._line(line)

    def _line(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def flush(self) -> None:
        """Hand everything to the system: a kill of this process loses nothing of it."""
        self._file.flush()
        self._raw.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()
        self._raw.close()
