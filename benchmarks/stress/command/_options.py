"""Everything that `greenroom stress` can be told, by name: how it is written, and what the help says.

An option is `--idle-ttl` on the command line and `idle_ttl` in a workload file (`[policy]` has those of
the room there). Those that say where something goes, and secrets, are no part of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["OPTIONS", "POLICY_KINDS", "Option", "option_of"]

LOAD, TIMES, ROOM, TARGET, TRACES, OUTPUT = (
    "Load",
    "What takes how long, and what fails",
    "Room: what is kept in memory",
    "What is stressed",
    "Traces",
    "Output",
)

METAVARS = {
    "length": "LENGTH",
    "memory": "SIZE|SHARE",
    "number": "X",
    "octets": "SIZE",
    "seconds": "TIME",
    "share": "SHARE",
    "text": "TEXT",
    "whole": "N",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be said."""

    name: str
    kind: str
    """How it is written: a name in `_values.KINDS`; `names` may be given several times."""
    panel: str
    help: str
    metavar: str | None = None
    part: str = "run"
    """`workload` and `policy`: a field of these. `run`: the command's own."""
    in_file: bool = True
    may_be_none: bool = False


def option_of(name: str) -> str:
    """What it is called on the command line.

    >>> option_of("idle_ttl")
    '--idle-ttl'
    """
    return f"--{name.replace('_', '-')}"


def _load(name: str, kind: str, help: str, metavar: str | None = None, *, none: bool = False) -> Option:
    return Option(name, kind, LOAD, help, metavar, part="workload", may_be_none=none)


def _takes(name: str, kind: str, help: str) -> Option:
    return Option(name, kind, TIMES, help, part="workload")


def _room(name: str, kind: str, help: str, *, none: bool = True) -> Option:
    return Option(name, kind, ROOM, help, part="policy", may_be_none=none)


def _said(name: str, kind: str, panel: str, help: str, metavar: str | None = None) -> Option:
    return Option(name, kind, panel, help, metavar, in_file=False)


_LISTED = (
    _load("sessions", "whole", "How many there are. (1000)"),
    _load("duration", "seconds", "How long turns arrive. (30s)"),
    _load("rate", "number", "Turns a second, on average. (100)"),
    _load("arrivals", "text", "How they come. (steady)", "steady|bursty|wave"),
    _load("burst", "whole", "bursty: turns in a burst, on average. (20)"),
    _load("wave_period", "seconds", "wave: from crest to crest. (60s)"),
    _load("wave_depth", "share", "wave: how far the rate swings. (0.8)"),
    _load("popularity", "number", "Exponent of Zipf's law. 0: all sessions are alike. (1)"),
    _load("end", "share", "Turns after which the session is over. (0)"),
    _load("at_once", "whole", "At most so many turns at once; later ones wait. (no limit)", none=True),
    _load("agent_bytes", "octets", "What each agent holds. (0)"),
    Option(
        "reconfigure",
        "names",
        LOAD,
        "Change the room's bounds while it runs: 10s:cap=64. May be given several times.",
        "AT:NAME=VALUE,…",
        part="workload",
    ),
    _load("seed", "whole", "The same seed, the same turns. (0)"),
    Option("file", "path", LOAD, "A TOML file with any of this; what options say counts more.", "FILE"),
    _takes("turn", "length", "How long the agent is at work. (50ms~0.5)"),
    _takes("build", "length", "… building one. (20ms~0.5)"),
    _takes("commit", "length", "… a commit. (20ms~0.5)"),
    _takes("teardown", "length", "… a release or close. (5ms)"),
    _takes("fail_turn", "share", "Turns that fail. (0)"),
    _takes("fail_build", "share", "Builds that fail. (0)"),
    _takes("fail_commit", "share", "Commits that fail. (0)"),
    _takes("fail_teardown", "share", "Releases and closes that fail. (0)"),
    _room("cap", "whole", "Agents in memory, or none for no bound. (128)"),
    _room("idle_ttl", "seconds", "An agent unused for longer is released, or none. (1h)"),
    _room("session_ttl", "seconds", "A session unused for longer is ended, or none. (none)"),
    _room("sweep_every", "seconds", "How often these are looked for, or none. (1m)"),
    _room("memory_budget", "memory", "Bytes, or a share of the memory there is, or none. (none)"),
    _room("max_waiting", "whole", "Turns that may wait for one session. (16)", none=False),
    _room("commit_timeout", "seconds", "A commit that takes longer has failed, or none. (1m)"),
    _room("build_timeout", "seconds", "A build that takes longer has failed, or none. (5m)"),
    _room("teardown_timeout", "seconds", "A release that takes longer is written off, or none. (1m)"),
    Option("agent", "text", TARGET, "Your own factory, or an installed agent.", "MODULE:FACTORY|NAME"),
    Option(
        "agent_option", "names", TARGET, "An option of it. May be given several times.", "NAME=VALUE"
    ),
    Option("perform", "text", TARGET, "What a turn does: f(agent, planned).", "MODULE:FUNCTION"),
    Option("store", "text", TARGET, "A store for the ledger of turns. (none)", "URL"),
    Option("drain_deadline", "seconds", TARGET, "What the room gets to end in. (30s)"),
    Option("url", "text", TARGET, "A running server, instead of a room in this process.", "URL"),
    _said(
        "token", "text", TARGET, "Its token. Better in GREENROOM_TOKEN: others can see this.", "SECRET"
    ),
    Option("model", "text", TARGET, "What to call its model. (the server's own)", "NAME"),
    Option("stream", "switch", TARGET, "Have its answers streamed."),
    Option("message", "text", TARGET, "What is said in a turn; {seconds} is its planned length."),
    Option("timeout", "seconds", TARGET, "How long to wait for an answer of the server. (2m)"),
    Option(
        "trace", "text", TRACES, "Turns as they were recorded: a file, or chat, cron, storm.", "FILE"
    ),
    Option("speed", "number", TRACES, "… so many times as fast. (1)"),
    _said("record", "path", TRACES, "Write a trace of the server at --url, until Ctrl-C.", "FILE"),
    _said("plain_keys", "switch", TRACES, "… with the sessions' own names in it."),
    _said("replay", "text", TRACES, "What would caps do? --cap 64,128 --idle-ttl 10m,1h", "FILE"),
    _said("build_seconds", "seconds", TRACES, "… where a build takes so long."),
    _said("synthesize", "text", TRACES, "Write a made-up trace to stdout.", "chat|cron|storm"),
    _said(
        "report", "path", OUTPUT, "Write the report: FILE.html, and FILE.json beside it.", "FILE.html"
    ),
    Option("title", "text", OUTPUT, "What the report is called."),
    _said("log", "path", OUTPUT, "Write what greenroom logs meanwhile. (nowhere)", "FILE"),
    _said("json", "switch", OUTPUT, "Write the result to stdout as JSON, and nothing else."),
    _said("quiet", "switch", OUTPUT, "Show nothing while it runs."),
)

OPTIONS: Mapping[str, Option] = MappingProxyType({option.name: option for option in _LISTED})

POLICY_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "retry_first": "seconds",
        "retry_most": "seconds",
        "store_timeout": "seconds",
        "lease_ttl": "seconds",
        "recover_at_once": "whole",
        "recover_tries": "whole",
        "memory_relief": "share",
        "memory_batch": "whole",
        **{option.name: option.kind for option in _LISTED if option.part == "policy"},
    }
)
"""How the bounds of a room are written. The rarer ones are for the file alone."""
