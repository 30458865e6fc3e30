"""The dict that actors of other libraries were given, so that they keep the rules of a room."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from benchmarks.peers.registry import Entry, Registry


def begin(registry: Registry, key: str) -> Entry:
    found = registry.enter(key)
    assert isinstance(found, tuple)
    return found[0]


def take(registry: Registry, key: str) -> list[str]:
    """A whole turn; who must leave after it."""
    return [entry.key for entry in registry.exit(begin(registry, key))]


def test_above_the_cap_the_least_recently_used_leave() -> None:
    registry = Registry(cap=2, idle_ttl=3600.0)
    assert [take(registry, key) for key in ("a", "b", "a", "c")] == [[], [], [], ["b"]]
    assert len(registry) == 2


def test_a_session_in_a_turn_stays_and_nobody_younger_leaves_for_it() -> None:
    registry = Registry(cap=1, idle_ttl=3600.0)
    held = begin(registry, "a")
    assert take(registry, "b") == []
    assert [entry.key for entry in registry.exit(held)] == ["a"]


def test_a_turn_of_a_session_that_is_leaving_waits_until_it_has_left() -> None:
    registry = Registry(cap=1, idle_ttl=3600.0)
    take(registry, "a")
    (leaving,) = registry.exit(begin(registry, "b"))
    waited = registry.enter("a")
    assert isinstance(waited, Future)
    assert not waited.done()
    registry.left(leaving)
    assert waited.done()
    assert begin(registry, "a") is not leaving


def test_a_sweep_takes_who_is_idle_and_in_no_turn() -> None:
    registry = Registry(cap=9, idle_ttl=-1.0)  # everybody is idle at once
    for key in ("a", "b"):
        take(registry, key)
    begin(registry, "c")
    assert [entry.key for entry in registry.idle()] == ["a", "b"]
    assert Registry(cap=9, idle_ttl=3600.0).idle() == []


def test_who_is_there_is_told_when_it_closes_and_nobody_comes_in() -> None:
    registry = Registry(cap=1, idle_ttl=3600.0)
    take(registry, "a")
    registry.exit(begin(registry, "b"))
    there, leaving = registry.close()
    assert [entry.key for entry in there] == ["b"]
    assert len(leaving) == 1
    with pytest.raises(RuntimeError, match="closed"):
        registry.enter("c")
