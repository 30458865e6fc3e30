"""The public face: what is refused, what is told, events, settings, adoption."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    AgentHooks,
    BuildFailed,
    Explanation,
    Greenroom,
    GreenroomError,
    NotSettled,
    Overloaded,
    Policy,
    Reason,
    RoomClosed,
    RoomStats,
    SessionBusy,
    SessionFailed,
    SessionRow,
    TurnTimeout,
)
from greenroom.actors import ManualClock
from greenroom.messages import OpenSession
from greenroom.supervisor.cache import CacheSupervisor
from tests.actors.actors import PATIENCE, all_at_once, in_thread, join_all
from tests.room.agents import (
    OTHER,
    SPEC,
    Agent,
    Cast,
    look_at,
    row_of,
    take_turn,
    touch,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom import Event


# Errors.


@pytest.mark.parametrize(
    "kind",
    [SessionBusy, TurnTimeout, BuildFailed, RoomClosed, Overloaded, SessionFailed, NotSettled],
)
def test_every_error_is_a_greenroom_error_that_names_its_session(kind: type[GreenroomError]) -> None:
    error = kind("a turn of 'a'", "a")

    assert isinstance(error, GreenroomError)
    assert error.key == "a"


def test_an_error_survives_the_way_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(SessionBusy("session 'a' is busy", "a")))

    assert (type(error), str(error), error.key) == (SessionBusy, "session 'a' is busy", "a")


def test_each_error_says_which_session_and_what_to_do(cast: Cast) -> None:
    """T3, T5, D1"""
    clock = ManualClock()
    room = cast.room(max_waiting=0, clock=clock)
    cast.at["build cold"] = ConnectionError("no provider")
    held = cast.hold(room, "telegram:12345")
    errors: list[GreenroomError] = []

    def refused(call: Callable[[], object]) -> None:
        with pytest.raises(GreenroomError) as raised:
            call()
        errors.append(raised.value)

    refused(lambda: take_turn(room, "telegram:12345"))
    refused(lambda: take_turn(room, "telegram:12345", on_busy="reject"))
    refused(lambda: take_turn(room, "cold"))
    held.end()
    room.close()
    refused(lambda: take_turn(room, "telegram:12345"))

    assert [type(error) for error in errors] == [Overloaded, SessionBusy, BuildFailed, RoomClosed]
    assert "max_waiting" in str(errors[0])
    assert "on_busy='wait'" in str(errors[1])
    assert "the next turn tries again" in str(errors[2])
    assert [error.key for error in errors[:3]] == ["telegram:12345", "telegram:12345", "cold"]


def test_no_error_and_no_log_line_shows_a_secret(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    """T5, I3"""
    caplog.set_level("DEBUG", logger="greenroom")
    room = cast.room()
    spec = {"model": "m", "api_key": "sk-secret"}
    take_turn(room, "a", spec)
    room.evict("a")
    room.settle()
    cast.at["build"] = ConnectionError("no provider")

    with pytest.raises(BuildFailed) as raised:
        take_turn(room, "a", spec)

    shown = [str(raised.value), caplog.text, str(room.explain("a")), repr(room.snapshot()), repr(room)]
    assert not any("sk-secret" in text for text in shown)


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"session_id": ""}, "session id"),
        ({"session_id": 5}, "session id"),
        ({"on_busy": "drop"}, "on_busy must be 'wait' or 'reject', not 'drop'"),
        ({"timeout": -1.0}, "timeout must be from 0 to 1e\\+09 seconds, not -1.0"),
        ({"timeout": float("nan")}, "timeout"),
    ],
)
def test_a_turn_with_arguments_that_make_no_sense_is_refused(
    cast: Cast, arguments: dict[str, Any], text: str
) -> None:
    """G10, T3"""
    room = cast.room()

    with pytest.raises(ValueError, match=text):
        room.turn("a", **arguments)


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("cap", 0),
        ("cap", -1),
        ("cap", 1.5),
        ("cap", True),
        ("cap", "128"),
        ("idle_ttl", 0),
        ("idle_ttl", -1.0),
        ("idle_ttl", float("nan")),
        ("idle_ttl", float("inf")),
        ("idle_ttl", "3600"),
        ("sweep_every", 0),
        ("session_ttl", -5.0),
        ("max_waiting", -1),
        ("max_waiting", None),
        ("commit_timeout", 0),
        ("build_timeout", -1),
        ("teardown_timeout", 0.0),
        ("retry_first", None),
        ("retry_most", 0),
        ("memory_budget", 0),
        ("memory_budget", -1),
        ("memory_budget", 1.5),
        ("memory_budget", True),
        ("memory_relief", 0),
        ("memory_batch", 0),
        ("weigh", 100),
    ],
)
def test_every_figure_of_a_policy_is_validated(cast: Cast, figure: str, value: Any) -> None:
    """C1"""
    with pytest.raises((ValueError, TypeError), match=figure) as raised:
        Policy(**{figure: value})
    assert repr(value) in str(raised.value), "the offending value is shown"

    room = cast.room()
    with pytest.raises((ValueError, TypeError), match=figure):
        room.configure(**{figure: value})
    assert room.policy == Policy()


def test_a_policy_is_frozen() -> None:
    """C1"""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Policy().cap = 1  # type: ignore[misc]  # that is the point


def test_a_figure_that_does_not_exist_is_refused(cast: Cast) -> None:
    """C1"""
    with pytest.raises(TypeError, match="capp"):
        cast.room().configure(capp=2)


@pytest.mark.parametrize("build", [None, "build", 5])
def test_a_build_that_is_no_function_is_refused(build: Any) -> None:
    with pytest.raises(TypeError, match="build"):
        Greenroom(build)


def test_a_prepare_that_is_no_function_is_refused(cast: Cast) -> None:
    with pytest.raises(TypeError, match="prepare"):
        Greenroom(cast.build, prepare=5)  # type: ignore[arg-type]  # that is the point


def test_a_hook_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="commit"):
        AgentHooks(commit="commit")  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("given", "instead"),
    [({"hooks": {"commit": print}}, r"AgentHooks\(commit"), ({"policy": {"cap": 1}}, r"Policy\(cap")],
)
def test_a_mapping_in_the_place_of_hooks_or_a_policy_is_refused_with_what_to_pass(
    cast: Cast, given: Any, instead: str
) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(given))} must be {instead}.* or None, not .* dict"):
        Greenroom(cast.build, **given)


def test_a_room_and_a_turn_cannot_be_pickled_or_copied_and_say_so(cast: Cast) -> None:
    room = cast.room()
    with room.turn("a") as turn:
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="a room cannot be pickled or copied: open one in each"):
                copied(room)
            with pytest.raises(TypeError, match="the turn of 'a' cannot be pickled or copied"):
                copied(turn)


@pytest.mark.parametrize("deadline", [-1.0, float("nan")])
def test_a_deadline_that_makes_no_sense_is_refused(cast: Cast, deadline: float) -> None:
    """D1"""
    room = cast.room()

    with pytest.raises(ValueError, match="deadline"):
        room.drain(deadline)

    touch(room, "a")


def test_a_turn_is_used_once(cast: Cast) -> None:
    """T8"""
    room = cast.room()
    turn = room.turn("telegram:12345")
    with turn:
        pass

    with pytest.raises(RuntimeError, match="telegram:12345"), turn:
        pytest.fail("it began again")


@pytest.mark.parametrize("way", ["completed", "failed", "cancelled", "async"])
def test_a_turn_that_is_over_has_no_agent_any_more(cast: Cast, way: str) -> None:
    """T8, C8. Another turn may have it by then."""
    room = cast.room()

    async def on_a_loop() -> Any:
        async with room.turn("a") as turn:
            return turn

    if way == "async":
        turn = asyncio.run(on_a_loop())
    else:
        with contextlib.suppress(OSError), room.turn("a") as turn:
            if way == "failed":
                raise OSError
            if way == "cancelled":
                turn.cancel()

    with pytest.raises(RuntimeError, match="'a' has no agent, it is over: keep a reference"):
        _ = turn.agent


def test_a_turn_that_has_not_begun_has_no_agent_and_cannot_be_given_back(cast: Cast) -> None:
    """T8"""
    turn = cast.room().turn("telegram:12345")

    with pytest.raises(RuntimeError, match="has not begun"):
        _ = turn.agent
    with pytest.raises(RuntimeError, match="has not begun"):
        turn.__exit__(None, None, None)


def test_a_closed_room_refuses_what_would_begin_something_and_answers_the_rest(cast: Cast) -> None:
    """D1, D4"""
    room = cast.room()
    touch(room, "a")
    room.close()

    for call in (
        lambda: take_turn(room, "a"),
        lambda: room.configure(cap=1),
        lambda: room.events(print),
        lambda: room.adopt("a", Agent(cast, "a", "adopted"), SPEC),
        lambda: room.settings("a").get("model"),
        lambda: room.session("a"),
    ):
        with pytest.raises(RoomClosed):
            call()
    assert (room.keys(), len(room), "a" in room, room.snapshot()) == ((), 0, False, ())
    assert not room.commit("a")
    assert not room.evict("a")
    assert not room.end("a")
    assert not room.has_uncommitted("a")
    assert room.sweep() == 0
    assert not room.explain("a").known
    assert room.settle()
    assert room.stats().closes == 1


# What is told.


def test_stats_are_frozen_counters(cast: Cast) -> None:
    """C5"""
    room = cast.room()
    stats = room.stats()

    assert isinstance(stats, RoomStats)
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.cached = 5  # type: ignore[misc]  # that is the point
    assert pickle.loads(pickle.dumps(stats)) == stats


def test_stats_tell_what_is_and_what_has_been(cast: Cast) -> None:
    """C5, G1, T3"""
    room = cast.room(cap=3)
    touch(room, *"aab")
    held = cast.hold(room, "c")
    waiting = cast.queue(room, "c")
    room.commit("a")

    stats = room.stats()
    assert (stats.cached, stats.cap, stats.over_cap, stats.known) == (3, 3, 0, 3)
    assert (stats.in_turn, stats.waiting, stats.dirty, stats.retained) == (1, 1, 1, 0)
    assert (stats.hits, stats.builds, stats.rebuilds) == (1, 3, 0)
    assert (stats.releases, stats.closes, stats.commits, stats.commit_failures) == (0, 0, 1, 0)
    assert (stats.workers_lost, stats.stuck, stats.failed) == (0, (), 0)
    held.end()
    waiting.end()


def test_what_is_cached_can_be_asked_for_in_three_ways(cast: Cast) -> None:
    """C2"""
    room = cast.room()
    assert (len(room), room.keys(), "a" in room) == (0, (), False)

    touch(room, *"ab")

    assert (len(room), room.keys(), "a" in room, "c" in room) == (2, ("a", "b"), True, False)
    assert 5 not in room
    assert bool(room)


def test_a_snapshot_has_a_row_for_each_session(cast: Cast) -> None:
    """C5"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    touch(room, "idle", "idle")
    room.commit("idle")
    touch(room, "idle")
    touch(room, "released")
    room.evict("released")
    room.settle()
    cast.hold(room, "busy", session_id="20261115-a1")
    clock.advance(5.0)

    rows = {row.key: row for row in room.snapshot()}

    assert set(rows) == {"idle", "released", "busy"}
    assert all(isinstance(row, SessionRow) for row in rows.values())
    idle, released, busy = rows["idle"], rows["released"], rows["busy"]
    assert (idle.state, idle.cached, idle.generation, idle.committed) == ("idle", True, 3, 2)
    assert idle.idle_seconds == 5.0
    assert (released.state, released.cached) == ("known", False)
    assert released.last_reason is Reason.EXPLICIT
    assert (busy.state, busy.session_id, busy.idle_seconds) == ("in turn", "20261115-a1", None)


