"""The near end of a worker: starts the process, asks it, and makes sure that it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent

PATIENCE = 120.0
"""Seconds for one request. Little takes that long but a contender that hangs."""


class WorkerFailed(Exception):
    """The worker could not start, died or hung."""


class Worker:
    """One contender's process. A context manager, after which it is gone with all its children."""

    def __init__(self, name: str, module: str, patience: float = PATIENCE) -> None:
        """`module` is the program that it runs, one that calls `benchmarks.worker.main`."""
        self.name = name
        self._patience = patience
        # A session of its own, so that it can be ended with all that it may have started.
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._hung = False
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def ask(self, *request: Any) -> Any:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(f"{self.name} died before {request}") from None
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        watchdog = threading.Timer(self._patience, self._give_up)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise WorkerFailed(f"{self.name} {'hung' if self._hung else 'died'}: see above")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerFailed(f"{self.name} {reply['error']}")
        return reply["answer"]

    def _give_up(self) -> None:
        self._hung = True
        self.kill()

    def kill(self) -> None:
        """End it without a word, and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._wait_ended(5.0)
        finally:
            self.kill()
            self._process.wait()
            self._process.stdout.close()

    def _wait_ended(self, seconds: float) -> None:
        # It is not reaped here: until it is, its number still names its group and no other.
        deadline = time.monotonic() + seconds
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while time.monotonic() < deadline and self._process.returncode is None:
            if os.waitid(os.P_PID, self._process.pid, how) is not None:
                return
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
