"""Made-up traces: three kinds of gateway, each a few ten thousand turns, the same from the same seed.

    chat     people who chat with an assistant, for a week
    cron     jobs on exact schedules, for two days, and some people between them
    storm    group chats, for a day, in which everybody writes at once when something happens

They are made of what such traffic is like everywhere: few write much and many write little (Zipf), a day
has a wave, messages come in conversations with pauses to think in between, and answers take a log-normal
time. The figures are in `CHAT`, `CRON` and `STORM`; nothing in them was fitted to somebody's data. Where
you have a server of your own, record it: that is worth more than any of these.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from greenroom.stress.traces._trace import Entry, TraceError

__all__ = ["CHAT", "CRON", "NAMES", "STORM", "Chat", "Cron", "Storm", "synthesize"]

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

Moment = tuple[float, str, str, float | None]
"""When, who, what, for how long: an entry before they are in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """People and their conversations."""

    days: float = 7.0
    people: int = 3000
    conversations: int = 5200
    """In all. Whose each is goes by Zipf: the busiest come several times a day, most people once in the
    whole time or never."""

    popularity: float = 0.75
    """The exponent."""

    turns: float = 6.0
    """Of a conversation, on average (geometric: one in six has a single turn)."""

    think: tuple[float, float] = (45.0, 1.1)
    """Seconds from an answer to the next message, median and sigma: some come back after an hour."""

    returns: float = 0.15
    """The share of conversations that are taken up again, half a day to four days later."""

    ends: float = 0.05
    """The share that ends with a `/new`: the session is over."""

    wave: float = 0.85
    """How deep the night is: at 4 o'clock this share of the day's average is missing."""

    turn: tuple[float, float] = (6.0, 0.8)
    """Seconds that an answer takes, median and sigma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Schedules and people. Schedules go by the wall clock: all of them meet at the full hour."""

    days: float = 2.0
    every: tuple[tuple[float, int], ...] = (
        (5 * MINUTE, 24),
        (15 * MINUTE, 60),
        (HOUR, 250),
        (DAY, 900),
    )
    """How often, and how many jobs do that. Each job is a session of its own."""

    jitter: float = 2.0
    """Seconds after the moment within which a scheduler gets round to it."""

    turn: tuple[float, float] = (15.0, 0.7)
    people: int = 150
    conversations: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """Groups. In a storm one group writes hundreds of messages in minutes; when something happens in
    the world, many groups have one at once."""

    days: float = 1.0
    groups: int = 220
    murmur: int = 9000
    """Messages outside of storms. Whose each is goes by Zipf, and when by the wave of the day."""

    storms: int = 40
    """Of one group, at any time of the day."""

    events: int = 3
    """Moments at which many groups have a storm within two minutes …"""

    together: int = 30
    """… and how many."""

    messages: tuple[float, float] = (130.0, 0.7)
    """Of a storm, median and sigma."""

    minutes: tuple[float, float] = (9.0, 0.4)
    """For how long it goes on."""

    popularity: float = 1.0
    wave: float = 0.7
    turn: tuple[float, float] = (1.0, 0.6)


CHAT, CRON, STORM = Chat(), Cron(), Storm()


class _Dice:
    """Draws, by means of `random()` alone: of what is built on it Python promises no sequence."""

    def __init__(self, seed: int) -> None:
        self.share = random.Random(seed).random

    def exponential(self, mean: float) -> float:
        return -mean * math.log(1.0 - self.share())

    def normal(self) -> float:
        radius = math.sqrt(-2.0 * math.log(1.0 - self.share()))
        return radius * math.cos(2.0 * math.pi * self.share())

    def log_normal(self, median: float, sigma: float) -> float:
        return median * math.exp(sigma * self.normal())

    def geometric(self, mean: float) -> int:
        """One or more."""
        if mean <= 1.0:
            return 1
        return 1 + int(math.log(1.0 - self.share()) / math.log(1.0 - 1.0 / mean))

    def zipf(self, count: int, exponent: float) -> Callable[[], int]:
        """A function that draws a rank from 0."""
        sums = list(itertools.accumulate((rank + 1) ** -exponent for rank in range(count)))
        return lambda: bisect.bisect_left(sums, self.share() * sums[-1])

    def moment(self, days: float, wave: float) -> float:
        """Some moment, more likely in the afternoon than at 4 in the morning."""
        while True:
            moment = self.share() * days * DAY
            level = 1.0 - wave * math.cos(2.0 * math.pi * (moment - 4 * HOUR) / DAY)
            if self.share() * (1.0 + wave) < level:
                return moment


