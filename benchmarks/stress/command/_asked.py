"""What somebody has asked for: the command line on top of a file, read, compared and understood.

    room          turns of a described workload, or of a trace, in a room in this process
    server        … at a running server                                          --url
    record        nothing is driven: a server's turns are written down           --record
    replay        nothing is driven: a trace is walked through in virtual time   --replay
    synthesize    nothing is driven: a trace is made up                          --synthesize

What an option says counts more than what the file says. Two options that cannot both be meant are a
mistake, and so are two such lines of the file. Where an option rules out a line of the file, the line is
left aside, and a note says so: one file serves a room and a server.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greenroom import Policy
from greenroom.stress._workload import Workload
from greenroom.stress.command._file import BadInput, read_file
from greenroom.stress.command._options import OPTIONS, option_of
from greenroom.stress.command._pairs import bound_of, change_of, pair_of
from greenroom.stress.command._rules import (
    FOR_BURSTS,
    FOR_WAVES,
    NEEDS,
    Mode,
    allowed,
    contradiction,
    lead,
)
from greenroom.stress.command._values import KINDS, HomelessPath, file_of, is_none
from greenroom.stress.traces._synthetic import NAMES

__all__ = ["Asked", "read"]

TOKEN_VARIABLE = "GREENROOM_TOKEN"
GRID = ("cap", "idle_ttl")
"""Of these a replay compares several."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done."""

    mode: Mode
    workload: Workload
    values: Mapping[str, Any]
    """The command's own options, by name: those that were given, and `token` from the environment."""
    grid: Mapping[str, tuple[Any, ...]]
    """For a replay: the bounds to compare."""
    said: frozenset[str]
    """Everything that was said, by name."""
    notes: tuple[str, ...] = ()
    """What should be known, and keeps nobody from starting."""


@dataclass(frozen=True, slots=True)
class _Given:
    value: Any
    where: str
    """`--rate`, or `rate in workload.toml`."""
    option: bool


def read(options: Mapping[str, Any], environ: Mapping[str, str]) -> Asked:
    """Understand the options, and the file that they name. Raises `BadInput` with all that is wrong."""
    given: dict[str, _Given] = {}
    if options.get("file") is not None:
        try:
            given.update(_from_file(file_of(options["file"])))
        except HomelessPath as error:
            raise BadInput(f"--file: {error}") from None
    for name, value in options.items():
        if value not in (None, False, [], ()) and name != "file":
            given[name] = _Given(value, option_of(name), option=True)
    return _Reading(given, environ).result()


def _from_file(path: Path) -> Iterable[tuple[str, _Given]]:
    found = read_file(path)
    policy = found.pop("policy", {})
    if "trace" in found and isinstance(found["trace"], str) and found["trace"] not in NAMES:
        found["trace"] = str(path.parent / file_of(found["trace"]))
    for name, value in [*found.items(), *policy.items()]:
        yield name, _Given(value, f"{name} in {path}", option=False)


