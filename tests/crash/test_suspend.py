"""Two gateways and one session: who has it, who gets it, and what becomes of the one that lost it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash import memories
from tests.crash.databases import sqlite_path
from tests.crash.process import Raised
from tests.room.agents import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crash.process import Family, Puppet

pytestmark = pytest.mark.timeout(300)  # processes take long to start where many tests run at once

LONG = 60.0
"""A lease that does not end during a test."""

ENDLESS = 600.0
"""One that does not end in many tests."""

SHORT = 1.0
"""One that does."""


@dataclass
class Gateways:
    """Two processes, `a` and `b`, each with a room on the same database and the same memory provider."""

    url: str
    memory: Path
    a: Puppet
    b: Puppet
    seen: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Each (epoch, owner) that a gateway in a turn had."""

    def open(self, *gateways: Puppet, lease_ttl: float) -> None:
        """Open both, or only these. While only one is open, it loses nothing, however long it is held up
        and however short its lease is."""
        for gateway in gateways or (self.a, self.b):
            policy = {"lease_ttl": lease_ttl, "retry_first": 0.05, "retry_most": 0.2}
            gateway.ask("open_room", url=self.url, policy=policy, memory=str(self.memory))

    def begin(self, gateway: Puppet, **how: Any) -> dict[str, Any]:
        """Begin a turn, and note who has the session now."""
        begun: dict[str, Any] = gateway.ask("begin", key="chat", lane="turn", session_id="s", **how)
        row = gateway.ask("row", session_id="s")
        self.seen.append((row["epoch"], row["owner"]))
        return begun

    def append(self, gateway: Puppet, text: str) -> None:
        gateway.ask("append", lane="turn", content=text)

    def end(self, gateway: Puppet) -> int:
        generation: int = gateway.ask("end", lane="turn")
        return generation

    def turn(self, gateway: Puppet, text: str, **how: Any) -> int:
        """Take a turn. Returns its generation."""
        self.begin(gateway, **how)
        self.append(gateway, text)
        return self.end(gateway)

    def told_by(self, gateway: Puppet) -> list[int]:
        """The tokens that the memory provider has heard from a gateway to the end."""
        entries = memories.parsed(self.memory.read_text())
        return [e.token for e in entries if e.what == "end" and e.writer == str(gateway.pid)]

    def suspend(self, gateway: Puppet) -> None:
        """Stop a process, but not in the middle of a write to a SQLite file: the others would wait for
        it, and rightly."""
        while True:
            gateway.suspend()
            path = sqlite_path(self.url)
            if path is None or _can_be_written(path):
                return
            gateway.resume()

    def one_writer_an_epoch(self) -> None:
        """Look through what was seen."""
        epochs = [epoch for epoch, _ in self.seen]
        assert epochs == sorted(epochs), self.seen
        assert len(set(self.seen)) == len(set(epochs)), self.seen


def _can_be_written(path: str) -> bool:
    with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        file.execute("ROLLBACK")
    return True


@pytest.fixture
def gateways(url: str, family: Family, tmp_path: Path) -> Iterator[Gateways]:
    memory = tmp_path / "memory.log"
    memory.touch()
    gateways = Gateways(url, memory, family.puppet(), family.puppet())
    yield gateways
    gateways.one_writer_an_epoch()


def test_an_owner_that_slept_through_its_lease_can_neither_write_nor_count(gateways: Gateways) -> None:
    """T3 H2: its turn was somebody else's long ago."""
    a, b = gateways.a, gateways.b
    gateways.open(a, lease_ttl=SHORT)
    assert gateways.turn(a, "a1") == 1
    assert gateways.begin(a)["generation"] == 1
    gateways.append(a, "a2, begun")
    gateways.open(b, lease_ttl=SHORT)

    gateways.suspend(a)
    assert [gateways.turn(b, "b2"), gateways.turn(b, "b3")] == [2, 3]
    a.resume()

    with pytest.raises(Raised, match="LostOwnership"):
        gateways.append(a, "a2, too late")
    with pytest.raises(Raised, match="LostOwnership") as lost:
        gateways.end(a)
    assert "GreenroomError" in lost.value.kinds
    assert "'s'" in str(lost.value)
    assert gateways.turn(b, "b4") == 4

    row = b.ask("row", session_id="s")
    assert (row["generation"], row["owner"]) == (4, gateways.seen[-1][1])
    assert b.ask("contents", session_id="s") == ["a1", "a2, begun", "b2", "b3", "b4"]
    assert a.ask("stats")["ownership_lost"] >= 1


def test_the_loser_commits_nothing_and_comes_back_with_a_new_agent(gateways: Gateways) -> None:
    """H2 T2: the winner commits what both have done."""
    a, b = gateways.a, gateways.b
    gateways.open(a, lease_ttl=SHORT)
    gateways.turn(a, "a1")
    old = gateways.begin(a)
    gateways.open(b, lease_ttl=SHORT)

    gateways.suspend(a)
    gateways.turn(b, "b2")
    a.resume()
    with pytest.raises(Raised, match="LostOwnership"):
        gateways.end(a)
    b.ask("drain")

    assert gateways.told_by(a) == []
    assert gateways.told_by(b)[-1] == 2
    again = gateways.begin(a)
    assert not again["reused"]
    assert (again["generation"], old["generation"]) == (2, 1)
    assert gateways.end(a) == 3
    a.ask("drain")
    row = b.ask("row", session_id="s")
    assert (row["generation"], row["committed"], row["owner"]) == (3, 3, None)
    entries = memories.parsed(gateways.memory.read_text())
    assert memories.violations(entries, {"s": 3}) == []


