"""What may stand between a room and its server: it cuts connections, stays silent, or is a pooler."""

from __future__ import annotations

import select
import selectors
import shutil
import socket
import struct
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.actors.actors import PATIENCE, Gate, in_thread, join_all

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Proxy", "as_a_pooler"]

SOCKET = ".s.PGSQL.5432"
KEY_DATA = b"K\x00\x00\x00\x0c"
"""How a server begins to tell its process id."""


def as_a_pooler(answer: bytes) -> bytes:
    """Change what a server answers as a pooler does, which has process ids of its own."""
    at = answer.find(KEY_DATA)
    if at < 0:
        return answer
    at += len(KEY_DATA)
    (pid,) = struct.unpack("!i", answer[at : at + 4])
    return answer[:at] + struct.pack("!i", pid + 1) + answer[at + 4 :]


class Proxy:
    """A socket in a folder of its own, in front of that of a server."""

    def __init__(self, url: str, change: Callable[[bytes], bytes] = bytes) -> None:
        """`change`: what becomes of what the server answers."""
        self.folder = Path(tempfile.mkdtemp(prefix="greenroom-proxy-"))  # a socket needs a short path
        server, _, rest = url.partition("host=")[2].partition("&")
        self.url = url.replace(f"host={server}", f"host={self.folder}")
        assert rest, url
        self._server = f"{server}/{SOCKET}"
        self._change = change
        self._flowing = threading.Event()
        self._flowing.set()
        self._held: tuple[bytes, Gate] | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self.folder}/{SOCKET}")
        self._listener.listen()
        self._threads.append(in_thread(self._accept))

    def cut(self) -> None:
        """Close all connections, on both sides."""
        for pair in self._pairs:
            for end in pair:
                _shut(end)

    def cut_server_side(self) -> None:
        """Close them for the server, and go on as if nothing had happened for the clients."""
        self.stall()
        for _, server in self._pairs:
            _shut(server)

    def stall(self) -> None:
        """Pass nothing on any more."""
        self._flowing.clear()

    def flow(self) -> None:
        """Pass on what has come, and will."""
        self._flowing.set()

    def hold(self, what: bytes) -> Gate:
        """Hold the next packet of a client that has this in it, and all behind it on that connection."""
        gate = Gate()
        self._held = what, gate
        return gate

    def _let_pass(self, data: bytes) -> bytes:
        """What a client has sent."""
        if self._held is not None and self._held[0] in data:
            gate, self._held = self._held[1], None
            gate.wait()
        return data

    def left(self) -> int:
        """How many connections their clients have closed."""
        return sum(_is_closed_at_its_other_end(client) for client, _ in self._pairs)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._pairs.append((client, server))
            self._threads.append(in_thread(partial(self._pump, client, server)))

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        with selectors.DefaultSelector() as selector, client, server:
            selector.register(client, selectors.EVENT_READ, (client, server, self._let_pass))
            selector.register(server, selectors.EVENT_READ, (server, client, self._change))
            while True:
                for key, _ in selector.select():
                    origin, target, change = key.data
                    try:
                        data = origin.recv(65536)
                        assert self._flowing.wait(PATIENCE)
                        target.sendall(change(data))
                    except OSError:
                        return
                    if not data:
                        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flow()
        _shut(self._listener)
        self._listener.close()
        self.cut()
        join_all(self._threads)
        shutil.rmtree(self.folder)


def _is_closed_at_its_other_end(end: socket.socket) -> bool:
    if end.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(end)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed
