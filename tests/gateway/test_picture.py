"""What is told about a room: the interesting first, changes only, and nothing that was said."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom import (
    AgentBuilt,
    AgentReused,
    CommitFailure,
    CommitSucceeded,
    Greenroom,
    HookFailure,
    Reason,
    SessionRow,
)
from greenroom.gateway.watch._memory import memory_held
from greenroom.gateway.watch._picture import (
    LONGEST_TEXT,
    best_rows,
    difference,
    event_of,
    matches,
    row_of,
)
from greenroom.gateway.watch._survey import Survey
from tests.actors.actors import PATIENCE


def row(key: str, state: str = "idle", used: int = 0, **other: Any) -> SessionRow:
    """A session as a room tells it."""
    figures: dict[str, Any] = {
        "session_id": key,
        "cached": True,
        "incarnation": 1,
        "agents": 1,
        "generation": 3,
        "committed": 3,
        "waiting": 0,
        "retained": 0,
        "idle_seconds": 5.0,
        "weight": 0,
        "last_reason": None,
        "last_error": None,
        "holder": None,
        "busy": False,
        "used": used,
        "empty": other.pop("blank", False),
    }
    return SessionRow(key=key, state=state, **(figures | other))


def test_what_is_wrong_comes_first_then_what_goes_on_then_dirty_ones_then_the_last_used() -> None:
    rows = [
        row("old", used=1),
        row("new", used=9),
        row("dirty", committed=1, used=2),
        row("leaving", "leaving"),
        row("turn", "in turn"),
        row("retained", "retained"),
        row("failed", "failed"),
    ]
    shown = best_rows([row_of(each, 100.0) for each in rows], 6)
    assert list(shown) == ["failed", "retained", "turn", "leaving", "dirty", "new"]


def test_a_moment_that_has_not_moved_is_told_once() -> None:
    first = row_of(row("a", idle_seconds=5.0), now=100.0)
    second = row_of(row("a", idle_seconds=6.02), now=101.0, before=first)
    assert second == first
    third = row_of(row("a", idle_seconds=0.5), now=102.0, before=second)
    assert third["idle_at"] == 101.5


def test_in_a_turn_includes_what_is_about_to_be() -> None:
    building, idle = row_of(row("Über/1", "building"), 0.0), row_of(row("b"), 0.0)
    assert matches(building, "", "in turn")
    assert not matches(idle, "", "in turn")
    assert matches(building, "über".casefold(), "")
    assert not matches(idle, "über", "")


def applied(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What the page does with a difference."""
    new = {**old, **changes.get("set", {})}
    rows = {**old["sessions"], **{each["key"]: each for each in changes.get("rows", ())}}
    for key in changes.get("gone", ()):
        del rows[key]
    new["sessions"] = {key: rows[key] for key in changes.get("order", rows)}
    return new


sessions = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2)).flatmap(
    lambda rows: st.permutations(list(rows)).map(
        lambda keys: {key: {"key": key, "dirty": rows[key]} for key in keys}
    )
)
pictures = st.fixed_dictionaries({"total": st.integers(0, 2), "sessions": sessions})


@given(pictures, pictures)
def test_a_difference_turns_one_picture_into_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    changes = difference(old, new)
    after = applied(old, changes)
    assert after == new
    assert list(after["sessions"]) == list(new["sessions"])
    assert bool(changes) == (old != new or list(old["sessions"]) != list(new["sessions"]))


def test_a_turn_that_found_its_agent_is_not_told() -> None:
    assert event_of(AgentReused(key="k", incarnation=1)) is None


def test_events_are_told_with_their_reason_and_how_long_they_took() -> None:
    built = AgentBuilt(
        key="k", incarnation=2, session_id="k", reason=Reason.SPEC, adopted=False, seconds=0.12345
    )
    assert event_of(built) == {"kind": "build", "key": "k", "reason": "spec", "seconds": 0.123}
    committed = CommitSucceeded(key="k", incarnation=2, turns=3, generation=7, seconds=1.0)
    assert event_of(committed) == {"kind": "commit", "key": "k", "turns": 3, "seconds": 1.0}