def test_an_idle_session_of_a_living_room_may_be_taken_with_what_is_uncommitted(
    gateways: Gateways,
) -> None:
    """H2 G5: the new owner commits it, the old one lets its agent go without."""
    a, b = gateways.a, gateways.b
    gateways.open(lease_ttl=LONG)
    gateways.turn(a, "a1")
    gateways.turn(a, "a2")

    assert gateways.turn(b, "b3") == 3
    assert b.ask("commit", key="chat")
    assert not a.ask("commit", key="chat")

    row = b.ask("row", session_id="s")
    assert (row["generation"], row["committed"]) == (3, 3)
    assert (gateways.told_by(a), gateways.told_by(b)[-1]) == ([], 3)
    again = gateways.begin(a)
    assert (again["reused"], again["generation"]) == (False, 3)
    gateways.end(a)


def test_a_drain_hands_everything_over_at_once(gateways: Gateways) -> None:
    """D1 D3: the lease would have lasted for long, and nobody waits for it."""
    a, b = gateways.a, gateways.b
    gateways.open(lease_ttl=LONG)
    gateways.turn(a, "a1")
    a.ask("drain")

    row = b.ask("row", session_id="s")
    assert (row["generation"], row["committed"], row["owner"]) == (1, 1, None)
    assert gateways.turn(b, "b2", on_busy="reject") == 2


def test_the_turn_of_a_dead_owner_goes_to_the_next_when_the_lease_ends(gateways: Gateways) -> None:
    """T3: what it had not completed does not count; what it had is committed."""
    a, b = gateways.a, gateways.b
    gateways.open(a, lease_ttl=SHORT)
    gateways.turn(a, "a1")
    gateways.begin(a)
    gateways.append(a, "a2, begun")
    gateways.open(b, lease_ttl=SHORT)
    a.kill()

    assert gateways.turn(b, "b2") == 2
    b.ask("drain")
    row = b.ask("row", session_id="s")
    assert (row["generation"], row["committed"]) == (2, 2)
    assert b.ask("contents", session_id="s") == ["a1", "a2, begun", "b2"]


def test_what_a_dead_owner_left_is_committed_by_the_others(gateways: Gateways) -> None:
    """D3 G9: without a turn of that session, and without a restart."""
    a, b = gateways.a, gateways.b
    gateways.open(a, lease_ttl=SHORT)
    gateways.turn(a, "a1")
    gateways.turn(a, "a2")
    gateways.open(b, lease_ttl=SHORT)
    a.kill()

    until(lambda: b.ask("dirty") == [], "the commit of what was left")
    assert gateways.told_by(b) == [2]
    until(lambda: b.ask("stats")["recovered"] == 1, "a recovery that is counted")


def test_the_turn_of_a_killed_owner_goes_to_the_next_at_once(gateways: Gateways) -> None:
    """M3 T3: the system says that it is dead. Its lease would have lasted for ten minutes."""
    a, b = gateways.a, gateways.b
    gateways.open(a, lease_ttl=ENDLESS)
    gateways.turn(a, "a1")
    gateways.begin(a)
    gateways.append(a, "a2, begun")
    a.kill()
    gateways.open(b, lease_ttl=ENDLESS)

    assert gateways.turn(b, "b2") == 2
    b.ask("drain")
    row = b.ask("row", session_id="s")
    assert (row["generation"], row["committed"]) == (2, 2)
    assert b.ask("contents", session_id="s") == ["a1", "a2, begun", "b2"]


def test_a_turn_that_waits_for_an_owner_begins_when_that_is_killed(gateways: Gateways) -> None:
    """M3 T3"""
    a, b = gateways.a, gateways.b
    gateways.open(lease_ttl=ENDLESS)
    gateways.begin(a)
    waiting = b.send("begin", key="chat", lane="turn", session_id="s")
    owner = gateways.seen[-1][1]
    until(lambda: owner in b.ask("explain", key="chat"), "an explanation that names the holder")

    a.kill()

    assert b.answer(waiting)["generation"] == 0
    assert gateways.end(b) == 1


def test_what_a_killed_owner_left_is_committed_at_once_by_the_next(gateways: Gateways) -> None:
    """M3 G9: without a turn of that session."""
    a, b = gateways.a, gateways.b
    gateways.open(a, lease_ttl=ENDLESS)
    gateways.turn(a, "a1")
    gateways.turn(a, "a2")
    a.kill()
    gateways.open(b, lease_ttl=ENDLESS)

    until(lambda: b.ask("dirty") == [], "the commit of what was left")
    assert gateways.told_by(b) == [2]


def test_a_session_in_a_turn_elsewhere_is_busy(gateways: Gateways) -> None:
    """T3: it can be rejected, waited for for a while, or waited for."""
    a, b = gateways.a, gateways.b
    gateways.open(lease_ttl=LONG)
    gateways.begin(a)

    with pytest.raises(Raised, match="SessionBusy"):
        gateways.begin(b, on_busy="reject")
    with pytest.raises(Raised, match="TurnTimeout"):
        gateways.begin(b, timeout=0.2)
    waiting = b.send("begin", key="chat", lane="turn", session_id="s")
    owner = gateways.seen[-1][1]
    until(lambda: owner in b.ask("explain", key="chat"), "an explanation that names the holder")

    assert gateways.end(a) == 1
    a.ask("drain")
    assert b.answer(waiting)["generation"] == 1
    assert gateways.end(b) == 2
