"""A gateway that is killed again and again, at any moment, forgets no turn.

`make crash` kills it 200 times; here it is a few. `GREENROOM_CRASHES` says how often, and
`GREENROOM_CRASH_SEED` when. It prints what the sessions were at when it was killed (`pytest -rP`).
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.store import Store, open_store
from tests.crash import memories, transcripts
from tests.crash.databases import sqlite_path

if TYPE_CHECKING:
    from tests.crash.process import Child, Family

CRASHES = int(os.environ.get("GREENROOM_CRASHES", "12"))
SEED = os.environ.get("GREENROOM_CRASH_SEED", "1")
SESSIONS, THREADS = 6, 4
POLICY = {
    "cap": 2,  # of three keys: agents come and go
    "lease_ttl": 0.5,
    "retry_first": 0.05,
    "retry_most": 0.2,
    "max_waiting": THREADS,
}


@dataclass
class Acknowledged:
    """What the children said before they died."""

    tries: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    """For each session the turns that were acknowledged, each with its try."""

    wrong: list[str] = field(default_factory=list[str])
    count: int = 0

    def hear(self, said: dict[str, Any]) -> None:
        if "error" in said:
            self.wrong.append(said["error"])
        if "session" not in said:
            return
        self.count += 1
        turns = self.tries.setdefault(said["session"], {})
        number = said["generation"]
        if number in turns:
            self.wrong.append(f"{said} was acknowledged before, as {turns[number]}")
        turns[number] = said["try"]


def live_and_die(child: Child, acknowledged: Acknowledged, choose: random.Random) -> None:
    """Let a child take some turns, kill it at some moment after that, and hear what it said until then.

    Some are killed before they have taken one: while they take up what the last one left.
    """
    turns = 0 if choose.random() < 0.2 else choose.randint(1, 60)
    moment = choose.uniform(0.0, 0.02) if turns else choose.uniform(0.0, 1.0)
    opened = child.hear()
    assert opened is not None, child.complaints()
    enough = acknowledged.count + turns
    while acknowledged.count < enough:
        said = child.hear()
        assert said is not None, child.complaints()
        acknowledged.hear(said)
    time.sleep(moment)
    child.kill()
    while (said := child.hear()) is not None:
        acknowledged.hear(said)


def windows_in(store: Store) -> set[str]:
    """What the sessions of a room that was killed were at."""
    found: set[str] = set()
    for row in store.sessions():
        if row.owner is not None and row.free_at is None:
            found.add("in a turn")
        if row.intended > row.committed:
            found.add("in a commit hook, or around it")
        elif row.generation > row.committed:
            found.add("between a turn and its commit")
    return found or {"at rest"}


def finish(child: Child) -> dict[str, Any]:
    """Let a last child commit what was left. Returns the report of its drain."""
    opened = child.hear()
    assert opened is not None, child.complaints()
    said = child.hear()
    assert said is not None, child.complaints()
    assert "report" in said, said
    report: dict[str, Any] = said["report"]
    return report


def wrong_in(store: Store, memory: Path, acknowledged: Acknowledged, last: Child) -> list[str]:
    """Compare the ledger, the transcripts and what the memory provider was told."""
    rows = store.sessions()
    found = list(acknowledged.wrong)
    found += store.check()
    found += [
        f"{row.session_id} was not handed over by {row.owner}, which was drained"
        for row in rows
        if f":{last.pid}:" in (row.owner or "")
    ]
    found += [
        f"{row.session_id}: {row.committed} of {row.generation} are committed"
        for row in rows
        if row.committed != row.generation
    ]
    found += memories.violations(
        memories.parsed(memory.read_text()), {row.session_id: row.committed for row in rows}
    )
    generations = {row.session_id: row.generation for row in rows}
    for session in sorted(acknowledged.tries.keys() | generations.keys()):
        if session not in generations:
            found.append(f"{session} is unknown")
            continue
        messages = [(message.position, message.content) for message in store.messages(session)]
        tries = acknowledged.tries.get(session, {})
        found += [
            f"{session}: {wrong}"
            for wrong in transcripts.violations(messages, generations[session], tries)
        ]
    return found


@pytest.mark.timeout(300 + 10 * CRASHES)
def test_a_gateway_that_is_killed_at_any_moment_forgets_no_turn(
    url: str, family: Family, tmp_path: Path
) -> None:
    """D3: every acknowledged turn is in the ledger and in its transcript, in order and without a gap.
    The memory provider has learned each, under a token that was the same on every try."""
    choose = random.Random(f"{SEED}/{url.partition(':')[0]}")
    memory = tmp_path / "memory.log"
    memory.touch()
    acknowledged = Acknowledged()
    given = {
        "url": url,
        "memory": str(memory),
        "sessions": SESSIONS,
        "threads": THREADS,
        "policy": POLICY,
    }

    windows: Counter[str] = Counter()

    for number in range(CRASHES if sqlite_path(url) else CRASHES // 2):
        child = family.child("mortal", seed=f"{SEED}/{number}", **given)
        live_and_die(child, acknowledged, choose)
        child.bury()
        with open_store(url) as store:
            windows.update(windows_in(store))
    print(url.partition(":")[0], "was killed with a session", dict(windows.most_common()))  # noqa: T201  # `make crash` shows it
    last = family.child("mortal", seed=SEED, finish=True, **given)
    report = finish(last)

    assert report == {"failed": [], "abandoned": []}
    assert acknowledged.count > 0
    with open_store(url) as store:
        assert wrong_in(store, memory, acknowledged, last) == []
