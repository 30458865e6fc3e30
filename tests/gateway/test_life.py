"""How a server ends, and what it does when it is told to read its configuration again."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import socket
import termios
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from greenroom.gateway._admission import Ticket
from greenroom.gateway.config._config import Config
from greenroom.gateway.server._listener import Listener
from greenroom.gateway.server._sockets import bind
from greenroom.store import open_store
from tests.gateway import life_agents
from tests.gateway.life_process import PATIENCE, ask, lines, server, until
from tests.gateway.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

pytestmark = pytest.mark.timeout(180)  # processes take long to start where many tests run at once


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Where agents note what they do."""
    return tmp_path / "memory"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of the test's own."""
    return f"sqlite:///{tmp_path / 'greenroom.db'}"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Clients that wait while the test goes on."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_a_server_that_is_told_to_end_commits_and_exits_with_0(
    tmp_path: Path, memory: Path, store: str
) -> None:
    options: dict[str, Any] = {"store": store, "agent_options": {"memory": str(memory)}}
    with server("recorder", tmp_path, **options) as running:
        answered = ask(running.wait_ready(), "a")
        assert answered.status_code == 200
        assert lines(memory) == []

        running.signal(signal.SIGTERM)

        assert running.wait_end() == 0
        assert lines(memory) == ["begin local/a 1", "end local/a 1"]
        assert "Sessions committed: 1, failed: 0, abandoned: 0" in running.log()
        assert "Traceback" not in running.log()
    with open_store(store) as opened:
        assert opened.sessions(dirty=True) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_while_it_drains_it_lives_and_is_not_ready_and_turns_that_run_may_end(
    tmp_path: Path, memory: Path, pool: ThreadPoolExecutor, number: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    options = {"memory": str(memory), "gate": str(gate)}
    with server("recorder", tmp_path, agent_options=options) as running, httpx.Client() as client:
        url = running.wait_ready()
        assert client.get(f"{url}/readyz").status_code == 200
        turn = pool.submit(ask, url, "a")
        until(lambda: lines(memory), "the turn does not begin")

        running.signal(number)

        # The same connection as before: it is answered, and closed behind the answer.
        until(lambda: client.get(f"{url}/readyz").status_code == 503, "it stays ready")
        unready, alive = client.get(f"{url}/readyz"), client.get(f"{url}/healthz")
        assert (unready.json(), unready.headers["connection"]) == ({"status": "draining"}, "close")
        assert alive.status_code == 200
        refused = ask(url, "b", client=client)
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert refused.headers["connection"] == "close"
        assert refused.json()["error"]["code"] == "draining"

        gate.touch()
        assert turn.result(PATIENCE).json()["choices"][0]["message"]["content"] == "first, last"
        assert running.wait_end() == 0
    assert lines(memory) == ["in local/a", "begin local/a 1", "end local/a 1"]


def test_a_turn_that_outlasts_the_deadline_is_stopped_and_its_client_told(
    tmp_path: Path, memory: Path, store: str, pool: ThreadPoolExecutor
) -> None:
    options = {"memory": str(memory), "gate": str(tmp_path / "never")}
    with server("recorder", tmp_path, store=store, agent_options=options, drain_deadline=1.0) as running:
        whole = pool.submit(ask, url := running.wait_ready(), "a")
        streamed = pool.submit(ask, url, "b", stream=True)
        until(lambda: len(lines(memory)) == 2, "the turns do not begin")

        running.signal(signal.SIGTERM)

        assert whole.result(PATIENCE).status_code == 503
        assert '"code":"draining"' in streamed.result(PATIENCE).text
        assert "[DONE]" not in streamed.result().text
        assert running.wait_end() == 0
    with open_store(store) as opened:
        assert [row.generation for row in opened.sessions()] == [0, 0]


def test_a_second_signal_ends_it_at_once(tmp_path: Path, memory: Path, pool: ThreadPoolExecutor) -> None:
    options = {"memory": str(memory), "gate": str(tmp_path / "never")}
    with server("recorder", tmp_path, agent_options=options, drain_deadline=600.0) as running:
        turn = pool.submit(ask, running.wait_ready(), "a")
        until(lambda: lines(memory), "the turn does not begin")
        running.signal(signal.SIGTERM)
        running.wait_log("SIGTERM: no turn begins any more")

        running.signal(signal.SIGINT)

        assert running.wait_end() == 130
        assert "SIGINT again: exiting at once" in running.log()
        with pytest.raises(httpx.TransportError):
            turn.result(PATIENCE)


@pytest.mark.parametrize(
    ("where", "code"), [("commit", 0), ("thread", 0), ("executor", 0), ("loop", 70)]
)
def test_whatever_hangs_it_ends(
    tmp_path: Path, memory: Path, pool: ThreadPoolExecutor, where: str, code: int
) -> None:
    """The loop itself cannot drain while an agent blocks it, which the exit code tells."""
    options = {"memory": str(memory), "where": where}
    with server("stuck", tmp_path, agent_options=options, drain_deadline=0.5) as running:
        url = running.wait_ready()
        turn = pool.submit(ask, url, "a")
        if where == "commit":
            assert turn.result(PATIENCE).status_code == 200
        else:
            until(lambda: lines(memory) == ["stuck"], "the turn does not begin")

        running.signal(signal.SIGTERM)

        assert running.wait_end() == code, running.log()
        turn.exception(PATIENCE)
        if where == "commit":
            assert "abandoned: 1 ('local/a')" in running.log()


def test_a_client_that_does_not_read_does_not_keep_it(tmp_path: Path, memory: Path) -> None:
    with server("flood", tmp_path, agent_options={"memory": str(memory)}, drain_deadline=1.0) as running:
        url = httpx.URL(running.wait_ready())
        body = b'{"stream": true, "messages": [{"role": "user", "content": "hello"}]}'
        with socket.create_connection((url.host, url.port or 80), PATIENCE) as deaf:
            deaf.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-greenroom-session: a\r\n"
                b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
            )
            until(lambda: lines(memory), "the turn does not begin")

            running.signal(signal.SIGTERM)

            assert running.wait_end() == 0


