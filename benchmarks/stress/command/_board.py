"""What the live view shows of a run, as Rich draws it: a progress bar, and a line for each thing.

Counts are of the last second, and in all; levels are those of its end. What is not known is a dash.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from greenroom.stress.report._words import duration, percent, seconds, size

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from greenroom.stress._result import Second

__all__ = ["Board", "bar", "clock", "sparkline"]

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 18
"""Of bars and of the line of turns."""

UNKNOWN = "–"


def sparkline(values: list[float], width: int = WIDTH) -> str:
    """The last values as a line of blocks, the largest a full one.

    >>> sparkline([0, 1, 2, 4], 4)
    '▁▃▅█'
    """
    shown = values[-width:]
    most = max(shown, default=0) or 1
    return "".join(BLOCKS[min(7, int(value / most * 7 + 0.5))] for value in shown)


def bar(part: float, whole: float, width: int = WIDTH) -> str:
    """How much of the whole there is.

    >>> bar(3, 4, 8), bar(9, 4, 8)
    ('██████░░', '████████')
    """
    full = min(width, round(width * part / whole)) if whole else 0
    return "█" * full + "░" * (width - full)


def clock(value: float) -> str:
    """A time as a clock shows it.

    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    whole = max(0, int(value + 0.5))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Board:
    """What has been seen so far."""

    def __init__(self, title: str, total: float) -> None:
        self.title = title
        self.total = total
        self.last: Second | None = None
        self.phase = ""
        """What goes on besides turns: a drain, say."""
        self._turns: deque[float] = deque(maxlen=WIDTH)
        self._completed = self._evicted = self._committed = self._commit_failures = 0
        self._hits = self._builds = 0
        self.failures = self.planned_failures = 0

    def add(self, second: Second) -> None:
        """Take in another second."""
        self.last = second
        self._turns.append(second.turns)
        self._completed += second.turns
        self.failures += second.failures
        self.planned_failures += second.planned_failures
        self._evicted += second.evictions or 0
        self._committed += second.commits or 0
        self._commit_failures += second.commit_failures or 0
        self._hits += second.hits or 0
        self._builds += second.builds or 0

    # On a terminal.

    def render(self, elapsed: float) -> RenderableType:
        """Everything, `elapsed` seconds after the beginning."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True, width=len("evictions"))
        rows.add_column(no_wrap=True, width=WIDTH + 17)
        rows.add_column(style="dim", no_wrap=True)
        for label, figure, remark in self._rows():
            rows.add_row(label, figure, remark)
        head = Text(self.title, style="bold", overflow="ellipsis", no_wrap=True)
        if self.last is None:
            return Group(head, self._progress(elapsed), Text("The first figures come after a second."))
        return Group(head, self._progress(elapsed), rows)

    def _progress(self, elapsed: float) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        over = "All turns have come: those that run may end, then the room is drained."
        if self.phase or elapsed >= self.total + 1.0:
            return Text(self.phase or over, style="yellow")
        line = Table.grid(padding=(0, 2))
        line.add_column(width=40)
        line.add_column(no_wrap=True)
        share = min(1.0, elapsed / self.total) if self.total else 1.0
        left = max(0.0, self.total - elapsed)
        words = f"{share:.0%}   {clock(elapsed)} of {clock(self.total)}, {clock(left)} left"
        line.add_row(ProgressBar(total=1.0, completed=share, width=40), Text(words))
        return line

    def _rows(self) -> list[tuple[str, Text, str]]:
        from rich.text import Text

        last = self.last
        if last is None:
            return []
        return [
            (
                "turns",
                Text(f"{sparkline(list(self._turns)):<{WIDTH}} {last.turns:,}/s"),
                f"{self._completed:,} in all, {last.in_flight:,} in flight",
            ),
            (
                "start",
                Text(f"p50 {_time(last.p50)}   p99 {_time(last.p99)}"),
                "until a turn has its agent",
            ),
            (
                "agents",
                self._agents(last),
                f"{_whole(last.in_turn)} in turn, {_whole(last.waiting)} waiting",
            ),
            ("hit rate", Text(self._hit_rate()), f"{_whole(last.sessions)} sessions known"),
            (
                "dirty",
                Text(_whole(last.dirty)),
                f"{self._committed:,} commits"
                + (f", {self._commit_failures:,} failed" if self._commit_failures else ""),
            ),
            ("evictions", Text(f"{_whole(last.evictions)}/s"), f"{self._evicted:,} in all"),
            (
                "failures",
                Text(f"{self.failures:,}", style="bold red" if self.failures else ""),
                f"{self.planned_failures:,} more as planned" if self.planned_failures else "",
            ),
            (
                "memory",
                Text(UNKNOWN if last.memory is None else size(last.memory)),
                f"{_whole(last.threads)} threads, {_whole(last.files)} open files",
            ),
        ]

    def _agents(self, last: Second) -> Text:
        from rich.text import Text

        if last.cached is None:
            return Text(UNKNOWN)
        if last.cap is None:
            return Text(f"{last.cached:,}, without a bound")
        over = last.cached > last.cap
        text = Text(bar(last.cached, last.cap), style="yellow" if over else "green")
        return text.append(f" {last.cached:,} of {last.cap:,}", style="yellow" if over else "default")

    def _hit_rate(self) -> str:
        return (
            percent(self._hits / (self._hits + self._builds)) if self._hits + self._builds else UNKNOWN
        )

    # Elsewhere.

    def line(self) -> str:
        """The last second, in a line."""
        last = self.last
        assert last is not None
        agents = _whole(last.cached) if last.cap is None else f"{_whole(last.cached)}/{last.cap:,}"
        left = max(0.0, self.total - last.at)
        parts = [
            f"{clock(last.at):>5}",
            f"{last.turns:>6,} turns/s",
            f"p50 {_time(last.p50):>7}",
            f"p99 {_time(last.p99):>7}",
            f"agents {agents:>7}",
            f"dirty {_whole(last.dirty):>4}",
            f"evicted {_whole(last.evictions):>3}",
            f"failed {last.failures:,}"
            + (f" (planned {last.planned_failures:,})" if last.planned_failures else ""),
            f"memory {UNKNOWN if last.memory is None else size(last.memory)}",
            f"{duration(round(left))} left" if left >= 0.5 else "all have come",
        ]
        return "  ".join(parts)


def _time(value: float | None) -> str:
    return UNKNOWN if value is None else seconds(value)


def _whole(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"
