"""Raise an exception at the n-th strike point of a call, as CPython itself raises it.

A strike point is where CPython looks whether a signal is waiting: on entry to a function and when a
generator goes on (`RESUME`), after a call (`CALL` and its kin), at a backward jump, and inside a few C
functions (a lock that is waited for, an `int` that becomes text). Only CPython can raise exactly there,
so the tool raises nothing. It stops before the n-th instruction that may look, tells CPython that a
signal has arrived (`PyErr_SetInterruptEx`), and lets it go on. CPython then runs the handler where it
would run it for a signal from outside: the exception, its traceback and the `try` around it are real.

Two things make that exact:

- What says so must not be a call, because the interpreter looks for signals after every call, and would
  raise in the tool. It is the getter of a property, a C function: reading an attribute has no such look.
- From then on nothing is traced, or the signal would arrive in the tracing function.

Instructions are watched with `sys.monitoring`, and on Python 3.11, which has none, with `sys.settrace`.

A thread that is not the main one gets no signals. It is struck in the same way by
`PyThreadState_SetAsyncExc`, which CPython delivers at the same points.
"""

from __future__ import annotations

import ctypes
import dis
import functools
import gc
import logging
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(
    f"{ROOT}/{folder}/" for folder in ("actors", "greenroom", "messages", "store", "supervisor")
)
STORE = f"{ROOT}/store/"
TESTS = f"{ROOT}/tests/"
LIBRARY = str(Path(threading.__file__).parent)

STRIKE = signal.SIGUSR1

MAY_LOOK = (
    "RESUME",
    "CALL",
    "PRECALL",
    "JUMP_BACKWARD",
    "POP_JUMP_BACKWARD",
    "FORMAT_",
    # What returns to C code (`__init__` to the call of a class) is looked after there.
    "RETURN_",
    "YIELD_",
)
"""How the instructions begin after which CPython may look for signals."""


@dataclass(frozen=True)
class Place:
    """Where a strike arrived: the frame that the handler interrupted."""

    file: str
    line: int
    function: str
    instruction: str
    foreign: bool = False
    """Whether code was running that may raise anything: the store's, a driver's, an agent's."""

    def __str__(self) -> str:
        file = self.file.removeprefix(f"{ROOT}/").removeprefix(f"{LIBRARY}/")
        return f"{file}:{self.line} {self.function} ({self.instruction})"

    @classmethod
    def of(cls, frame: FrameType) -> Place:
        code = frame.f_code
        name = next((i.opname for i in dis.get_instructions(code) if i.offset == frame.f_lasti), "?")
        line = frame.f_lineno or code.co_firstlineno
        return cls(code.co_filename, line, code.co_qualname, name, _is_foreign(frame))

    def swallows(self) -> bool:
        """Whether it is in a finaliser of ours: CPython raises nothing out of these."""
        return self.function.endswith("__del__") and is_ours(self.file)


@functools.cache
def is_ours(file: str) -> bool:
    """Whether a file is the product's. (What a dataclass generates has no file, and is ours, too.)"""
    return file == "<string>" or str(Path(file).resolve()).startswith(OURS)


@functools.cache
def is_below(file: str) -> bool:
    """Whether it is the product's, or a library's that it may call."""
    return not file.startswith(TESTS)


@functools.cache
def is_logging(file: str) -> bool:
    """Whether it is Python's `logging`."""
    return file == logging.__file__


@functools.cache
def is_of_the_store(file: str) -> bool:
    """Whether it is one of the store's files."""
    return str(Path(file).resolve()).startswith(STORE)


WHERE: dict[str, Callable[[str], bool]] = {
    "ours": is_ours,
    "below": is_below,
    "logging": is_logging,
    "store": is_of_the_store,
}
"""In which files points may count."""


def _is_foreign(frame: FrameType | None) -> bool:
    """Whether code that may raise anything is at work below our own."""
    while frame is not None:
        file = frame.f_code.co_filename
        if "/site-packages/sqlalchemy/" in file or str(Path(file).resolve()).startswith(STORE):
            return True
        if frame.f_code.co_qualname == "Stage.build":
            return True
        frame = frame.f_back
    return False


