"""Sockets to listen on."""

from __future__ import annotations

import os
import socket

__all__ = ["bind", "close", "url_of"]


def bind(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that the host has. Port 0: a free one, the same for all.

    Raises `OSError` with a text that says which address, and what to do.
    """
    bound: list[socket.socket] = []
    try:
        for address in _addresses(host, port):
            bound.append(_bind(host, *address, port or _port(bound)))
    except OSError:
        close(bound)
        raise
    return bound


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        msg = f"the host {host!r} has no address ({error}): set host to one of this machine's"
        raise OSError(msg) from error
    families = (socket.AF_INET, socket.AF_INET6)
    return list(
        dict.fromkeys((family, str(at[0])) for family, _, _, _, at in found if family in families)
    )


def _bind(host: str, family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
    except OSError as error:
        made.close()
        msg = (
            f"cannot listen on {host}:{port} ({error.strerror}): choose another host or port, or end "
            "what uses it"
        )
        raise OSError(error.errno, msg) from error
    return made


def _port(bound: list[socket.socket]) -> int:
    return int(bound[0].getsockname()[1]) if bound else 0


def close(bound: list[socket.socket]) -> None:
    """Give them back."""
    for each in bound:
        each.close()


def url_of(bound: list[socket.socket]) -> str:
    """Where somebody on this machine finds the first of them."""
    name = bound[0].getsockname()
    host, port = str(name[0]), int(name[1])
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
