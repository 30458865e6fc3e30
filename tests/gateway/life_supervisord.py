"""A real supervisord for one test, which runs a server as `deploy/supervisor/greenroom.conf` says.

It is started as a program. Its modules cannot be imported here: in the checkout, `supervisor` is one of
our folders.
"""

from __future__ import annotations

import configparser
import http.client
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import xmlrpc.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.life_process import PATIENCE, command, environment, last_url, until
from tests.house import ROOT

SHIPPED = ROOT / "deploy/supervisor/greenroom.conf"


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket: the host is its path."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.host)


class _Transport(xmlrpc.client.Transport):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = _Connection(str(self._path))
        self._connection = host, connection  # where close() looks for it
        return connection


class Supervisord:
    """One, with one program."""

    def __init__(self, folder: Path, short: Path, program: Mapping[str, str]) -> None:
        self._log = folder / "server.log"
        self._own_log = folder / "supervisord.log"
        self._socket = short / "s"
        settings = configparser.RawConfigParser()
        settings["supervisord"] = {
            "nodaemon": "true",
            "silent": "true",
            "directory": str(folder),
            "logfile": str(self._own_log),
            "pidfile": str(folder / "supervisord.pid"),
            "childlogdir": str(folder),
        }
        settings["unix_http_server"] = {"file": str(self._socket)}
        factory = "supervisor.rpcinterface:make_main_rpcinterface"
        settings["rpcinterface:supervisor"] = {"supervisor.rpcinterface_factory": factory}
        settings["program:greenroom"] = dict(program)
        path = folder / "supervisord.conf"
        with path.open("w") as file:
            settings.write(file)
        self.process = subprocess.Popen(
            [Path(sys.executable).parent / "supervisord", "-c", path],
            cwd=folder,
            env=environment(PYTHONPATH=""),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _call(self, method: str, *arguments: Any) -> Any:
        with xmlrpc.client.ServerProxy("http://local", transport=_Transport(self._socket)) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)

    def info(self) -> dict[str, Any]:
        """What it knows of the server: `statename`, `pid`, `exitstatus`, …"""
        found: dict[str, Any] = self._call("getProcessInfo", "greenroom")
        return found

    def stop(self) -> None:
        """Have it end the server, and wait for that."""
        self._call("stopProcess", "greenroom", True)

    def log(self) -> str:
        """What the server has written, in all its lives."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    def own_log(self) -> str:
        """What supervisord has written."""
        return self._own_log.read_text("utf-8", "replace") if self._own_log.exists() else ""

    def wait_ready(self, life: int = 1) -> str:
        """Wait until the server listens, for the so-manieth time. Returns where."""

        def url() -> str | None:
            assert self.process.poll() is None, self.own_log()
            return last_url(self.log()) if self.log().count("Listening on") >= life else None

        return str(until(url, f"the server does not listen.\n{self.own_log()}\n{self.log()[-2000:]}"))

    def kill_server(self) -> None:
        """End the server without a word."""
        os.kill(self.info()["pid"], signal.SIGKILL)

    def end(self) -> None:
        """End everything, the server first and without asking."""
        try:
            pid = self.info()["pid"]
        except (OSError, xmlrpc.client.Error, http.client.HTTPException):
            pid = 0  # it has never come up, or is gone
        self.process.terminate()
        if pid:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE)


def shipped_program() -> dict[str, str]:
    """The program as it is in `deploy/`."""
    settings = configparser.RawConfigParser(inline_comment_prefixes=(";",))
    settings.read(SHIPPED)
    return dict(settings["program:greenroom"])


@contextmanager
def supervised(agent: str, folder: Path, **options: Any) -> Iterator[Supervisord]:
    """A server as it is shipped, but for who runs it, where, and with which agent."""
    if not (Path(sys.executable).parent / "supervisord").exists():
        pytest.skip("supervisord is not installed: pip install supervisor")
    program = shipped_program()
    del program["user"]  # supervisord must be root for that
    program |= {
        "command": shlex.join(command(agent, options)),
        "directory": str(ROOT),
        "environment": 'PYTHONUNBUFFERED="1"',
        "stdout_logfile": str(folder / "server.log"),
    }
    with tempfile.TemporaryDirectory() as short:  # paths of sockets are
        started = Supervisord(folder, Path(short), program)
        try:
            yield started
        finally:
            started.end()