def explained(room: Greenroom, key: str) -> str:
    explanation = room.explain(key)
    assert isinstance(explanation, Explanation)
    assert explanation.key == key
    return str(explanation)


def test_explain_tells_why_a_session_is_live_and_what_keeps_it(cast: Cast) -> None:
    """C5, G9"""
    clock = ManualClock()
    room = cast.room(clock=clock, cap=2, idle_ttl=100.0)
    touch(room, "a")
    clock.advance(10.0)
    touch(room, "b")

    text = explained(room, "a")

    assert "idle for 10 s" in text
    assert "in 90 s" in text
    assert "number 1 of 2" in text
    assert "1 of its 1 completed turns are not committed" in text


def test_explain_tells_of_a_turn_and_of_who_waits(cast: Cast) -> None:
    """C4, T3"""
    room = cast.room()
    cast.hold(room, "a")
    cast.queue(room, "a")

    text = explained(room, "a")

    assert "in a turn" in text
    assert "1 turns wait" in text


def test_explain_tells_that_a_session_is_beyond_the_cap(cast: Cast) -> None:
    """C5"""
    room = cast.room(cap=1)
    cast.hold(room, "old")
    touch(room, "b")

    assert "beyond" in explained(room, "old")
    assert "beyond" not in explained(room, "b")


