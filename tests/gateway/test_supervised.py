"""Under a real supervisord: a server that is killed comes back and commits; one that is told to end does
so in time, and loses nothing that it has promised."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from greenroom.store import open_store
from tests.gateway.life_process import PATIENCE, ask, lines, until
from tests.gateway.life_supervisord import supervised

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.timeout(300)  # processes take long to start where many tests run at once


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """What the memory provider has learned."""
    return tmp_path / "memory"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of the test's own."""
    return f"sqlite:///{tmp_path / 'greenroom.db'}"


def dirty(store: str) -> list[dict[str, Any]]:
    """What an operator is shown as uncommitted."""
    shown = subprocess.run(
        [sys.executable, "-m", "greenroom", "store", "dirty", "--json", "--store", store],
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    found: list[dict[str, Any]] = json.loads(shown.stdout)["sessions"]
    return found


@pytest.mark.parametrize("moment", ["before the commit", "in the commit"])
def test_a_server_that_is_killed_comes_back_by_itself_and_commits(
    tmp_path: Path, memory: Path, store: str, moment: str
) -> None:
    """A client has seen the end of its turn, and the memory provider has not heard of it."""
    gate = tmp_path / "gate"
    options: dict[str, Any] = {"memory": str(memory), "commit_gate": str(gate)}
    in_commit = moment == "in the commit"
    with supervised(
        "recorder",
        tmp_path,
        store=store,
        agent_options=options,
        lease_ttl="500ms",
        idle_ttl="100ms" if in_commit else "1h",
        sweep_every="50ms",
    ) as supervisord:
        assert ask(supervisord.wait_ready(), "a").status_code == 200
        if in_commit:
            until(lambda: lines(memory), "the commit does not begin")
        assert [row["session_id"] for row in dirty(store)] == ["local/a"]
        first = supervisord.info()["pid"]

        supervisord.kill_server()
        gate.touch()

        url = supervisord.wait_ready(life=2)
        until(lambda: "end local/a 1" in lines(memory), "nobody commits what was left")
        with open_store(store) as opened:
            until(lambda: not opened.sessions(dirty=True), "the ledger does not know of the commit")
            assert opened.session("local/a").committed == 1
        # At least once, and always under the same number.
        assert set(lines(memory)) == {"begin local/a 1", "end local/a 1"}
        assert supervisord.info()["pid"] != first
        assert ask(url, "a").status_code == 200
        supervisord.stop()
    assert lines(memory)[-1] == "end local/a 2"


class Client(threading.Thread):
    """Sends turns of one session until nobody answers. Every other one is streamed."""

    def __init__(self, url: str, session: str, count: Counter[str]) -> None:
        super().__init__(name=f"client-{session}")
        self._url = url
        self._session = session
        self._count = count
        self.completed = 0
        """Answers that were seen to their end."""
        self.wrong: list[str] = []

    def run(self) -> None:
        with httpx.Client() as client:
            while True:
                streamed = self.completed % 2 == 1
                try:
                    answer = ask(self._url, self._session, client=client, stream=streamed)
                except httpx.ConnectError:
                    return
                except httpx.TransportError:
                    continue  # it was cut off: nothing was promised
                self._look_at(answer, streamed=streamed)

    def _look_at(self, answer: httpx.Response, *, streamed: bool) -> None:
        if answer.status_code == 200 and (not streamed or "data: [DONE]" in answer.text):
            self.completed += 1
            self._count[self._session] += 1
        elif answer.status_code != 503 or "retry-after" not in answer.headers:
            self.wrong.append(f"{answer.status_code} {answer.text}")


def test_a_server_that_is_told_to_end_under_load_loses_no_turn(
    tmp_path: Path, memory: Path, store: str
) -> None:
    """What a client has seen the end of is in the ledger, and committed."""
    options = {"memory": str(memory)}
    with supervised("recorder", tmp_path, store=store, agent_options=options) as supervisord:
        url = supervisord.wait_ready()
        count: Counter[str] = Counter()
        clients = [Client(url, f"s{number}", count) for number in range(6)]
        for client in clients:
            client.start()
        try:
            until(lambda: len(count) == 6 and count.total() >= 60, "the clients get no answers")
        finally:
            supervisord.stop()
            for client in clients:
                client.join(PATIENCE)
        ended = supervisord.info()

    assert (ended["statename"], ended["exitstatus"]) == ("STOPPED", 0)
    assert [wrong for client in clients for wrong in client.wrong] == []
    assert lost(store, memory, clients) == []


def lost(store: str, memory: Path, clients: Iterable[Client]) -> list[str]:
    """What the ledger or the memory provider does not know of."""
    learned = {key: int(number) for _, key, number in map(str.split, lines(memory))}
    found: list[str] = []
    with open_store(store) as opened:
        for client in clients:
            row = opened.session(f"local/{client.name.removeprefix('client-')}")
            # One more may have ended whose answer was cut off.
            if not client.completed <= row.generation <= client.completed + 1:
                found.append(f"{client.completed} turns were seen to their end, but {row}")
            if row.committed != row.generation or learned.get(row.session_id) != row.generation:
                found.append(f"{learned.get(row.session_id)} was the last to be committed of {row}")
    return found


def test_a_wedged_provider_does_not_keep_it_from_ending(
    tmp_path: Path, memory: Path, store: str
) -> None:
    options = {"memory": str(memory), "where": "commit"}
    with supervised(
        "stuck", tmp_path, store=store, agent_options=options, drain_deadline="500ms"
    ) as supervisord:
        assert ask(supervisord.wait_ready(), "a").status_code == 200
        supervisord.stop()
        ended = supervisord.info()

        assert (ended["statename"], ended["exitstatus"]) == ("STOPPED", 0)
        assert "SIGKILL" not in supervisord.own_log()
    assert lines(memory) == ["stuck"]
    assert [row["session_id"] for row in dirty(store)] == ["local/a"]
