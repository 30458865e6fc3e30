"""Replay: what would this policy have done with that trace? In virtual time, in seconds.

`VirtualRoom` is where the turns are had. What is left out: builds, commits and teardowns take no time,
and a turn takes as long as it took when it was recorded, whoever else is at work.

`tests/stress/test_replay.py` holds this against a real room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from greenroom import Policy
from greenroom.stress.traces._replay_room import VirtualRoom
from greenroom.stress.traces._trace import Entry, with_lengths

__all__ = ["Replayed", "Trace", "replay", "replay_one"]

TURN_SECONDS = 1.0
"""How long a turn takes of which the trace does not tell it."""

LOOK_EVERY = 2000
"""How many events are replayed between two looks at the progress."""

Happening = tuple[float, str, float]
"""When, whose, and how many seconds a turn takes; less than none: the session ends."""

_ENDS = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace in memory, ready to be replayed any number of times."""

    happenings: tuple[Happening, ...]
    turns: int
    sessions: int
    without_length: int
    """Turns of which the trace does not tell how long they took."""

    @classmethod
    def of(cls, entries: Iterable[Entry], *, turn_seconds: float = TURN_SECONDS) -> Trace:
        """Take the turns and ends of a trace; a turn without a length takes `turn_seconds`."""
        if not 0 <= turn_seconds < math.inf:
            msg = f"turn_seconds must be 0 or more, not {turn_seconds!r}"
            raise ValueError(msg)
        kept = with_lengths(entries)
        turns = [entry for entry in kept if entry.event == "turn"]
        first = kept[0].time if kept else 0.0
        names: dict[str, str] = {}  # one string a session, however many turns it has
        return cls(
            happenings=tuple(
                (
                    entry.time - first,
                    names.setdefault(entry.key, entry.key),
                    _length(entry, turn_seconds),
                )
                for entry in kept
            ),
            turns=len(turns),
            sessions=len({entry.key for entry in turns}),
            without_length=sum(entry.seconds is None for entry in turns),
        )

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        return self.happenings[-1][0] if self.happenings else 0.0


def _length(entry: Entry, turn_seconds: float) -> float:
    if entry.event == "end":
        return _ENDS
    return turn_seconds if entry.seconds is None else entry.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a policy would have done."""

    policy: Policy
    turns: int
    """That began."""

    hits: int
    builds: int
    rebuilds: int
    """Builds for a session that had had an agent, and had not been ended: what the policy costs."""

    releases: Mapping[str, int]
    """Agents let go before the end, by reason: `capacity`, `idle`, `memory`, `session-expired`, and
    `explicit` for those that the trace ended."""

    peak: int
    """Agents, at most, after whoever could be let go was."""

    mean: float
    """Agents, on average over the time."""

    agent_hours: float
    held: int
    """Turns at whose begin there were more agents than the cap, because the least recently used were in
    a turn."""

    at_once: int
    """Turns at once, at most."""

    waited: int
    """Turns that came while their session was in another."""

    refused: int
    """Turns that came while `max_waiting` others waited for the same session."""

    seconds: float
    """Of the trace, until the last turn had ended."""

    @property
    def hit_rate(self) -> float | None:
        """The share of turns that found their agent."""
        return self.hits / self.turns if self.turns else None

    def to_json(self) -> dict[str, Any]:
        """Everything, as what `json` can write."""
        told = asdict(self)
        names = ("cap", "idle_ttl", "sweep_every", "session_ttl", "memory_budget", "max_waiting")
        told["policy"] = {name: getattr(self.policy, name) for name in names}
        told["releases"] = dict(self.releases)
        told["hit_rate"] = self.hit_rate
        return told


def replay(
    trace: Trace,
    policies: Sequence[Policy],
    *,
    agent_bytes: int = 0,
    progress: Callable[[float], None] | None = None,
) -> list[Replayed]:
    """Replay a trace against each of these policies.

    `agent_bytes` is what an agent weighs, for policies with a `memory_budget` in bytes. `progress` is
    called now and then, with the share that is done.
    """
    outcomes: list[Replayed] = []
    for number, policy in enumerate(policies):

        def so_far(share: float, number: int = number) -> None:
            if progress is not None:
                progress((number + share) / len(policies))

        outcomes.append(replay_one(trace, policy, agent_bytes=agent_bytes, progress=so_far))
    return outcomes


def replay_one(
    trace: Trace,
    policy: Policy,
    *,
    agent_bytes: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Replayed:
    """Replay a trace against one policy."""
    room = VirtualRoom(policy, agent_bytes)
    told = monotonic()
    for number, (time, key, seconds) in enumerate(trace.happenings):
        room.pass_time(time)
        if seconds >= 0.0:
            room.come(key, seconds, time)
        else:
            room.end(key)
        if progress is not None and number % LOOK_EVERY == 0 and monotonic() > told + 0.1:
            told = monotonic()
            progress(number / len(trace.happenings))
    room.finish()
    if progress is not None:
        progress(1.0)
    return Replayed(
        policy=policy,
        turns=room.hits + room.builds,
        hits=room.hits,
        builds=room.builds,
        rebuilds=room.rebuilds,
        releases=dict(room.reasons),
        peak=room.peak,
        mean=room.mean,
        agent_hours=room.agent_seconds / 3600.0,
        held=room.held,
        at_once=room.at_once,
        waited=room.waited,
        refused=room.refused,
        seconds=room.now,
    )
