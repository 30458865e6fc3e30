"""Release and close: S1 to S6."""

from __future__ import annotations

import contextvars
import functools
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import AgentHooks, BuildFailed, Reason
from greenroom.actors import ManualClock, Session, WorkTimedOut
from tests.actors.actors import PATIENCE
from tests.room.agents import SPEC, Agent, Cast, look_at, row_of, take_turn, touch, until

if TYPE_CHECKING:
    from greenroom import BuildContext, Greenroom

caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


class Resource:
    """A sandbox, say. Notes in the cast's log when it is stopped."""

    def __init__(self, cast: Cast, name: str) -> None:
        self.cast = cast
        self.name = name

    def stop(self) -> None:
        self.cast.log.append(f"stop {self.name}")


def with_resources(cast: Cast, *names: str) -> Any:
    """A `build` that also makes the session's resources of these names."""

    def build(context: BuildContext) -> Agent:
        agent = cast.build(context)
        made = [
            context.resources.get(name, functools.partial(Resource, cast, name), close=Resource.stop)
            for name in names
        ]
        agent.resources = made  # type: ignore[attr-defined]  # for the tests below
        return agent

    return build


def resources_of(agent: Any) -> list[Resource]:
    """The resources that an agent was built with."""
    return list(agent.resources)


# S1


def test_a_release_calls_release_clients_once_and_neither_close_nor_shutdown(cast: Cast) -> None:
    """S1"""
    room = cast.room()
    touch(room, "a")

    assert room.evict("a")
    room.settle()
    room.evict("a")
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "release a/1"]
    assert (room.stats().releases, room.stats().closes) == (1, 0)


def test_a_release_leaves_resources_and_settings(cast: Cast) -> None:
    """S1"""
    room = cast.room(build=with_resources(cast, "sandbox"))
    room.settings("a")["model"] = "override"
    touch(room, "a")

    room.evict("a")
    room.settle()

    assert cast.did("stop") == []
    assert dict(room.settings("a")) == {"model": "override"}


def test_a_session_without_an_agent_keeps_no_table_for_agents(cast: Cast) -> None:
    """There may be a million of them."""
    with cast.room() as room:
        take_turn(room, "g")
        room.evict("g")
        room.settle(PATIENCE)

        session = room._context.cards["g"].ref.actor_inbox.actor
        assert isinstance(session, Session)
        assert session._state.agents == ()
        assert session._state.rare is None


def test_an_agent_without_release_clients_gets_close(cast: Cast) -> None:
    """S1"""

    class OldAgent:
        def __init__(self) -> None:
            self.calls: list[str] = []

        def close(self) -> None:
            self.calls.append("close")

        def shutdown_memory_provider(self) -> None:
            self.calls.append("shutdown")

    agent = OldAgent()
    room = cast.room(build=lambda _: agent)
    touch(room, "a")
    room.evict("a")
    room.settle()

    assert agent.calls == ["close"]
    assert (room.stats().releases, room.stats().closes) == (1, 0)


def test_an_agent_without_any_hook_will_do(cast: Cast) -> None:
    """S1, S2, G2"""
    room = cast.room(build=lambda _: "an agent")

    touch(room, "a")
    assert room.commit("a")
    touch(room, "a")
    room.evict("a")
    touch(room, "a")
    room.end("a")
    room.settle()

    assert (room.stats().releases, room.stats().closes, room.stats().known) == (1, 1, 0)


def test_a_turn_that_comes_while_the_agent_is_committed_for_its_release_keeps_it(cast: Cast) -> None:
    """S1, C4. The agent is still whole: the release is called off."""
    room = cast.room()
    committing = cast.at["commit"] = cast.gate()
    touch(room, "a")
    room.evict("a")
    committing.wait_reached()

    turn = cast.hold(room, "a")
    committing.open()
    until(lambda: "commit a/1" in cast.done, "the end of the commit")
    room.settle()

    assert turn.turn.agent.name == "a/1"
    assert turn.turn.reused
    assert cast.did("release") == []
    turn.end()
    assert "a" in room


def test_a_turn_that_comes_while_the_agent_is_released_gets_the_next_incarnation(cast: Cast) -> None:
    """S1, S3. The agent is not whole any more."""
    room = cast.room()
    releasing = cast.at["release"] = cast.gate()
    touch(room, "a")
    room.evict("a")
    releasing.wait_reached()

    assert take_turn(room, "a").name == "a/2"
    releasing.open()
    room.settle()

    assert cast.did("release") == ["a/1"]
    assert room.keys() == ("a",)


