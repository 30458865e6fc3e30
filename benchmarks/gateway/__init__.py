"""greenroom's gateway beside the same route without greenroom, both over HTTP on one process.

    greenroom          the gateway as it is, without a store
    the same route     the same app, guard, body and answer, but its route calls the agent itself: agents
                       are in a dict by session, nothing is admitted, nobody sees to one turn a session
    … with sqlite3     that route, which writes a row for each answer, on a thread
    FastAPI alone      that route in an app of its own, without a guard
    SQLite, …          the gateway with a store: every turn is recorded, or only read for

So what greenroom takes longer than the second is what a turn costs: admission, the session's actor, and
seeing whether the client is still there. The server has a process of its own. The load comes from
another one, through raw sockets that stay open (`calls`, `replies`): the client is not what is measured.

What is measured is in `scenarios`, what is expected in `bars`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.contenders import OURS
from benchmarks.stores import READS_ONLY, SQLITE_NORMAL

PLAIN = "plain_route"
BY_HAND = "route_with_sqlite3"
BARE = "fastapi_alone"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One contender: how its app is made."""

    title: str
    app: Literal["gateway", "plain", "bare"]
    durability: Literal["normal", "off"] = "normal"
    store: bool = False


PARTS = {
    OURS: Part(title="greenroom", app="gateway"),
    PLAIN: Part(title="the same route", app="plain"),
    BY_HAND: Part(title="… with sqlite3", app="plain", store=True),
    BARE: Part(title="FastAPI alone", app="bare"),
    SQLITE_NORMAL: Part(title="SQLite, normal", app="gateway", store=True),
    READS_ONLY: Part(title="SQLite, only read", app="gateway", store=True, durability="off"),
}
NAMES = tuple(PARTS)
TITLES = {name: part.title for name, part in PARTS.items()}

NOTES = {
    PLAIN: (
        "the gateway's app, guard, body and answer, but the route calls the agent itself, which it finds"
        " in a dict by session; streams are Starlette's StreamingResponse"
    ),
    BY_HAND: (
        "that route, which also writes what greenroom's ledger does for each answer: one UPDATE of the"
        " session's row, with sqlite3 on one thread, in a write-ahead log with synchronous = normal"
    ),
    BARE: "that route, in an app that has nothing else",
    SQLITE_NORMAL: "greenroom with a store: each turn is in the ledger before its answer is sent",
    READS_ONLY: "greenroom with a store, durability off: a look at the transcript's version, no writes",
}

DISTRIBUTIONS = (
    "greenroom",
    "pykka",
    "fastapi",
    "starlette",
    "pydantic",
    "uvicorn",
    "uvloop",
    "httptools",
)
