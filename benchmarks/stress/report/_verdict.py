"""Whether a run held, in words, and why. The first thing that a report says."""

from __future__ import annotations

from dataclasses import dataclass

from greenroom.stress._result import Check, Result
from greenroom.stress.report import _words as words

__all__ = ["Verdict", "duration_asked", "standing", "verdict"]

NAMED = 4
"""So many broken promises are named; the table has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a run showed."""

    tone: str
    """`good`: it held; `wrong`: it did not; `quiet`: it held, and showed nothing."""

    word: str
    headline: str
    reasons: tuple[str, ...]


def standing(check: Check) -> str:
    """How an invariant stands, as a word: held, broken, not tried, or not seen."""
    if check.held is None:
        return "not seen"
    if not check.held:
        return "broken"
    return "held" if check.seen else "not tried"


def verdict(result: Result) -> Verdict:
    """Judge a run as `Result.held` does, and say what that rests on."""
    reasons = (*_broken(result), *_failed(result), *_unseen(result), *_late(result), *_cut_short(result))
    if not result.held:
        return Verdict(tone="wrong", word="Not held", headline=_why_not(result), reasons=reasons)
    held = [check for check in result.checks if standing(check) == "held"]
    if not result.totals.arrived or not held:
        what = "no turn arrived" if not result.totals.arrived else "no promise could be looked at"
        return Verdict(
            tone="quiet",
            word="Nothing shown",
            headline=f"Nothing was broken, but {what}.",
            reasons=reasons,
        )
    which = "the only promise" if len(result.checks) == 1 else f"all {len(result.checks)} promises"
    if len(held) < len(result.checks):
        were = "was" if len(held) == 1 else "were"
        of = words.counted(len(result.checks), "promise")
        which = f"{len(held)} of {of} {were} put to the test and held"
    over = words.counted(result.totals.turns, "completed turn")
    return Verdict(
        tone="good",
        word="Held",
        headline=f"{which[0].upper()}{which[1:]}, over {over}.",
        reasons=reasons,
    )


def _why_not(result: Result) -> str:
    broken = sum(check.held is False for check in result.checks)
    parts: list[str] = []
    if broken:
        were = "was" if broken == 1 else "were"
        parts.append(f"{broken} of {words.counted(len(result.checks), 'promise')} {were} broken")
    if result.totals.failures:
        parts.append(f"{words.counted(result.totals.failures, 'turn')} failed that should not have")
    text = ", and ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _broken(result: Result) -> list[str]:
    broken = [check for check in result.checks if check.held is False]
    told = [
        f"“{check.name}” was broken {_times(max(check.violated, len(check.violations), 1))}."
        for check in broken[:NAMED]
    ]
    if len(broken) > NAMED:
        told.append(f"{words.counted(len(broken) - NAMED, 'other')} are in the table of promises.")
    return told


def _failed(result: Result) -> list[str]:
    if not result.totals.failures or not result.totals.errors:
        return []
    text, times = max(result.totals.errors.items(), key=lambda error: error[1])
    return [f"The commonest error, {_times(times)}: {words.shortened(text, 160)}"]


def _unseen(result: Result) -> list[str]:
    unseen = sum(check.held is None for check in result.checks)
    untried = sum(standing(check) == "not tried" for check in result.checks)
    told: list[str] = []
    if unseen:
        told.append(f"{words.counted(unseen, 'promise')} cannot be seen from here; the table says why.")
    if untried:
        told.append(f"{words.counted(untried, 'promise')} never came up in this run.")
    return told


def _late(result: Result) -> list[str]:
    if result.late is None:
        return []
    late = words.seconds(result.late)
    return [f"The run could not keep up: one turn in a hundred was begun {late} late, and that counts."]


def _cut_short(result: Result) -> list[str]:
    if not result.interrupted:
        return []
    asked = duration_asked(result)
    of = f" of {words.duration(asked)}" if asked is not None else ""
    return [f"The run was ended early, after {words.duration(result.seconds)}{of}."]


def duration_asked(result: Result) -> float | None:
    """How long the run was to be, if its settings say so."""
    asked = result.settings.get("duration")
    return float(asked) if isinstance(asked, (int, float)) and not isinstance(asked, bool) else None


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
