"""What a service manager is told, on a real socket: above all that beats come from progress."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from greenroom.gateway._admission import Ticket
from greenroom.gateway.server._notify import Notifier, watchdog_seconds
from greenroom.gateway.server._pulse import Pulse
from greenroom.supervisor import CacheSupervisor
from tests.gateway.life_process import PATIENCE, ask, server
from tests.gateway.serving import Serving, serving

WATCHDOG = 0.15
QUIET = 0.6
"""Seconds of silence after which beats are taken to have stopped: four times what the manager grants."""


class Manager:
    """Hears what is sent to it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def hear(self, patience: float = PATIENCE) -> dict[str, str]:
        """The next message. Raises `TimeoutError` if there is none."""
        self._socket.settimeout(patience)
        lines = self._socket.recv(65536).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def hear_until(self, name: str) -> dict[str, str]:
        """The next message in which there is this."""
        while name not in (heard := self.hear()):
            pass
        return heard

    def rest(self) -> list[dict[str, str]]:
        """Whatever has been sent until now."""
        heard: list[dict[str, str]] = []
        try:
            while True:
                heard.append(self.hear(0.001))
        except TimeoutError:
            return heard

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()


@pytest.fixture
def manager() -> Iterator[Manager]:
    """A manager that listens. Paths of sockets are short: not the test's own folder."""
    with tempfile.TemporaryDirectory() as folder:
        manager = Manager(f"{folder}/notify")
        yield manager
        manager.close()


def build(context: Any) -> Any:
    raise AssertionError(f"no turn is taken here: {context}")


@contextmanager
def beating(manager: Manager) -> Iterator[Serving]:
    """A server with a pulse, for the block."""
    with serving(build) as running:
        notifier = Notifier(manager.address)
        pulse = Pulse(running.stage, notifier, WATCHDOG)
        beats = asyncio.run_coroutine_threadsafe(pulse.run(), running.loop)
        try:
            yield running
        finally:
            beats.cancel()
            running.call(asyncio.sleep(0))
            notifier.close()


# What is sent.


def test_a_message_goes_to_a_path_and_to_an_abstract_name(manager: Manager) -> None:
    abstract = Manager(f"@greenroom-test-{os.getpid()}")
    try:
        for listening in (manager, abstract):
            notifier = Notifier.from_environment({"NOTIFY_SOCKET": listening.address})
            assert notifier.heard
            notifier.tell(READY=1, STATUS="two\nlines")
            notifier.close()
            assert listening.hear() == {"READY": "1", "STATUS": "two lines"}
    finally:
        abstract.close()


def test_without_a_manager_nothing_is_sent_and_nothing_fails(tmp_path: Path) -> None:
    for environment in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1234"}):
        notifier = Notifier.from_environment(environment)
        assert not notifier.heard
        notifier.tell(READY=1)
        notifier.close()
    gone = Notifier(str(tmp_path / "gone"))
    gone.tell(READY=1)
    gone.close()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_the_environment_says_how_often(environment: dict[str, str], seconds: float | None) -> None:
    assert watchdog_seconds(environment) == seconds


# Beats.


def test_a_beat_comes_again_and_again_with_figures(manager: Manager) -> None:
    with beating(manager):
        for _ in range(3):
            heard = manager.hear()
            assert heard["WATCHDOG"] == "1"
            assert heard["STATUS"] == "0 of 128 agents, 0 turns run, 0 wait, 0 sessions are uncommitted"


def no_more_beats(manager: Manager) -> None:
    """One may be under way, if whoever was asked had answered before. It is the last one."""
    try:
        manager.hear(QUIET)
    except TimeoutError:
        return
    with pytest.raises(TimeoutError):
        manager.hear(QUIET)


def stops_and_resumes(
    manager: Manager, wedge: Callable[[], object], release: Callable[[], object]
) -> None:
    """Beats come; they stop once the wedge is in, and come again when it is out."""
    manager.hear_until("WATCHDOG")
    wedge()
    try:
        manager.rest()
        no_more_beats(manager)
    finally:
        release()
    manager.hear_until("WATCHDOG")


