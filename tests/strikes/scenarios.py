"""What is done while a strike comes. Each is prepared in peace; then `act` is struck."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenroom import SessionBusy, TurnTimeout
from tests.strikes.stage import OTHER, SPEC, Agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.strikes.stage import Stage


@dataclass(frozen=True)
class Scenario:
    """Something that a caller does with a room."""

    name: str
    act: Callable[[Stage], Any]
    prepare: Callable[[Stage], object]
    policy: dict[str, Any] = field(default_factory=dict[str, Any])
    up_to: int | None = None
    """How many of its points are its own. What follows is another scenario."""

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.act)


SCENARIOS: dict[str, Scenario] = {}


def _scenario(
    prepare: Callable[[Stage], object],
    keys: tuple[str, ...] = ("a",),
    ending: bool = False,
    up_to: int | None = None,
    **policy: Any,
) -> Callable[[Callable[[Stage], Any]], Callable[[Stage], Any]]:
    def add(act: Callable[[Stage], Any]) -> Callable[[Stage], Any]:
        name = act.__name__

        def prepare_all(stage: Stage) -> None:
            stage.keys += keys
            stage.ending = ending
            prepare(stage)

        SCENARIOS[name] = Scenario(name, act, prepare_all, policy, up_to)
        return act

    return add


def _nothing(stage: Stage) -> None:
    pass


def _one(stage: Stage) -> None:
    """A session with an agent, whose only turn is not committed."""
    stage.turn("a", SPEC)


def _two(stage: Stage) -> None:
    stage.turn("a", SPEC)
    stage.turn("b", SPEC)


def _held(stage: Stage) -> None:
    """A session that another thread is in a turn of, until somebody waits for it."""
    stage.hold("a", lambda: stage.waiting("a"))


def _held_until_struck(stage: Stage) -> None:
    """The same, but who waits and is to be struck is struck while it waits."""
    stage.hold("a", lambda: stage.waiting("a") and not stage.tripped.is_set())


def _held_to_the_end(stage: Stage) -> None:
    stage.hold("a", lambda: False)


# Turns.


@_scenario(_one)
def warm(stage: Stage) -> None:
    stage.turn("a", SPEC)


@_scenario(_nothing)
def cold(stage: Stage) -> None:
    stage.turn("a", SPEC)


@_scenario(_nothing)
def cold_on_a_worker(stage: Stage) -> None:
    stage.turn("a", SPEC, timeout=10.0)


@_scenario(_one)
def other_spec(stage: Stage) -> None:
    stage.turn("a", OTHER)


@_scenario(_held)
def wait(stage: Stage) -> None:
    stage.turn("a")


@_scenario(_held_until_struck)
def wait_in_vain(stage: Stage) -> None:
    stage.turn("a")


@_scenario(_held_to_the_end)
def reject(stage: Stage) -> None:
    try:
        stage.turn("a", on_busy="reject")
    except SessionBusy:
        pass


@_scenario(_held_to_the_end)
def timeout(stage: Stage) -> None:
    try:
        stage.turn("a", timeout=0.01)
    except TurnTimeout:
        pass


@_scenario(_one)
def discard(stage: Stage) -> None:
    with stage.room.turn("a") as turn:
        turn.discard("a fallback was used")


@_scenario(_one)
def body_that_raises(stage: Stage) -> None:
    try:
        with stage.room.turn("a"):
            raise LookupError
    except LookupError:
        pass


@_scenario(_two, keys=("a", "b"))
def nested(stage: Stage) -> None:
    with stage.room.turn("a"):
        stage.turn("b")


@_scenario(_one, ending=True)
def recipe(stage: Stage) -> None:
    """What the documentation says about SIGTERM."""
    try:
        stage.turn("a")
        stage.turn("b")
    finally:
        stage.room.close()


@_scenario(_one, ending=True, up_to=80)
def recipe_in_one_function(stage: Stage) -> None:
    """The same, with the turn in the function that closes: it runs on when its block was struck."""
    try:
        with stage.room.turn("a") as turn:
            assert turn.agent
    finally:
        stage.room.close()


@_scenario(_one)
def caught(stage: Stage) -> None:
    """Who catches the exception right here goes on with the session, and may still have the turn."""
    struck: BaseException | None = None
    for _ in range(2):
        try:
            with stage.room.turn("a", timeout=stage.patience) as turn:
                assert turn.agent
        except BaseException as error:
            struck = error.with_traceback(None)
    if struck is not None:
        raise struck


@_scenario(_one)
def transcript(stage: Stage) -> None:
    """An agent reads and writes the transcript during its turn."""
    stage.turn("a", talks=True)


# What else a room can do.


@_scenario(_one)
def evict(stage: Stage) -> None:
    stage.room.evict("a")


@_scenario(_one)
def end(stage: Stage) -> None:
    stage.room.end("a")


@_scenario(_one)
def commit(stage: Stage) -> None:
    stage.room.commit("a")


@_scenario(_two, keys=("a", "b"), idle_ttl=0.000001)
def sweep(stage: Stage) -> None:
    stage.room.sweep()


@_scenario(_two, keys=("a", "b"))
def configure(stage: Stage) -> None:
    stage.room.configure(cap=1)


@_scenario(_two, keys=("a", "b"))
def stats(stage: Stage) -> None:
    stage.room.stats()


@_scenario(_two, keys=("a", "b"))
def snapshot(stage: Stage) -> None:
    stage.room.snapshot()


@_scenario(_one)
def explain(stage: Stage) -> None:
    str(stage.room.explain("a"))


@_scenario(_two, keys=("a", "b"))
def keys(stage: Stage) -> None:
    room = stage.room
    assert room.keys()
    assert len(room) == 2
    assert "a" in room
    assert room.has_uncommitted("a")


@_scenario(_one)
def settings(stage: Stage) -> None:
    settings = stage.room.settings("a")
    settings["model"] = "large"
    settings.get("model")
    dict(settings)


@_scenario(_one)
def events(stage: Stage) -> None:
    heard: list[object] = []
    stop = stage.room.events(heard.append)
    stage.turn("a")
    stop()


@_scenario(_one, keys=("a", "b"))
def adopt(stage: Stage) -> None:
    agent = Agent(stage, "b")
    stage.room.adopt("b", agent, SPEC)
    # Before that it is its maker's, if the call was struck. The room may have it all the same.
    stage.agents.append(agent)
    agent.handed_over = True


@_scenario(_two, keys=("a", "b", "c"), cap=2)
def insert_beyond_the_cap(stage: Stage) -> None:
    stage.turn("c")


@_scenario(_two, keys=("a", "b"), ending=True)
def drain(stage: Stage) -> None:
    stage.room.drain(3.0)


@_scenario(_two, keys=("a", "b"), ending=True)
def close(stage: Stage) -> None:
    stage.room.close(3.0)


@_scenario(_nothing)
def another_room(stage: Stage) -> None:
    stage.open()


# On an event loop.


@_scenario(_one)
async def async_warm(stage: Stage) -> None:
    await stage.aturn("a", SPEC)


@_scenario(_nothing)
async def async_cold(stage: Stage) -> None:
    await stage.aturn("a", SPEC)


@_scenario(_one)
async def async_other_spec(stage: Stage) -> None:
    await stage.aturn("a", OTHER)


@_scenario(_held)
async def async_wait(stage: Stage) -> None:
    await stage.aturn("a")


@_scenario(_nothing)
async def async_two_tasks(stage: Stage) -> None:
    """One waits for the other."""
    await asyncio.gather(stage.aturn("a"), stage.aturn("a"))


@_scenario(_held_to_the_end)
async def async_timeout(stage: Stage) -> None:
    try:
        await stage.aturn("a", timeout=0.01)
    except TurnTimeout:
        pass


@_scenario(_one)
async def async_caught(stage: Stage) -> None:
    struck: BaseException | None = None
    for _ in range(2):
        try:
            async with stage.room.turn("a", timeout=stage.patience) as turn:
                assert turn.agent
        except BaseException as error:
            struck = error.with_traceback(None)
    if struck is not None:
        raise struck


@_scenario(_one)
async def async_discard(stage: Stage) -> None:
    async with stage.room.turn("a") as turn:
        turn.discard("a fallback was used")


@_scenario(_one)
async def async_commit(stage: Stage) -> None:
    await stage.room.session("a").commit()


@_scenario(_two, keys=("a", "b"), ending=True)
async def async_close(stage: Stage) -> None:
    async with stage.room:
        await stage.aturn("a")