def test_explain_tells_why_a_session_has_no_agent(cast: Cast) -> None:
    """C8"""
    room = cast.room(cap=1)
    touch(room, *"ab")
    room.settle()

    told = explained(room, "a")
    assert told.startswith("a: no agent\n")
    assert "The last one was released: the room was over its cap." in told


def test_explain_tells_of_a_build_and_of_what_went_wrong(cast: Cast) -> None:
    """T5, S5"""
    room = cast.room()
    touch(room, "a")
    cast.at["release"] = OSError("it is broken")
    room.evict("a")
    room.settle()
    assert "it is broken" in explained(room, "a")
    building = cast.at["build"] = cast.gate()
    cast.start(room, "a")
    building.wait_reached()

    assert "being built" in explained(room, "a")


def test_explain_tells_that_an_adopted_agent_has_no_known_activity(cast: Cast) -> None:
    """C6"""
    room = cast.room()
    room.adopt("a", Agent(cast, "a", "adopted"), SPEC)

    assert "no activity is known" in explained(room, "a")


def test_explain_tells_that_there_is_no_such_session(cast: Cast) -> None:
    room = cast.room()

    assert not room.explain("a").known
    assert "no such session" in explained(room, "a")
    assert room.stats().known == 0


def test_settling_waits_for_what_is_under_way_and_says_what_it_is(cast: Cast) -> None:
    """C7"""
    room = cast.room()
    releasing = cast.at["release telegram:12345"] = cast.gate()
    touch(room, "telegram:12345", "a")
    cast.hold(room, "a")
    room.evict("telegram:12345")
    releasing.wait_reached()

    with pytest.raises(NotSettled, match="telegram:12345") as raised:
        room.settle(0.01)
    assert isinstance(raised.value, TimeoutError)
    releasing.open()

    assert room.settle(PATIENCE), "a turn is not waited for"


