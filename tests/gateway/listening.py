"""A client of the event stream, that keeps what it hears."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.actors.actors import PATIENCE
from tests.gateway.serving import Serving

__all__ = ["Ear", "listening"]


class Ear:
    """One connection, and the room as it looks from there."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.room: dict[str, Any] = {}
        self.rows: dict[str, dict[str, Any]] = {}
        self.happened: list[dict[str, Any]] = []
        self.names: list[str] = []

    def hear(self) -> str:
        """Wait for the next event, and return its name; empty at the end."""
        name, data = "", ""
        while (line := self._response.readline().decode().rstrip("\n")) or name:
            if not line:
                self._take(name, json.loads(data))
                return name
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data = value
        return ""

    def _take(self, name: str, data: Any) -> None:
        self.names.append(name)
        if name == "room":
            self.room = data
            self.rows = {row["key"]: row for row in data["sessions"]}
            self.happened += data["happened"]
        elif name == "change":
            self.room |= data.get("set", {})
            self.rows |= {row["key"]: row for row in data.get("rows", [])}
            for key in data.get("gone", []):
                self.rows.pop(key, None)
            if "order" in data:
                self.rows = {key: self.rows[key] for key in data["order"]}
        elif name == "happened":
            self.happened += data

    def until(self, seen: Callable[[], Any]) -> Any:
        """Listen until something is so."""
        while not (found := seen()):
            assert self.hear(), f"the stream ended, after {self.names}"
        return found

    def heard(self, kind: str, key: str) -> dict[str, Any]:
        """Listen until something of this kind has happened to a session, and return that."""
        found: dict[str, Any] = self.until(
            lambda: next((e for e in self.happened if (e["kind"], e["key"]) == (kind, key)), None)
        )
        return found

    def state(self, key: str, *states: str) -> dict[str, Any]:
        """Listen until a session is in one of these states, and return its row."""
        found: dict[str, Any] = self.until(
            lambda: self.rows.get(key) if self.rows.get(key, {}).get("state") in states else None
        )
        return found


@contextlib.contextmanager
def listening(server: Serving) -> Iterator[Ear]:
    """Listen while the block runs."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/room/events")
        response = connection.getresponse()
        assert response.status == 200, response.read()
        with contextlib.closing(response):
            yield Ear(response)
