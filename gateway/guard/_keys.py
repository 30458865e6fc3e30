"""Who holds a token, and who has shown one to the page before.

    Authorization: Bearer <secret>         programs
    Cookie: greenroom=<name>.<until>.<mac>  the page, after `POST /login`

A secret is looked at only through a keyed hash, which is compared with that of every token, in constant
time: how long an answer takes tells neither how much of a secret is right, nor its length, nor whose.

The cookie holds no secret. It is signed with a key made of the token's secret and of a secret of this
process: a token that is changed or taken away takes its cookies with it, and so does the process's end.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from greenroom.gateway._naming import Caller

if TYPE_CHECKING:
    from greenroom.gateway._stage import Stage
    from greenroom.gateway.config._config import Config, Token

__all__ = ["COOKIE", "LIFETIME", "LOCAL", "KeyRing", "Keys"]

COOKIE = "greenroom"
"""The name of the page's cookie."""

LIFETIME = 12 * 3600
"""For how many seconds it is good."""

LOCAL = Caller("local", operator=True)
"""Everybody, where no token is configured: the server is on loopback then."""

_OURS = secrets.token_bytes(32)
_LONGEST_COOKIE = 256


class Keys:
    """The tokens of one configuration."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.needed = bool(config.tokens)
        """Whether anybody needs a token at all."""
        self._digests = [(_digest(token.secret.encode()), token) for token in config.tokens]
        self._callers = {token.name: Caller(token.name, token.operator) for token in config.tokens}

    def token(self, secret: bytes) -> Token | None:
        """The token that has this secret."""
        given, found = _digest(secret), None
        for digest, token in self._digests:
            if hmac.compare_digest(digest, given):
                found = token  # and on: all of them are compared, whichever it is
        return found

    def caller(self, token: Token) -> Caller:
        """Whose token it is."""
        return self._callers[token.name]

    def caller_of_bearer(self, authorization: bytes) -> Caller | None:
        """Who sends this `Authorization`."""
        scheme, _, secret = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        token = self.token(secret.strip())
        return None if token is None else self.caller(token)

    def cookie(self, token: Token, until: int) -> str:
        """A value for the cookie, for whoever has shown this token."""
        body = f"{token.name}.{until}"
        return f"{body}.{_sign(token, body)}"

    def caller_of_cookie(self, cookies: bytes, now: float) -> Caller | None:
        """Who sends this `Cookie`."""
        for text in cookies.decode("latin-1").split(";"):
            name, _, value = text.strip().partition("=")
            if name == COOKIE and len(value) <= _LONGEST_COOKIE and value.isascii():
                return self._caller_of_value(value, now)
        return None

    def _caller_of_value(self, value: str, now: float) -> Caller | None:
        body, _, mac = value.rpartition(".")
        name, _, until = body.rpartition(".")
        for _, token in self._digests:
            if token.name == name and hmac.compare_digest(_sign(token, body), mac):
                return self.caller(token) if int(until) > now else None
        return None


class KeyRing:
    """The keys of a stage: those of the configuration that holds at the moment."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._keys = Keys(stage.config)

    @property
    def keys(self) -> Keys:
        """What holds now."""
        if self._keys.config is not self._stage.config:
            self._keys = Keys(self._stage.config)
        return self._keys


def _digest(secret: bytes) -> bytes:
    return hashlib.blake2b(secret, key=_OURS, digest_size=32).digest()


def _sign(token: Token, body: str) -> str:
    key = hmac.digest(_OURS, b"cookie\0" + token.secret.encode(), "sha256")
    return hmac.digest(key, body.encode(), "sha256").hex()