class _Reading:
    def __init__(self, given: dict[str, _Given], environ: Mapping[str, str]) -> None:
        self._given = given
        self._environ = environ
        self._problems: list[str] = []
        self._notes: list[str] = []

    def result(self) -> Asked:
        mode = self._mode()
        self._compare(mode)
        grid = self._grid() if mode == "replay" else {}
        parsed = {name: self._parse(name, one) for name, one in self._given.items() if name not in grid}
        self._check_arrivals(parsed)
        workload = self._workload(parsed)
        if workload is not None and ("trace" not in parsed or "duration" in parsed):
            self._check_changes(workload)
        if self._problems or workload is None:
            raise BadInput(*self._problems)
        values = {name: value for name, value in parsed.items() if _part(name) == "run"}
        if mode in ("server", "record"):
            token = values.get("token") or self._environ.get(TOKEN_VARIABLE, "").strip()
            values["token"] = token or None
        return Asked(mode, workload, values, grid, frozenset(self._given), tuple(self._notes))

    # What goes together.

    def _mode(self) -> Mode:
        by_option = {name for name, one in self._given.items() if one.option}
        return lead(by_option) or lead(set(self._given)) or "room"

    def _compare(self, mode: Mode) -> None:
        traced, names = "trace" in self._given, set(self._given)
        message = self._given["message"].value if "message" in names else ""
        may = allowed(mode, traced=traced, given=names, message=str(message))
        for name, one in list(self._given.items()):
            if name in may:
                self._check_need(name, one)
                continue
            other, because = contradiction(mode, name, traced=traced, given=names)
            place = self._given[other].where if other in self._given else option_of(other)
            strict = one.option or (name == "reconfigure" and mode == "server")
            if strict or (other in self._given and not self._given[other].option):
                self._problems.append(f"{one.where} and {place} cannot both be meant: {because}")
            else:
                self._notes.append(f"{one.where} is left aside because of {place}: {because}")
            del self._given[name]

    def _check_need(self, name: str, one: _Given) -> None:
        needed = NEEDS.get(name, ())
        if one.option and needed and not any(other in self._given for other in needed):
            whole = " or ".join(f"{option_of(other)} {OPTIONS[other].metavar}" for other in needed)
            self._problems.append(f"{one.where} needs {whole}")

    def _check_arrivals(self, parsed: Mapping[str, Any]) -> None:
        arrivals = parsed.get("arrivals", "steady")
        for names, kind in ((FOR_BURSTS, "bursty"), (FOR_WAVES, "wave")):
            for name in names:
                if name in self._given and self._given[name].option and arrivals != kind:
                    place = f"--arrivals {arrivals}"
                    msg = f"{option_of(name)} and {place} cannot both be meant: say --arrivals {kind}"
                    self._problems.append(msg)

    def _check_changes(self, workload: Workload) -> None:
        """A change that nobody would notice is a mistake; in a file it may be of a longer run."""
        for change in workload.reconfigure:
            if change.at >= workload.duration:
                one = self._given["reconfigure"]
                problem = f"{one.where}: {change.at:g} s is too late, turns arrive for "
                problem += f"{workload.duration:g} s only (--duration)"
                (self._problems if one.option else self._notes).append(problem)

    # Values.

    def _parse(self, name: str, one: _Given) -> Any:
        if name == "reconfigure":
            return tuple(self._pairs(one, change_of))
        if name == "agent_option":
            given: Any = one.value  # a table of the file, or a list of texts
            return given if hasattr(given, "items") else dict(self._pairs(one, pair_of))
        if _part(name) == "policy":
            return self._value(functools.partial(bound_of, name), one.value, one.where)
        option = OPTIONS[name]
        if option.kind == "path":
            return self._value(file_of, one.value, f"{one.where}:")
        if option.may_be_none and is_none(one.value):
            return None
        return self._value(KINDS[option.kind], one.value, one.where)

    def _value(self, read_it: Callable[[Any], Any], value: Any, where: str) -> Any:
        try:
            return read_it(value)
        except ValueError as error:
            self._problems.append(f"{where} {error}")
            return None

    def _grid(self) -> dict[str, tuple[Any, ...]]:
        grid: dict[str, tuple[Any, ...]] = {}
        for name in GRID:
            one = self._given.get(name)
            if one is not None:
                parts = one.value.split(",") if isinstance(one.value, str) else [one.value]
                read_it = functools.partial(bound_of, name)
                read = (self._value(read_it, part, one.where) for part in parts)
                grid[name] = tuple(dict.fromkeys(read))  # each once
        return grid

    def _pairs(self, one: _Given, read_one: Callable[[Any], Any]) -> list[Any]:
        read: list[Any] = []
        for item in one.value:
            try:
                read.append(read_one(item))
            except ValueError as error:
                self._problems.append(f"{one.where} {error}")
        return read

    def _workload(self, parsed: Mapping[str, Any]) -> Workload | None:
        policy = {name: value for name, value in parsed.items() if _part(name) == "policy"}
        fields = {name: value for name, value in parsed.items() if _part(name) == "workload"}
        if self._problems:
            return None
        try:
            Policy(**policy)
            return Workload(**fields, policy=policy)
        except ValueError as error:
            self._problems.append(str(error))
            return None


def _part(name: str) -> str:
    return OPTIONS[name].part if name in OPTIONS else "policy"  # a rarer one, which only the file has