def test_a_failure_is_told_with_the_beginning_of_its_error_on_one_line() -> None:
    error = ValueError("first\nsecond " + "x" * 10_000)
    told = event_of(CommitFailure(key="k", incarnation=1, error=error, tries=2, seconds=0.0))
    assert told is not None
    assert (told["failed"], told["tries"], told["reason"]) == ("commit", 2, "failure")
    assert told["error"].startswith("ValueError: first second xxx")
    assert len(told["error"]) <= LONGEST_TEXT + len("ValueError: ")
    hook = HookFailure(key="k", incarnation=1, hook="close", reason=Reason.IDLE, error=OSError())
    told = event_of(hook)
    assert told is not None
    assert (told["hook"], told["reason"], told["error"]) == ("close", "idle", "OSError")


class Asked:
    """A room that counts who is asked."""

    def __init__(self, rows: dict[str, SessionRow]) -> None:
        self.rows = rows
        self.asked: list[str] = []

    def snapshot(self) -> tuple[SessionRow, ...]:
        self.asked.append("all")
        return tuple(self.rows.values())

    def session(self, key: str) -> Any:
        self.asked.append(key)
        return self

    def describe(self) -> Any:
        return self

    def get(self) -> SessionRow:
        key = self.asked[-1]
        return self.rows.get(key) or row(key, "known", blank=True)


def test_between_two_surveys_only_those_are_asked_to_which_something_has_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("greenroom.gateway.watch._survey.time.monotonic", lambda: now[0])
    room = Asked({"a": row("a"), "b": row("b"), "c": row("c")})
    survey = Survey(room)  # type: ignore[arg-type]  # as much of a room as it needs
    survey.take((), {})
    assert (survey.total, room.asked) == (3, ["all"])
    survey.take((), {})
    room.rows["b"] = row("b", "in turn")
    del room.rows["c"]
    survey.take(("b", "c"), {"b": 42.0})
    assert room.asked == ["all", "b", "c"]
    assert survey.states == {"idle": 1, "in turn": 1, "dirty": 0}
    assert survey.best["b"]["turn_at"] == 42.0
    now[0] += 10.0
    survey.take((), {})
    assert room.asked[-1] == "all"


def test_the_longer_a_survey_takes_the_rarer_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("greenroom.gateway.watch._survey.time.monotonic", lambda: now[0])

    class Slow(Asked):
        def snapshot(self) -> tuple[SessionRow, ...]:
            now[0] += 0.4
            return super().snapshot()

    room = Slow({"a": row("a")})
    survey = Survey(room)  # type: ignore[arg-type]  # as much of a room as it needs
    survey.take((), {})
    now[0] += 9.9
    survey.take((), {})
    assert room.asked == ["all"]
    now[0] += 0.2
    survey.take((), {})
    assert room.asked == ["all", "all"]


def test_a_search_finds_only_living_sessions_at_every_step_of_a_survey(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("greenroom.gateway.watch._survey.time.monotonic", lambda: 100.0)
    room = Asked({"a": row("a"), "b": row("b")})
    survey = Survey(room)  # type: ignore[arg-type]  # as much of a room as it needs
    survey.take((), {})
    del room.rows["b"]
    found: set[tuple[str, ...]] = set()

    def search(_frame: Any, _event: str, _argument: Any) -> Any:
        found.add(tuple(row["key"] for row in survey.find("", "", 9)[0]))
        return search

    before = sys.gettrace()
    sys.settrace(search)
    try:
        survey.take(("b",), {})
    finally:
        sys.settrace(before)
    assert found == {("a", "b"), ("a",)}


# Memory


def test_the_memory_that_is_held_is_read_from_the_system(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/statm").write_text("500 20 3 4 5 6 7\n")
    assert memory_held(tmp_path) == 20 * mmap.PAGESIZE


def test_where_the_system_tells_nothing_nothing_is_known(tmp_path: Path) -> None:
    assert memory_held(tmp_path) is None


def test_a_session_tells_how_many_agents_it_has_had_when_its_agent_is_released() -> None:
    with Greenroom(lambda _: object()) as room:
        with room.turn("a"):
            pass
        room.evict("a")
        room.settle(PATIENCE)
        assert row_of(room.snapshot()[0], now=0.0)["agents"] == 1


def test_a_session_without_an_agent_tells_how_many_it_has_had() -> None:
    assert row_of(row("a", cached=False, incarnation=0, agents=2), now=0.0)["agents"] == 2
