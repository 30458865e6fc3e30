"""Holds many event streams open, from a process of its own.

    python -m tests.gateway.stream_clients PORT COUNT

Prints "open N" when each of them has had the whole picture; closes them all, without a word, at the
first line of input, and prints "closed".
"""

from __future__ import annotations

import resource
import selectors
import socket
import sys

REQUEST = b"GET /room/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
AT_ONCE = 200


def main(port: int, count: int) -> None:
    """Open them, a few at a time, and wait."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    clients: list[socket.socket] = []
    while len(clients) < count:
        clients += _open(port, min(AT_ONCE, count - len(clients)))
    sys.stdout.write(f"open {len(clients)}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for client in clients:
        client.close()
    sys.stdout.write("closed\n")
    sys.stdout.flush()


def _open(port: int, count: int) -> list[socket.socket]:
    clients = [socket.create_connection(("127.0.0.1", port), timeout=20.0) for _ in range(count)]
    for client in clients:
        client.sendall(REQUEST)
    with selectors.DefaultSelector() as selector:
        heard: dict[socket.socket, bytes] = dict.fromkeys(clients, b"")
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
        by_number = {client.fileno(): client for client in clients}
        waiting = set(clients)
        while waiting:
            for found, _ in selector.select(20.0) or sys.exit("no answer"):
                client = by_number[found.fd]
                heard[client] += client.recv(65536)
                assert heard[client].startswith(b"HTTP/1.1 200"), heard[client][:300]
                if b"event: room" in heard[client]:
                    waiting.discard(client)
    return clients


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
