"""Rooms that are killed at any step, or run side by side, on one store: 200 histories.

`make histories` has more of them.
"""

from __future__ import annotations

import os

import pytest

from tests.leftovers import SWITCH_INTERVAL
from tests.simulation.crashes import run
from tests.simulation.test_room import ONE_THREAD, chunks

SEEDS, CHUNK = 200, 10


@pytest.mark.skipif(SWITCH_INTERVAL in os.environ, reason=ONE_THREAD)
@pytest.mark.parametrize("first", chunks(SEEDS, CHUNK))
def test_no_acknowledged_turn_is_forgotten_in_any_history(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run(seed)


def test_the_histories_are_worth_telling() -> None:
    """Rooms in which nobody completes a turn forget none."""
    histories = [run(seed) for seed in range(20)]

    turns = [sum(map(len, history.acknowledged.values())) for history in histories]
    epochs = [row.epoch for history in histories for row in history.shelf.rows.values()]
    tokens = [ended for history in histories for ended in history.provider.ended.values()]

    assert sum(turns) > 500
    assert sum(epoch > 3 for epoch in epochs) > 20, "sessions hardly change hands"
    assert sum(len(ended) > len(set(ended)) for ended in tokens) > 3, "no commit is ever made twice"