# S2


def test_a_close_shuts_the_memory_and_closes_the_agent_once_each(cast: Cast) -> None:
    """S2"""
    room = cast.room()
    touch(room, "a")

    assert room.end("a")
    room.end("a")
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "shutdown a/1", "close a/1"]
    assert (room.stats().releases, room.stats().closes) == (0, 1)


def test_a_session_that_is_ended_twice_has_ended_once(cast: Cast) -> None:
    """S2"""
    room = cast.room()
    closing = cast.at["close"] = cast.gate()
    look_at(room, "a")

    assert room.end("a")
    closing.wait_reached()
    room.end("a")
    closing.open()
    room.settle()

    assert room.stats().sessions_ended == 1


@pytest.mark.parametrize("failing", [("shutdown",), ("close",), ("shutdown", "close")])
def test_a_close_calls_everything_even_if_a_hook_raises(cast: Cast, failing: tuple[str, ...]) -> None:
    """S2, S5"""
    room = cast.room(build=with_resources(cast, "sandbox"))
    cast.at |= dict.fromkeys(failing, OSError("it is broken"))
    look_at(room, "a")

    room.end("a")
    room.settle()

    assert cast.log == ["build a/1", "shutdown a/1", "close a/1", "stop sandbox"]
    assert room.stats().hook_failures == len(failing)
    assert room.stats().known == 0


def test_a_close_closes_the_resources_in_reverse_order_after_the_agent(cast: Cast) -> None:
    """S2"""
    room = cast.room(build=with_resources(cast, "sandbox", "browser", "processes"))
    look_at(room, "a")

    room.end("a")
    room.settle()

    assert cast.log[1:] == [
        "shutdown a/1",
        "close a/1",
        "stop processes",
        "stop browser",
        "stop sandbox",
    ]


