"""What is measured: the scenarios, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.contenders import OURS
from benchmarks.gateway import NAMES as ALL
from benchmarks.gateway import PLAIN, TITLES
from benchmarks.gateway.agents import PIECES, STREAM, WHOLE
from benchmarks.results import Cast

SESSIONS = 32
"""Concurrent ones, each with a connection of its own."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    repetitions: int
    seconds: float
    """For one measurement of one contender."""

    warm_up: float
    """Seconds of each scenario that do not count."""

    streams: int
    """At once, on one process."""

    stream_pieces: int
    pace: float
    """Seconds from one piece of a slow stream to the next."""

    ramp: float
    """Seconds over which the slow streams begin: fewer than they take."""

    stream_repetitions: int


FULL = Scale(
    repetitions=9,
    seconds=1.5,
    warm_up=0.5,
    streams=1_000,
    stream_pieces=PIECES,
    pace=0.2,
    ramp=1.0,
    stream_repetitions=5,
)
QUICK = Scale(
    repetitions=2,
    seconds=0.2,
    warm_up=0.05,
    streams=200,
    stream_pieces=10,
    pace=0.1,
    ramp=0.5,
    stream_repetitions=1,
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    title: str
    kind: str
    connections: int = 0
    """0: without sockets, through the app's own interface."""

    contenders: tuple[str, ...] = ALL
    """Who is put through it."""


SCENARIOS = (
    Scenario(name="whole_1", title="1 connection", kind=WHOLE, connections=1),
    Scenario(name="whole_32", title=f"{SESSIONS} connections", kind=WHOLE, connections=SESSIONS),
    Scenario(name="stream_1", title="1 connection, streamed", kind=STREAM, connections=1),
    Scenario(
        name="stream_32", title=f"{SESSIONS} connections, streamed", kind=STREAM, connections=SESSIONS
    ),
    Scenario(name="asgi_whole", title="without sockets", kind=WHOLE),
    Scenario(name="asgi_stream", title="without sockets, streamed", kind=STREAM),
)

STREAMS = Scenario(name="streams", title="slow streams at once", kind=STREAM, contenders=(OURS, PLAIN))
"""Measured apart, in processes that have done nothing else: memory that was left over would count."""

CAST = Cast(contenders=TITLES, scenarios={s.name: s.title for s in (*SCENARIOS, STREAMS)})
RATED = CAST.playing(*(s.name for s in SCENARIOS))
