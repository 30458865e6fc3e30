"""Drives an app without a socket: a scope in, messages out. What is left is the app's own time."""

from __future__ import annotations

import asyncio
import time
from time import perf_counter_ns
from typing import Any

from fastapi import FastAPI

from benchmarks.gateway.agents import PATH, body_for, check_answer, session_name
from benchmarks.latency import Figures, figures_of

Message = dict[str, Any]


class Visit:
    """One request, as uvicorn would hand it to the app."""

    __slots__ = ("_asked", "_body", "parts", "status")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._asked = False
        self.status = 0
        self.parts: list[bytes] = []

    async def receive(self) -> Message:
        """The body; after that, a client that stays."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.parts.append(message.get("body", b""))


async def drive(app: FastAPI, kind: str, seconds: float) -> Figures:
    """Requests of one session, one after another: the time of each, and the processor's."""
    body = body_for(kind)
    headers = headers_for(kind, body)
    taken: list[int] = []
    cpu, deadline = time.process_time(), perf_counter_ns() + int(seconds * 1e9)
    while not taken or perf_counter_ns() < deadline:
        begin = perf_counter_ns()
        visit = Visit(body)
        await app(scope_of(headers), visit.receive, visit.send)
        taken.append(perf_counter_ns() - begin)
        check_answer(kind, visit.status, b"".join(visit.parts))
    cpu = time.process_time() - cpu
    return figures_of(taken) | {"each": sum(taken) / len(taken) / 1e3, "cpu": cpu * 1e6 / len(taken)}


def headers_for(kind: str, body: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-greenroom-session", session_name(kind, 0).encode()),
    ]


def scope_of(headers: list[tuple[bytes, bytes]]) -> Message:
    """A new one for each request: apps write to it."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 50_000),
        "scheme": "http",
        "method": "POST",
        "root_path": "",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "headers": headers,
        "state": {},
    }
