"""The made-up traces are what they say, and the same from the same seed."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from dataclasses import replace
from statistics import median

import pytest

from greenroom.stress.traces._synthetic import CHAT, CRON, NAMES, STORM, synthesize
from greenroom.stress.traces._trace import Entry, TraceError, read_trace
from tests.house import ROOT

DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0


@functools.cache
def made(name: str) -> tuple[Entry, ...]:
    """A trace."""
    return tuple(synthesize(name))


def turns(name: str) -> list[Entry]:
    """Its turns."""
    return [entry for entry in made(name) if entry.event == "turn"]


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_what_the_generator_makes(name: str) -> None:
    path = ROOT / "benchmarks" / "traces" / f"{name}.jsonl.gz"
    assert tuple(read_trace(path)) == made(name)
    assert path.stat().st_size < 300_000
    assert path.read_bytes()[4:8] == bytes(4)


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_is_in_order_and_a_few_ten_thousand_turns_long(name: str) -> None:
    assert 20_000 < len(turns(name)) < 60_000
    assert all(one.time <= two.time for one, two in itertools.pairwise(made(name)))
    assert all(turn.seconds is not None and turn.seconds > 0 for turn in turns(name))
    assert made(name)[0].time >= 0.0


def test_another_seed_is_another_trace_of_the_same_kind() -> None:
    small = replace(CHAT, conversations=50)
    one, two = (list(synthesize("chat", seed=seed, chat=small)) for seed in (1, 2))
    assert one != two
    assert one == list(synthesize("chat", seed=1, chat=small))


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(TraceError, match="'chatt', only chat, cron, storm"):
        list(synthesize("chatt"))


def test_people_who_chat_sleep_at_night() -> None:
    hours = Counter(int(turn.time % DAY // HOUR) for turn in turns("chat"))
    night, afternoon = sum(hours[hour] for hour in (3, 4)), sum(hours[hour] for hour in (15, 16))
    assert afternoon > 5 * night


def test_few_people_chat_much_and_many_little() -> None:
    counts = sorted(Counter(turn.key for turn in turns("chat")).values(), reverse=True)
    assert sum(counts[: len(counts) // 10]) > 0.3 * sum(counts)
    assert median(counts) < sum(counts) / len(counts)


def test_chats_come_in_conversations_and_some_come_back_days_later() -> None:
    last: dict[str, Entry] = {}
    pauses: list[float] = []
    for turn in turns("chat"):
        if turn.key in last:
            pauses.append(turn.time - last[turn.key].time)
        last[turn.key] = turn
    within = sum(pause < 10 * MINUTE for pause in pauses) / len(pauses)
    assert 0.7 < within < 0.95
    assert sum(pause > DAY for pause in pauses) > 500
    assert any(entry.event == "end" for entry in made("chat"))


def test_jobs_come_at_their_moments_and_all_at_the_full_hour() -> None:
    jobs = [turn for turn in turns("cron") if turn.key.startswith("job-")]
    assert len(jobs) > 0.9 * len(turns("cron"))
    assert all(turn.time % (5 * MINUTE) <= CRON.jitter for turn in jobs)
    quarter = Counter(turn.key for turn in jobs if turn.key.startswith("job-15min-"))
    assert set(quarter.values()) == {4 * 24 * CRON.days}
    daily = Counter(turn.key for turn in jobs if turn.key.startswith("job-1440min-"))
    assert len(daily) == 900
    assert set(daily.values()) == {CRON.days}
    minutes = Counter(int(turn.time % HOUR // MINUTE) for turn in jobs)
    assert minutes[0] > 3 * minutes[15] > minutes[5] > minutes[7] == 0


def test_a_storm_has_hundreds_of_messages_in_minutes_and_many_groups_at_once() -> None:
    busiest: Counter[tuple[str, int]] = Counter()
    groups: dict[int, Counter[str]] = {}
    for turn in turns("storm"):
        window = int(turn.time // (10 * MINUTE))
        busiest[turn.key, window] += 1
        groups.setdefault(window, Counter())[turn.key] += 1
    assert len({turn.key for turn in turns("storm")}) <= STORM.groups
    assert busiest.most_common(1)[0][1] > 200
    stormy = [sum(count > 30 for count in window.values()) for window in groups.values()]
    assert max(stormy) >= STORM.together / 2
    assert median(stormy) <= 3
