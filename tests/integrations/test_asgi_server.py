"""A room behind a real uvicorn: clients that hang up, SIGTERM, and the example as somebody runs it."""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette

from greenroom.integrations.asgi import lifespan
from tests.actors.actors import PATIENCE
from tests.room.agents import until

ROOT = Path(__file__).parents[2]


class Server:
    """A server's process, with what it prints and logs."""

    def __init__(self, *command: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.printed: list[str] = []
        self.logged: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=at, daemon=True)
            for at in ((self.process.stdout, self.printed), (self.process.stderr, self.logged))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Any, lines: list[str]) -> None:
        lines.extend(iter(stream.readline, ""))

    def url(self) -> str:
        until(lambda: self.process.poll() is not None or "running on" in self.log, "a server")
        found = re.search(r"running on (http://[\d.:]+)", self.log)
        assert found is not None, self.log
        return found[1]

    @property
    def log(self) -> str:
        return "".join(self.logged)

    def wait_logged(self, text: str) -> None:
        until(lambda: text in self.log, f"{text!r} in the log")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def end(self) -> list[str]:
        """Wait until it is gone, as uvicorn goes: by the signal that it was sent. What it committed."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        assert code == -signal.SIGTERM, self.log
        return [line.strip() for line in self.printed if line.startswith("committed")]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def serving(*command: str, **environment: str) -> Iterator[tuple[Server, httpx.Client]]:
    server = Server(*command, **environment)
    try:
        with httpx.Client(base_url=server.url(), timeout=PATIENCE) as client:
            yield server, client
    finally:
        server.kill()


def served(*options: str) -> tuple[str, ...]:
    return ("-m", "uvicorn", "tests.integrations.asgi_served:app", "--port", "0", *options)


def is_resting(client: httpx.Client, key: str) -> bool:
    return bool(client.get("/figures").json()["rows"][key][0] != "in turn")


def test_a_client_that_hangs_up_ends_its_turn_uncounted(tmp_path: Path) -> None:
    """T4, while the agent thinks (gated), and while the server waits for the client to read (endless)"""
    with serving(*served(), GREENROOM_TEST_GATE=str(tmp_path / "gate")) as (server, client):
        for how in ("gated", "endless"):
            with client.stream("POST", f"/chats/a/{how}") as answer:
                pieces = answer.iter_text()  # kept: a client that drops it hangs up
                assert next(pieces).startswith("begun ")
                assert not is_resting(client, "a")
            until(lambda: is_resting(client, "a"), "the end of the turn")

        figures = client.get("/figures").json()
        assert figures["ended"] == ["a gated", "a endless"]
        assert figures["rows"]["a"][2] == 0
        assert client.post("/chats/a/plain").text == "begun done"

        server.terminate()
        assert server.end() == ["committed a up to 1"]


def test_answers_that_are_being_sent_are_finished_on_sigterm_and_others_are_refused(
    tmp_path: Path,
) -> None:
    """D1, and K1: the signal starts the drain, and reaches uvicorn when the room is drained. Until then
    it answers: that it drains."""
    gate = tmp_path / "gate"
    with serving(*served(), GREENROOM_TEST_GATE=str(gate)) as (server, client):
        texts: list[str] = []
        asking = [
            threading.Thread(target=lambda: texts.append(post(client, "/chats/a/gated")), daemon=True)
            for _ in range(2)
        ]
        for number, thread in enumerate(asking):
            thread.start()
            until(functools.partial(is_so, client, "a", ["in turn", number]), "a turn")
        server.terminate()
        until(lambda: len(texts) == 1, "a refusal of the one that waits")
        refused = client.post("/chats/b/plain")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert client.get("/readyz").json() == {"status": "draining"}
        gate.touch()
        for thread in asking:
            thread.join(PATIENCE)

        assert "draining" in texts[0]
        assert texts[1] == "begun done"
        assert server.end() == ["committed a up to 1"]


def test_a_second_signal_does_not_wait_for_the_drain() -> None:
    with serving(*served("--timeout-graceful-shutdown", "0"), GREENROOM_TEST_DRAIN="600") as (
        server,
        client,
    ):
        assert client.post("/chats/a/plain").text == "begun done"
        with client.stream("POST", "/chats/b/stuck") as answer:
            pieces = answer.iter_text()
            assert next(pieces) == "begun "
            server.terminate()
            until(lambda: client.get("/readyz").status_code == 503, "the drain")
            server.terminate()
            assert server.end() == ["committed a up to 1"]


def test_a_second_ctrl_c_ends_the_server_at_once() -> None:
    """As uvicorn does it by itself: without waiting for what still runs."""
    with (
        serving(*served(), GREENROOM_TEST_DRAIN="600") as (server, client),
        client.stream("POST", "/chats/b/stuck") as answer,
    ):
        pieces = answer.iter_text()
        assert next(pieces) == "begun "
        server.process.send_signal(signal.SIGINT)
        until(lambda: client.get("/readyz").status_code == 503, "the drain")
        server.process.send_signal(signal.SIGINT)
        server.process.wait(PATIENCE)


def test_a_turn_that_hangs_is_cancelled_on_sigterm_and_all_others_are_committed() -> None:
    """D1, T4"""
    options = served("--timeout-graceful-shutdown", "0")
    with serving(*options, GREENROOM_TEST_DRAIN="1") as (server, client):
        assert client.post("/chats/a/plain").text == "begun done"
        assert client.post("/chats/b/plain").text == "begun done"
        with client.stream("POST", "/chats/b/stuck") as answer:
            pieces = answer.iter_text()
            assert next(pieces) == "begun "
            server.terminate()
            assert sorted(server.end()) == ["committed a up to 1", "committed b up to 1"]
        assert "Cancel 1 running task(s)" in server.log


def test_a_server_whose_room_cannot_be_opened_says_why_and_exits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In this process: it ends before it listens."""
    app = Starlette(lifespan=lifespan(lambda _: object(), store="nonsense:///x"))
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(caplog.handler)  # whatever an earlier server has set up, it need not propagate
    try:
        with pytest.raises(SystemExit) as ended:
            uvicorn.run(app, port=0, log_config=None)
    finally:
        logger.removeHandler(caplog.handler)
    assert ended.value.code == 3
    assert "Application startup failed" in caplog.text
    assert "nonsense" in caplog.text


def test_the_example_streams_answers_and_commits_when_it_is_told_to_end() -> None:
    with serving("examples/fastapi_app.py", PORT="0") as (server, client):
        answers = [client.post("/chats/anna", content=text) for text in ("Hello", "I am Anna")]
        assert [answer.text for answer in answers] == [
            "web:anna, message 1: Hello ",
            "web:anna, message 2: I am Anna ",
        ]
        assert client.get("/readyz").json() == {"status": "ready"}
        server.terminate()
        assert server.end() == ["committed: web:anna, 2 messages"]


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs/asgi.md").read_text()
    example = (ROOT / "examples/fastapi_app.py").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert shown
    assert example[
        example.index("app = FastAPI") : example.index('if __name__ == "__main__"')
    ].strip() in (block.strip() for block in shown)


def post(client: httpx.Client, path: str) -> str:
    return client.post(path).text


def is_so(client: httpx.Client, key: str, standing: list[object]) -> bool:
    """Whether a session is in this state, with so many that wait for it."""
    rows: dict[str, list[object]] = client.get("/figures").json()["rows"]
    return key in rows and rows[key][:2] == standing
