"""The pytest plugin: fixtures for the tests of gateways. See `greenroom.testing`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest

__all__ = ["greenroom_build", "greenroom_clock", "greenroom_logs", "greenroom_room"]


@pytest.fixture(scope="session", autouse=True)
def greenroom_logs() -> Iterator[None]:
    """What the main thread logs, a thread of the room's runtime writes: `caplog` waits for that."""
    handler: Any = pytest.LogCaptureFixture.handler

    def written(log: pytest.LogCaptureFixture) -> object:
        logs: Any = sys.modules.get("greenroom.actors.runtime._logging")
        if logs is not None:
            logs.flush_logs(10.0)
        return handler.fget(log)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest.LogCaptureFixture, "handler", property(written))
        yield


@pytest.fixture
def greenroom_build() -> Any:
    """A `RecordingBuild`: what it built, and what it should fail at."""
    from greenroom.testing import RecordingBuild

    return RecordingBuild()


@pytest.fixture
def greenroom_clock() -> Any:
    """A `ManualClock`: time passes when you say `advance()`."""
    from greenroom.testing import ManualClock

    return ManualClock()


@pytest.fixture
def greenroom_room(greenroom_build: Any, greenroom_clock: Any) -> Iterator[Callable[..., Any]]:
    """A function that opens a room: `greenroom_room(cap=2, idle_ttl=60.0)`.

    Figures of the policy are its keyword arguments; `build`, `hooks`, `prepare` and `store` go to the
    room. It builds with `greenroom_build` and lives by `greenroom_clock` unless told otherwise. It is
    closed when the test is over.
    """
    from greenroom import Greenroom, Policy
    from greenroom.testing import FaultyRuntime

    opened: list[tuple[Any, Any]] = []

    def open_room(build: Any = None, *, runtime: Any = None, **kwargs: Any) -> Any:
        for_room = {name: kwargs.pop(name) for name in ("hooks", "prepare", "store") if name in kwargs}
        own = FaultyRuntime(clock=greenroom_clock) if runtime is None else None
        room = Greenroom(
            greenroom_build if build is None else build,
            policy=Policy(**kwargs),
            runtime=runtime or own,
            **for_room,
        )
        opened.append((room, own))
        return room

    yield open_room
    for room, own in opened:
        drained = room._ending.start_drain(5.0)
        while drained is not None and not drained.done():
            try:
                drained.get(timeout=0.05)
            except pykka.Timeout:
                greenroom_clock.advance(0.5)  # the deadline of a drain is on the test's clock, too
        room.close()
        if own is not None:
            own.close()
