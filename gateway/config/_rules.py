"""What each figure of the configuration may be. Pure: it looks at values, and says what is wrong.

Every text shows the value and says what would do, but for those that may hold a secret.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import parse_qsl, unquote

from greenroom import Policy
from greenroom.gateway._naming import check_tenant

if TYPE_CHECKING:
    from greenroom.gateway.config._config import Config

__all__ = [
    "CHOICES",
    "LONGEST",
    "Problem",
    "is_loopback",
    "passwords_in",
    "problems",
    "secret_values",
    "shown_url",
]

LONGEST = 1e9
"""Seconds: some thirty years. A room takes no more either."""

SHORTEST_SECRET = 16

CHOICES: Mapping[str, tuple[str, ...]] = {
    "busy": ("queue", "reject", "interrupt"),
    "durability": ("full", "normal", "off"),
    "log_format": ("text", "json"),
    "log_level": ("debug", "info", "warning", "error"),
}

_LEAST: Mapping[str, int] = {
    "max_running": 1,
    "max_waiting_total": 0,
    "max_body": 1,
    "max_header": 256,
    "max_sessions_per_token": 1,
    "max_streams": 1,
}
_SECONDS = (
    "wait_timeout",
    "turn_timeout",
    "interrupt_grace",
    "body_timeout",
    "send_timeout",
    "drain_deadline",
)
_MAY_BE_ZERO = frozenset({"interrupt_grace", "drain_deadline"})
_STORES = "sqlite:///relative/path, sqlite:////absolute/path or postgresql://user:password@host/database"
_SECRET_NAME = re.compile(r"(^|_)(key|secret|token|password|passwd|passphrase)$", re.IGNORECASE)
# Up to the last @: one that should have been quoted is part of the password, and so is a slash.
_PASSWORD = re.compile(r"(://[^:/@]*:)(.+)(?=@)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    name: str
    """The field. A figure of the policy is `policy.cap`, a token is `tokens.alice`."""

    text: str
    """What is wrong, and what would do."""

    where: str = ""
    """Where the value came from: an option, a variable, a key of a file. Empty: from a program."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


def problems(config: Config) -> Iterator[Problem]:
    """All that is wrong with a configuration."""
    yield from _address(config)
    yield from _numbers(config)
    yield from _choices(config)
    yield from _texts(config)
    yield from _web(config)
    yield from _tokens(config)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches what listens there.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _address(config: Config) -> Iterator[Problem]:
    host, port = config.host, config.port
    if not isinstance(host, str) or not re.fullmatch(r"[0-9A-Za-z._:%-]+", host):
        msg = f"host must be an address or a name, such as 127.0.0.1, ::1 or 0.0.0.0, not {host!r}"
        yield Problem("host", msg)
    elif not is_loopback(host) and not config.tokens:
        msg = (
            f"host {host!r} can be reached from other machines, and there is no token: "
            "set GREENROOM_TOKEN, or listen on 127.0.0.1"
        )
        yield Problem("host", msg)
    if not _is_whole(port) or not 0 <= port <= 65_535:
        yield Problem(
            "port", f"port must be a whole number from 0 (any free one) to 65535, not {port!r}"
        )


def _numbers(config: Config) -> Iterator[Problem]:
    for name, least in _LEAST.items():
        value = getattr(config, name)
        if not _is_whole(value) or value < least:
            yield Problem(name, f"{name} must be a whole number, {least} or more, not {value!r}")
    for name in _SECONDS:
        value = getattr(config, name)
        if value is None and name == "turn_timeout":
            continue
        shortest = 0.0 if name in _MAY_BE_ZERO else 1e-3
        if not _is_number(value) or not shortest <= value <= LONGEST:
            none = " (or none to switch it off)" if name == "turn_timeout" else ""
            yield Problem(
                name, f"{name} must be {shortest:g} to {LONGEST:g} seconds{none}, not {value!r}"
            )


def _choices(config: Config) -> Iterator[Problem]:
    for name, allowed in CHOICES.items():
        value = getattr(config, name)
        if value not in allowed:
            yield Problem(name, f"{name} must be {' or '.join(allowed)}, not {value!r}")


