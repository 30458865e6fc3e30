"""Tells a service manager how the server is: systemd's protocol, a datagram of lines to a Unix socket.

Where no manager listens (no `NOTIFY_SOCKET`), nothing is sent and nothing fails. Nothing here waits: a
manager that does not read is not told, and the server goes on.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

__all__ = ["Notifier", "watchdog_seconds"]

logger = logging.getLogger("greenroom.gateway")


class Notifier:
    """Sends what changes, to the address that systemd gives in `NOTIFY_SOCKET`."""

    def __init__(self, address: str | None) -> None:
        """`address`: a path, or `@` and a name in the abstract namespace. `None`: nobody listens."""
        self._socket: socket.socket | None = None
        if not address:
            return
        if address[0] not in "/@":
            logger.warning(
                "NOTIFY_SOCKET is %r, neither a path nor '@name': nobody is notified", address
            )
            return
        self._address = "\0" + address[1:] if address[0] == "@" else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Notifier:
        """One for whoever has started this process."""
        return cls(environment.get("NOTIFY_SOCKET"))

    @property
    def heard(self) -> bool:
        """Whether there is somebody to tell."""
        return self._socket is not None

    def tell(self, **state: object) -> None:
        """Send values under the names that `sd_notify(3)` lists: `tell(READY=1, STATUS="listening")`."""
        if self._socket is None:
            return
        # A line's end within a value would begin another one.
        lines = [f"{name}={' '.join(str(value).splitlines())}" for name, value in state.items()]
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            logger.warning("The service manager could not be told %s: %s", ", ".join(state), error)

    def reloading(self) -> None:
        """It reads its configuration again; `READY=1` says that it is done."""
        self.tell(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)

    def close(self) -> None:
        """Send nothing any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """Within how many seconds the manager wants to hear `WATCHDOG=1` again. `None`: it does not."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # meant for another process, from which we have inherited it
    try:
        seconds = int(environment.get("WATCHDOG_USEC", "0")) / 1e6
    except ValueError:
        logger.warning("WATCHDOG_USEC is %r, not a number: no beats", environment["WATCHDOG_USEC"])
        return None
    return seconds if seconds > 0 else None
