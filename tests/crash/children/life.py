"""What the children have in common: how they speak, when they die, and the agents that they build."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from tests.leftovers import chosen_switch_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PR_SET_PDEATHSIG = 1


def arguments() -> dict[str, Any]:
    """Begin: bind this life to the parent's, and return what it wants."""
    die_with_parent()
    faulthandler.register(signal.SIGUSR1)
    interval = chosen_switch_interval(os.environ)
    if interval is not None:
        sys.setswitchinterval(interval)
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def die_with_parent() -> None:
    """Have the system kill us when the parent ends. Where it cannot, the end of our input tells."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it ended just before


def wait_for_locks() -> None:
    """From now on, wait for a lock however long the process that has it is held up. A store gives up
    soon on a row of the ledger: right where others wait for it, and nothing that is looked at here."""
    from greenroom.store import _connect

    _connect.PATIENCE = _connect.LEDGER_PATIENCE = 40.0


def say(message: dict[str, Any]) -> None:
    """Write a line: in one piece, whatever other threads say, and however soon we are killed."""
    os.write(1, json.dumps(message, default=str).encode() + b"\n")


def heard() -> Iterator[dict[str, Any]]:
    """The lines of the parent, until it has closed the pipe."""
    for line in sys.stdin:
        yield json.loads(line)


def kinds(error: BaseException) -> list[str]:
    """The names of an error's class and of its bases."""
    return [kind.__name__ for kind in type(error).__mro__]


class Memory:
    """A memory provider: a file to which every extraction is appended, when it begins and when it ends.

    What was appended is there, whatever becomes of the process: a kill loses nothing that was written.
    """

    def __init__(self, path: str, pause: Callable[[], object] | None = None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._pause = pause
        self._writer = str(os.getpid())

    def extract(self, session_id: str, generation: int) -> None:
        """Extract what the turns of a session up to this generation have told."""
        self._note("begin", session_id, generation)
        if self._pause is not None:
            self._pause()
        self._note("end", session_id, generation)

    def _note(self, what: str, session_id: str, generation: int) -> None:
        os.write(self._file, f"{what} {session_id} {int(generation)} {self._writer}\n".encode())


class Agent:
    """Answers turns by writing to the transcript, and commits to a memory provider."""

    def __init__(self, context: Any, memory: Memory | None) -> None:
        self.key: str = context.key
        self.store = context.store
        self._memory = memory

    def write(self, session_id: str, role: str, content: Any) -> int:
        """Append to the transcript of the turn's session. Returns the position."""
        position: int = self.store.append(session_id, role=role, content=content).position
        return position

    def commit_memory_session(self, generation: Any) -> None:
        if self._memory is not None:
            self._memory.extract(generation.session_id, generation)