class Wedge:
    """Something that blocks whoever calls it, until it is released."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._released = threading.Event()

    def block(self, *_: object) -> None:
        self._reached.set()
        assert self._released.wait(PATIENCE)

    def wait_blocked(self) -> None:
        assert self._reached.wait(PATIENCE)

    def release(self) -> None:
        self._released.set()


def test_beats_stop_while_the_event_loop_is_blocked(manager: Manager) -> None:
    wedge = Wedge()

    def block() -> None:
        running.loop.call_soon_threadsafe(wedge.block)
        wedge.wait_blocked()

    with beating(manager) as running:
        stops_and_resumes(manager, block, wedge.release)


def test_beats_stop_while_the_admission_does_not_answer(manager: Manager) -> None:
    wedge = Wedge()
    with beating(manager) as running:
        admission = running.stage.admission
        ticket = Ticket("local", "local/a", "queue", wedge.block)
        admission.enter(ticket).get(timeout=PATIENCE)
        # The admission interrupts whoever runs, in its own handler.
        blocked = threading.Thread(target=lambda: admission.interrupt("local/a"))

        def block() -> None:
            blocked.start()
            wedge.wait_blocked()

        stops_and_resumes(manager, block, wedge.release)
        blocked.join(PATIENCE)
        admission.leave(ticket).get(timeout=PATIENCE)


def test_beats_stop_while_the_supervisor_does_not_answer(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    wedge = Wedge()
    monkeypatch.setattr(CacheSupervisor, "keys", wedge.block)
    with beating(manager) as running:
        blocked = threading.Thread(target=lambda: running.stage.room.supervisor.keys())

        def block() -> None:
            blocked.start()
            wedge.wait_blocked()

        stops_and_resumes(manager, block, wedge.release)
        blocked.join(PATIENCE)


# A whole life.


@pytest.mark.timeout(180)
def test_a_manager_hears_of_a_whole_life(manager: Manager, tmp_path: Path) -> None:
    variables = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "300000"}
    options = {"memory": str(tmp_path / "memory")}
    with server("recorder", tmp_path, variables=variables, agent_options=options) as running:
        first = manager.hear()
        assert first["READY"] == "1"
        # It can be used the moment that it says so.
        url = first["STATUS"].removeprefix("listening on ")
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert manager.hear_until("WATCHDOG")["STATUS"].startswith("0 of ")

        running.signal(signal.SIGHUP)
        assert int(manager.hear_until("RELOADING")["MONOTONIC_USEC"]) > 0
        assert manager.hear_until("READY")["READY"] == "1"

        running.signal(signal.SIGTERM)
        last = manager.hear_until("STOPPING")
        assert int(last["EXTEND_TIMEOUT_USEC"]) > 0
        assert running.wait_end() == 0


@pytest.mark.timeout(180)
def test_a_server_that_stops_while_it_reloads_does_not_say_that_it_is_ready(
    manager: Manager, tmp_path: Path
) -> None:
    settings, gate = tmp_path / "greenroom.toml", tmp_path / "gate"
    settings.touch()
    options = {"memory": str(tmp_path / "memory"), "commit_gate": str(gate)}
    variables = {"NOTIFY_SOCKET": manager.address}
    with server(
        "recorder", tmp_path, variables=variables, config=settings, agent_options=options
    ) as running:
        assert ask(running.wait_ready(), "a").status_code == 200
        settings.unlink()
        os.mkfifo(settings)  # whoever reads it waits for somebody who writes
        running.signal(signal.SIGHUP)
        manager.hear_until("RELOADING")
        running.signal(signal.SIGTERM)
        manager.hear_until("STOPPING")
        settings.write_text("max_running = 7\n")
        running.wait_log("The configuration stays as it was")
        gate.touch()
        assert running.wait_end() == 0
    assert [heard for heard in manager.rest() if "READY" in heard] == []