def test_a_room_settles_when_a_key_is_asked_for_before_the_end_of_its_session_was_told(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. the supervisor begins to open the key  2. the session of the key ends  3. the supervisor finds
    it dead and opens another  4. it hears of the end of a session that it does not know any more."""
    room = cast.room()
    closing = cast.at["close"] = cast.gate()
    touch(room, "a")
    room.end("a")
    closing.wait_reached()
    session = room._context.cards["a"].ref
    open_session = CacheSupervisor._methods[OpenSession]

    def ends_meanwhile(self: CacheSupervisor, message: OpenSession) -> Any:
        closing.open()
        until(lambda: not session.is_alive(), "the end of the session")
        return open_session(self, message)

    settled: list[bool] = []
    settling = in_thread(lambda: settled.append(room.settle(PATIENCE)))
    until(lambda: room._context.settling, "one who waits")
    monkeypatch.setitem(CacheSupervisor._methods, OpenSession, ends_meanwhile)

    room._line.open("a")

    join_all([settling])
    assert settled == [True]


def test_the_repr_of_a_room_and_of_a_turn_tell_how_they_are(cast: Cast) -> None:
    room = cast.room()
    turn = room.turn("a")
    texts = [repr(turn)]
    with turn:
        texts.append(repr(turn))
    texts.append(repr(turn))

    assert [text.split(", ")[1] for text in texts] == ["not begun>", "running>", "over>"]
    assert repr(room) == "<Greenroom, open>"
    room.close()
    assert "closed" in repr(room)


# Events.


def test_events_tell_everything_in_order_with_a_reason(cast: Cast) -> None:
    """T1, T2, G2, S1, S2, S5"""
    room = cast.room()
    events: list[Event] = []
    room.events(events.append)

    take_turn(room, "a", SPEC)
    take_turn(room, "a", SPEC)
    room.commit("a")
    take_turn(room, "a", OTHER)
    room.settle()
    cast.at["commit"] = ConnectionError("memory is down")
    room.commit("a")
    del cast.at["commit"]
    room.evict("a")
    room.settle()
    cast.at["build"] = ConnectionError("no provider")
    with pytest.raises(BuildFailed):
        take_turn(room, "a")
    del cast.at["build"]
    cast.at["close"] = OSError("it is broken")
    take_turn(room, "a", ephemeral=True)
    room.end("a")
    room.settle()
    until(lambda: events and events[-1].kind == "end", "the last event")

    kinds = [event.kind for event in events]
    assert kinds == [
        "build",
        "hit",
        "commit",
        *kinds[3:5],  # the next is built beside the release of the last; see below
        "failure",
        "commit",
        "release",
        "failure",
        "build",
        "failure",
        "close",
        "end",
    ]
    assert {event.key for event in events} == {"a"}
    told: list[Any] = list(events)
    assert told[2].turns == 2
    assert {event.kind: event.reason for event in told[3:5]} == {
        "build": Reason.SPEC,
        "release": Reason.SPEC,
    }
    assert isinstance(told[5].error, ConnectionError)
    assert told[7].reason is Reason.EXPLICIT
    assert told[8].reason is Reason.FAILURE
    assert told[9].reason is Reason.EXPLICIT
    assert (told[10].hook, told[10].reason) == ("close", Reason.EXPLICIT)


def test_events_come_on_a_thread_of_their_own(cast: Cast) -> None:
    """C7"""
    room = cast.room()
    threads: list[int] = []
    builders: list[int] = []
    cast.at["build"] = lambda: builders.append(threading.get_ident())
    room.events(lambda _: threads.append(threading.get_ident()))

    touch(room, *"ab")
    until(lambda: len(threads) == 2, "two events")

    assert threading.get_ident() not in threads
    assert not set(threads) & set(builders)


def test_a_slow_listener_delays_nobody_and_misses_nothing(cast: Cast) -> None:
    """C7"""
    room = cast.room()
    gate = cast.gate()
    slow: list[str] = []
    quick: list[str] = []

    def listen(event: Event) -> None:
        gate.wait()
        slow.append(event.key)

    room.events(listen)
    room.events(lambda event: quick.append(event.key))
    touch(room, "a")
    gate.wait_reached()

    touch(room, *"bcd")
    room.evict("a")
    room.settle()
    until(lambda: len(quick) == 6, "what the quick one hears")
    assert slow == []
    gate.open()
    until(lambda: len(slow) == 6, "what the slow one hears")

    assert slow == quick
    assert room.stats().events_dropped == 0


@pytest.mark.parametrize("error", [ZeroDivisionError(), SystemExit(3)])
def test_a_failing_listener_is_logged_and_called_again(
    cast: Cast, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """C7"""
    room = cast.room()
    heard: list[str] = []

    def listen(event: Event) -> None:
        heard.append(event.key)
        if event.key == "a":
            raise error

    room.events(listen)
    touch(room, *"ab")
    until(lambda: heard == ["a", "b"], "both events")

    assert "listener failed" in caplog.text


def test_a_listener_may_leave_out_the_turns_that_found_their_agent(cast: Cast) -> None:
    room = cast.room()
    kinds: list[str] = []
    room.events(lambda event: kinds.append(event.kind), hits=False)

    touch(room, "a")
    touch(room, "a")
    assert room._context.warm  # nobody wants to hear of warm turns
    room.end("a")
    room.settle()
    room.close()

    assert kinds == ["build", "commit", "close", "end"]


def test_a_listener_that_was_stopped_hears_no_more(cast: Cast) -> None:
    room = cast.room()
    stopped: list[str] = []
    heard: list[str] = []
    stop = room.events(lambda event: stopped.append(event.key))
    room.events(lambda event: heard.append(event.key))
    touch(room, "a")
    until(lambda: stopped == heard == ["a"], "the first event")

    stop()
    touch(room, "b")
    until(lambda: heard == ["a", "b"], "the second event")
    stop()

    assert stopped == ["a"]


def test_a_listener_that_is_no_function_is_refused(cast: Cast) -> None:
    with pytest.raises(TypeError, match="callback"):
        cast.room().events("print")  # type: ignore[arg-type]  # that is the point


def test_events_of_the_drain_are_told_too(cast: Cast) -> None:
    """D1"""
    room = cast.room()
    events: list[Any] = []
    room.events(events.append)
    touch(room, "a")

    room.drain()
    until(lambda: events[-1:] and events[-1].kind == "end", "the last event")

    assert [event.kind for event in events] == ["build", "commit", "close", "end"]
    assert [event.reason for event in events[2:]] == [Reason.SHUTDOWN] * 2


# Settings.


def test_settings_are_a_mapping(cast: Cast) -> None:
    """S1"""
    settings = cast.room().settings("a")

    settings["model"] = "x"
    settings.update({"effort": "high"}, steps=3)
    assert dict(settings) == {"model": "x", "effort": "high", "steps": 3}
    assert (len(settings), "model" in settings, "other" in settings) == (3, True, False)
    assert settings.get("other", 5) == 5
    assert settings.setdefault("model", "y") == "x"
    assert settings.pop("model") == "x"
    assert settings.pop("model", None) is None
    del settings["effort"]
    assert settings == {"steps": 3}
    settings.clear()
    assert not settings
    with pytest.raises(KeyError):
        settings["model"]
    with pytest.raises(KeyError):
        del settings["model"]


def test_each_session_has_settings_of_its_own_and_everybody_sees_the_same(cast: Cast) -> None:
    """S1"""
    room = cast.room()

    room.settings("a")["model"] = "x"

    assert dict(room.settings("a")) == {"model": "x"}
    assert dict(room.settings("b")) == {}


def test_of_two_who_pop_a_setting_one_gets_it(cast: Cast) -> None:
    """S1"""
    room = cast.room()
    room.settings("a").update({f"approval {n}": n for n in range(50)})
    got: list[int] = []

    def pop() -> None:
        settings = room.settings("a")
        for n in range(50):
            value = settings.pop(f"approval {n}", None)
            if value is not None:
                got.append(value)

    all_at_once([pop] * 4)

    assert sorted(got) == list(range(50))


def test_settings_are_there_during_a_turn_and_in_a_build(cast: Cast) -> None:
    """S1, S3"""

    def build(context: Any) -> Agent:
        context.settings["built"] = context.settings.get("built", 0) + 1
        return cast.build(context)

    room = cast.room(build=build)
    with room.turn("a"):
        assert room.settings("a")["built"] == 1
    room.evict("a")
    room.settle()
    touch(room, "a")

    assert room.settings("a")["built"] == 2


# Adoption.


def test_an_adopted_agent_is_used_if_its_spec_fits(cast: Cast) -> None:
    """C6, T1"""
    room = cast.room()
    agent = Agent(cast, "a", "adopted")
    room.adopt("a", agent, SPEC)

    with room.turn("a", SPEC) as turn:
        assert turn.agent is agent
        assert turn.reused

    assert cast.log == []


def test_an_adopted_agent_is_released_if_its_spec_does_not_fit(cast: Cast) -> None:
    """C6, T2"""
    room = cast.room()
    room.adopt("a", Agent(cast, "a", "adopted"), SPEC)

    assert take_turn(room, "a", OTHER).name == "a/1"
    room.settle()

    assert cast.done_to("adopted") == ["release"]


def test_adopting_releases_the_agent_that_was_there_commit_first(cast: Cast) -> None:
    """C6, T2"""
    room = cast.room()
    take_turn(room, "a", SPEC)
    adopted = Agent(cast, "a", "adopted")

    room.adopt("a", adopted, SPEC)
    room.settle()

    assert cast.done_to("a/1") == ["build", "commit", "release"]
    assert take_turn(room, "a", SPEC) is adopted
    assert len(room) == 1


def test_nothing_is_adopted_into_a_session_in_a_turn(cast: Cast) -> None:
    """C6, C4"""
    room = cast.room()
    held = cast.hold(room, "telegram:12345")

    with pytest.raises(SessionBusy, match="telegram:12345"):
        room.adopt("telegram:12345", Agent(cast, "a", "adopted"), SPEC)

    held.end()
    assert row_of(room, "telegram:12345").generation == 1
    assert cast.log == ["build telegram:12345/1"]


def test_an_adopted_agent_is_committed_for_the_turns_it_had_here(cast: Cast) -> None:
    """C6, G2"""
    room = cast.room()
    room.adopt("a", Agent(cast, "a", "adopted"), SPEC)
    touch(room, "a")
    look_at(room, "a")

    assert room.commit("a").committed == 1
    assert cast.log == ["commit adopted"]


def test_nothing_cannot_be_adopted(cast: Cast) -> None:
    """C6"""
    room = cast.room()

    with pytest.raises(TypeError, match="agent"):
        room.adopt("a", None, SPEC)

    assert room.stats().known == 0


def test_a_session_tells_how_many_agents_it_has_had(cast: Cast) -> None:
    room = cast.room()
    touch(room, "a")
    room.evict("a")
    room.settle()
    assert row_of(room, "a").agents == 1
    touch(room, "a")
    assert row_of(room, "a").agents == 2


def test_explain_promises_no_turn_of_a_closed_room(cast: Cast) -> None:
    room = cast.room()
    assert "next turn" in explained(room, "a")
    room.close()
    text = explained(room, "a")
    assert "no turn begins any more" in text
    assert "next turn" not in text
