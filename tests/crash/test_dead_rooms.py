"""A process that was killed is known to be dead; one that only stands still is not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from greenroom.store._alive import PAUSE
from tests.crash.databases import sqlite_url
from tests.room.agents import until
from tests.store.lookers import Looker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crash.process import Child, Family

pytestmark = pytest.mark.timeout(300)  # processes take long to start where many tests run at once

LONG = 600.0
"""A lease that does not end during a test."""


@pytest.fixture
def looker(url: str) -> Iterator[Looker]:
    with Looker(url) as looker:
        yield looker


def resident(family: Family, url: str, **more: object) -> tuple[Child, int]:
    """A process that lives as a room, and the id of its child if it has one."""
    child = family.child("resident", url=url, room="room", ttl=LONG, **more)
    heard = child.hear()
    assert heard is not None, child.complaints()
    return child, heard["offspring"]


def wait_until_dead(looker: Looker) -> None:
    """The server may need a moment to see that a connection has ended."""
    until(lambda: looker.look().again, "a lock that is free")


def test_a_room_that_was_killed_is_dead_at_the_second_look(
    family: Family, looker: Looker, url: str
) -> None:
    """M3: its lease would have lasted for long."""
    child, _ = resident(family, url)
    assert looker.look_twice() == ()
    assert looker.row().lock_name is not None

    child.kill()

    wait_until_dead(looker)
    assert looker.row().alive
    assert looker.look(0.29).buried == ()
    assert looker.look(0.12).buried == ("room",)
    assert not looker.row().alive
    assert looker.look_twice() == ()


def test_nothing_is_left_of_a_room_that_was_buried(family: Family, tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "greenroom.db")
    child, _ = resident(family, url)
    with Looker(url) as looker:
        assert list(tmp_path.glob("greenroom.db-room-*"))
        child.kill()

        assert looker.look_twice() == ("room",)

        assert not list(tmp_path.glob("greenroom.db-room-*"))


def test_a_room_whose_process_stands_still_is_not_dead(family: Family, looker: Looker, url: str) -> None:
    """M3: it has its lock. The lease decides."""
    child, _ = resident(family, url)

    child.suspend()
    assert looker.look_twice() == ()
    child.resume()
    assert looker.look_twice() == ()

    assert looker.row().alive


@pytest.mark.parametrize("how", ["fork", "exec"])
def test_a_child_that_outlives_a_room_does_not_keep_it_alive(
    family: Family, looker: Looker, url: str, how: str
) -> None:
    """M3 K2"""
    child, offspring = resident(family, url, offspring=how)
    assert looker.look_twice() == ()

    child.kill()

    wait_until_dead(looker)
    assert looker.look(PAUSE).buried == ("room",)
    os.kill(offspring, 0)  # it is still there
