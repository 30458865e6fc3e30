"""A disk that is full, or a server that is gone for a while, loses no turn, and needs no restart."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash import memories
from tests.crash.databases import sqlite_url
from tests.crash.process import Raised
from tests.room.agents import until
from tests.store.urls import own_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.crash.process import Family, Puppet
    from tests.postgres import OwnServer

pytestmark = pytest.mark.timeout(300)  # processes take long to start where many tests run at once

POLICY = {"lease_ttl": 1.0, "retry_first": 0.05, "retry_most": 0.2}


class Trouble:
    """A gateway whose database can be made to fail, and to recover."""

    def __init__(self, puppet: Puppet, url: str, memory: Path) -> None:
        self.puppet = puppet
        self._url = url
        self._memory = memory
        memory.touch()
        self.open()

    def open(self) -> None:
        """Open a room on the database."""
        self.puppet.ask("open_room", url=self._url, policy=POLICY, memory=str(self._memory))

    def begin(self) -> None:
        """Let the database fail from now on."""
        raise NotImplementedError

    def end(self) -> None:
        """Let it work again."""
        raise NotImplementedError

    # What tests do with the gateway, and ask it.

    def begin_turn(self, session: str = "s", **how: Any) -> dict[str, Any]:
        begun: dict[str, Any] = self.puppet.ask("begin", key=session, lane=session, **how)
        return begun

    def refusal_of_turn(self, session: str) -> Raised | None:
        """Begin a turn, or return why not."""
        try:
            self.begin_turn(session, timeout=2.0)
        except Raised as refusal:
            return refusal
        return None

    def append(self, text: str, session: str = "s") -> None:
        self.puppet.ask("append", lane=session, content=text)

    def end_turn(self, session: str = "s") -> int:
        generation: int = self.puppet.ask("end", lane=session)
        return generation

    def turn(self, text: str, session: str = "s") -> int:
        self.begin_turn(session)
        self.append(text, session)
        return self.end_turn(session)

    def ledger(self, session: str = "s") -> tuple[int, int]:
        row = self.puppet.ask("row", session_id=session)
        return row["generation"], row["committed"]

    def wait_ledger(self, generation: int, committed: int, session: str = "s") -> None:
        until(lambda: self.ledger(session) == (generation, committed), f"{generation, committed}")

    def told(self) -> list[int]:
        """The tokens that the memory provider has heard to the end."""
        entries = memories.parsed(self._memory.read_text())
        return [entry.token for entry in entries if entry.what == "end"]

    def provider_learned(self, **committed: int) -> None:
        """See that the memory provider was told everything, and nothing under two tokens."""
        entries = memories.parsed(self._memory.read_text())
        assert memories.violations(entries, committed) == []


class FullDisk(Trouble):
    """A small disk, in a mount namespace that ends with the gateway."""

    def __init__(self, family: Family, folder: Path) -> None:
        self._disk = folder / "disk"
        self._disk.mkdir()
        prefix = small_disk(self._disk)
        tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            pytest.skip(f"no small disk can be mounted here: {tried.stderr.strip()}")
        url = sqlite_url(self._disk / "greenroom.db")
        super().__init__(family.puppet(prefix), url, folder / "memory.log")

    def begin(self) -> None:
        assert "No space left" in self.puppet.ask("fill_disk", folder=str(self._disk))

    def end(self) -> None:
        self.puppet.ask("empty_disk")


def small_disk(folder: Path) -> Sequence[str]:
    """The beginning of a command line: what follows runs with 4 MB at this folder."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    mount = 'mount -t tmpfs -o size=4m greenroom "$0" && exec "$@"'
    return ["unshare", *as_root, "--mount", "sh", "-c", mount, str(folder)]


class LimitedFiles(Trouble):
    """A gateway whose files may not grow any more. It needs no rights at all."""

    def __init__(self, family: Family, folder: Path) -> None:
        super().__init__(family.puppet(), sqlite_url(folder / "greenroom.db"), folder / "memory.log")

    def begin(self) -> None:
        self.puppet.ask("limit_files", size=16384)  # the log of writes is larger, the provider's is not

    def end(self) -> None:
        self.puppet.ask("limit_files", size=None)


class ServerGone(Trouble):
    """A server of these tests' own, which is stopped and started."""

    def __init__(self, family: Family, folder: Path, server: OwnServer) -> None:
        self._server = server
        super().__init__(family.puppet(), server.fresh_url(), folder / "memory.log")

    def begin(self) -> None:
        self._server.stop()

    def end(self) -> None:
        self._server.start()


