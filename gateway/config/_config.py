"""What can be configured, in one frozen object, checked as it is made.

    Config(port=99_999, busy="later")       raises BadConfig, which names both

What each may be is in `_rules.py`, and where the values come from is the affair of `_sources.py`. Which
of them cannot change while the server runs is said here, by `NEEDS_RESTART`: all the others can.

**Promises**
  - A `Config` that exists makes sense: no part of the server checks a figure again.
  - It listens on loopback, or it has a token.
  - No secret is in its `repr`, or in the text of a `BadConfig`: neither a token, nor the password in the
    URL of a store, nor an option of an agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from greenroom import Policy
from greenroom.gateway.config import _rules
from greenroom.gateway.config._rules import Problem

__all__ = [
    "NEEDS_RESTART",
    "BadConfig",
    "Config",
    "Problem",
    "Token",
    "changed_names",
    "live_changes",
]

NEEDS_RESTART = frozenset({"host", "port", "store", "durability", "agent", "log_format"})
"""What a running server cannot change. Everything else is live: limits, timeouts, tokens, figures of the
policy, options of the agent (unless it is another agent), the model's name, the log level."""


class BadConfig(ValueError):
    """The configuration makes no sense. `problems` tells all that is wrong, and not only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token, and whose it is."""

    name: str
    """The tenant: whoever uses this token sees this tenant's sessions."""

    secret: str = field(repr=False)
    """What is sent after `Authorization: Bearer`."""

    operator: bool = True
    """Whether it also opens the page, and with it the whole room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that can be configured. Durations are seconds, sizes are bytes."""

    host: str = "127.0.0.1"
    """The address to listen on. Other than loopback it takes a token."""

    port: int = 8765
    """0: any that is free."""

    store: str | None = field(default=None, repr=False)
    """The URL of the database for transcripts and completed turns. `None`: they end with the process."""

    durability: str = "normal"
    """`full`: a power cut costs nothing. `normal`: it may cost the last moments. `off`: no ledger."""

    agent: str = "offline"
    """What answers: `module:factory`, or the name of an entry point of the group `greenroom.agents`."""

    agent_options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """What the factory is called with."""

    model: str = "greenroom"
    """What `/v1/models` lists, and what agents are told."""

    policy: Policy = field(default_factory=lambda: Policy(session_ttl=86_400.0))
    """How many agents are kept, and for how long."""

    busy: str = "queue"
    """What becomes of a second message for a session in a turn: `queue`, `reject` or `interrupt`."""

    max_running: int = 64
    """How many turns run at once."""

    max_waiting_total: int = 1000
    """How many turns may wait, over all sessions."""

    wait_timeout: float = 60.0
    """How long a request waits for its turn."""

    turn_timeout: float | None = 600.0
    """How long a turn may take. `None`: as long as it likes."""

    interrupt_grace: float = 5.0
    """How long an agent that was interrupted may take to end, before it is let go of."""

    tokens: tuple[Token, ...] = ()
    """Who may call. Nobody named: everybody on this machine."""

    allowed_hosts: tuple[str, ...] = ()
    """Names that clients may call the server by, besides its address and those of loopback."""

    allowed_origins: tuple[str, ...] = ()
    """Web sites whose pages may call the API from a browser, such as `https://chat.example.org`."""

    max_body: int = 1_048_576
    """The largest body of a request."""

    max_header: int = 16_384
    """The most that the headers of a request may take."""

    max_sessions_per_token: int = 1000
    """How many live sessions a token may have."""

    max_streams: int = 20_000
    """How many pages may watch at once."""

    body_timeout: float = 20.0
    """How long a client may take to send a body."""

    send_timeout: float = 30.0
    """How long a client may take to accept what is sent to it."""

    drain_deadline: float = 30.0
    """How long turns and commits may take to end when the server is told to."""

    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`."""

    log_format: str = "text"
    """`text`, or `json` for one JSON object a line."""

    def __post_init__(self) -> None:
        problems = list(_rules.problems(self))
        if problems:
            raise BadConfig(problems)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return _rules.is_loopback(self.host)

    @property
    def shown_store(self) -> str:
        """The URL of the store as anybody may see it, or `none`."""
        return "none" if self.store is None else _rules.shown_url(self.store)

    def secrets(self) -> tuple[str, ...]:
        """All texts in here that must not come out anywhere."""
        found = [token.secret for token in self.tokens]
        if self.store is not None:
            found += _rules.passwords_in(self.store)
        found += _rules.secret_values(self.agent_options)
        return tuple(dict.fromkeys(found))


def live_changes(old: Config, new: Config) -> tuple[Config, tuple[str, ...]]:
    """What a running server can take over of a new configuration, and the names of what it cannot.

    The first is the old configuration with all of the new one that is live. Raises `BadConfig` if that
    makes no sense, such as a server that still listens on all addresses while its last token is gone.
    """
    later = NEEDS_RESTART
    if new.agent != old.agent:
        later |= {"agent_options"}  # they are meant for the other one
    live = replace(new, **{name: getattr(old, name) for name in later})
    return live, tuple(name for name in changed_names(old, new) if name in later)


def changed_names(old: Config, new: Config) -> tuple[str, ...]:
    """The names of all that differs. A figure of the policy is named as `policy.cap`."""
    changed: list[str] = []
    for name in (one.name for one in fields(Config)):
        if name == "policy":
            figures = (figure for figure in Policy.names() if _differs(old.policy, new.policy, figure))
            changed += [f"policy.{figure}" for figure in figures]
        elif _differs(old, new, name):
            changed.append(name)
    return tuple(changed)


def _differs(old: object, new: object, name: str) -> bool:
    return bool(getattr(old, name) != getattr(new, name))
