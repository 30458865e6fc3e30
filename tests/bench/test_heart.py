"""The bars of the heart: what is counted, which batch counts, and what is said of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks import document
from benchmarks.heart import alternating, lines, section
from benchmarks.heart.bars import judge
from benchmarks.heart.loop_locked import LoopLocked
from benchmarks.results import Results
from benchmarks.rooms.room import Agency
from tests.bench import samples

SOURCE = '''"""A docstring
of two lines."""

x = 1  # a comment does not make it less of a line

# This one is none.
class A:
    field: int
    """Says what it is."""

    text = """kept:
    two lines"""

    def f(self) -> None:
        """Nothing."""
'''


def test_comments_and_docstrings_are_no_lines_of_code() -> None:
    assert lines.lines_of(SOURCE) == 6


def test_a_file_that_is_linked_is_counted_once(tmp_path: Path) -> None:
    layout = {
        "actors/runtime/_mailbox.py": 1,
        "actors/runtime/_new.py": 2,
        "actors/session.py": 10,
        "actors/ledger/store_writer.py": 20,
        "supervisor/recovery.py": 40,
        "greenroom/_room.py": 80,
    }
    for name, count in layout.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n" * count)
    (tmp_path / "greenroom/actors").symlink_to("../actors")
    assert lines.count(tmp_path) == {"heart": 153, "session": 70}


def test_a_file_that_was_renamed_does_not_drop_out_of_the_count(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="LEDGER_ACTORS"):
        lines.count(tmp_path)


def test_the_best_of_batches_that_alternate_counts() -> None:
    order: list[str] = []
    figures = {"a": iter([3.0, 1.0, 2.0]), "b": iter([5.0, 6.0, 4.0])}

    def work(name: str) -> float:
        order.append(name)
        return next(figures[name])

    assert alternating({"a": lambda: work("a"), "b": lambda: work("b")}, 3) == {"a": 1.0, "b": 4.0}
    assert order == ["a", "b"] * 3


def test_turns_of_one_session_on_a_loop_wait_for_each_other() -> None:
    agency = Agency()

    async def turns() -> LoopLocked:
        room = LoopLocked(agency.build)
        await asyncio.gather(*(room.begin_end(key) for key in ("a", "b", "b")))
        await room.begin_end("a", "another signature")
        return room

    room = asyncio.run(turns())
    assert [(key, session.generation) for key, session in room.sessions.items()] == [("b", 2), ("a", 2)]
    assert agency.built == 3


def results() -> Results:
    found = Results(
        machine=dict(samples.MACHINE),
        versions={},
        settings={"repetitions": 2, "sessions": 1000, "load": 0.5, "pace": 9.0},
        missing={"xoscar_actors": "xoscar is not installed"},
    )
    for ours, lock in ((10.0, 50.0), (20.0, 40.0)):
        found.add("turn", "greenroom", {"rate": ours, "each": 1e3 / ours})
        found.add("turn", "lock", {"rate": lock, "each": 1e3 / lock})
        found.add("loop", "greenroom", {"rate": ours, "each": 1e3 / ours})
        found.add("loop", "loop_lock", {"rate": lock, "each": 1e3 / lock})
        for name in ("turn_8_8", "turn_8_64"):
            found.add(name, "greenroom", {"rate": ours, "p99": ours, "max": ours * 6e3})
            found.add(name, "lock", {"rate": lock, "p99": lock, "max": lock})
    found.add("drain", "greenroom", {"cpu": 80.0})
    return found


def test_the_best_is_compared_with_the_best_and_the_worst_turn_is_the_worst() -> None:
    bars = {bar.what: bar for bar in judge(results())}
    warm = bars["Warm turn, 1 thread: rate ÷ lock+dict"]
    assert (warm.found.middle, warm.found.low, warm.found.high) == (20 / 50, 10 / 50, 20 / 40)
    assert warm.met
    p99 = bars["… 8 threads on 8 sessions: p99 ÷ lock+dict"]
    assert p99.found.middle == 10 / 40
    worst = bars["… 8 threads on 8 sessions: the worst turn"]
    assert (worst.found.middle, worst.met) == (120.0, False)
    assert bars["Drain, for each of 10,000 sessions, no hooks: processor time"].met
    assert not any("xoscar" in what for what in bars)


def test_the_section_says_what_was_not_met_and_what_was_not_measured(tmp_path: Path) -> None:
    results().write(tmp_path / "heart.json", [])
    text = section.section(tmp_path)
    assert text is not None
    assert (
        "| … 8 threads on 8 sessions: the worst turn | ≤ 100 ms | 120 ms (60.0–120) | **no** |" in text
    )
    assert "- xoscar is not installed." in text
    assert "takes 9.00 ms here" in text
    assert text in document.document(tmp_path)
