"""A client that sends what it is told to, byte for byte, and reads when it is told to, or never."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.actors.actors import PATIENCE


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The code of the error that it is."""
        code: str | None = self.json["error"]["code"]
        return code


class Raw:
    """A connection."""

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(("127.0.0.1", port))
        self._incoming = self._socket.makefile("rb")

    def send(self, data: bytes | str) -> None:
        self._socket.sendall(data.encode() if isinstance(data, str) else data)

    def answer(self, method: str = "GET") -> Answer:
        """Read one answer to its end."""
        source: Any = _Source(self._incoming)
        response = http.client.HTTPResponse(source, method=method)
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())

    def read_until(self, wanted: bytes) -> bytes:
        """Read as far as this, at least."""
        data = b""
        while wanted not in data:
            more = self._incoming.read1(65536)
            assert more, f"it ended without {wanted!r}: {data[-500:]!r}"
            data += more
        return data

    def rest(self) -> bytes:
        """Read until the server closes. A reset counts as that."""
        data = b""
        with contextlib.suppress(ConnectionError):
            while more := self._incoming.read1(65536):
                data += more
        return data

    def hang_up(self) -> None:
        self._incoming.close()
        self._socket.close()

    def reset(self) -> None:
        """Be gone at once, as a process that is killed with data unread."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.hang_up()


class _Source:
    """What an answer is read from. It stays open, with what has come of the next one."""

    def __init__(self, incoming: io.BufferedReader) -> None:
        self.makefile = lambda _: self
        self.readline = incoming.readline
        self.read = incoming.read
        self.readinto = incoming.readinto

    def flush(self) -> None: ...

    def close(self) -> None: ...


@contextlib.contextmanager
def connect(port: int, *, receive_buffer: int | None = None) -> Iterator[Raw]:
    client = Raw(port, receive_buffer=receive_buffer)
    try:
        yield client
    finally:
        client.hang_up()


def request(
    method: str,
    path: str,
    headers: Mapping[str, str] | list[tuple[str, str]] = {},  # noqa: B006  # never changed
    body: bytes = b"",
    *,
    host: str | None = "localhost",
) -> bytes:
    """A request as it goes over the wire."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    if host is not None:
        pairs = [("Host", host), *pairs]
    if body:
        pairs = [*pairs, ("Content-Length", str(len(body)))]
    head = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def ask(
    port: int,
    method: str,
    path: str,
    headers: Mapping[str, str] | list[tuple[str, str]] = {},  # noqa: B006  # never changed
    body: bytes = b"",
    *,
    host: str | None = "localhost",
) -> Answer:
    """Send a request on a connection of its own."""
    with connect(port) as client:
        client.send(request(method, path, headers, body, host=host))
        return client.answer(method)


def chat(text: str, *, stream: bool = False, **more: Any) -> bytes:
    """The body of a chat completion."""
    return json.dumps(
        {"messages": [{"role": "user", "content": text}], "stream": stream, **more}
    ).encode()
