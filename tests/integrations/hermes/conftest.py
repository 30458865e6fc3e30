"""Real agents without a network: a home of their own, rooms, an endpoint and a memory provider."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certifi
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
"""Seconds after which a test that waits for something fails. Never how long something takes."""

CONFIG = """\
model:
  context_length: 200000   # or it is asked for over the network
memory:
  provider: notebook
"""

# Hermes reads these when it is imported. Nothing may reach the home of whoever runs the tests. One
# certificate in the place of all: reading them takes longer than the rest of building an agent.
HOME = Path(tempfile.mkdtemp(prefix="greenroom-hermes-"))
(HOME / "config.yaml").write_text(CONFIG)
(HOME / "plugins" / "notebook").mkdir(parents=True)
shutil.copy(Path(__file__).parent / "notebook.py", HOME / "plugins" / "notebook" / "__init__.py")
certificates = Path(certifi.where()).read_text()
end = certificates.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----\n")
(HOME / "one.pem").write_text(certificates[certificates.index("-----BEGIN CERTIFICATE-----") : end])
# The program that Hermes closes a browser with: else it would ask for it over the network.
(HOME / "bin").mkdir()
(HOME / "bin" / "agent-browser").write_text("#!/bin/sh\necho '{\"success\": true}'\n")
(HOME / "bin" / "agent-browser").chmod(0o755)
os.environ.update(
    PATH=f"{HOME / 'bin'}{os.pathsep}{os.environ['PATH']}",
    HERMES_HOME=str(HOME),
    HERMES_CA_BUNDLE=str(HOME / "one.pem"),
    SSL_CERT_FILE=str(HOME / "one.pem"),
    REQUESTS_CA_BUNDLE=str(HOME / "one.pem"),
    NO_PROXY="*",
)


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for what another thread or process does in its own time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"after {PATIENCE} s: not {what}"
        time.sleep(0.01)


class Endpoint:
    """An endpoint that speaks OpenAI's Chat Completions. `fail(model, status)` makes one model fail;
    `hold()` keeps answers back until `let_go()`."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.asked = threading.Event()
        self._open = threading.Event()
        self._open.set()
        self._failing: dict[str, int] = {}
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/chat/completions"):
                    endpoint._answer(self, body)
                else:
                    self.send_error(404)  # a fallback is asked what it can do, as other servers answer

            def do_GET(self) -> None:
                self.send_error(404)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def fail(self, model: str, status: int) -> None:
        self._failing[model] = status

    def hold(self) -> None:
        self.asked.clear()
        self._open.clear()

    def wait_asked(self) -> None:
        assert self.asked.wait(PATIENCE), "nobody asked the endpoint"

    def let_go(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.let_go()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        self.requests.append(body)
        self.asked.set()
        assert self._open.wait(PATIENCE)
        status = self._failing.get(body["model"], 200)
        text = f"{body['model']} heard {_last_text(body['messages'])}"
        answer = _stream(body["model"], text) if body.get("stream") else _whole(body["model"], text)
        if status != 200:
            answer = json.dumps({"error": {"message": "as the test wants it"}}).encode()
        kind = "text/event-stream" if body.get("stream") and status == 200 else "application/json"
        try:
            handler.send_response(status)
            handler.send_header("Content-Type", kind)
            handler.send_header("Content-Length", str(len(answer)))
            handler.end_headers()
            handler.wfile.write(answer)
        except OSError:
            pass  # whoever was interrupted has hung up


def _last_text(messages: list[dict[str, Any]]) -> str:
    return str(messages[-1]["content"]).strip().splitlines()[-1]


def _whole(model: str, text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": model}
    return json.dumps({**whole, "choices": [choice], "usage": usage}).encode()


def _stream(model: str, text: str) -> bytes:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": model}
    deltas: list[tuple[dict[str, str], str | None]] = [
        ({"role": "assistant", "content": text}, None),
        ({}, "stop"),
    ]
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in deltas
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def until() -> Callable[[Callable[[], object], str], None]:
    return wait_until


@pytest.fixture
def spec() -> Callable[..., Any]:
    """A function that makes specs. No request is made unless a test names an endpoint."""
    from greenroom.integrations.hermes import hermes_spec

    def make(model: str = "test-model", *, url: str = "https://model.invalid/v1", **more: Any) -> Any:
        runtime = {"api_key": "test", "base_url": url, "provider": "custom"}
        more.setdefault("enabled_toolsets", [])
        return hermes_spec(model, {**runtime, "api_mode": "chat_completions"}, **more)

    return make


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Any]:
    from hermes_state import SessionDB

    database = SessionDB(db_path=tmp_path / "state.db")
    yield database
    database.close()


@pytest.fixture
def open_room() -> Iterator[Callable[..., Any]]:
    """A function that opens rooms of Hermes agents. They are closed when the test is over."""
    from greenroom import Policy, Runtime
    from greenroom.integrations.hermes import hermes_room

    opened: list[tuple[Any, Any]] = []

    def open_one(*, memory: bool = False, clock: Any = None, **options: Any) -> Any:
        settings = {"skip_context_files": True, "skip_memory": not memory, "max_iterations": 5}
        for_room = {name: options.pop(name) for name in ("session_db", "prepare") if name in options}
        runtime = None if clock is None else Runtime(clock=clock)
        room = hermes_room(settings, policy=Policy(**options), runtime=runtime, **for_room)
        opened.append((room, runtime))
        return room

    yield open_one
    for room, runtime in opened:
        room.close()
        if runtime is not None:
            runtime.close()


@pytest.fixture
def notebook() -> Iterator[Any]:
    """The module of the memory provider that agents have: what it was told, and what it should do."""
    importlib.import_module("plugins.memory").load_memory_provider("notebook")
    (module,) = [m for name, m in list(sys.modules.items()) if name.endswith(".notebook")]
    module.reset()
    yield module
    module.reset()


@pytest.fixture
def gateway_runner() -> Any:
    """The class of Hermes's gateway, whose package has the name of one of ours."""
    return importlib.import_module("gateway.run").GatewayRunner
