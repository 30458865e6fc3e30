"""Processes that a test runs beside itself: driven over pipes, a line of JSON each way, and outliving no
test."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from tests.house import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PATIENCE = 90.0
"""Seconds after which a test that waits for a child fails. Never how long something takes."""


class Raised(Exception):
    """What a command raised in the child."""

    def __init__(self, kinds: list[str], text: str) -> None:
        super().__init__(f"{kinds[0]}: {text}")
        self.kinds = kinds
        """The names of its class and of that class's bases."""


class Child:
    """A process that runs a program of `tests/crash/children`."""

    def __init__(
        self, program: str, arguments: dict[str, Any], log: Path, prefix: Sequence[str] = ()
    ) -> None:
        self._log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [
                    *prefix,
                    *(sys.executable, "-m", f"tests.crash.children.{program}", json.dumps(arguments)),
                ],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._buffer = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, message: dict[str, Any]) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"the child is gone.\n{self.complaints()}") from None

    def hear(self, patience: float = PATIENCE) -> dict[str, Any] | None:
        """Wait for a line. `None`: it has said everything that it ever will."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + patience
        while b"\n" not in self._buffer:
            remaining = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([self.process.stdout], [], [], remaining)
            if not readable:
                self._ask_where_it_is()
                raise AssertionError(f"the child says nothing.\n{self.complaints()}")
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                return None  # half a line that it died over was never said
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def _ask_where_it_is(self) -> None:
        """Have it write to its log what each of its threads is doing."""
        if self.process.poll() is None:
            before = self.complaints()
            self.process.send_signal(signal.SIGUSR1)
            deadline = time.monotonic() + 2.0
            while self.complaints() == before and time.monotonic() < deadline:
                time.sleep(0.01)

    def complaints(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._log.read_text("utf-8", "replace")[-4000:]

    def suspend(self) -> None:
        """Stop it, and wait until it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it without a word, and wait for that. What it said before can still be heard."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)

    def bury(self) -> None:
        """End it, and close its pipes."""
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # what it was not told any more


class Puppet(Child):
    """A child that obeys: each command is a method of `children/puppet.py`.

    Commands of one lane are obeyed one after the other; lanes do not wait for each other. A turn belongs
    to the lane that began it.
    """

    def __init__(self, log: Path, prefix: Sequence[str] = ()) -> None:
        super().__init__("puppet", {}, log, prefix)
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}

    def send(self, do: str, *, lane: str = "main", **arguments: Any) -> int:
        """Give a command. Returns the number that `answer()` takes."""
        number = next(self._numbers)
        self.say({"number": number, "do": do, "lane": lane, "arguments": arguments})
        return number

    def answer(self, number: int) -> Any:
        """Wait for the answer to a command. Raises `Raised` if that raised."""
        while number not in self._answers:
            heard = self.hear()
            assert heard is not None, f"the child is gone.\n{self.complaints()}"
            self._answers[heard["number"]] = heard
        heard = self._answers.pop(number)
        if "kinds" in heard:
            raise Raised(heard["kinds"], heard["text"])
        return heard["value"]

    def ask(self, do: str, *, lane: str = "main", **arguments: Any) -> Any:
        """Give a command and wait for its answer."""
        return self.answer(self.send(do, lane=lane, **arguments))


class Family:
    """The children of one test. All are gone when it is over."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []

    def child(self, program: str, **arguments: Any) -> Child:
        """Start a program."""
        return self._add(Child(program, arguments, self._log()))

    def puppet(self, prefix: Sequence[str] = ()) -> Puppet:
        """Start a child that obeys commands."""
        puppet = Puppet(self._log(), prefix)
        self._add(puppet)
        return puppet

    def _log(self) -> Path:
        return self._folder / f"child-{len(self._children) + 1}.log"

    def _add(self, child: Child) -> Child:
        self._children.append(child)
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.bury()
