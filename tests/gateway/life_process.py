"""Servers as processes of their own, which tests end in all the ways there are."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.house import ROOT

PATIENCE = 90.0
"""Seconds after which a test that waits fails. Never how long something takes."""


def until(found: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Wait for something outside of this process, which cannot call back."""
    deadline = time.monotonic() + patience
    while not (value := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return value


def command(agent: str, options: Mapping[str, Any]) -> list[str]:
    """What starts a server with an agent of `life_agents`. No store, unless the options name one."""
    given: dict[str, Any] = {"port": 0, "store": "none", "log_level": "info", **options}
    arguments = [
        sys.executable,
        "-m",
        "greenroom",
        "serve",
        "--agent",
        f"tests.gateway.life_agents:{agent}",
    ]
    for name, value in given.pop("agent_options", {}).items():
        arguments += ["--agent-option", f"{name}={value}"]
    for name, value in given.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    return arguments


def environment(**more: str) -> dict[str, str]:
    """The environment of a server: without what is set for others of its kind."""
    ours = ("GREENROOM_", "NOTIFY_", "WATCHDOG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


class ServerProcess:
    """A server that a test has started."""

    def __init__(
        self, arguments: list[str], folder: Path, variables: Mapping[str, str], how: Mapping[str, Any]
    ) -> None:
        self._log = folder / "server.log"
        with self._log.open("ab") as log:
            options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, **how}
            self.process: subprocess.Popen[Any] = subprocess.Popen(
                arguments, cwd=ROOT, stderr=log, env=environment(**variables), **options
            )

    def log(self) -> str:
        """All that it has written so far."""
        return self._log.read_text("utf-8", "replace")

    def wait_ready(self) -> str:
        """Wait until it says where it listens."""

        def url() -> str | None:
            assert self.process.poll() is None, self.log()
            return last_url(self.log())

        return str(until(url, "it does not listen"))

    def signal(self, number: signal.Signals) -> None:
        """Send it one."""
        self.process.send_signal(number)

    def wait_end(self) -> int:
        """Its exit code."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end.\n{self.log()[-4000:]}") from None

    def wait_log(self, text: str) -> None:
        """Wait until it has written this."""
        until(lambda: text in self.log(), f"it never says {text!r}")


@contextmanager
def server(
    agent: str,
    folder: Path,
    *,
    variables: Mapping[str, str] | None = None,
    how: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[ServerProcess]:
    """A server for the block, and not for longer. `how`: arguments for `Popen`."""
    started = ServerProcess(command(agent, options), folder, variables or {}, how or {})
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.wait(PATIENCE)


def last_url(log: str) -> str | None:
    """Where the last server that wrote to this log listens."""
    found = re.findall(r"Listening on (http://[^\s\"]+)", log)
    return found[-1] if found else None


def ask(url: str, session: str, *, client: httpx.Client | None = None, **body: Any) -> httpx.Response:
    """A turn, whole."""
    return (client or httpx).post(
        f"{url}/v1/chat/completions",
        headers={"x-greenroom-session": session},
        json={"model": "any", "messages": [{"role": "user", "content": "hello"}], **body},
        timeout=PATIENCE,
    )


def lines(path: Path) -> list[str]:
    """What agents have noted."""
    return path.read_text().splitlines() if path.exists() else []
