"""How profiles group functions."""

from __future__ import annotations

import pytest

from benchmarks.profiles.groups import GROUPS, group_of
from benchmarks.workers import ROOT

DECISIONS = next(iter(GROUPS))


@pytest.mark.parametrize(
    "pattern",
    [
        "actors/session/machine/*.py",
        "actors/session/generations.py",
        "actors/ledger/accounts.py",
        "actors/ledger/coherence.py",
        "supervisor/drain.py",
        "supervisor/eviction.py",
    ],
)
def test_what_decides_and_does_nothing_is_a_group(pattern: str) -> None:
    files = list(ROOT.glob(pattern))
    assert files
    for file in files:
        assert group_of(f"decide (greenroom/{file.relative_to(ROOT)})") == DECISIONS
