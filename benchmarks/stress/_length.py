"""How long something takes: constant, log-normal, and now and then for ever."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass

__all__ = ["WEDGED", "Length", "check_share", "seconds_of"]

WEDGED = math.inf
"""What is drawn for something that never ends of itself."""

_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_SECONDS = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(us|µs|ms|s|min|m|h)?")
_WRITTEN = "a time such as 0.2, 200ms, 200ms~0.8 (median~spread) or 200ms~0.8!0.001 (…!wedged share)"
_MOST_SPREAD = 10.0


def seconds_of(text: str) -> float:
    """Read a time: `0.2`, `200ms`, `5s`, `2min`, `1h`."""
    found = _SECONDS.fullmatch(text.strip())
    if found is None:
        msg = (
            f"a time must be seconds, or a number with us, ms, s, min or h, such as 200ms, not {text!r}"
        )
        raise ValueError(msg)
    return float(found[1]) * _UNITS[found[2] or ""]


def check_share(name: str, value: object) -> None:
    """Refuse what is no share of a whole."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        msg = f"{name} must be a share, 0 to 1, not {value!r}"
        raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long something takes."""

    median: float = 0.0
    """Seconds: half of them take longer."""

    sigma: float = 0.0
    """The spread of their logarithms. 0: all take the same; 0.5: one of 20 takes longer than 2.3 times
    the median; 1: than 5.2 times."""

    wedged: float = 0.0
    """The share that never ends, until the run is over."""

    def __post_init__(self) -> None:
        for name, most in (("median", math.inf), ("sigma", _MOST_SPREAD)):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0.0 <= value <= most or not math.isfinite(value):
                bound = "seconds, 0 or more" if name == "median" else f"a spread, 0 to {most:g}"
                msg = f"{name} must be {bound}, not {value!r}"
                raise ValueError(msg)
        check_share("wedged", self.wedged)

    def __str__(self) -> str:
        text = f"{self.median:g}s" if self.median >= 1.0 else f"{self.median * 1e3:g}ms"
        text += f"~{self.sigma:g}" if self.sigma else ""
        return text + (f"!{self.wedged:g}" if self.wedged else "")

    @classmethod
    def parse(cls, text: str) -> Length:
        """Read one: `0.2`, `200ms`, `200ms~0.8` (median~sigma), `200ms~0.8!0.001` (…!wedged share)."""
        rest, _, wedged = text.strip().partition("!")
        median, _, sigma = rest.partition("~")
        try:
            return cls(
                median=seconds_of(median),
                sigma=float(sigma) if "~" in rest else 0.0,
                wedged=float(wedged) if "!" in text else 0.0,
            )
        except ValueError as error:
            msg = f"{text!r} is not {_WRITTEN}: {error}"
            raise ValueError(msg) from None

    def draw(self, chance: random.Random) -> float:
        """Draw one, in seconds. `WEDGED` is infinite."""
        if self.wedged and chance.random() < self.wedged:
            return WEDGED
        if not self.sigma or not self.median:
            return self.median
        return self.median * math.exp(self.sigma * chance.normalvariate(0.0, 1.0))