def test_a_resource_that_cannot_be_closed_keeps_no_other_from_it(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """S2, S5"""
    stopped: list[str] = []

    def stop(name: str) -> None:
        stopped.append(name)
        if name == "browser":
            raise OSError("it is broken")

    def build(context: BuildContext) -> Agent:
        for name in ("sandbox", "browser", "processes"):
            context.resources.get(name, functools.partial(str, name), close=stop)
        return cast.build(context)

    room = cast.room(build=build)
    look_at(room, "telegram:12345")
    room.end("telegram:12345")
    room.settle()

    assert stopped == ["processes", "browser", "sandbox"]
    assert room.stats().hook_failures == 1
    assert "telegram:12345" in caplog.text
    assert "browser" in caplog.text


def test_a_close_drops_the_settings_and_stops_the_actor(cast: Cast) -> None:
    """S2"""
    room = cast.room()
    room.settings("a")["model"] = "override"
    touch(room, "a")
    actor = room.session("a").actor_ref

    room.end("a")
    room.settle()

    until(lambda: not actor.is_alive(), "the end of the actor")
    assert room.stats().known == 0
    assert dict(room.settings("a")) == {}


def test_a_close_of_a_session_without_an_agent_closes_its_resources_and_drops_its_settings(
    cast: Cast,
) -> None:
    """S2"""
    room = cast.room(build=with_resources(cast, "sandbox"))
    room.settings("a")["model"] = "override"
    touch(room, "a")
    room.evict("a")
    room.settle()

    assert room.end("a")
    room.settle()

    assert cast.log[1:] == ["commit a/1", "release a/1", "stop sandbox"]
    assert room.stats().known == 0


def test_settings_alone_make_a_session_that_can_be_ended(cast: Cast) -> None:
    """S2"""
    room = cast.room()
    room.settings("a")["model"] = "override"
    assert room.stats().known == 1

    assert room.end("a")
    room.settle()

    until(lambda: room.stats().known == 0, "no session")
    assert dict(room.settings("a")) == {}


def test_a_turn_after_a_close_begins_a_session_with_nothing_of_the_last(cast: Cast) -> None:
    """S2"""
    room = cast.room(build=with_resources(cast, "sandbox"))
    room.settings("a")["model"] = "override"
    first = take_turn(room, "a")
    room.end("a")

    second = take_turn(room, "a")
    room.settle()

    assert second.name == "a/2"
    assert resources_of(second)[0] is not resources_of(first)[0]
    assert dict(room.settings("a")) == {}
    assert cast.did("stop") == ["sandbox"], "the old one only"


def test_a_closed_agent_is_not_released_too(cast: Cast) -> None:
    """S2, S1. One farewell an agent, whatever is asked for."""
    room = cast.room(cap=1)
    committing = cast.at["commit a"] = cast.gate()
    touch(room, "a")
    room.evict("a")
    committing.wait_reached()
    room.end("a")
    committing.open()
    room.settle()

    assert cast.farewells() == {"a/1": 1}
    assert cast.did("close") == ["a/1"]


# S3


def test_the_next_turn_after_a_release_builds_with_the_same_resources_and_settings(cast: Cast) -> None:
    """S3"""
    room = cast.room(build=with_resources(cast, "sandbox", "browser"))
    room.settings("a")["model"] = "override"
    first = take_turn(room, "a", session_id="20261115-a1")
    room.evict("a")
    room.settle()

    with room.turn("a", session_id="20261115-a1") as turn:
        second = turn.agent

    assert second is not first
    assert second.session_id == first.session_id == "20261115-a1"
    assert turn.rebuild_reason is Reason.EXPLICIT
    assert resources_of(second) == resources_of(first)
    assert room.settings("a")["model"] == "override"


def test_the_generations_go_on_after_a_release(cast: Cast) -> None:
    """S3"""
    room = cast.room()
    touch(room, "a", "a")
    room.evict("a")
    room.settle()

    with room.turn("a") as turn:
        assert turn.generation == 2

    assert turn.generation == 3


def test_a_resource_whose_factory_fails_is_made_by_the_next_build(cast: Cast) -> None:
    """S3, T5"""
    failing = [True]

    def make() -> str:
        if failing:
            failing.clear()
            raise ConnectionError
        return "sandbox"

    def build(context: BuildContext) -> Agent:
        assert context.resources.get("sandbox", make) == "sandbox"
        return cast.build(context)

    room = cast.room(build=build)
    with pytest.raises(BuildFailed):
        take_turn(room, "a")

    take_turn(room, "a")


# S4


def test_a_released_agents_transcript_is_let_go_with_it(cast: Cast) -> None:
    """S4"""
    room = cast.room()
    agent = take_turn(room, "a")
    assert agent.transcript == ["hello"]

    room.evict("a")
    room.settle()

    assert agent.transcript == []


def test_the_transcript_is_there_for_the_commit_and_the_release(cast: Cast) -> None:
    """S4"""
    seen: list[tuple[str, list[str]]] = []
    room = cast.room()
    agent = take_turn(room, "a")
    for what in ("commit", "release"):
        cast.at[what] = lambda what=what: seen.append((what, list(agent.transcript)))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

    room.evict("a")
    room.settle()

    assert seen == [("commit", ["hello"]), ("release", ["hello"])]


def test_a_transcript_of_another_kind_stops_nothing(cast: Cast) -> None:
    """S4, S5"""

    class Odd:
        _session_messages = 42

    room = cast.room(build=lambda _: Odd())
    look_at(room, "a")
    room.evict("a")
    room.settle()

    assert room.stats().releases == 1


# S5


@pytest.mark.parametrize("hook", ["release", "close", "shutdown"])
@pytest.mark.parametrize("error", [OSError("it is broken"), SystemExit(3), KeyboardInterrupt()])
def test_a_hook_that_raises_is_logged_with_its_session_and_reason_and_counted(
    cast: Cast, caplog: pytest.LogCaptureFixture, hook: str, error: BaseException
) -> None:
    """S5"""
    room = cast.room()
    cast.at[f"{hook} telegram:12345"] = error
    look_at(room, "telegram:12345", "b")

    for key in ("telegram:12345", "b"):
        (room.evict if hook == "release" else room.end)(key)
    room.settle()

    assert room.stats().hook_failures == 1
    (text,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "telegram:12345" in text
    assert "explicit" in text
    assert type(error).__name__ in text
    assert cast.farewells() == {"telegram:12345/1": 1, "b/1": 1}
    touch(room, "telegram:12345")


def test_a_release_that_raises_lets_the_agent_go_all_the_same(cast: Cast) -> None:
    """S5, C3"""
    room = cast.room(cap=2)
    cast.at["release"] = OSError("it is broken")

    touch(room, *"abcdef")
    room.settle()

    assert room.keys() == ("e", "f")
    assert room.stats().releases == 4
    assert room.stats().hook_failures == 4


def test_an_interrupt_that_raises_is_logged_and_counted(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """S5, T7"""
    room = cast.room()
    cast.at["interrupt"] = OSError("it is broken")
    held = cast.hold(room, "telegram:12345")

    room.end("telegram:12345", interrupt=True)
    until(lambda: room.stats().hook_failures == 1, "a failure that is counted")
    held.end()
    room.settle()

    assert "telegram:12345" in caplog.text
    assert cast.did("close") == ["telegram:12345/1"]


@pytest.mark.parametrize("what", ["release", "close", "shutdown"])
def test_a_hook_that_is_stuck_is_written_off_and_named(
    cast: Cast, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """S5"""
    clock = ManualClock()
    room = cast.room(clock=clock, teardown_timeout=10.0)
    stuck = cast.at[f"{what} telegram:12345"] = cast.gate()
    look_at(room, "telegram:12345")
    (room.evict if what == "release" else room.end)("telegram:12345")
    stuck.wait_reached()

    clock.advance(9.0)
    assert room.stats().workers_lost == 0
    clock.advance(1.0)
    room.settle()

    stats = room.stats()
    assert (stats.workers_lost, stats.hook_failures) == (1, 1)
    assert any("telegram:12345" in name for name in stats.stuck)
    assert "telegram:12345" in caplog.text
    assert (stats.releases + stats.closes, stats.busy) == (1, 0)
    touch(room, "telegram:12345")
    stuck.open()
    until(lambda: room.stats().stuck == (), "nothing that is stuck")
    assert room.stats().releases + room.stats().closes == 1, "it came back, and is not counted twice"


def test_the_thread_of_a_stuck_hook_names_its_session(cast: Cast) -> None:
    """S5"""
    room = cast.room()
    names: list[str] = []
    stuck = cast.gate()

    def wedge() -> None:
        names.append(threading.current_thread().name)
        stuck.wait()

    cast.at["commit telegram:12345"] = wedge
    touch(room, "telegram:12345")
    room.evict("telegram:12345")
    stuck.wait_reached()

    assert "telegram:12345" in names[0]
    assert names[0] in [thread.name for thread in threading.enumerate()], "and a stack dump shows it"


def test_context_variables_of_the_caller_reach_the_hooks(cast: Cast) -> None:
    """S5, C7"""
    seen: list[tuple[str, str]] = []
    for what in ("commit", "release", "close", "shutdown"):
        cast.at[what] = lambda what=what: seen.append((what, caller.get()))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
    room = cast.room()
    touch(room, "a", "b")

    def do(name: str, call: Any) -> None:
        caller.set(name)
        call()

    for name, call in (
        ("ada", lambda: room.commit("a")),
        ("grace", lambda: room.evict("a")),
        ("mary", lambda: room.end("b")),
    ):
        contextvars.copy_context().run(do, name, call)
        room.settle()

    assert seen == [
        ("commit", "ada"),
        ("release", "grace"),
        ("commit", "mary"),
        ("shutdown", "mary"),
        ("close", "mary"),
    ]


def test_async_hooks_and_an_async_build_will_do_in_threads_too(cast: Cast) -> None:
    """S1, S2, G2"""
    called: list[str] = []

    async def note(agent: Any) -> None:
        called.append(agent.name)

    async def build(context: BuildContext) -> Agent:
        return cast.build(context)

    room = cast.room(build=build, hooks=AgentHooks(commit=note, release=note))
    touch(room, "a")
    room.evict("a")
    room.settle()

    assert called == ["a/1", "a/1"]


# The late agent of a build that was given up.


def test_a_build_that_is_stuck_is_given_up_and_its_late_agent_released(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """S5, T5, C8"""
    clock = ManualClock()
    room = cast.room(clock=clock, build_timeout=10.0)
    building = cast.at["build telegram:12345/1"] = cast.gate()
    first = cast.queue(room, "telegram:12345", timeout=1e6)  # so that it is built on a worker
    building.wait_reached()

    clock.advance(10.0)
    error = first.outcome()
    assert isinstance(error, BuildFailed)
    assert isinstance(error.__cause__, WorkTimedOut)
    assert room.stats().workers_lost == 1
    assert any("telegram:12345" in name for name in room.stats().stuck)
    assert "telegram:12345" in caplog.text
    assert take_turn(room, "telegram:12345").name == "telegram:12345/2"
    building.open()
    until(lambda: cast.done_to("telegram:12345/1") == ["build", "release"], "a release")
    room.settle()

    assert take_turn(room, "telegram:12345").name == "telegram:12345/2"
    assert cast.did("release") == ["telegram:12345/1"]


def test_a_session_is_not_forgotten_before_the_late_agent_of_a_build_was_released(cast: Cast) -> None:
    """S5, S1. Its session is not over: it may resume."""
    clock = ManualClock()
    room = cast.room(clock=clock, build_timeout=10.0)
    building = cast.at["build a/1"] = cast.gate()
    first = cast.queue(room, "a", timeout=1e6)  # so that it is built on a worker
    building.wait_reached()
    clock.advance(10.0)
    assert isinstance(first.outcome(), BuildFailed)
    assert room.stats().known == 1

    building.open()

    until(lambda: cast.farewells() == {"a/1": 1}, "one farewell")
    assert cast.done_to("a/1") == ["build", "release"]
    until(lambda: room.stats().known == 0, "no session")


# S6


def expired(room: Greenroom) -> dict[str, int]:
    """What was closed for its age."""
    return {reason: n for reason, n in room.stats().reasons.items() if reason == "session-expired"}


def test_a_session_unused_for_its_ttl_is_closed(cast: Cast) -> None:
    """S6"""
    clock = ManualClock()
    room = cast.room(
        clock=clock, idle_ttl=None, session_ttl=1000.0, build=with_resources(cast, "sandbox")
    )
    room.settings("a")["model"] = "override"
    touch(room, "a")

    clock.advance(1000.0)
    room.settle()
    assert cast.did("close") == []
    clock.advance(61.0)
    room.settle()

    assert cast.log == ["build a/1", "commit a/1", "shutdown a/1", "close a/1", "stop sandbox"]
    assert room.stats().known == 0
    assert expired(room) == {"session-expired": 1}


def test_a_session_unused_for_its_ttl_is_closed_without_an_agent_too(cast: Cast) -> None:
    """S6"""
    clock = ManualClock()
    room = cast.room(
        clock=clock,
        idle_ttl=100.0,
        session_ttl=1000.0,
        sweep_every=None,
        build=with_resources(cast, "sandbox"),
    )
    touch(room, "a")
    room.settings("b")["model"] = "override"
    clock.advance(200.0)
    assert room.sweep() == 1
    room.settle()
    assert cast.did("release") == ["a/1"]
    assert (len(room), room.stats().known) == (0, 2)

    clock.advance(900.0)
    assert room.sweep() == 0
    room.settle()

    assert cast.did("stop") == ["sandbox"]
    assert room.stats().known == 0


def test_a_use_lets_the_ttl_of_a_session_begin_anew(cast: Cast) -> None:
    """S6"""
    clock = ManualClock()
    room = cast.room(clock=clock, session_ttl=1000.0, sweep_every=10.0)

    for _ in range(5):
        touch(room, "a")
        clock.advance(900.0)
        room.settle()

    assert cast.did("build") == ["a/1"]
    assert row_of(room, "a").generation == 5


def test_a_sweep_closes_what_has_expired_at_once(cast: Cast) -> None:
    """S6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=None, session_ttl=1000.0, sweep_every=None)
    touch(room, "a")
    clock.advance(1001.0)

    room.sweep()
    room.settle()

    assert room.stats().known == 0


def test_settling_waits_for_the_closes_that_a_sweep_has_decided_on(cast: Cast) -> None:
    """S6. However many they are."""
    clock = ManualClock()
    room = cast.room(clock=clock, cap=None, idle_ttl=None, session_ttl=1000.0, sweep_every=None)
    look_at(room, *(f"s{n}" for n in range(300)))
    clock.advance(1001.0)

    room.sweep()
    room.settle(PATIENCE)

    assert room.stats().closes == 300


def test_a_session_ttl_that_is_set_later_holds_for_the_sessions_that_are_there(cast: Cast) -> None:
    """S6, C1"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=None)
    touch(room, "a")
    clock.advance(500.0)
    touch(room, "b")

    room.configure(session_ttl=400.0)
    room.sweep()
    room.settle()

    assert room.keys() == ("b",)


def test_without_a_session_ttl_a_session_stays_for_ever(cast: Cast) -> None:
    """S6"""
    clock = ManualClock()
    room = cast.room(clock=clock, sweep_every=None)
    take_turn(room, "a", SPEC)

    clock.advance(1e9)
    assert room.sweep() == 1
    room.settle()

    assert cast.did("release") == ["a/1"]
    assert room.stats().known == 1
