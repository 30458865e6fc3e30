"""What is shown while a run goes on, on a terminal and elsewhere."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from greenroom.stress.command._board import Board, bar, clock, sparkline
from greenroom.stress.command._live import view
from tests.stress.results import second

UNKNOWN = (
    *("cached", "cap", "in_turn", "waiting", "dirty", "sessions", "builds", "hits", "evictions"),
    *("commits", "commit_failures", "memory", "threads", "files", "p50", "p99"),
)


def drawn(board: Board, width: int, elapsed: float) -> list[str]:
    target = io.StringIO()
    Console(file=target, width=width, force_terminal=False).print(board.render(elapsed))
    return [line.rstrip() for line in target.getvalue().splitlines()]


def busy_board() -> Board:
    board = Board("100,000 sessions, 2,000 turns a second, bursty, a room in this process", 3600.0)
    for at in range(1, 60):
        board.add(
            second(
                float(at),
                turns=100 * at,
                cached=12_345,
                cap=20_000,
                in_flight=1_234,
                in_turn=1_234,
                waiting=123,
                sessions=100_000,
                planned_failures=20,
                commit_failures=30,
            )
        )
    return board


def test_a_board_shows_what_is_to_be_watched() -> None:
    board = Board("a title", 30.0)
    board.add(second(12.0, failures=2, memory=80_000_000))
    text = "\n".join(drawn(board, 100, 12.0))
    for part in ("a title", "40%", "0:12 of 0:30, 0:18 left", "98/s", "p50 400 µs", "p99 31 ms"):
        assert part in text
    for part in (
        "64 of 64",
        "91.8 %",
        "900 sessions",
        "40",
        "8/s",
        "80 MB",
        "21 threads",
        "34 open files",
    ):
        assert part in text


@pytest.mark.parametrize("width", [80, 120])
def test_a_board_fits(width: int) -> None:
    lines = drawn(busy_board(), width, 59.0)
    assert len(lines) == 10
    assert all(len(line) <= width for line in lines)
    assert not any("…" in line for line in lines)
    for end in (
        "1,234 in flight",
        "123 waiting",
        "sessions known",
        "1,770 failed",
        "as planned",
        "open files",
    ):
        assert any(line.endswith(end) for line in lines), end


def test_what_is_not_known_is_a_dash_and_not_a_zero() -> None:
    board = Board("a server", 30.0)
    board.add(second(1.0, **dict.fromkeys(UNKNOWN)))
    lines = drawn(board, 80, 1.0)
    assert any(line.split() == ["agents", "–", "–", "in", "turn,", "–", "waiting"] for line in lines)
    assert any(line.startswith("memory     –") for line in lines)
    assert "agents       –" in board.line()
    assert "p99       –" in board.line()


def test_a_room_without_a_bound_says_so() -> None:
    board = Board("a room", 30.0)
    board.add(second(1.0, cap=None))
    assert any("64, without a bound" in line for line in drawn(board, 80, 1.0))


def test_a_board_says_when_only_the_end_is_left() -> None:
    board = Board("a room", 30.0)
    board.add(second(30.0))
    assert any(line.startswith("All turns have come") for line in drawn(board, 80, 32.0))
    board.phase = "Ending."
    assert "Ending." in drawn(board, 80, 32.0)


def test_a_line_has_the_figures_of_its_second() -> None:
    board = Board("a room", 30.0)
    board.add(second(3.0, failures=2, planned_failures=5, evictions=7))
    line = board.line()
    for part in ("0:03", "98 turns/s", "p50  400 µs", "agents   64/64", "dirty   40", "evicted   7"):
        assert part in line
    for part in ("failed 2 (planned 5)", "memory 80 MB", "27 s left"):
        assert part in line


def test_figures_add_up_over_seconds() -> None:
    board = busy_board()
    assert board.planned_failures == 59 * 20
    assert any("177,000 in all" in line for line in drawn(board, 120, 60.0))


def test_bars_and_lines_stay_in_their_bounds() -> None:
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([1.0] * 50, 5) == "█████"
    assert bar(0, 0, 4) == "░░░░"
    assert bar(100, 10, 4) == "████"
    assert [clock(value) for value in (0.4, 59.6, 3600.0)] == ["0:00", "1:00", "1:00:00"]


# Where it goes.


def test_without_a_terminal_there_is_a_line_each_second(capsys: pytest.CaptureFixture[str]) -> None:
    with view("a room", 3.0, quiet=False) as shown:
        shown.watch(second(1.0))
        shown.watch(second(2.0))
        shown.phase("Ending.")
    written = capsys.readouterr()
    assert [line.split()[0] for line in written.out.splitlines()] == ["0:01", "0:02"]
    assert written.err == "Ending.\n"


def test_a_quiet_run_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with view("a room", 3.0, quiet=True) as shown:
        shown.watch(second(1.0))
        shown.phase("Ending.")
        shown.stop()
    assert capsys.readouterr() == ("", "")
    assert shown.board.last is not None


def test_a_reader_that_goes_away_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        tries = 0

        def write(self, text: str) -> int:
            Gone.tries += "turns/s" in text
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with view("a room", 3.0, quiet=False) as shown:
        shown.watch(second(1.0))
        shown.watch(second(2.0))
    assert Gone.tries == 1


def test_on_a_terminal_the_board_is_drawn_in_place_and_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with view("a room of one's own", 30.0, quiet=False) as shown:
        shown.watch(second(3.0))
        shown.phase("Ending.")
        drawn_so_far = terminal.getvalue()
    assert "a room of one's own" in drawn_so_far
    assert "98/s" in drawn_so_far
    assert "Ending." in drawn_so_far
    assert "\x1b[2K" in terminal.getvalue()[len(drawn_so_far) :]  # lines are erased
    assert "\x1b[?25h" in terminal.getvalue()  # and the cursor is there again
