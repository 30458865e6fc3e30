"""The settings by name: of which kind each is, where it stands in the help, and what the help says.

A setting is an option `--idle-ttl`, a variable `GREENROOM_IDLE_TTL`, and a key `idle_ttl` of a TOML
file; the figures of the room's policy are there under `[policy]`. Tokens and the options of an agent are
not among them: there may be many of each, and `_layers.py` knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from greenroom import Policy
from greenroom.gateway.config._config import Config
from greenroom.gateway.config._rules import CHOICES

__all__ = ["PREFIX", "SETTINGS", "Setting", "option_of", "variable_of"]

PREFIX = "GREENROOM_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that can be set."""

    name: str
    kind: str
    """How it is written: a name in `_values.KINDS`."""
    panel: str
    """Under which heading it stands."""
    help: str
    policy: bool = False
    """Whether it is a figure of the room's policy."""

    @property
    def default(self) -> Any:
        """What it is if nobody says anything."""
        holder = _DEFAULTS.policy if self.policy else _DEFAULTS
        return getattr(holder, self.name)

    @property
    def may_be_none(self) -> bool:
        """Whether `none` switches it off."""
        return self.name in _NULLABLE

    @property
    def metavar(self) -> str:
        """How the help calls its value."""
        if self.name in CHOICES:
            return "|".join(CHOICES[self.name])
        return _METAVARS.get(self.name) or _KIND_METAVARS[self.kind]


_DEFAULTS = Config()
_NULLABLE = frozenset(
    field.name for kind in (Config, Policy) for field in fields(kind) if "None" in str(field.type)
)
_METAVARS = {"host": "ADDRESS", "port": "PORT", "store": "URL", "agent": "NAME", "model": "NAME"}
_KIND_METAVARS = {
    "amount": "SIZE|SHARE",
    "names": "NAME,…",
    "octets": "SIZE",
    "seconds": "TIME",
    "share": "SHARE",
    "text": "TEXT",
    "whole": "N",
}

_SERVER, _AGENT, _TURNS, _ACCESS, _ROOM, _LOG = (
    "Server",
    "Agent",
    "Turns",
    "Access and limits",
    "Room: what is kept in memory",
    "Logs",
)


def _listed() -> tuple[Setting, ...]:
    def room(name: str, kind: str, help: str) -> Setting:
        return Setting(name, kind, _ROOM, help, policy=True)

    return (
        Setting("host", "text", _SERVER, "Where to listen. Other than loopback it takes a token."),
        Setting("port", "whole", _SERVER, "0: any that is free."),
        Setting("store", "text", _SERVER, "Transcripts and completed turns, or none."),
        Setting("durability", "text", _SERVER, "Whether a power cut may cost the last moments."),
        Setting("drain_deadline", "seconds", _SERVER, "What turns get to end in when the server ends."),
        Setting("agent", "text", _AGENT, "module:factory, or one that is installed: offline, openai."),
        Setting("model", "text", _AGENT, "What /v1/models lists."),
        Setting("busy", "text", _TURNS, "What a second message for a session in a turn does."),
        Setting("max_running", "whole", _TURNS, "Turns at once."),
        Setting("max_waiting_total", "whole", _TURNS, "Turns that may wait, in all."),
        Setting("wait_timeout", "seconds", _TURNS, "How long a request waits for its turn."),
        Setting("turn_timeout", "seconds", _TURNS, "How long a turn may take, or none."),
        Setting("interrupt_grace", "seconds", _TURNS, "What an interrupted agent gets to end in."),
        Setting("allowed_hosts", "names", _ACCESS, "More names that clients may call the server by."),
        Setting("allowed_origins", "names", _ACCESS, "Web sites whose pages may call the API."),
        Setting("max_body", "octets", _ACCESS, "Largest body of a request."),
        Setting("max_header", "octets", _ACCESS, "Most that the headers of a request may take."),
        Setting("max_sessions_per_token", "whole", _ACCESS, "Live sessions of one token."),
        Setting("max_streams", "whole", _ACCESS, "Pages that may watch at once."),
        Setting("body_timeout", "seconds", _ACCESS, "What a client gets to send a body in."),
        Setting("send_timeout", "seconds", _ACCESS, "What a client gets to accept an answer in."),
        room("cap", "whole", "Agents in memory, or none for no bound."),
        room("idle_ttl", "seconds", "An agent unused for longer is released, or none."),
        room("session_ttl", "seconds", "A session unused for longer is ended, or none."),
        room("sweep_every", "seconds", "How often these are looked for, or none."),
        room("max_waiting", "whole", "Turns that may wait for one session."),
        room("memory_budget", "amount", "Bytes, or a share of the memory there is, or none."),
        room("memory_relief", "share", "Above the budget: release down to this share of it."),
        room("memory_batch", "whole", "… and at most so many agents at a time."),
        room("commit_timeout", "seconds", "A commit that takes longer has failed, or none."),
        room("build_timeout", "seconds", "A build that takes longer has failed, or none."),
        room("teardown_timeout", "seconds", "A release that takes longer is written off, or none."),
        room("retry_first", "seconds", "Pause after a first failed commit; it doubles …"),
        room("retry_most", "seconds", "… up to this."),
        room("store_timeout", "seconds", "An answer of the store that takes longer, or none."),
        room("lease_ttl", "seconds", "A server not heard of for so long is taken for dead."),
        room("recover_at_once", "whole", "Sessions of a dead server committed at a time."),
        room("recover_tries", "whole", "… and how often each is tried."),
        Setting("log_level", "text", _LOG, "What is logged."),
        Setting("log_format", "text", _LOG, "Lines of text, or of JSON."),
    )


SETTINGS: Mapping[str, Setting] = MappingProxyType({one.name: one for one in _listed()})


def option_of(name: str) -> str:
    """The option of a setting, or of another name of the command line."""
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """The variable of a setting."""
    return f"{PREFIX}{name.upper()}"
