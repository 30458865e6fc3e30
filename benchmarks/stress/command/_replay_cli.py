"""`greenroom stress --replay` and `--synthesize`: what policies would do with a trace."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from greenroom import Policy
from greenroom._cli_terminal import console, progress_bar, write_json
from greenroom.stress.command._asked import Asked
from greenroom.stress.command._file import BadInput, meant
from greenroom.stress.traces._names import open_trace
from greenroom.stress.traces._replay import Trace, replay
from greenroom.stress.traces._replay_advice import advise, policies_for
from greenroom.stress.traces._replay_table import replay_json, replay_table
from greenroom.stress.traces._synthetic import NAMES, synthesize
from greenroom.stress.traces._trace import FORMAT

__all__ = ["run_replay", "run_synthesize"]

STEPS = 1000
"""Of the progress bar."""


def run_replay(asked: Asked) -> None:
    """Walk through a trace with several policies, and show what each would have done."""
    values, workload = asked.values, asked.workload
    lengths = {"turn_seconds": workload.turn.median} if "turn" in asked.said else {}
    trace = Trace.of(open_trace(values["replay"], seed=workload.seed), **lengths)
    if not trace.turns:
        raise BadInput(f"the trace {values['replay']} has no turns in it")
    policies = _policies(trace, asked)
    build_seconds = values.get("build_seconds")
    with progress_bar("replaying", unit="steps", shown=not values.get("quiet")) as progress:
        try:
            outcomes = replay(
                trace,
                policies,
                agent_bytes=workload.agent_bytes,
                progress=lambda share: progress(int(share * STEPS), STEPS),
            )
        except ValueError as error:  # of bounds that only a machine, or only known agents, have
            raise BadInput(str(error)) from None
    advice = advise(outcomes, build_seconds=build_seconds)
    if values.get("json"):
        write_json(replay_json(trace, outcomes, advice, build_seconds=build_seconds))
        return
    out = console()
    out.print(replay_table(trace, outcomes, advice, build_seconds=build_seconds))
    out.print()
    out.print(advice.text)


def _policies(trace: Trace, asked: Asked) -> list[Policy]:
    try:
        return policies_for(
            trace,
            caps=asked.grid.get("cap", ()),
            idle_ttls=asked.grid.get("idle_ttl", ()),
            **asked.workload.policy,
        )
    except ValueError as error:
        raise BadInput(str(error)) from None


def run_synthesize(asked: Asked) -> None:
    """Write a made-up trace to stdout."""
    name = asked.values["synthesize"]
    if name not in NAMES:
        known = ", ".join(NAMES)
        raise BadInput(f"--synthesize must be one of {known}, not {name!r}{meant(name, NAMES)}")
    head = {"greenroom_trace": FORMAT, "note": f"{name}, seed {asked.workload.seed}"}
    sys.stdout.write(json.dumps(head) + "\n")
    for entry in synthesize(name, seed=asked.workload.seed):
        line = {key: value for key, value in asdict(entry).items() if value is not None}
        sys.stdout.write(json.dumps(line) + "\n")
