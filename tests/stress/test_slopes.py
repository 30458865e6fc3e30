"""A slope has an error that can be relied on, also where neighbours are alike."""

from __future__ import annotations

import random
import statistics

import pytest

from greenroom.stress._slopes import FEWEST, line_through, slopes
from tests.stress.test_figures import second


def test_a_line_is_found_as_it_is() -> None:
    at = [float(second) for second in range(100)]
    slope = line_through("memory", at, [500.0 + 2.0 * one for one in at])
    assert slope.an_hour == pytest.approx(7200.0)
    assert slope.error == pytest.approx(0.0, abs=1e-6)
    assert [slope.first, slope.last] == pytest.approx([500.0, 698.0])
    assert slope.samples == 100


def test_the_error_is_as_large_as_slopes_of_flat_noise_vary() -> None:
    chance = random.Random(5)
    found = [
        line_through("files", [float(at) for at in range(200)], [chance.gauss(0, 1) for _ in range(200)])
        for _ in range(200)
    ]
    varies = statistics.stdev(slope.an_hour for slope in found)
    assert statistics.mean(slope.error for slope in found) == pytest.approx(varies, rel=0.2)


def test_neighbours_that_are_alike_make_the_error_larger() -> None:
    chance = random.Random(5)
    found = []
    for _ in range(200):
        level, levels = 0.0, []
        for _ in range(300):
            level = 0.8 * level + chance.gauss(0, 1)
            levels.append(level)
        found.append(line_through("memory", [float(at) for at in range(300)], levels))
    varies = statistics.stdev(slope.an_hour for slope in found)
    # What textbooks say would be a third of it.
    assert statistics.mean(slope.error for slope in found) == pytest.approx(varies, rel=0.25)


def test_the_warm_up_is_left_out() -> None:
    rows = [second(float(at), memory=10**9 if at <= 10 else 500, threads=4) for at in range(1, 101)]
    memory, threads = slopes(rows)
    assert (memory.name, memory.an_hour, memory.samples) == ("memory", 0.0, 90)
    assert (threads.name, threads.an_hour, threads.first, threads.last) == ("threads", 0.0, 4.0, 4.0)


def test_the_warm_up_of_a_long_run_is_two_minutes() -> None:
    rows = [second(float(at), files=3) for at in range(1, 3601)]
    assert [slope.samples for slope in slopes(rows)] == [3480]


def test_through_few_samples_no_line_is_drawn() -> None:
    assert slopes([]) == ()
    assert slopes([second(float(at), memory=1) for at in range(1, FEWEST)]) == ()
