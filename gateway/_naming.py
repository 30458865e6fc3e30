"""Who calls, and what their sessions are called in the room.

A session's key in the room is `tenant/session`. The tenant is the name of the caller's token and has no
slash in it, the rest is what the caller calls the session. Keys are only ever made here, from a caller:
there is no name of a session that leads to another tenant's.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from dataclasses import dataclass

__all__ = [
    "LONGEST_SESSION",
    "Caller",
    "check_session",
    "check_tenant",
    "new_response_id",
    "new_session",
    "session_of",
]

LONGEST_SESSION = 200
"""How many characters a caller may give a session's name."""

_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_RESPONSE = re.compile(r"resp_[0-9a-f]{16}([a-z2-7]*)")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever has sent a request, as their token says."""

    tenant: str
    operator: bool = False
    """Whether they may see and command the whole room."""

    def key(self, session: str) -> str:
        """The room's key of a session of theirs. Raises `ValueError` for what cannot be a name."""
        return f"{self.tenant}/{check_session(session)}"

    def session(self, key: str) -> str | None:
        """What they call the session of this key. `None` if it is not theirs."""
        tenant, _, session = key.partition("/")
        return session if tenant == self.tenant else None


def check_tenant(name: str) -> str:
    """Raise `ValueError` for what cannot be the name of a token."""
    if not _TENANT.fullmatch(name):
        msg = (
            "a token's name is 1 to 32 of a-z, 0-9, '.', '_', '-', and begins with a letter or digit, "
            f"not {name[:80]!r}"
        )
        raise ValueError(msg)
    return name


def check_session(name: str) -> str:
    """Raise `ValueError` for what cannot be the name of a session."""
    if not 0 < len(name) <= LONGEST_SESSION or not name.isprintable():
        msg = (
            f"a session's name is 1 to {LONGEST_SESSION} printable characters, not "
            f"{name[:80]!r}{' and more' if len(name) > 80 else ''}"
        )
        raise ValueError(msg)
    return name


def new_session(prefix: str = "chat") -> str:
    """A name that no session has yet."""
    return f"{prefix}-{secrets.token_hex(8)}"


def new_response_id(session: str) -> str:
    """An id for a response, which tells the session that it belongs to."""
    name = base64.b32encode(session.encode()).decode().rstrip("=").lower()
    return f"resp_{secrets.token_hex(8)}{name}"


def session_of(response_id: str) -> str:
    """The session of a response. Raises `ValueError` for what is no id of a response."""
    found = _RESPONSE.fullmatch(response_id)
    if found is None:
        msg = f"{response_id[:80]!r} is not the id of a response"
        raise ValueError(msg)
    name = found[1].upper()
    try:
        return check_session(base64.b32decode(name + "=" * (-len(name) % 8)).decode())
    except (binascii.Error, UnicodeDecodeError) as error:
        msg = f"{response_id[:80]!r} is not the id of a response"
        raise ValueError(msg) from error
