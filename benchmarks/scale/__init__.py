"""How cost grows with the number of sessions in a room: from a hundred to a million.

Every size has a process of its own for each repetition, in which one room is filled and then put
through all that is measured (`measures`). The agents are as small as an agent can be and have no hooks,
so that what is measured is greenroom's own work and memory.

Cost is processor time, of all threads of the process together: other programs on the machine do not
count. Figures are compared within a repetition: the cost at one size through the cost at the smallest.
"""

from __future__ import annotations

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
SMALLEST = SIZES[0]

SWEPT = (0, 10, 100, 1_000, 10_000)
"""How many are idle when a sweep comes: at each size those that are not more than a tenth of it."""

DISTRIBUTIONS = ("greenroom", "pykka")


def swept_at(size: int) -> tuple[int, ...]:
    """The sweeps that are measured at this size."""
    return tuple(count for count in SWEPT if count <= size // 10)
