"""Bounds: C1 to C10."""

from __future__ import annotations

import functools
import gc
import logging
import random
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import AgentHooks, BuildFailed, Policy, Reason
from greenroom.actors import ManualClock
from greenroom.actors.session import Session
from greenroom.messages import Call, Configure, ReleaseAgent, ReleaseAnswered, SettleRoom
from greenroom.supervisor.cache import CacheSupervisor
from greenroom.supervisor.eviction import LOOKS
from greenroom.supervisor.requests import Requests
from tests.actors.actors import PATIENCE, all_at_once, in_thread, join_all
from tests.room.agents import (
    OTHER,
    SPEC,
    Agent,
    Cast,
    let_pass,
    look_at,
    row_of,
    take_turn,
    touch,
    until,
    wait_dead,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom import Greenroom

MIB = 1 << 20


def warnings_about_the_cap(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings that say that a room is over its cap."""
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [text for text in texts if "cap" in text]


# C1


def test_the_defaults_are_128_agents_and_an_hour_of_idleness(cast: Cast) -> None:
    """C1"""
    assert (Policy().cap, Policy().idle_ttl) == (128, 3600.0)
    assert (cast.room().policy.cap, cast.room().stats().cap) == (128, 128)


def test_by_default_an_hour_of_idleness_is_allowed_and_no_more(cast: Cast) -> None:
    """C1, C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, sweep_every=None)
    touch(room, "a")

    clock.advance(3600.0)
    assert room.sweep() == 0
    clock.advance(0.5)
    assert room.sweep() == 1


def test_by_default_128_agents_are_kept_and_no_more(cast: Cast) -> None:
    """C1, C3"""
    room = cast.room()

    look_at(room, *(f"s{n}" for n in range(130)))
    room.settle(PATIENCE)

    assert len(room) == 128
    assert sorted(cast.did("release")) == ["s0/1", "s1/1"]


def test_a_smaller_cap_takes_effect_at_once(cast: Cast) -> None:
    """C1"""
    room = cast.room(cap=4)
    touch(room, *"abcd")

    room.configure(cap=2)
    assert room.stats().cap == 2
    room.settle()

    assert room.keys() == ("c", "d")
    assert sorted(cast.did("release")) == ["a/1", "b/1"]


def test_a_larger_cap_takes_effect_at_once(cast: Cast) -> None:
    """C1"""
    room = cast.room(cap=1)
    touch(room, "a")

    room.configure(cap=3)
    touch(room, *"bc")
    room.settle()

    assert room.keys() == ("a", "b", "c")


def test_a_shorter_idle_ttl_takes_effect_at_once(cast: Cast) -> None:
    """C1"""
    clock = ManualClock()
    room = cast.room(clock=clock)
    touch(room, "a")
    clock.advance(10.0)
    touch(room, "b")

    room.configure(idle_ttl=5.0)
    room.settle()

    assert room.keys() == ("b",)
    assert room.stats().reasons == {"idle": 1}


def test_without_an_idle_ttl_nothing_is_ever_idle_too_long(cast: Cast) -> None:
    """C1"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=None, sweep_every=None)
    touch(room, "a")

    clock.advance(1e9)

    assert room.sweep() == 0
    assert room.keys() == ("a",)


# C2


def test_a_hit_makes_the_session_the_most_recently_used(cast: Cast) -> None:
    """C2"""
    room = cast.room()
    touch(room, *"abc")
    assert room.keys() == ("a", "b", "c")

    touch(room, "a")

    assert room.keys() == ("b", "c", "a")


def test_a_session_that_was_used_again_is_not_the_next_to_go(cast: Cast) -> None:
    """C2, C3"""
    room = cast.room(cap=3)
    touch(room, *"abc")

    touch(room, *"ad")
    room.settle()

    assert room.keys() == ("c", "a", "d")
    assert cast.did("release") == ["b/1"]


def test_a_provisional_session_goes_before_all_others(cast: Cast) -> None:
    """C2"""
    room = cast.room(cap=3)
    touch(room, *"ab")
    with room.turn("p", SPEC, provisional=True):
        pass
    assert room.keys() == ("p", "a", "b")

    touch(room, "c")
    room.settle()

    assert room.keys() == ("a", "b", "c")
    assert cast.did("release") == ["p/1"]


@pytest.mark.parametrize("hears", [False, True], ids=["warm", "by message"])
def test_the_second_turn_of_a_provisional_session_makes_it_like_any_other(
    cast: Cast, hears: bool
) -> None:
    """C2. Whatever that turn says of itself."""
    room = cast.room(cap=3)
    if hears:
        room.events(lambda _: None)
    for key in ("p", "a", "p"):
        with room.turn(key, SPEC, provisional=key == "p"):
            pass
    assert room.keys() == ("a", "p")

    touch(room, *"bc")
    room.settle()

    assert cast.did("release") == ["a/1"]


def test_a_session_that_was_there_before_is_not_provisional(cast: Cast) -> None:
    """C2"""
    room = cast.room()
    touch(room, "a")
    room.evict("a")
    room.settle()
    touch(room, "b")

    with room.turn("a", SPEC, provisional=True):
        assert room.keys() == ("b", "a")


def test_a_look_at_a_session_is_no_use_of_it(cast: Cast) -> None:
    """C2"""
    room = cast.room()
    touch(room, *"ab")

    room.explain("a")
    room.snapshot()
    room.settings("a")["model"] = "x"
    room.commit("a")
    assert room.has_uncommitted("b")

    assert room.keys() == ("a", "b")


def test_a_warm_turn_sends_the_supervisor_no_message(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2. Still it makes its session the most recently used."""
    handled: list[Any] = []
    handle = CacheSupervisor.on_receive

    def note(self: CacheSupervisor, message: Any) -> Any:
        handled.append(message)
        return handle(self, message)

    monkeypatch.setattr(CacheSupervisor, "on_receive", note)
    room = cast.room()
    touch(room, *"abc")
    room.settle()
    assert handled, "a cold one does"
    handled.clear()

    for _ in range(10):
        touch(room, *"cba")
        look_at(room, "b")
        with pytest.raises(LookupError), room.turn("c"):
            raise LookupError

    assert room.keys() == ("a", "b", "c")
    with room.turn("a"):
        assert room.keys() == ("b", "c", "a"), "from its beginning"
        touch(room, "b")
    assert room.keys() == ("c", "b", "a"), "and again from its end"
    assert handled == []


# C3


def test_above_the_cap_the_least_recently_used_are_released(cast: Cast) -> None:
    """C3"""
    room = cast.room(cap=3)

    for n in range(10):
        touch(room, f"s{n}")
    room.settle()

    assert room.keys() == ("s7", "s8", "s9")
    assert sorted(cast.did("release")) == [f"s{n}/1" for n in range(7)]
    assert cast.did("close") == []
    assert room.stats().reasons == {"capacity": 7}
    assert room.stats().over_cap == 0


def test_exactly_the_least_recently_used_goes_although_no_turn_was_told_of(cast: Cast) -> None:
    """C2, C3"""
    chance = random.Random(5)
    room = cast.room(cap=16)
    by_use = [f"s{n}" for n in range(16)]
    touch(room, *by_use)
    room.settle()
    for n in range(16, 48):
        for key in chance.choices(by_use, k=chance.choice([0, 3, 100])):
            touch(room, key)
            by_use.remove(key)
            by_use.append(key)

        touch(room, f"s{n}")
        room.settle()

        by_use.append(f"s{n}")
        assert cast.did("release")[n - 16 :] == [f"{by_use.pop(0)}/1"]
        assert room.keys() == tuple(by_use)


def test_a_room_has_not_settled_before_its_order_is_corrected(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3. 1. so many were used that one look does not do  2. somebody asks whether the room has settled
    3. two more looks that find nobody: nothing seems to be under way."""
    room = cast.room(cap=5 * LOOKS)
    keys = [f"s{n:05}" for n in range(5 * LOOKS)]
    look_at(room, *keys)
    look_at(room, *keys)
    room.settle(PATIENCE)
    when_settled: list[tuple[str, ...]] = []
    look_again = CacheSupervisor._look_again

    def _look_again(self: CacheSupervisor) -> None:
        monkeypatch.setattr(CacheSupervisor, "_look_again", look_again)
        settled = self.actor_ref.ask(SettleRoom(), block=False)
        settled.on_done(lambda _: when_settled.append(room.keys()))
        look_again(self)

    monkeypatch.setattr(CacheSupervisor, "_look_again", _look_again)
    look_at(room, "new")
    until(lambda: when_settled, "an answer")

    assert when_settled == [(*keys[1:], "new")]


def test_a_cap_larger_than_the_number_of_agents_evicts_nothing(cast: Cast) -> None:
    """C3. `order[:size - cap]` with a negative number is nearly everything."""
    room = cast.room(cap=10)

    touch(room, *"abcd")
    for key in "abcd":
        touch(room, key)
    room.configure(cap=11)
    assert room.sweep() == 0
    room.settle()

    assert len(room) == 4
    assert cast.did("release") == []


def test_a_room_without_a_cap_keeps_everything(cast: Cast) -> None:
    """C3"""
    room = cast.room(cap=None)

    look_at(room, *(f"s{n}" for n in range(200)))

    assert len(room) == 200
    assert (room.stats().cap, room.stats().over_cap) == (None, 0)


def test_eight_threads_that_insert_160_sessions_into_a_cap_of_16_end_at_exactly_16(cast: Cast) -> None:
    """C3"""
    room = cast.room(cap=16)

    def insert(thread: int) -> None:
        for n in range(20):
            touch(room, f"{thread}-{n}")

    all_at_once(functools.partial(insert, thread) for thread in range(8))
    room.settle(PATIENCE)

    stats = room.stats()
    assert len(room) == len(room.keys()) == stats.cached == 16
    assert (stats.builds, stats.releases, stats.over_cap) == (160, 144, 0)
    assert sorted(cast.farewells().values()) == [0] * 16 + [1] * 144


# C4


def test_a_session_in_a_turn_is_not_released_by_the_cap_however_old(cast: Cast) -> None:
    """C4"""
    room = cast.room(cap=1)
    held = cast.hold(room, "old")

    for n in range(20):
        touch(room, f"s{n}")
    room.settle()

    assert cast.done_to("old/1") == ["build"]
    assert "old" in room
    held.end()


def test_a_session_in_a_turn_is_not_released_by_a_sweep_however_old(cast: Cast) -> None:
    """C4, C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=10.0)
    touch(room, "a")
    held = cast.hold(room, "a")

    clock.advance(1000.0)
    assert room.sweep() == 0
    assert "a" in room
    held.end()
    assert room.sweep() == 0, "its idleness begins at the end of its turn"


def test_a_session_in_a_turn_is_not_closed_by_its_session_ttl_however_old(cast: Cast) -> None:
    """C4, S6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=None, session_ttl=10.0)
    held = cast.hold(room, "a")

    clock.advance(1000.0)
    room.sweep()
    room.settle()
    assert cast.log == ["build a/1"]
    held.end()

    touch(room, "a")
    assert cast.log == ["build a/1"]


def test_a_session_in_a_turn_is_not_released_for_memory_however_old(cast: Cast) -> None:
    """C4, C10"""
    room = cast.room(memory_budget=250, weigh=lambda agent: agent.weight)
    cast.hold(room, "old")

    touch(room, *"abc")
    room.settle()

    assert cast.done_to("old/1") == ["build"]
    assert "old" in room


def test_a_new_session_is_not_evicted_before_its_first_turn_is_over(cast: Cast) -> None:
    """C4, C3"""
    room = cast.room(cap=1)
    first = cast.hold(room, "a")
    second = cast.hold(room, "b")
    room.settle()

    assert cast.did("release") == []
    assert room.stats().over_cap == 1
    second.end()
    first.end()


def test_no_agent_is_released_in_its_turn_however_many_come_and_go(cast: Cast) -> None:
    """C4. 1. the room sees an idle agent  2. a turn begins  3. the room asks for the agent."""
    in_turn: set[str] = set()
    wrong: list[str] = []

    def release(agent: Agent) -> None:
        if agent.name in in_turn:
            wrong.append(agent.name)
        cast.act("release", agent)

    room = cast.room(cap=1, max_waiting=16, hooks=AgentHooks(release=release))

    def turns(thread: int) -> None:
        for n in range(150):
            with room.turn(f"s{(n + thread) % 3}") as turn:
                name = turn.agent.name
                in_turn.add(name)
                if name in cast.did("release"):
                    wrong.append(name)
                in_turn.discard(name)

    all_at_once(functools.partial(turns, thread) for thread in range(4))
    room.settle(PATIENCE)

    assert wrong == []
    assert sum(row.generation for row in room.snapshot()) == 600


# C5


def test_one_that_is_in_a_turn_is_skipped_and_not_replaced_by_a_younger_one(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """C5"""
    room = cast.room(cap=2)
    old = cast.hold(room, "old")
    touch(room, *"bc")
    room.settle()

    assert room.keys() == ("old", "b", "c")
    assert cast.did("release") == []
    stats = room.stats()
    assert (stats.cached, stats.cap, stats.over_cap, stats.in_turn) == (3, 2, 1, 1)
    (warning,) = warnings_about_the_cap(caplog)
    assert "1 of the least recently used" in warning, "it says how many are held mid-turn"
    old.end()


def test_candidates_are_only_as_many_as_are_beyond_the_cap(cast: Cast) -> None:
    """C5"""
    room = cast.room(cap=2)
    old = cast.hold(room, "old")
    touch(room, *"bc")
    room.settle()
    assert room.keys() == ("old", "b", "c")

    touch(room, "d")  # four are cached: "old" and "b" are the candidates
    room.settle()

    assert room.keys() == ("old", "c", "d")
    assert cast.did("release") == ["b/1"]
    old.end()


def test_the_check_runs_again_when_a_turn_ends(cast: Cast) -> None:
    """C5"""
    room = cast.room(cap=2)
    old = cast.hold(room, "old")
    touch(room, *"bc")

    old.end()
    room.settle()

    assert room.keys() == ("c", "old"), "the end of its turn made it the most recently used"
    assert cast.did("release") == ["b/1"]
    assert room.stats().over_cap == 0


def test_the_check_runs_again_whichever_turn_ends(cast: Cast) -> None:
    """C2, C5"""
    room = cast.room(cap=1)
    held = [cast.hold(room, key) for key in "abc"]
    room.settle()
    assert room.stats().over_cap == 2

    held[1].end()
    room.settle()
    assert cast.did("release") == [], "those beyond the cap are in a turn"
    held[2].end()
    room.settle()
    assert cast.did("release") == ["b/1"]
    held[0].end()
    room.settle()

    assert cast.did("release") == ["b/1", "c/1"]
    assert room.keys() == ("a",)


def test_one_that_is_used_between_the_look_and_the_request_stays_and_the_next_one_goes(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2, C5"""
    room = cast.room(cap=2)
    touch(room, *"ab")
    room.settle()
    asked: list[str] = []
    send = Requests._send

    def use_it_first(self: Requests, key: str, request: Any) -> None:
        asked.append(key)
        if key == "a":
            join_all([in_thread(lambda: touch(room, "a"))])
        send(self, key, request)

    monkeypatch.setattr(Requests, "_send", use_it_first)
    touch(room, "c")
    room.settle()

    assert asked == ["a", "b"]
    assert cast.did("release") == ["b/1"]
    assert sorted(room.keys()) == ["a", "c"]


def test_one_that_is_held_lets_the_supervisor_look_again_although_its_next_turn_begins_at_once(
    cast: Cast,
) -> None:
    """C2, C5. By then it is the most recently used, and another one must go."""
    room = cast.room(cap=1)
    first = cast.hold(room, "a")
    touch(room, "b")
    room.settle()
    assert (cast.did("release"), room.stats().over_cap) == ([], 1)
    second = cast.queue(room, "a")

    first.end()
    second.wait_begun()
    room.settle()

    assert cast.did("release") == ["b/1"]
    assert room.keys() == ("a",)
    second.end()


def test_one_whose_turn_is_over_before_it_has_said_that_it_is_held_is_not_held(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C5. 1. it decides to say so, and fails  2. its turn ends  3. it tells both, and owes nothing."""
    decide, undone = Session._methods[ReleaseAgent], list[Any]()

    def fail_behind_it(self: Session, message: ReleaseAgent) -> None:
        monkeypatch.setitem(Session._methods, ReleaseAgent, decide)
        with monkeypatch.context() as patch:
            patch.setattr(Session, "_perform", lambda _, *decided: undone.append(decided))
            decide(self, message)

    room = cast.room(cap=1)
    held = cast.hold(room, "a")
    monkeypatch.setitem(Session._methods, ReleaseAgent, fail_behind_it)
    other = cast.hold(room, "b")
    room.evict("b")
    other.end()
    held.end()
    room._context.cards["a"].ref.tell(Call(Session._perform, *undone[0]))
    room.settle()
    monkeypatch.undo()

    assert room.keys() == ("a",)
    touch(room, "c")
    room.settle()
    assert room.keys() == ("c",)


def test_nothing_is_warned_of_when_the_cap_is_switched_off_before_one_in_a_turn_has_answered(
    cast: Cast, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1, C5"""
    answered = CacheSupervisor._methods[ReleaseAnswered]

    def switch_off_first(self: CacheSupervisor, message: ReleaseAnswered) -> None:
        self.on_receive(Configure(changes={"cap": None}))
        answered(self, message)

    monkeypatch.setitem(CacheSupervisor._methods, ReleaseAnswered, switch_off_first)
    room = cast.room(cap=1)
    held = cast.hold(room, "a")
    touch(room, "b")
    room.settle()

    assert room.policy.cap is None
    assert warnings_about_the_cap(caplog) == []
    held.end()


def test_an_episode_over_the_cap_is_warned_of_once(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    """C5"""
    room = cast.room(cap=1)
    held = cast.hold(room, "old")
    for n in range(10):
        touch(room, f"s{n}")
    room.settle()

    assert room.stats().over_cap == 1
    assert len(warnings_about_the_cap(caplog)) == 1
    held.end()


def test_the_next_episode_over_the_cap_is_warned_of_again(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """C5"""
    room = cast.room(cap=1)
    for episode in (1, 2, 3):
        held = cast.hold(room, f"old {episode}")
        room.settle()
        for n in range(3):
            touch(room, f"s{episode}{n}")
        room.settle()
        assert len(warnings_about_the_cap(caplog)) == episode
        held.end()
        room.settle()
        assert room.stats().over_cap == 0


def test_nothing_is_warned_of_when_everything_beyond_the_cap_can_go(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """C5"""
    room = cast.room(cap=2)

    touch(room, *"abcdef")
    room.settle()

    assert caplog.records == []


# C6


def test_a_sweep_releases_what_has_been_idle_too_long_and_tells_how_many(cast: Cast) -> None:
    """C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=100.0, sweep_every=None)
    touch(room, *"ab")
    clock.advance(60.0)
    touch(room, "c")

    clock.advance(40.0)
    assert room.sweep() == 0, "not longer than that yet"
    clock.advance(1.0)
    assert room.sweep() == 2
    room.settle()

    assert room.keys() == ("c",)
    assert sorted(cast.did("release")) == ["a/1", "b/1"]
    assert room.stats().reasons == {"idle": 2}
    assert room.sweep() == 0


def test_idleness_begins_at_the_end_of_the_last_turn(cast: Cast) -> None:
    """C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=100.0, sweep_every=None)
    held = cast.hold(room, "a")
    clock.advance(99.0)
    held.end()

    clock.advance(99.0)
    assert room.sweep() == 0
    clock.advance(2.0)
    assert room.sweep() == 1


def test_a_use_begins_idleness_anew(cast: Cast) -> None:
    """C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=100.0, sweep_every=None)
    touch(room, *"ab")
    clock.advance(99.0)
    look_at(room, "a")
    clock.advance(99.0)

    assert room.sweep() == 1
    room.settle()

    assert room.keys() == ("a",)


def test_a_sweep_skips_what_is_in_a_turn_and_takes_the_rest(cast: Cast) -> None:
    """C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=10.0, sweep_every=None)
    touch(room, *"abc")
    held = cast.hold(room, "b")
    clock.advance(11.0)

    assert room.sweep() == 2
    room.settle()

    assert room.keys() == ("b",)
    held.end()


def test_sweeps_come_by_themselves(cast: Cast) -> None:
    """C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=100.0, sweep_every=60.0)
    touch(room, "a")

    clock.advance(60.0)
    room.settle()
    assert room.keys() == ("a",)
    clock.advance(60.0)
    room.settle()

    assert room.keys() == ()


def test_a_sweep_costs_what_it_evicts_and_not_what_it_keeps(cast: Cast) -> None:
    """C6. Counted in lines that are run, so that no clock is asked."""

    def lines_of_a_sweep(kept: int) -> int:
        clock = ManualClock()
        room = cast.room(clock=clock, cap=None, idle_ttl=10.0, session_ttl=10**6, sweep_every=None)
        look_at(room, "idle")
        clock.advance(11.0)
        look_at(room, *(f"s{n}" for n in range(kept)))
        room.settle(PATIENCE)
        lines = [0]

        def trace(_frame: Any, event: str, _argument: Any) -> Any:
            lines[0] += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            swept = room.sweep()
        finally:
            sys.settrace(before)
        assert swept == 1
        return lines[0]

    few, many = lines_of_a_sweep(20), lines_of_a_sweep(2020)

    assert many < few + 1000


def test_an_adopted_agent_without_known_activity_is_left_alone_by_sweeps(cast: Cast) -> None:
    """C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=10.0, sweep_every=None)
    room.adopt("a", Agent(cast, "a", "adopted"), SPEC)

    clock.advance(1e6)

    assert room.sweep() == 0
    assert room.keys() == ("a",)


def test_an_adopted_agent_that_was_used_is_swept_as_any_other(cast: Cast) -> None:
    """C6"""
    clock = ManualClock()
    room = cast.room(clock=clock, idle_ttl=10.0, sweep_every=None)
    agent = Agent(cast, "a", "adopted")
    room.adopt("a", agent, SPEC)
    assert take_turn(room, "a", SPEC) is agent

    clock.advance(11.0)
    assert room.sweep() == 1
    room.settle()

    assert cast.log == ["commit adopted", "release adopted"]


def test_an_adopted_agent_counts_against_the_cap(cast: Cast) -> None:
    """C6, C3"""
    room = cast.room(cap=2)
    room.adopt("a", Agent(cast, "a", "adopted"), SPEC)
    assert (len(room), room.stats().adopted, room.stats().builds) == (1, 1, 0)

    touch(room, *"bc")
    room.settle()

    assert room.keys() == ("b", "c")
    assert cast.did("release") == ["adopted"]


def test_adopting_above_the_cap_lets_the_oldest_go(cast: Cast) -> None:
    """C6, C3"""
    room = cast.room(cap=2)
    touch(room, *"ab")

    room.adopt("c", Agent(cast, "c", "adopted"), SPEC)
    room.settle()

    assert room.keys() == ("b", "c")


# C7


def slow(cast: Cast, room: Greenroom, what: str) -> Any:
    """Have session `slow` stand at a gate in its build, commit, release or close."""
    gate = cast.at[f"{what} slow"] = cast.gate()
    if what == "build":
        cast.start(room, "slow")
    else:
        touch(room, "slow")
    if what == "close":
        room.end("slow")
    elif what != "build":
        room.evict("slow")
    gate.wait_reached()
    return gate


@pytest.mark.parametrize("what", ["build", "commit", "release", "close"])
def test_one_slow_session_delays_no_other(cast: Cast, what: str) -> None:
    """C7"""
    room = cast.room()
    slow(cast, room, what)

    touch(room, *"abcabc")
    assert room.commit("c")
    room.evict("a")
    room.end("b")
    assert room.sweep() == 0
    assert room.stats().builds >= 3
    until(lambda: {"close b/1", "release a/1"} <= set(cast.done), "what was asked for")
    assert f"{what} slow/1" not in cast.done


def test_slow_releases_of_many_sessions_delay_no_turn(cast: Cast) -> None:
    """C7"""
    room = cast.room(cap=1)
    releasing = cast.at["release"] = cast.gate()
    for n in range(60):
        look_at(room, f"s{n}")
    releasing.wait_reached()

    touch(room, *"ab")

    assert "b" in room
    assert "release s0/1" not in cast.done


def test_slow_builds_of_more_sessions_than_there_are_workers_delay_others_no_longer_than_needed(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7"""
    monkeypatch.setattr("greenroom.actors.runtime._workers.RELIEF", 0.01)
    room = cast.room(workers=2)
    building = cast.gate()
    for n in range(6):
        cast.at[f"build s{n}"] = building
        cast.start(room, f"s{n}")

    touch(room, "a")

    assert cast.done == ["build a/1"]


def test_hooks_stuck_in_more_sessions_than_there_are_workers_are_written_off_and_replaced(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """C7, S5"""
    clock = ManualClock()
    room = cast.room(clock=clock, workers=2, teardown_timeout=10.0)
    gates = [cast.gate() for _ in range(4)]
    for n, gate in enumerate(gates):
        cast.at[f"release s{n}"] = gate
        look_at(room, f"s{n}")
        room.evict(f"s{n}")
    look_at(room, "honest")
    room.evict("honest")

    for first, second in ((0, 1), (2, 3)):
        gates[first].wait_reached()
        gates[second].wait_reached()
        clock.advance(10.0)
    until(lambda: "release honest/1" in cast.done, "the release of the honest one")
    room.settle()

    assert room.stats().workers_lost >= 4
    for n in range(4):
        assert any(f"s{n}" in stuck for stuck in room.stats().stuck)
        assert f"s{n}" in caplog.text


# C8


def let_go_by_capacity(room: Greenroom, _: Cast, __: ManualClock) -> None:
    room.configure(cap=1)
    touch(room, "b")


def let_go_by_idleness(room: Greenroom, _: Cast, clock: ManualClock) -> None:
    clock.advance(4000.0)
    room.sweep()


def let_go_for_memory(room: Greenroom, _: Cast, __: ManualClock) -> None:
    room.configure(memory_budget=MIB)


def let_go_for_another_spec(room: Greenroom, _: Cast, __: ManualClock) -> None:
    with room.turn("a", OTHER):
        pass


def let_go_by_evicting(room: Greenroom, _: Cast, __: ManualClock) -> None:
    room.evict("a")


def let_go_by_discarding(room: Greenroom, _: Cast, __: ManualClock) -> None:
    with room.turn("a") as turn:
        turn.discard("fallback")


def let_go_by_adopting_another(room: Greenroom, cast: Cast, _: ManualClock) -> None:
    room.adopt("a", Agent(cast, "a", "adopted"), OTHER)


def let_go_after_it_was_retained(room: Greenroom, cast: Cast, clock: ManualClock) -> None:
    cast.at["commit"] = ConnectionError("memory is down")
    room.evict("a")
    room.settle()
    assert room.stats().retained == 1
    del cast.at["commit"]
    let_pass(room, clock, 2.0)


def let_go_after_its_commit_was_stuck(room: Greenroom, cast: Cast, clock: ManualClock) -> None:
    stuck = cast.at["commit"] = cast.gate()
    room.evict("a")
    stuck.wait_reached()
    clock.advance(60.0)
    until(lambda: room.stats().retained == 1, "an agent that is retained")
    stuck.open()
    until(lambda: room.stats().releases == 1, "a release")


def let_go_by_ending(room: Greenroom, _: Cast, __: ManualClock) -> None:
    room.end("a")


def let_go_by_expiring(room: Greenroom, _: Cast, clock: ManualClock) -> None:
    room.configure(session_ttl=5000.0, idle_ttl=None)
    clock.advance(5001.0)
    room.sweep()


RELEASES: dict[Callable[[Greenroom, Cast, ManualClock], None], Reason] = {
    let_go_by_capacity: Reason.CAPACITY,
    let_go_by_idleness: Reason.IDLE,
    let_go_for_memory: Reason.MEMORY,
    let_go_for_another_spec: Reason.SPEC,
    let_go_by_evicting: Reason.EXPLICIT,
    let_go_by_discarding: Reason.DISCARD,
    let_go_by_adopting_another: Reason.EXPLICIT,
    let_go_after_it_was_retained: Reason.EXPLICIT,
    let_go_after_its_commit_was_stuck: Reason.EXPLICIT,
}
WAYS = [*RELEASES, let_go_by_ending, let_go_by_expiring]


def name_of(way: Any) -> str:
    return str(way.__name__)


@pytest.mark.parametrize("way", RELEASES, ids=name_of)
def test_every_way_to_let_an_agent_go_is_the_same_release(
    cast: Cast, way: Callable[[Greenroom, Cast, ManualClock], None]
) -> None:
    """C8, S1"""
    clock = ManualClock()
    room = cast.room(clock=clock, sweep_every=None)
    agent = take_turn(room, "a", SPEC)
    events: list[Any] = []
    room.events(events.append)

    way(room, cast, clock)
    room.settle()

    done = [what for what in cast.done_to("a/1") if what != "commit"]
    assert done == ["build", "release"]
    assert "commit a/1" in cast.done
    assert cast.done.index("commit a/1") < cast.done.index("release a/1")
    assert agent.transcript == []
    until(lambda: any(event.kind == "release" for event in events), "an event")
    assert [e.reason for e in events if e.kind == "release"] == [RELEASES[way]]


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_nothing_refers_to_an_agent_that_was_let_go(
    cast: Cast, way: Callable[[Greenroom, Cast, ManualClock], None]
) -> None:
    """C8"""
    clock = ManualClock()
    cast.keep = False
    room = cast.room(clock=clock, sweep_every=None)
    room.events(lambda _: None)
    with room.turn("a", SPEC) as turn:
        ref = weakref.ref(turn.agent)
    touch(room, "a")

    way(room, cast, clock)
    room.settle()

    wait_dead(ref)


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_nothing_refers_to_an_agent_whose_last_hook_raised(
    cast: Cast, way: Callable[[Greenroom, Cast, ManualClock], None]
) -> None:
    """C8, S5. An exception has a traceback, which has frames, which have the agent."""
    clock = ManualClock()
    cast.keep = False

    def broken() -> None:
        raise OSError("it is broken")

    cast.at |= {"release": broken, "close": broken, "shutdown": broken}
    room = cast.room(clock=clock, sweep_every=None)
    with room.turn("a", SPEC) as turn:
        ref = weakref.ref(turn.agent)

    way(room, cast, clock)
    room.settle()

    wait_dead(ref)


def test_an_agent_whose_commit_failed_once_is_freed_without_the_garbage_collector(cast: Cast) -> None:
    """C8. A gateway whose agents are large cannot wait for a collection."""
    cast.keep = False
    room = cast.room()
    with room.turn("a", SPEC) as turn:
        ref = weakref.ref(turn.agent)

    def broken() -> None:
        raise ConnectionError("memory is down")

    cast.at["commit"] = broken
    gc.collect()
    gc.disable()
    try:
        assert not room.commit("a")
        del cast.at["commit"]
        assert room.commit("a")
        room.evict("a")
        room.settle()
        until(lambda: ref() is None, "the end of an agent that nobody refers to")
    finally:
        gc.enable()


def test_nothing_refers_to_an_agent_after_its_turn_but_the_room(cast: Cast) -> None:
    """C8. A turn that is kept, say in a list of replies, keeps no agent alive."""
    cast.keep = False
    room = cast.room()
    turns = [room.turn("a", SPEC), room.turn("a", OTHER)]
    refs: list[weakref.ref[Any]] = []
    for turn in turns:
        with turn:
            refs.append(weakref.ref(turn.agent))
    room.settle()

    wait_dead(refs[0])
    assert refs[1]() is not None


def test_nothing_refers_to_the_late_agent_of_a_build_that_was_given_up(cast: Cast) -> None:
    """C8"""
    clock = ManualClock()
    cast.keep = False
    refs: list[weakref.ref[Any]] = []
    building = cast.gate()

    def build(context: Any) -> Agent:
        agent = cast.build(context)
        refs.append(weakref.ref(agent))
        building.wait()
        return agent

    room = cast.room(clock=clock, build=build, build_timeout=10.0)
    waiting = cast.start(room, "a")
    building.wait_reached()
    clock.advance(10.0)
    building.open()
    assert isinstance(waiting.outcome(), BuildFailed)
    until(lambda: cast.farewells() == {"a/1": 1}, "one farewell")

    wait_dead(refs[0])


def test_nothing_refers_to_the_agents_of_a_room_that_was_closed(cast: Cast) -> None:
    """C8, D1"""
    cast.keep = False
    room = cast.room()
    refs: list[weakref.ref[Any]] = []
    for key in "abc":
        with room.turn(key) as turn:
            refs.append(weakref.ref(turn.agent))

    room.close()

    for ref in refs:
        wait_dead(ref)


def test_hooks_that_were_given_are_called_in_the_place_of_the_methods(cast: Cast) -> None:
    """C8, S1"""
    called: list[tuple[str, str]] = []

    def note(what: str, agent: Any) -> None:
        called.append((what, agent.name))

    room = cast.room(
        hooks=AgentHooks(commit=functools.partial(note, "c"), release=functools.partial(note, "r"))
    )
    touch(room, "a")
    room.evict("a")
    room.settle()

    assert called == [("c", "a/1"), ("r", "a/1")]
    assert cast.log == ["build a/1"]


# C9


def test_sessions_that_came_and_were_ended_leave_nothing_behind(cast: Cast) -> None:
    """C9"""
    # As few threads as can be, and a clock on which nobody calls for more: objects are counted, and each
    # thread has some twenty of its own.
    room = cast.room(workers=1, clock=ManualClock())
    cast.keep = False

    def come_and_go(first: int, number: int) -> int:
        for n in range(first, first + number):
            room.settings(f"s{n}")["model"] = "x"
            touch(room, f"s{n}")
            room.end(f"s{n}")
        room.settle(PATIENCE)
        until(lambda: room.stats().known == 0, "no session")
        cast.log.clear()
        cast.done.clear()
        cast._numbers.clear()
        gc.collect()
        return len(gc.get_objects())

    before = come_and_go(0, 200)
    after = come_and_go(200, 1000)

    assert room.snapshot() == ()
    assert room.stats().sessions_ended == 1200
    assert after - before < 500, "less than one object for two sessions, and most likely none"


def test_sessions_that_came_and_expired_leave_nothing_behind(cast: Cast) -> None:
    """C9, S6"""
    clock = ManualClock()
    room = cast.room(clock=clock, cap=8, session_ttl=1000.0, sweep_every=None)
    for n in range(300):
        touch(room, f"s{n}")
    room.settle(PATIENCE)

    clock.advance(1100.0)
    room.sweep()

    until(lambda: room.stats().known == 0, "no session")
    assert room.snapshot() == ()
    assert sorted(set(cast.farewells().values())) == [1]


def test_sessions_of_which_nothing_is_to_be_remembered_go_with_their_agent(cast: Cast) -> None:
    """C9"""
    room = cast.room(cap=4)
    look_at(room, *(f"s{n}" for n in range(100)))
    room.settle(PATIENCE)

    assert room.stats().known == 4
    assert len(room.snapshot()) == 4


def test_a_key_that_never_had_an_agent_leaves_nothing_behind(cast: Cast) -> None:
    """C9"""
    room = cast.room()

    assert dict(room.settings("a")) == {}
    assert room.settings("b").get("model") is None
    assert not room.commit("c")
    assert not room.commit("c", wait=False)
    assert not room.evict("d")
    assert not room.end("e")
    assert not room.end("e", interrupt=True)
    assert not room.has_uncommitted("f")
    assert not room.explain("g").known
    assert "h" not in room
    assert not room.session("i").has_uncommitted().get(timeout=PATIENCE)
    room.session("j").describe().get(timeout=PATIENCE)
    assert not room.session("k").commit().get(timeout=PATIENCE)
    settings = room.settings("l")
    settings["model"] = "x"
    del settings["model"]

    until(lambda: room.stats().known == 0, "no session")
    assert room.snapshot() == ()


def test_a_key_whose_builds_all_failed_leaves_nothing_behind(cast: Cast) -> None:
    """C9, T5"""
    room = cast.room()
    cast.at["build"] = ConnectionError()

    for key in "abc":
        with pytest.raises(BuildFailed):
            take_turn(room, key)

    until(lambda: room.stats().known == 0, "no session")


# C10


def test_above_the_budget_the_least_recently_used_are_shed(cast: Cast) -> None:
    """C10"""
    room = cast.room(memory_budget=1000, weigh=lambda agent: agent.weight)

    touch(room, *(f"s{n}" for n in range(10)))
    room.settle()
    assert len(room) == 10, "not above it"
    touch(room, "s10")
    room.settle()

    gone = cast.did("release")
    assert gone
    assert sorted(gone) == [f"s{n}/1" for n in range(len(gone))], "the least recently used"
    assert room.stats().weight <= 1000
    assert room.stats().weight == 100 * len(room)
    assert room.stats().reasons == {"memory": len(gone)}
    assert len(gone) <= 2, "and no more than brings it a tenth below the budget"


def test_the_budget_is_looked_at_when_a_turn_ends(cast: Cast) -> None:
    """C10"""
    room = cast.room(memory_budget=1000, weigh=lambda agent: agent.weight)
    touch(room, *"abc")
    room.settle()

    with room.turn("c") as turn:
        turn.agent.weight = 850
    room.settle()

    assert room.keys() in (("b", "c"), ("c",))
    assert "a/1" in cast.did("release")


def test_nothing_in_a_turn_is_shed_but_younger_ones_are(cast: Cast) -> None:
    """C10, C4"""
    room = cast.room(memory_budget=250, weigh=lambda agent: agent.weight)
    held = cast.hold(room, "old")

    touch(room, *"ab")
    room.settle()

    assert "old" in room
    assert "a/1" in cast.did("release")
    held.end()


def test_a_budget_is_compared_with_what_the_process_holds_if_nobody_weighs(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10"""
    monkeypatch.setattr("greenroom._room.resident", lambda: 100 * alive() * MIB)

    def alive() -> int:
        return sum(not gone for gone in cast.farewells().values())

    room = cast.room(memory_budget=1000 * MIB, memory_batch=2)
    look_at(room, *(f"s{n}" for n in range(10)))
    room.settle()
    assert cast.did("release") == []
    look_at(room, "s10")
    room.settle()

    gone = cast.did("release")
    assert gone
    assert sorted(gone) == [f"s{n}/1" for n in range(len(gone))]
    assert 100 * alive() <= 1000
    assert len(room) >= 7, "one peak does not empty the room"


def test_the_budget_is_looked_at_by_sweeps(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """C10"""
    used = [500 * MIB]
    monkeypatch.setattr("greenroom._room.resident", lambda: used[0])
    clock = ManualClock()
    room = cast.room(clock=clock, memory_budget=1000 * MIB, sweep_every=60.0, memory_batch=2)
    look_at(room, *"abcdef")
    room.settle()
    assert cast.did("release") == []

    def fall() -> None:
        used[0] = 500 * MIB

    used[0] = 2000 * MIB
    cast.at["release"] = fall
    clock.advance(60.0)
    room.settle()

    assert sorted(cast.did("release")) == ["a/1", "b/1"]


@pytest.mark.parametrize("budget", [MIB, 1e-9], ids=["bytes", "share"])
def test_with_the_real_memory_of_this_process_a_tiny_budget_sheds_all_that_is_idle(
    cast: Cast, budget: float
) -> None:
    """C10"""
    room = cast.room(memory_budget=budget)
    held = cast.hold(room, "busy")

    look_at(room, *(f"s{n}" for n in range(20)))
    room.settle(PATIENCE)

    assert room.keys() == ("busy",)
    assert room.stats().reasons == {"memory": 20}
    held.end()
    room.settle(PATIENCE)
    assert room.keys() == ()


@pytest.mark.parametrize("budget", [1 << 60, 1.0], ids=["bytes", "share"])
def test_with_the_real_memory_of_this_process_a_large_budget_sheds_nothing(
    cast: Cast, budget: float
) -> None:
    """C10"""
    room = cast.room(memory_budget=budget)

    look_at(room, *"abc")
    room.sweep()
    room.settle()

    assert room.keys() == ("a", "b", "c")


def test_a_budget_can_be_set_live(cast: Cast) -> None:
    """C10, C1"""
    room = cast.room(weigh=lambda agent: agent.weight)
    touch(room, *"abcd")

    room.configure(memory_budget=200)
    room.settle()

    assert room.stats().weight <= 200
    assert "d" in room


def test_an_agent_that_cannot_be_weighed_is_kept_and_that_is_logged(
    cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    """C10, S5"""

    def weigh(agent: Any) -> int:
        raise LookupError(agent.name)

    room = cast.room(memory_budget=1000, weigh=weigh)

    touch(room, "telegram:12345")

    assert "telegram:12345" in room
    assert row_of(room, "telegram:12345").generation == 1
    assert "telegram:12345" in caplog.text


def test_memory_never_sheds_what_the_cap_and_the_sweep_would_keep_without_need(cast: Cast) -> None:
    """C10. Shedding stops when memory is a tenth below the budget, and begins above it only."""
    room = cast.room(memory_budget=1000, weigh=lambda agent: agent.weight)
    touch(room, *(f"s{n}" for n in range(11)))
    room.settle()
    gone = len(cast.did("release"))

    for _ in range(3):
        room.sweep()
        touch(room, "s10")
    room.settle()

    assert len(cast.did("release")) == gone