def test_a_stream_that_nothing_ends_is_closed() -> None:
    """A page's events, say: its client reads, and there is always more to come."""
    assert asyncio.run(_end_a_stream()) == b""


async def _end_a_stream() -> bytes:
    hung_up = asyncio.get_running_loop().create_future()

    async def endless(_: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: first", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        hung_up.set_result(True)

    stage: Any = SimpleNamespace(draining=False, config=Config())
    listener = Listener(endless, stage, bind("127.0.0.1", 0))
    serving = asyncio.ensure_future(listener.serve())
    async with asyncio.timeout(PATIENCE):
        await listener.listening
        url = httpx.URL(listener.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await reader.readuntil(b"data: first\r\n")
        await listener.end(serving)
        assert await hung_up
        rest = await reader.read()
    writer.close()
    return rest


def test_a_server_whose_terminal_is_closed_ends(tmp_path: Path, memory: Path) -> None:
    """A hang-up of the line, and not an operator's request to read the configuration again."""
    ours, its = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    how = {"stdin": its, "start_new_session": True, "preexec_fn": take_terminal}
    options = {"memory": str(memory)}
    with server("recorder", tmp_path, how=how, agent_options=options) as running:
        os.close(its)
        assert ask(running.wait_ready(), "a").status_code == 200

        os.close(ours)

        assert running.wait_end() == 0
    assert lines(memory) == ["begin local/a 1", "end local/a 1"]


# What may change while it runs.


def test_sighup_changes_what_may_change_and_names_the_rest(tmp_path: Path, memory: Path) -> None:
    settings = tmp_path / "greenroom.toml"
    settings.write_text('model = "before"\n')
    options: dict[str, Any] = {"config": settings, "agent_options": {"memory": str(memory)}}
    with server("recorder", tmp_path, **options) as running:
        url = running.wait_ready()
        assert models(url) == ["before"]

        settings.write_text('model = "after"\nlog_format = "json"\n')
        running.signal(signal.SIGHUP)
        running.wait_log("The configuration was read again. Changed: model")
        assert models(url) == ["after"]
        assert "These need a restart, and stay as they were: log_format" in running.log()

        settings.write_text('model = "never"\nmax_running = -1\n')
        running.signal(signal.SIGHUP)
        running.wait_log("The configuration stays as it was")
        assert "max_running" in running.log()
        assert models(url) == ["after"]

        running.signal(signal.SIGTERM)
        assert running.wait_end() == 0


def test_a_server_whose_first_lines_nobody_reads_serves_all_the_same(
    tmp_path: Path, memory: Path
) -> None:
    """As in `greenroom serve | head -1`."""
    unread, out = os.pipe()
    os.close(unread)
    options: dict[str, Any] = {"agent_options": {"memory": str(memory)}}
    try:
        with server("recorder", tmp_path, how={"stdout": out}, **options) as running:
            assert ask(running.wait_ready(), "a").status_code == 200
            assert "Nobody could be told that it is ready" in running.log()
            running.signal(signal.SIGTERM)
            assert running.wait_end() == 0
    finally:
        os.close(out)


def models(url: str) -> list[str]:
    """What the server says that it has."""
    return [model["id"] for model in httpx.get(f"{url}/v1/models").json()["data"]]


# Health.


def test_a_server_whose_admission_does_not_answer_is_alive_and_not_ready() -> None:
    reached, released = threading.Event(), threading.Event()

    def block() -> None:
        reached.set()
        assert released.wait(PATIENCE)

    with serving(life_agents.recorder) as running, httpx.Client(base_url=running.url) as client:
        admission = running.stage.admission
        ticket = Ticket("local", "local/a", "queue", block)
        admission.enter(ticket).get(timeout=PATIENCE)
        assert client.get("/readyz").json() == {"status": "ready"}
        # The admission interrupts whoever runs in its own handler.
        blocked = threading.Thread(target=lambda: admission.interrupt("local/a"))
        blocked.start()
        assert reached.wait(PATIENCE)
        try:
            unready = client.get("/readyz", timeout=PATIENCE)
            assert (unready.status_code, unready.json()) == (503, {"status": "stalled"})
            assert client.get("/healthz").status_code == 200
            assert client.head("/healthz").status_code == 200
        finally:
            released.set()
            blocked.join(PATIENCE)
        admission.leave(ticket).get(timeout=PATIENCE)


# What keeps it from starting.


def test_a_port_that_is_taken_is_one_line_and_exit_code_1(tmp_path: Path, memory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with server("recorder", tmp_path, port=port, agent_options={"memory": str(memory)}) as failing:
            assert failing.wait_end() == 1
            assert f"cannot listen on 127.0.0.1:{port}" in failing.log()
            assert "Traceback" not in failing.log()


def test_a_store_that_cannot_be_opened_is_one_line_and_exit_code_1(tmp_path: Path, memory: Path) -> None:
    (tmp_path / "file").touch()
    url = f"sqlite:///{tmp_path / 'file' / 'greenroom.db'}"
    with server("recorder", tmp_path, store=url, agent_options={"memory": str(memory)}) as failing:
        assert failing.wait_end() == 1
        assert "The server could not start: " in failing.log()
        assert "Traceback" not in failing.log()