@pytest.fixture(scope="module")
def own_server() -> Iterator[OwnServer]:
    """A server that these tests stop and start, and nobody else uses. To make one takes seconds."""
    with own_postgres() as server:
        yield server


@pytest.fixture(params=["full disk", "limited files", "server gone"])
def trouble(request: pytest.FixtureRequest, family: Family, tmp_path: Path) -> Iterator[Trouble]:
    if request.param == "full disk":
        yield FullDisk(family, tmp_path)
    elif request.param == "limited files":
        yield LimitedFiles(family, tmp_path)
    else:
        server: OwnServer = request.getfixturevalue("own_server")
        yield ServerGone(family, tmp_path, server)
        server.start()  # in whatever state the test has left it


def test_a_turn_that_cannot_be_recorded_is_kept_and_recorded_later(trouble: Trouble) -> None:
    """It says so, and the room goes on by itself when the database does."""
    assert trouble.turn("1") == 1
    trouble.begin_turn()
    trouble.append("2")

    trouble.begin()
    with pytest.raises(Raised, match="NotRecorded") as raised:
        trouble.end_turn()
    assert "GreenroomError" in raised.value.kinds
    assert "'s'" in str(raised.value)
    stats = trouble.puppet.ask("stats")
    assert stats["unrecorded"] == 1
    assert stats["store_failures"] >= 1
    trouble.end()

    trouble.wait_ledger(2, 0)
    assert trouble.turn("3") == 3
    assert trouble.puppet.ask("commit", key="s")
    assert trouble.ledger() == (3, 3)
    trouble.provider_learned(s=3)
    assert trouble.puppet.ask("contents", session_id="s") == ["1", "2", "3"]


def test_a_message_that_cannot_be_written_is_refused_and_the_turn_goes_on(trouble: Trouble) -> None:
    trouble.turn("1")
    trouble.begin_turn()

    trouble.begin()
    with pytest.raises(Raised, match="StoreUnavailable"):
        trouble.append("2, lost")
    trouble.end()

    trouble.append("2")
    assert trouble.end_turn() == 2
    assert trouble.puppet.ask("contents", session_id="s") == ["1", "2"]


def test_turns_during_the_trouble_are_counted_or_refused_and_rebuild_nothing(trouble: Trouble) -> None:
    """What was counted is recorded and committed; what was refused was refused in plain words."""
    sessions = ["s", "t", "u"]
    counted = {session: trouble.turn("1", session) for session in sessions}

    trouble.begin()
    for session in sessions * 2:
        refusal = trouble.refusal_of_turn(session)
        if refusal is None:
            counted[session] += 1
            with pytest.raises(Raised, match="NotRecorded"):
                trouble.end_turn(session)
        else:
            assert {"GreenroomError", "StoreError"} & set(refusal.kinds), refusal
    trouble.end()

    for session in sessions:
        trouble.wait_ledger(counted[session], 0, session)
        assert trouble.turn("last", session) == counted[session] + 1
    stats = trouble.puppet.ask("stats")
    assert (stats["builds"], stats["rebuilds"]) == (3, 0)
    trouble.puppet.ask("drain")
    for session in sessions:
        assert trouble.ledger(session) == (counted[session] + 1, counted[session] + 1)
    trouble.provider_learned(**{session: number + 1 for session, number in counted.items()})


def test_a_commit_that_failed_in_the_trouble_is_made_again_under_the_same_token(
    trouble: Trouble,
) -> None:
    trouble.turn("1")

    trouble.begin()
    assert not trouble.puppet.ask("commit", key="s")
    trouble.end()

    trouble.puppet.ask("commit", key="s")
    trouble.wait_ledger(1, 1)
    assert set(trouble.told()) == {1}
    assert trouble.turn("2") == 2
    assert trouble.puppet.ask("commit", key="s")
    trouble.provider_learned(s=2)


def test_an_agent_that_is_evicted_in_the_trouble_is_kept_until_it_is_committed(trouble: Trouble) -> None:
    """Nobody has to ask for it again."""
    trouble.turn("1")

    trouble.begin()
    trouble.puppet.ask("evict", key="s")
    until(lambda: trouble.puppet.ask("stats")["commit_failures"] >= 1, "a commit that failed")
    trouble.end()

    trouble.wait_ledger(1, 1)
    trouble.provider_learned(s=1)


def test_a_drain_during_the_trouble_ends_and_the_next_room_takes_up_what_it_left(
    trouble: Trouble,
) -> None:
    trouble.turn("1")

    trouble.begin()
    trouble.puppet.ask("drain", deadline=2.0)
    trouble.end()

    trouble.open()
    trouble.wait_ledger(1, 1)
    trouble.provider_learned(s=1)
    assert trouble.turn("2") == 2
