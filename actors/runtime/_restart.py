"""When to restart an actor that failed, and when to give up: pure."""

from __future__ import annotations

from dataclasses import dataclass

from greenroom.actors.runtime._calls import check_at_least

__all__ = ["RestartPolicy"]


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """At most `limit` restarts within any `within` seconds."""

    limit: int = 3
    within: float = 5.0

    def __post_init__(self) -> None:
        check_at_least("limit", self.limit, 0)
        if not self.within > 0:
            msg = f"within must be more than 0 seconds, not {self.within!r}"
            raise ValueError(msg)

    def decide(self, past: tuple[float, ...], now: float) -> tuple[bool, tuple[float, ...]]:
        """Tell whether to restart now, and which restarts to remember.

        `past` is what the last call returned: the times of the restarts that still count.

        >>> policy = RestartPolicy(limit=2, within=5.0)
        >>> policy.decide((), now=0.0)
        (True, (0.0,))
        >>> policy.decide((0.0, 1.0), now=4.9)
        (False, (0.0, 1.0))
        >>> policy.decide((0.0, 1.0), now=5.0)
        (True, (1.0, 5.0))
        """
        recent = tuple(time for time in past if now - time < self.within)
        if len(recent) >= self.limit:
            return False, recent
        return True, (*recent, now)
