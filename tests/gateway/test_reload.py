"""`greenroom serve --reload`: a server that starts again when what it serves has changed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from greenroom.gateway.server._reloader import python_files
from tests.gateway.life_process import PATIENCE, ask, environment, lines, until

# Processes take long to start where many tests run at once.
pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

AGENT = """
class Bot:
    def __init__(self, context, memory):
        self.memory = memory

    async def answer(self, request):
        yield {answer!r}

    def commit_memory_session(self):
        with open(self.memory, "a") as memory:
            print({answer!r}, file=memory)
"""


class Reloading:
    """A server that reloads, in a process of its own, with all of its files in a folder beside."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "etc"
        self.memory = folder / "memory"
        self.log_file = folder / "log"
        (folder / "elsewhere").mkdir()
        self.home.mkdir()
        self.write("one")
        self.configure("first")
        command = [sys.executable, "-m", "greenroom", "serve", "--reload", "--config"]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(self.home / "greenroom.toml"), "--port", "0"],
                cwd=folder / "elsewhere",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
            )

    def write(self, answer: str) -> None:
        self.replace("mybot.py", AGENT.format(answer=answer))

    def configure(self, model: str) -> None:
        text = (
            f'model = "{model}"\nstore = "none"\n[agent]\nname = "mybot:Bot"\nmemory = "{self.memory}"\n'
        )
        self.replace("greenroom.toml", text)

    def replace(self, name: str, text: str) -> None:
        """As editors do: never half a file."""
        (self.home / "draft").write_text(text)
        (self.home / "draft").replace(self.home / name)

    def log(self) -> str:
        return self.log_file.read_text("utf-8", "replace")

    def wait_listening(self, times: int) -> str:
        """Wait for the server of that number; return where it listens."""

        def listens() -> list[str]:
            assert self.process.poll() is None, self.log()
            words = self.log().split()
            urls = [after for word, after in zip(words, words[2:], strict=False) if word == "Listening"]
            return urls[times - 1 : times]

        (url,) = until(listens, f"server {times} does not listen")
        return str(url)

    def answer(self, url: str) -> str:
        text: str = ask(url, "anna").raise_for_status().json()["choices"][0]["message"]["content"]
        return text


@contextmanager
def reloading(folder: Path) -> Iterator[Reloading]:
    started = Reloading(folder)
    try:
        yield started
    finally:
        for _ in range(2):  # the second one is for a server that does not want to end
            if started.process.poll() is None:
                started.process.send_signal(signal.SIGTERM)
                try:
                    started.process.wait(PATIENCE / 3)
                except subprocess.TimeoutExpired:
                    continue
        assert started.process.poll() is not None, started.log()


def test_a_server_starts_again_with_what_has_changed_and_drains_each_time(tmp_path: Path) -> None:
    """D1. The agent's module is found beside the configuration, wherever the server is started."""
    with reloading(tmp_path) as server:
        assert server.answer(server.wait_listening(1)) == "one"

        server.write("another")
        assert server.answer(server.wait_listening(2)) == "another"
        assert lines(server.memory) == ["one"]  # committed, before the next one began

        server.replace("greenroom.toml", "port = many")
        until(lambda: "waiting for a change" in server.log(), "it never ends")
        server.configure("second")
        url = server.wait_listening(3)
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "second"
        assert server.answer(url) == "another"

        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0, server.log()
        assert lines(server.memory) == ["one", "another", "another"]
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)


def test_a_server_that_reloads_is_ended_with_sigterm(tmp_path: Path) -> None:
    with reloading(tmp_path) as server:
        server.answer(server.wait_listening(1))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0, server.log()
        assert lines(server.memory) == ["one"]


def test_what_is_installed_or_hidden_is_not_watched(tmp_path: Path) -> None:
    for name in ("a.py", "b.txt", "pkg/b.py", ".git/c.py", "env/lib/d.py", "node_modules/e.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "env/pyvenv.cfg").touch()

    assert [str(path.relative_to(tmp_path)) for path in python_files(tmp_path)] == ["a.py", "pkg/b.py"]