def synthesize(
    name: str,
    *,
    seed: int = 0,
    chat: Chat = CHAT,
    cron: Cron = CRON,
    storm: Storm = STORM,
) -> Iterator[Entry]:
    """The trace of that name, in order of time."""
    dice = _Dice(seed)
    if name == "chat":
        moments = _chat(dice, chat)
    elif name == "cron":
        moments = _cron(dice, cron)
    elif name == "storm":
        moments = _storm(dice, storm)
    else:
        msg = f"there is no made-up trace called {name!r}, only {', '.join(NAMES)}"
        raise TraceError(msg)
    heap = list(moments)
    heapq.heapify(heap)
    while heap:
        moment, key, event, seconds = heapq.heappop(heap)
        yield Entry(moment, key, event, seconds)


NAMES = ("chat", "cron", "storm")


def _chat(dice: _Dice, chat: Chat, prefix: str = "person") -> Iterator[Moment]:
    whose = dice.zipf(chat.people, chat.popularity)
    horizon = chat.days * DAY
    for _ in range(chat.conversations):
        key = f"{prefix}-{whose() + 1}"
        begin = dice.moment(chat.days, chat.wave)
        end = yield from _conversation(dice, chat, key, begin, horizon)
        if dice.share() < chat.returns:
            again = end + (0.5 + 3.5 * dice.share()) * DAY
            end = yield from _conversation(dice, chat, key, again, horizon)
        if dice.share() < chat.ends and end < horizon:
            yield _round(end + 1.0), key, "end", None


def _conversation(
    dice: _Dice, chat: Chat, key: str, begin: float, horizon: float
) -> Generator[Moment, None, float]:
    """One, up to the horizon. Returns when it ended."""
    time = begin
    for _ in range(dice.geometric(chat.turns)):
        if time >= horizon:
            break
        seconds = dice.log_normal(*chat.turn)
        yield _turn(time, key, seconds)
        time += seconds + dice.log_normal(*chat.think)
    return time


def _cron(dice: _Dice, cron: Cron) -> Iterator[Moment]:
    for every, jobs in cron.every:
        for job in range(jobs):
            key = f"job-{every / MINUTE:g}min-{job + 1}"
            # What runs once a day runs at some full hour; all else at multiples of its period.
            offset = int(dice.share() * 24) * HOUR if every >= DAY else 0.0
            for number in range(int((cron.days * DAY - offset - 1) // every) + 1):
                moment = offset + number * every + dice.share() * cron.jitter
                yield _turn(moment, key, dice.log_normal(*cron.turn))
    people = Chat(days=cron.days, people=cron.people, conversations=cron.conversations)
    yield from _chat(dice, people)


def _storm(dice: _Dice, storm: Storm) -> Iterator[Moment]:
    whose = dice.zipf(storm.groups, storm.popularity)
    for _ in range(storm.murmur):
        moment = dice.moment(storm.days, storm.wave)
        yield _turn(moment, f"group-{whose() + 1}", dice.log_normal(*storm.turn))
    begins = [(dice.moment(storm.days, storm.wave), whose()) for _ in range(storm.storms)]
    for _ in range(storm.events):
        moment = dice.moment(storm.days, storm.wave)
        for _ in range(storm.together):
            begins.append((moment + dice.share() * 2 * MINUTE, int(dice.share() * storm.groups)))
    for begin, group in begins:
        minutes = dice.log_normal(*storm.minutes)
        for _ in range(int(dice.log_normal(*storm.messages))):
            # It swells and ebbs away: the sum of two shares.
            moment = begin + minutes * MINUTE * (dice.share() + dice.share()) / 2
            if moment < storm.days * DAY:
                yield _turn(moment, f"group-{group + 1}", dice.log_normal(*storm.turn))


def _turn(moment: float, key: str, seconds: float) -> Moment:
    return _round(moment), key, "turn", max(0.1, _round(seconds))


def _round(seconds: float) -> float:
    """To a tenth: what a different logarithm would make of the last digit is of no account."""
    return round(seconds, 1)
