"""How large should my cap be? Which policies to try on a trace, and what the outcome says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from greenroom import Policy
from greenroom.stress.traces._replay import Replayed, Trace, replay_one

__all__ = ["Advice", "advise", "hours", "policies_for"]

MOST_CAPS = 8
"""How many caps are tried besides none, if nobody names them."""

NEAR = 0.01
"""How much of the best hit rate may be given away for fewer agents: one point of a hundred."""


def policies_for(
    trace: Trace,
    *,
    caps: Sequence[int | None] = (),
    idle_ttls: Sequence[float | None] = (),
    **others: Any,
) -> list[Policy]:
    """Every one of these caps with every one of these TTLs; `others` are figures of all the policies.

    Without caps: no cap, and powers of two as far as they make a difference. Above the number of agents
    that there are without a cap, one is like the other; far below the number of turns at once, too: the
    room is beyond its cap all the time. Without TTLs: that of `Policy`.
    """
    ttls = tuple(idle_ttls) or (others.get("idle_ttl", Policy().idle_ttl),)
    if not caps and "cap" in others:
        caps = (others["cap"],)
    elif not caps:
        longest = None if None in ttls else max(ttl for ttl in ttls if ttl is not None)
        free = replay_one(trace, _policy({**others, "memory_budget": None}, None, longest))
        powers = [2**power for power in range(64) if free.at_once / 8 <= 2**power < free.peak]
        caps = (*powers[-MOST_CAPS:], None)
    return [_policy(others, cap, ttl) for ttl in ttls for cap in caps]


def _policy(others: dict[str, Any], cap: int | None, idle_ttl: float | None) -> Policy:
    figures: dict[str, Any] = {**others, "cap": cap, "idle_ttl": idle_ttl}
    return Policy(**figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the outcome says."""

    chosen: int | None
    """The place of the policy with the fewest agent-hours whose hit rate is within a point of the best.
    `None`: there was no turn, or no policy."""

    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(self.sentences)


def advise(
    outcomes: Sequence[Replayed], *, build_seconds: float | None = None, near: float = NEAR
) -> Advice:
    """Choose. `build_seconds` is how long a build takes, if waiting for builds is to be counted."""
    rates = [outcome.hit_rate for outcome in outcomes if outcome.hit_rate is not None]
    if not rates:
        return Advice(chosen=None, sentences=("There is nothing to choose from: no turn was replayed.",))
    best = max(rates)
    good = [place for place, outcome in enumerate(outcomes) if (outcome.hit_rate or 0.0) >= best - near]
    chosen = min(good, key=lambda place: (outcomes[place].agent_hours, place))
    one = outcomes[chosen]
    sentences = [_choice(one, best, alone=len(outcomes) == 1), _price(one)]
    sentences += _limits(one, outcomes)
    if build_seconds is not None:
        sentences.append(_waiting(one, outcomes, build_seconds))
    return Advice(chosen=chosen, sentences=tuple(sentences))


def _choice(one: Replayed, best: float, *, alone: bool) -> str:
    rate = _percent(one.hit_rate or 0.0)
    if alone:
        return f"With {_named(one.policy)}, {rate} of the turns find their agent."
    same = _percent(best) == rate
    others = "no policy here has more" if same else f"the best policy here has {_percent(best)}"
    return f"Take {_named(one.policy)}: {rate} of the turns find their agent, and {others}."


def _price(one: Replayed) -> str:
    first = one.builds - one.rebuilds
    builds = f"Of its {one.builds:,} builds {first:,} are" if one.builds > 1 else "Its only build is"
    return (
        f"It keeps {one.mean:,.1f} agents on average, {one.peak:,} at most: {hours(one.agent_hours)} "
        f"agent-hours. {builds} for the first turn of a session, which no policy saves."
    )


def _limits(one: Replayed, outcomes: Sequence[Replayed]) -> list[str]:
    """What else somebody should know who takes it."""
    sentences: list[str] = []
    if one.policy.cap is None and one.peak:
        sentences.append(f"A cap of {one.peak:,} would never be reached, and have the same outcome.")
    same = [other for other in outcomes if other.policy.idle_ttl == one.policy.idle_ttl]
    smaller = [
        o for o in same if o.policy.cap is not None and o.policy.cap < (one.policy.cap or math.inf)
    ]
    if smaller:
        next_one = max(smaller, key=lambda other: other.policy.cap or 0)
        sentences.append(
            f"A cap of {next_one.policy.cap} would have {_percent(next_one.hit_rate or 0.0)}, "
            f"for {hours(next_one.agent_hours)} agent-hours."
        )
    if one.held:
        sentences.append(
            f"{one.held:,} turns began with more agents than the cap, because those that should have "
            f"gone were in a turn."
        )
    if one.refused:
        sentences.append(
            f"{one.refused:,} turns were refused: {one.policy.max_waiting} others waited for the same "
            f"session (max_waiting)."
        )
    return sentences


def _waiting(one: Replayed, outcomes: Sequence[Replayed], build_seconds: float) -> str:
    least = min(outcome.builds for outcome in outcomes)
    waited, more = one.builds * build_seconds, (one.builds - least) * build_seconds
    extra = f", {_span(more)} more than with the fewest builds" if more else ""
    return f"With {build_seconds:g} s a build, people wait {_span(waited)} for builds{extra}."


def _named(policy: Policy) -> str:
    cap = "no cap" if policy.cap is None else f"a cap of {policy.cap:,}"
    ttl = "no idle TTL" if policy.idle_ttl is None else f"an idle TTL of {_span(policy.idle_ttl)}"
    return f"{cap} and {ttl}"


def hours(amount: float) -> str:
    """Agent-hours: of few, the hundredths."""
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _span(seconds: float) -> str:
    """A time as people say it."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:,.1f}".removesuffix(".0") + f" {unit}".replace("1 days", "1 day")
    return f"{seconds:,.1f}".removesuffix(".0") + " s"
