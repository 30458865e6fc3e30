"""Whose time it is: functions by what they are for."""

from __future__ import annotations

import re
from collections import Counter

from benchmarks.profiles.recorder import Stacks

GROUPS = {
    "decisions (machine, generations, accounts, eviction)": (
        r"session/machine/|(generations|accounts|coherence)\.py|supervisor/(eviction|drain)\.py"
    ),
    "session actor": r"actors/(session|ledger)/",
    "supervisor": r"greenroom/supervisor/",
    "messages (their constructors)": r"constructor of|greenroom/messages/|<string>",
    "runtime (mailboxes, futures, threads)": r"greenroom/actors/",
    "turn and room": r"greenroom/_\w+\.py",
    "benchmark": r"benchmarks/|workloads\.py",
    "standard library": r"",
}
"""The first that fits."""


def shares(stacks: Stacks) -> dict[str, float]:
    """The share of the samples in which a function of the group was the innermost."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found[group_of(stack[-1])] += count
    total = sum(found.values()) or 1
    return {name: found[name] / total for name in GROUPS}


def hottest(stacks: Stacks, most: int = 8) -> list[tuple[str, float]]:
    """The functions that were innermost most often, with their shares."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found[stack[-1]] += count
    total = sum(found.values()) or 1
    return [(frame, count / total) for frame, count in found.most_common(most)]


def group_of(frame: str) -> str:
    return next(name for name, pattern in GROUPS.items() if re.search(pattern, frame))
