"""Turns arrive as their distributions say. Seeds are fixed and bounds wide: nothing is by chance."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter

import pytest

from greenroom.stress import _arrivals
from greenroom.stress._arrivals import BURST_SPREAD, Popularity, planned
from greenroom.stress._length import WEDGED
from greenroom.stress._target import Planned
from greenroom.stress._workload import ARRIVALS, Length, Workload


def turns(**fields: object) -> list[Planned]:
    return list(planned(Workload(**{"seed": 11, **fields})))  # type: ignore[arg-type]  # any of its fields


def a_second(arrived: list[Planned], duration: int) -> list[int]:
    counts = Counter(int(one.at) for one in arrived)
    return [counts[second] for second in range(duration)]


def spread(counts: list[int]) -> float:
    return statistics.variance(counts) / statistics.mean(counts)


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_the_same_seed_makes_the_same_turns_and_another_one_others(arrivals: str) -> None:
    once, again = (turns(arrivals=arrivals, duration=5.0) for _ in range(2))
    assert once == again
    assert once != turns(arrivals=arrivals, duration=5.0, seed=12)


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_turns_come_in_order_at_their_rate_and_until_the_duration(arrivals: str) -> None:
    arrived = turns(arrivals=arrivals, rate=200.0, duration=120.0, wave_period=30.0)
    times = [one.at for one in arrived]
    assert times == sorted(times)
    assert times[0] > 0.0
    assert 119.0 < times[-1] < 120.0
    assert len(arrived) == pytest.approx(24_000, rel=0.06)
    assert [one.number for one in arrived] == list(range(1, len(arrived) + 1))


def test_steady_arrivals_know_nothing_of_each_other() -> None:
    arrived = turns(rate=100.0, duration=200.0)
    gaps = [b.at - a.at for a, b in itertools.pairwise(arrived)]
    assert spread(a_second(arrived, 200)) == pytest.approx(1.0, abs=0.35)
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)


def test_bursts_come_together_and_have_their_size_on_average() -> None:
    arrived = turns(arrivals="bursty", burst=20, rate=100.0, duration=400.0)
    assert spread(a_second(arrived, 400)) > 10.0
    rare = turns(arrivals="bursty", burst=20, rate=2.0, duration=20_000.0)
    apart = [b.at - a.at > BURST_SPREAD for a, b in itertools.pairwise(rare)]
    assert len(rare) / (1 + sum(apart)) == pytest.approx(20, rel=0.15)


def test_bursts_of_one_are_a_steady_stream() -> None:
    arrived = turns(arrivals="bursty", burst=1, rate=100.0, duration=200.0)
    assert spread(a_second(arrived, 200)) == pytest.approx(1.0, abs=0.35)


def test_a_wave_is_high_in_its_first_half_and_low_in_its_second() -> None:
    arrived = turns(arrivals="wave", wave_period=20.0, wave_depth=0.8, rate=200.0, duration=200.0)
    quarters = Counter(int(one.at % 20.0 // 5.0) for one in arrived)
    high, low = quarters[0] + quarters[1], quarters[2] + quarters[3]
    # The mean of the sine over half a period is 2/pi: 1 + 0.8 * 0.64 against 1 - 0.8 * 0.64.
    assert high / low == pytest.approx(1.51 / 0.49, rel=0.1)


def test_a_wave_without_depth_is_steady() -> None:
    arrived = turns(arrivals="wave", wave_depth=0.0, wave_period=20.0, rate=100.0, duration=200.0)
    assert spread(a_second(arrived, 200)) == pytest.approx(1.0, abs=0.35)


def test_popularity_follows_zipf_s_law() -> None:
    counts = Counter(one.key for one in turns(sessions=1000, popularity=1.0, rate=1000.0))
    first = 1.0 / sum(1.0 / rank for rank in range(1, 1001))
    assert counts["chat:1"] / counts.total() == pytest.approx(first, rel=0.1)
    assert counts["chat:1"] / counts["chat:2"] == pytest.approx(2.0, rel=0.15)
    assert counts["chat:1"] / counts["chat:10"] == pytest.approx(10.0, rel=0.25)


def test_without_popularity_all_sessions_are_alike() -> None:
    counts = Counter(one.key for one in turns(sessions=50, popularity=0.0, rate=1000.0))
    assert set(counts) == {f"chat:{number}" for number in range(1, 51)}
    assert max(counts.values()) < 1.3 * min(counts.values())


def test_every_session_can_be_drawn_and_none_beside_them() -> None:
    class Edge:
        """Draws the ends of what `random()` may return."""

        def __init__(self, value: float) -> None:
            self.value = value

        def random(self) -> float:
            return self.value

    for exponent in (0.0, 1.0, 2.5):
        popularity = Popularity(7, exponent)
        assert popularity.draw(Edge(0.0)) == 1  # type: ignore[arg-type]  # all that is used of it
        assert popularity.draw(Edge(1.0 - 2.0**-53)) == 7  # type: ignore[arg-type]


def test_a_million_sessions_are_drawn_from_as_well_as_ten() -> None:
    counts = Counter(one.key for one in turns(sessions=10**6, popularity=1.0, rate=1000.0, duration=5.0))
    assert counts["chat:1"] > counts["chat:3"] > 0
    assert len(counts) > 1000


def test_turns_fail_end_and_hang_as_often_as_asked() -> None:
    arrived = turns(fail_turn=0.1, end=0.02, turn=Length.parse("10ms!0.05"), rate=1000.0, duration=20.0)
    share = len(arrived)
    assert sum(one.fails for one in arrived) / share == pytest.approx(0.1, rel=0.15)
    assert sum(one.ends for one in arrived) / share == pytest.approx(0.02, rel=0.25)
    assert sum(one.seconds == WEDGED for one in arrived) / share == pytest.approx(0.05, rel=0.2)
    assert not any(one.fails or one.ends for one in turns())


def test_the_popularity_of_many_sessions_is_made_before_the_run_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a million of them would make its first turns late."""
    made: list[int] = []

    class Counted(Popularity):
        def __init__(self, sessions: int, exponent: float) -> None:
            made.append(sessions)
            super().__init__(sessions, exponent)

    monkeypatch.setattr(_arrivals, "Popularity", Counted)
    planned(Workload(sessions=7))
    assert made == [7]
