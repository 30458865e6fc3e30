"""Many processes that want the same sessions never have one at the same time.

`make crash` watches them for a minute; here it is a few seconds (`GREENROOM_CRASH_SECONDS`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from greenroom.store import open_store
from tests.crash import history

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.process import Family

SECONDS = float(os.environ.get("GREENROOM_CRASH_SECONDS", "4"))
PROCESSES, THREADS, SESSIONS = 8, 2, 5


@pytest.mark.timeout(300 + 3 * SECONDS)
def test_turns_of_eight_processes_never_overlap_and_are_counted_once(
    url: str, family: Family, tmp_path: Path
) -> None:
    """T3: one turn at a time for each session, whoever takes it; generations are handed out once, in
    order and without a gap; an epoch has one writer."""
    log = tmp_path / "history.log"
    log.touch()
    open_store(url).close()
    rivals = [
        family.child("rival", url=url, log=str(log), seed=seed, sessions=SESSIONS, threads=THREADS)
        for seed in range(PROCESSES)
    ]
    for rival in rivals:
        assert rival.hear() == {"ready": rival.pid}, rival.complaints()

    for rival in rivals:
        rival.say({"seconds": SECONDS})
    for rival in rivals:
        assert rival.hear(60.0 + SECONDS) == {"errors": []}, rival.complaints()

    turns = history.parsed(log.read_text())
    with open_store(url) as store:
        ledger = {row.session_id: row.generation for row in store.sessions()}
        assert store.check() == []
    assert history.violations(turns, ledger) == []
    assert len({turn.writer for turn in turns}) > 1, "only one of them ever had a turn"
    assert len({(turn.session, turn.epoch) for turn in turns}) > len(ledger), "nothing changed hands"
