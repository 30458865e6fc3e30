"""Which names the server answers to, and which web pages may call it. Pure: it decides, by headers.

A browser sends what any page asks it to, to any address that it can reach, this one included. Two
headers, which a page cannot forge, tell that apart:

    Host      what the browser believes to talk to. A page of evil.example whose name suddenly leads to
              127.0.0.1 (DNS rebinding) still says evil.example here
    Origin    whose page asks. Only our own, and those that the operator names, may

An address cannot be rebound, and neither can a name that only ever leads to this machine. So the names
of loopback are always fine; addresses are fine if the server listens for other machines; all other names
must be configured. Ports are not looked at, unless a configured name has one: they are often forwarded.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.gateway.config._config import Config

__all__ = ["Hosts"]

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::([0-9]{1,5}))?")
_REMEMBERED = 256


class Hosts:
    """The names and origins of one configuration."""

    def __init__(self, config: Config) -> None:
        address = _address(config.host)
        self._any_address = address is not None and not address.is_loopback
        self._names = {"localhost", config.host.lower(), *_own_name(self._any_address)}
        self._configured = {_split(_bracketed(name)) for name in config.allowed_hosts if name[0] != "*"}
        self._below = [_split(name[2:]) for name in config.allowed_hosts if name.startswith("*.")]
        self._origins = {origin.lower().encode() for origin in config.allowed_origins}
        self._known: set[bytes] = set()

    def allows(self, header: bytes) -> bool:
        """Whether this is a `Host` that the server answers to."""
        if header in self._known:
            return True
        allowed = self._allows(header.decode("latin-1"))
        if allowed and len(self._known) < _REMEMBERED:
            self._known.add(header)
        return allowed

    def _allows(self, text: str) -> bool:
        name, port = _split(text)
        if not name:
            return False
        address = _address(name)
        if address is not None and (address.is_loopback or self._any_address):
            return True
        if name in self._names or (name, "") in self._configured or (name, port) in self._configured:
            return True
        return address is None and any(
            name.endswith(f".{above}") and wanted in ("", port) for above, wanted in self._below
        )

    def owns(self, origin: bytes, scheme: str, host: bytes) -> bool:
        """Whether a page of this origin came from the server itself, as `host`.

        A proxy in front may speak TLS where the server does not; the other way round is not believed.
        """
        kind, _, name = origin.lower().partition(b"://")
        return name == host.lower() and kind in (b"https", scheme.encode())

    def trusts(self, origin: bytes) -> bool:
        """Whether the operator lets pages of this origin call."""
        return bool(self._origins) and origin.lower() in self._origins


def _own_name(wanted: bool) -> set[str]:
    return {socket.gethostname().lower()} if wanted else set()


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _split(text: str) -> tuple[str, str]:
    """The name and the port of a host; addresses always in the same spelling. Nonsense has no name."""
    found = _HOST.fullmatch(text.lower())
    if found is None:
        return "", ""
    name = found[1].strip("[]").removesuffix(".")
    address = _address(name)
    return name if address is None else str(address), found[2] or ""


def _bracketed(host: str) -> str:
    """As a header has it: an address of IPv6 may be configured without brackets."""
    return f"[{host}]" if host.count(":") > 1 and "[" not in host else host
