"""Hundreds of clients, of which most come to no good end: nothing of them is left behind.

They vanish in the middle of a stream, hang up in the queue, ask for what takes too long, and send what
is no request, among others that behave. All of it happens several times over. What the server holds
after the last rounds is compared with what it held after earlier ones: what grows with each request
shows.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import logging
import operator
import pickle
import re
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from greenroom import Policy
from greenroom.gateway._agent import ChatRequest
from tests.gateway.guarded import Guarded, guarded
from tests.gateway.raw import Raw, ask, chat, connect, request
from tests.room.agents import until

pytestmark = pytest.mark.timeout(300)  # thousands of requests take long where many tests run at once

JSON = {"Content-Type": "application/json"}
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"

VANISHING, QUEUED, LATE, GOOD, LOOKING = 25, 20, 5, 25, 5
WARM, SOME_ROUNDS = 3, 3

GARBAGE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a client that speaks TLS
    b"what is this?\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: local",
    b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n",
    request("POST", CHAT, JSON, b'{"messages": [{"role": "user", "content": "half')[:-9],
    request("POST", CHAT, JSON, b"[1, 2"),
    request("POST", CHAT, JSON, b"\xff\xfe\x00"),
    request("POST", CHAT, {**JSON, "X-Greenroom-Session": "a\tb"}, chat("hello")),
    request("DELETE", "/v1/sessions/nobody"),
    request("PUT", "/nowhere"),
)


class Talker:
    """Answers at once, or without an end, or never."""

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        text = request.messages[-1]["content"]
        while text == "for ever":
            yield "and so on "
            await asyncio.sleep(0)
        if text == "never":
            await asyncio.get_running_loop().create_future()
        yield "this is all"

    async def commit_memory_session(self) -> None: ...


def talkers(_: Any, **__: Any) -> Talker:
    return Talker()


def asked(text: str, session: str | None = None, *, stream: bool = True) -> bytes:
    headers = JSON if session is None else {**JSON, "X-Greenroom-Session": session}
    return request("POST", CHAT, headers, chat(text, stream=stream))


# What clients do.


def vanish_in_mid_stream(server: Guarded) -> int:
    clients = [Raw(server.port) for _ in range(VANISHING)]
    for number, client in enumerate(clients):
        client.send(asked("for ever", f"v{number}" if number % 2 else None))
    for client in clients:
        client.read_until(b"and so on")
        client.reset()
    return len(clients)


def hang_up_in_the_queue(server: Guarded) -> int:
    holder, clients = Raw(server.port), [Raw(server.port) for _ in range(QUEUED)]
    holder.send(asked("for ever", "busy"))
    holder.read_until(b"and so on")
    for number, client in enumerate(clients):
        client.send(asked("hello", "busy", stream=bool(number % 2)))
    until(lambda: server.stage.admission.figures().get()[1] == QUEUED, "a queue")
    for number, client in enumerate(clients):
        (client.reset if number % 3 else client.hang_up)()
    until(lambda: server.stage.admission.figures().get()[1] == 0, "an empty queue")
    holder.reset()
    return 1 + len(clients)


def take_too_long(server: Guarded) -> int:
    usual = server.stage.config
    server.stage.reconfigure(replace(usual, turn_timeout=0.2))
    with ExitStack() as stack:
        stack.callback(server.stage.reconfigure, usual)
        clients = [stack.enter_context(connect(server.port)) for _ in range(LATE)]
        for number, client in enumerate(clients):
            client.send(asked("never", f"late{number}" if number % 2 else None, stream=False))
        assert [client.answer().status for client in clients] == [504] * LATE
    return len(clients)


def send_garbage(server: Guarded) -> int:
    for sent in GARBAGE:
        with connect(server.port) as client:
            client.send(sent)
    return len(GARBAGE)


def behave(server: Guarded) -> int:
    for number in range(GOOD):
        with connect(server.port) as client:  # three requests on one connection
            for session in (f"good{number}", None):
                client.send(asked("hello", session, stream=False))
                assert client.answer().status == 200
            client.send(asked("hello"))
            assert b"[DONE]" in client.answer().body
    return 3 * GOOD


def respond(server: Guarded) -> int:
    """Sessions without a name, which are forgotten, and a response without a session."""
    for _ in range(GOOD):
        body = json.dumps({"input": "hello"}).encode()
        answer = ask(server.port, "POST", RESPONSES, JSON, body)
        session = answer.headers["x-greenroom-session"]
        gone = ask(server.port, "DELETE", f"/v1/sessions/{session}?forget=true")
        assert (gone.status, gone.json["forgotten"]) == (200, True)
        body = json.dumps({"input": "hello", "store": False}).encode()
        assert ask(server.port, "POST", RESPONSES, JSON, body).status == 200
    return 3 * GOOD


def look_on(server: Guarded) -> int:
    clients = [Raw(server.port) for _ in range(LOOKING)]
    for client in clients:
        client.send(request("GET", "/room/events"))
        client.read_until(b"event: room")
    for client in clients:
        client.reset()
    return len(clients)


ALL_OF_THEM = (
    vanish_in_mid_stream,
    hang_up_in_the_queue,
    take_too_long,
    send_garbage,
    behave,
    respond,
    look_on,
)


# What is left of them.


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Guarded]:
    """A server with a store. Nothing is logged: pytest would keep it, and count as a leak."""
    logging.disable(logging.CRITICAL)
    try:
        with guarded(
            talkers,
            store=f"sqlite:///{tmp_path}/greenroom.db",
            policy=Policy(max_waiting=2 * QUEUED),
        ) as server:
            yield server
    finally:
        logging.disable(logging.NOTSET)


def a_round(server: Guarded, tasks: int) -> int:
    """All of it once, and then nothing, as far as anybody can see. Returns how many requests it was."""
    requests = sum(clients(server) for clients in ALL_OF_THEM)
    server.wait_quiet(tasks)
    server.call(server.stage.wait_chores())
    server.stage.room.settle()
    until(lambda: not any(thread.name == "greenroom-aside" for thread in threading.enumerate()), "rest")
    return requests


HOLDERS = {dict, list, set, deque, OrderedDict}


def objects() -> Counter[str]:
    """How many of each type there are, and how much is in those that hold others."""
    gc.collect()
    found: Counter[str] = Counter({BLOCKS: sys.getallocatedblocks()})
    for one in gc.get_objects():
        kind = f"{type(one).__module__}.{type(one).__qualname__}"
        found[kind] += 1
        if type(one) in HOLDERS:  # and not what this here is counted in
            found[f"in {kind}"] += len(one)
    return found


BLOCKS = "blocks of memory"
"""The collector does not know of text, nor of a dict with text and numbers only."""

KEPT = {
    "asyncio.events.TimerHandle": 100,  # asyncio sweeps cancelled timers when it has so many of them
    "_contextvars.Context": 100,  # each timer has one
    "builtins.hamt": 100,  # and each of these one or several
    "builtins.hamt_bitmap_node": 200,
    "weakref.ReferenceType": 1000,  # sqlite3 forgets cursors of a connection by the two hundred
    "in builtins.list": 1000,  # those again
    BLOCKS: 500,  # all of the above comes and goes: one for each request would be more
}
"""What others keep for a while, and how many of it at most."""

POOLS = re.compile(
    r"greenroom-\d+-(build|commit|events|helper|release|store)-\d+|asyncio_\d+|greenroom-store_\d+"
)
MOST_WORKERS = 100


def threads() -> tuple[list[str], int]:
    """Their names, and how many workers there are besides: as many as there was work for at once."""
    names = [thread.name for thread in threading.enumerate()]
    rest = [name for name in names if not POOLS.fullmatch(name)]
    return sorted(rest), len(names) - len(rest)


def test_nothing_is_left_of_clients_that_come_to_no_good_end(server: Guarded) -> None:
    before = server.tasks() + 1  # what looks on for the page stays, once there was one
    requests, held = 0, list[bytes]()
    for _ in range(WARM):
        requests += a_round(server, before)
    named, _ = threads()
    for _ in range(3 * SOME_ROUNDS):
        requests += a_round(server, before)
        held.append(pickle.dumps(objects()))  # as one block: it would count itself, otherwise
    assert requests > 1000

    # The least of several rounds: what is on its way out after one of them is gone after another.
    first, second, third = (
        least(held[at : at + SOME_ROUNDS]) for at in range(0, len(held), SOME_ROUNDS)
    )
    few = SOME_ROUNDS * QUEUED - 10  # something for each client of a kind would be more
    # And twice: what is there once and for all, as a module that something rare loads, does not grow.
    more = {name: min(some - second[name], second[name] - first[name]) for name, some in third.items()}
    assert {name: some for name, some in more.items() if some > few + KEPT.get(name, 0)} == {}
    now, workers = threads()
    assert (now, workers < MOST_WORKERS) == (named, True)


def least(held: list[bytes]) -> Counter[str]:
    return functools.reduce(operator.and_, map(pickle.loads, held))


def test_the_store_has_nothing_of_requests_without_a_session(server: Guarded) -> None:
    a_round(server, server.tasks() + 1)

    assert server.stage.room.store is not None
    names = {row.session_id.partition("/")[2] for row in server.stage.room.store.sessions(limit=1000)}
    assert names - {f"v{number}" for number in range(VANISHING)} == {
        *(f"good{number}" for number in range(GOOD)),
        *(f"late{number}" for number in range(1, LATE, 2)),
        "busy",
    }