class Watch(Protocol):
    """Calls `step(code, offset)` before each instruction of this thread, from `start` to `stop`."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Striker:
    """Strikes one call at its n-th point. `count` says how many points there were."""

    def __init__(self, wanted: Callable[[str], bool] = is_ours) -> None:
        """`wanted` says in which files points count."""
        self._wanted = wanted
        self._points: dict[CodeType, frozenset[int]] = {}
        self._calls: dict[CodeType, frozenset[int]] = {}
        self.count = 0
        self.n = 0
        self.tripped = threading.Event()
        """The signal was sent."""
        self.arrived = threading.Event()
        """Its handler has run, or nothing is struck any more."""
        self.place: Place | None = None
        """Where it arrived. `None`: nowhere, or where it struck nobody."""
        self._watch: Watch = Monitored(self) if sys.version_info >= (3, 12) else Traced(self)

    def call(self, call: Callable[[], Any], n: int, error: BaseException, by: str = "signal") -> Any:
        """Call, and have `error` strike at the n-th point. 0: only count them.

        `by="async"` injects the class of the error into this thread, whichever it is.
        """
        self.count, self.n, self.place = 0, n, None
        self.tripped.clear()
        self.arrived.clear()
        trips = _by_signal(self, error) if by == "signal" else _by_injection(self, error)
        collects = gc.isenabled()
        gc.disable()  # a collection would come at a point of its own each time, and swallow a strike
        try:
            with trips as self.trip:
                self._watch.start()
                try:
                    return call()
                finally:
                    self._watch.stop()
        finally:
            self.arrived.set()
            if collects:
                gc.enable()

    def points(self, code: CodeType) -> frozenset[int]:
        """The offsets of a function's instructions that may look for signals."""
        found = self._points.get(code)
        if found is None:
            found = frozenset()
            if self._wanted(code.co_filename):
                found = frozenset(_offsets(code, MAY_LOOK)) - self.calls(code)
            self._points[code] = found
        return found

    def calls(self, code: CodeType) -> frozenset[int]:
        """On Python 3.11, where each `CALL` has a `PRECALL` before it, which may do the call: `CALL`."""
        found = self._calls.get(code)
        if found is None:
            found = frozenset()
            if sys.version_info < (3, 12) and self._wanted(code.co_filename):
                found = frozenset(_offsets(code, ("CALL",))) - frozenset(_offsets(code, ("CALL_",)))
            self._calls[code] = found
        return found


def _offsets(code: CodeType, names: tuple[str, ...]) -> list[int]:
    """Where a function has instructions whose names begin like this."""
    return [found.offset for found in dis.get_instructions(code) if found.opname.startswith(names)]


class Traced:
    """Watches with `sys.settrace`: Python 3.11."""

    def __init__(self, striker: Striker) -> None:
        self._striker = striker

    def start(self) -> None:
        striker = self._striker

        def on_call(frame: FrameType, event: str, arg: Any) -> Any:
            points = striker.points(frame.f_code)
            if not points:
                return None
            caller = frame.f_back
            known = caller is not None and caller.f_lasti in striker.calls(caller.f_code)

            def on_opcode(frame: FrameType, event: str, _: Any) -> Any:
                if frame.f_lasti in points and event != "return" and event != "exception":
                    striker.count += 1
                    if striker.count == striker.n:
                        striker.tripped.set()
                        sys.settrace(None)
                        striker.trip.now  # noqa: B018  # no call may follow
                        return None
                return on_opcode

            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            # Before the call that has led here there was a point, whose signal arrives here.
            return on_opcode if known else on_opcode(frame, event, arg)

        sys.settrace(on_call)

    def stop(self) -> None:
        sys.settrace(None)


