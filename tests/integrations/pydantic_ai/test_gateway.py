"""`greenroom serve --agent module:factory`, with what `conversations()` returns as the factory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from greenroom.store import open_store

HERE = Path(__file__).parent


def test_the_gateway_serves_conversations(tmp_path: Path, url: str, patience: float) -> None:
    command = [sys.executable, "-P", "-m", "greenroom", "serve", "--port", "0", "--store", url]
    environment = {name: value for name, value in os.environ.items() if "GREENROOM" not in name}
    environment |= {"PYTHONPATH": str(HERE), "HOME": str(tmp_path)}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [*command, "--agent", "served:factory"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        try:
            assert server.stdout is not None
            page = server.stdout.readline()
            assert page.startswith("The page   http://127.0.0.1:"), (tmp_path / "log").read_text()
            answers = [_ask(page.split()[-1], text, patience) for text in ("Hello", "Hello again")]
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=patience)
    assert server.returncode == 0, (tmp_path / "log").read_text()
    assert answers == ["Hello.", "Again?"]
    with open_store(url) as store:
        (session,) = store.sessions()
        rows: list[Any] = [row.content for row in store.messages(session.session_id)]
    assert [row["items"][0]["parts"][0]["content"] for row in rows] == ["Hello", "Hello again"]


def _ask(page: str, text: str, patience: float) -> Any:
    body = {"model": "host", "user": "anna", "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        f"{page}v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=patience) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
