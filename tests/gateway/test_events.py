"""The room's events reach all parts of the gateway, through one listener of the room's."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from greenroom import AgentBuilt, Event, Greenroom
from greenroom.gateway import Config, Stage
from greenroom.gateway._events import Events
from greenroom.gateway.app import create_app

EVENT = AgentBuilt(key="t/a", incarnation=1, session_id="t/a", reason=None, adopted=False, seconds=0.1)


class Room:
    """Calls its one listener when the test says so."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def events(self, listener: Any, *, hits: bool) -> Any:
        assert not hits, "a listener of warm turns makes them slow"
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


@pytest.fixture
def room() -> Any:
    return Room()


def test_every_listener_hears_of_every_event_in_order(room: Any) -> None:
    events, heard = Events(room), list[str]()
    events.listen(lambda event: heard.append(f"one {event.key}"))
    events.listen(lambda event: heard.append(f"two {event.key}"))

    room.tell(EVENT)

    assert heard == ["one t/a", "two t/a"]


def test_one_that_fails_keeps_no_event_from_the_others(
    room: Any, caplog: pytest.LogCaptureFixture
) -> None:
    events, heard = Events(room), list[Event]()

    def fail(_: Event) -> None:
        raise RuntimeError

    events.listen(fail)
    events.listen(heard.append)
    with caplog.at_level(logging.ERROR):
        room.tell(EVENT)

    assert heard == [EVENT]
    assert "A listener failed on build of 't/a'" in caplog.text


def test_one_that_has_stopped_hears_no_more_and_the_others_do(room: Any) -> None:
    events, first, second = Events(room), list[Event](), list[Event]()
    stop = events.listen(first.append)
    events.listen(second.append)

    stop()
    stop()  # twice does no harm
    room.tell(EVENT)

    assert (first, second) == ([], [EVENT])


def test_nobody_hears_of_a_room_that_is_not_listened_to_any_more(room: Any) -> None:
    Events(room).stop()

    assert room.listeners == []


def test_all_parts_of_the_gateway_are_one_listener_to_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    listen = Greenroom.events

    def events(room: Greenroom, callback: Any, *, hits: bool = True) -> Any:
        asked.append(callback)
        return listen(room, callback, hits=hits)

    monkeypatch.setattr(Greenroom, "events", events)
    stage = Stage(Config(), lambda _, **__: object())
    try:
        create_app(stage)
    finally:
        stage.close()

    assert len(asked) == 1