class Monitored:
    """Watches with `sys.monitoring`: from Python 3.12 on. It sees all threads, and ignores the others.

    There is no event before `RESUME`. So a run that only counts notes which instructions enter code
    that counts: a call, but also an attribute that is a property, or a step of a `for` over a generator.
    From then on these are points, too, in whoever's code they are.
    """

    TOOL = 4
    disabled_for: Striker | None = None
    """Whose points are those that are not disabled."""

    def __init__(self, striker: Striker) -> None:
        self._striker = striker
        self._entries: dict[CodeType, set[int]] = {}

    def start(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        striker, mine, get_ident = self._striker, threading.get_ident(), threading.get_ident
        known, disable, tool = striker._points, monitoring.DISABLE, self.TOOL
        events = monitoring.events
        instruction = events.INSTRUCTION

        def on_instruction(code: CodeType, offset: int) -> Any:
            points = known.get(code)
            if points is None:
                points = striker.points(code)
            if offset not in points:
                return disable
            if get_ident() == mine:
                striker.count += 1
                if striker.count == striker.n:
                    striker.tripped.set()
                    monitoring.register_callback(tool, instruction, None)
                    striker.trip.now  # noqa: B018  # no call may follow
            return None

        def on_entry(code: CodeType, _: int) -> Any:
            if not striker._wanted(code.co_filename):
                return disable
            caller = sys._getframe(1).f_back
            if caller is not None and get_ident() == mine:
                self._entries.setdefault(caller.f_code, set()).add(caller.f_lasti)
            return None

        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, "strikes")
        if Monitored.disabled_for is not striker:
            Monitored.disabled_for = striker
            monitoring.restart_events()
        monitoring.register_callback(tool, instruction, on_instruction)
        entries = events.PY_START | events.PY_RESUME if striker.n == 0 else 0
        if entries:
            monitoring.register_callback(tool, events.PY_START, on_entry)
            monitoring.register_callback(tool, events.PY_RESUME, on_entry)
        monitoring.set_events(tool, instruction | entries)

    def stop(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.register_callback(self.TOOL, monitoring.events.INSTRUCTION, None)
        if self._entries:
            points = self._striker._points
            for code, offsets in self._entries.items():
                points[code] = points.get(code, frozenset()) | offsets
            self._entries = {}
            monitoring.set_events(self.TOOL, monitoring.events.INSTRUCTION)
            monitoring.restart_events()


class _by_signal:
    """A handler that raises the error, and what sends its signal when `now` is read."""

    def __init__(self, striker: Striker, error: BaseException) -> None:
        self._striker = striker
        self._error = error

    def __enter__(self) -> Any:
        striker, error = self._striker, self._error

        def strike(_: int, frame: FrameType | None) -> None:
            assert frame is not None
            first = not striker.arrived.is_set()  # or it was sent again to a thread that did not wait
            striker.arrived.set()
            if first and not _is_a_loops(frame):
                striker.place = Place.of(frame)
                raise error

        self._before = signal.signal(STRIKE, strike)
        return _Signal(STRIKE)

    def __exit__(self, *_: object) -> None:
        signal.signal(STRIKE, self._before)


def _is_a_loops(frame: FrameType) -> bool:
    """Whether an event loop is at work, and nothing of ours. What strikes there it loses, and it hangs:
    so does a future of its own whose outcome we set, while it calls its callbacks."""
    if not frame.f_code.co_filename.startswith(f"{LIBRARY}/asyncio/"):
        return False
    inside: FrameType | None = frame
    while inside is not None and not is_ours(inside.f_code.co_filename):
        if inside.f_code.co_qualname == "BaseEventLoop.call_soon":
            return True
        inside = inside.f_back
    return inside is None


class _by_injection:
    """What injects the class of the error into this thread when `now` is read."""

    def __init__(self, striker: Striker, error: BaseException) -> None:
        self._error = error

    def __enter__(self) -> Any:
        inject = ctypes.pythonapi.PyThreadState_SetAsyncExc
        into = ctypes.c_ulong(threading.get_ident())
        call = functools.partial(inject, into, ctypes.py_object(type(self._error)))

        class Injection(int):
            now = property(call)

        return Injection()

    def __exit__(self, *_: object) -> None:
        pass


_interrupt = ctypes.pythonapi.PyErr_SetInterruptEx
_interrupt.argtypes = [ctypes.c_int]


class _Signal(int):
    now = property(_interrupt)


def nudge(striker: Striker, thread: int, patience: float = 0.05) -> None:
    """Send the signal to a thread that was told of it and has not looked: it waits inside a C function,
    and only a signal from outside makes it look."""
    if striker.tripped.is_set() and not striker.arrived.wait(patience):
        signal.pthread_kill(thread, STRIKE)