def _texts(config: Config) -> Iterator[Problem]:
    for name, longest in (("agent", 500), ("model", 200)):
        value = getattr(config, name)
        if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
            msg = f"{name} must be 1 to {longest} printable characters, not {_short(value)}"
            yield Problem(name, msg)
    store = config.store
    if store is not None and (not isinstance(store, str) or not _is_store(store)):
        # What was given is not shown: it may hold a password, and be wrong just because of it.
        yield Problem("store", f"store must be a URL ({_STORES}) or none, and this is no such URL")
    options = config.agent_options
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        msg = f"agent_options must be options by their names, not {type(options).__name__}"
        yield Problem("agent_options", msg)
    policy: object = config.policy
    if not isinstance(policy, Policy):
        yield Problem("policy", f"policy must be a greenroom.Policy, not {policy!r}")


def _is_store(url: str) -> bool:
    return url.startswith(("sqlite://", "postgresql://")) and url.isprintable()


def _web(config: Config) -> Iterator[Problem]:
    for name in ("allowed_hosts", "allowed_origins"):
        if not isinstance(getattr(config, name), tuple):
            yield Problem(name, f"{name} must be a tuple of texts, not {getattr(config, name)!r}")
            return
    for host in config.allowed_hosts:
        if not isinstance(host, str) or not re.fullmatch(r"(\*\.)?[0-9A-Za-z._:\[\]-]+", host):
            msg = (
                "allowed_hosts must be names such as chat.example.org, without http:// or a path: "
                f"not {host!r}"
            )
            yield Problem("allowed_hosts", msg)
    for origin in config.allowed_origins:
        if not isinstance(origin, str) or not re.fullmatch(r"https?://[0-9A-Za-z._:\[\]-]+", origin):
            msg = (
                "allowed_origins must be origins such as https://chat.example.org, each by its name and "
                f"without a path: not {origin!r}"
            )
            yield Problem("allowed_origins", msg)


def _tokens(config: Config) -> Iterator[Problem]:
    names: set[str] = set()
    secrets: dict[str, str] = {}
    for token in config.tokens:
        field = f"tokens.{token.name}"
        for text in _wrong_with(token.name, token.secret, token.operator):
            yield Problem(field, text)
        if token.name in names:
            yield Problem(field, f"two tokens are called {token.name!r}: each needs a name of its own")
        elif token.secret in secrets:
            msg = f"the tokens {secrets[token.secret]!r} and {token.name!r} have the same secret"
            yield Problem(field, f"{msg}: nobody could tell who calls")
        names.add(token.name)
        secrets.setdefault(token.secret, token.name)


def _wrong_with(name: object, secret: object, operator: object) -> Iterator[str]:
    try:
        check_tenant(name if isinstance(name, str) else "")
    except ValueError as error:
        yield str(error)
    if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET:
        length = len(secret) if isinstance(secret, str) else 0
        yield (
            f"the secret of token {name!r} must be {SHORTEST_SECRET} characters or more, not {length}: "
            "`openssl rand -hex 32` makes one"
        )
    elif not re.fullmatch(r"[!-~]+", secret):
        yield f"the secret of token {name!r} must be printable ASCII characters without spaces"
    if not isinstance(operator, bool):
        yield f"operator of token {name!r} must be true or false, not {operator!r}"


def shown_url(url: str) -> str:
    """A URL without the secrets in it.

    >>> shown_url("postgresql://me:hush@db/chat")
    'postgresql://me:***@db/chat'
    """
    shown = _PASSWORD.sub(r"\1***", url)
    for secret in passwords_in(url):
        shown = shown.replace(f"={secret}", "=***")
    return shown


def passwords_in(url: str) -> list[str]:
    """The passwords in the URL of a store, as they are written there and as they are meant."""
    written = [found[2] for found in _PASSWORD.finditer(url)]
    query = url.partition("?")[2]
    written += [value for name, value in parse_qsl(query) if "pass" in name or "secret" in name]
    return [text for one in written for text in dict.fromkeys((one, unquote(one)))]


def secret_values(options: Mapping[str, Any]) -> list[str]:
    """The values of options that are called as secrets are: `api_key`, `token`, `password`, …"""
    return [
        value
        for name, value in options.items()
        if _SECRET_NAME.search(name) and isinstance(value, str) and value
    ]


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]} and more"
