"""Who should let go of its agent: each case, and beside models that do it the slow and plain way."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from greenroom.supervisor.eviction import Beyond, Expiry, MemoryBound, Residents

KEYS = "abcdef"


def room(idle: str, in_turn: str = "", weight: int = 0) -> Residents:
    """Sessions of one letter each, in order of use; each rests since its place in the alphabet."""
    residents = Residents()
    for key in idle:
        since = None if key in in_turn else float(ord(key) - ord("a"))
        residents.enter(key, in_turn=key in in_turn, since=since, weight=weight)
    return residents


# The order of use.


def test_nobody_is_there_at_first() -> None:
    residents = Residents()
    assert len(residents) == residents.in_turn == residents.weight == 0
    assert residents.keys() == ()
    assert "a" not in residents
    assert residents.place("a") is None
    assert not residents.is_in_turn("a")


def test_whoever_enters_is_the_most_recently_used() -> None:
    """C2"""
    residents = room("abc")
    assert residents.keys() == ("a", "b", "c")
    assert [residents.place(key) for key in "abc"] == [1, 2, 3]
    assert "b" in residents


def test_entering_again_changes_how_it_is_and_not_its_place() -> None:
    residents = Residents()
    assert residents.enter("a", in_turn=True, since=None, weight=3)
    assert residents.enter("b", in_turn=False, since=0.0, weight=4)
    assert not residents.enter("a", in_turn=False, since=1.0, weight=5)
    assert residents.keys() == ("a", "b")
    assert (residents.in_turn, residents.weight) == (0, 9)


def test_a_hit_makes_the_most_recently_used() -> None:
    """C2"""
    residents = room("abc")
    residents.use("a")
    assert residents.keys() == ("b", "c", "a")
    assert residents.is_in_turn("a")
    assert residents.in_turn == 1


def test_a_turn_that_ends_keeps_the_place() -> None:
    residents = room("abc", in_turn="a")
    residents.rest("a", since=9.0, weight=7)
    assert residents.keys() == ("a", "b", "c")
    assert not residents.is_in_turn("a")
    assert (residents.in_turn, residents.weight) == (0, 7)


def test_a_beginning_or_an_end_that_comes_twice_counts_once() -> None:
    residents = room("ab")
    residents.use("a")
    residents.use("a")
    assert residents.in_turn == 1
    residents.rest("a", since=5.0, weight=2)
    residents.rest("a", since=6.0, weight=2)
    assert (residents.in_turn, residents.weight) == (0, 2)
    assert residents.idle(now=6.5, ttl=1.0) == ("b",)


def test_whoever_leaves_takes_its_weight_and_its_turn_along() -> None:
    """C8"""
    residents = room("ab", in_turn="a", weight=5)
    residents.leave("a")
    assert residents.keys() == ("b",)
    assert (residents.in_turn, residents.weight) == (0, 5)
    residents.leave("b")
    assert (len(residents), residents.weight) == (0, 0)
    assert residents.idle(now=99.0, ttl=1.0) == ()


def test_what_is_told_of_a_session_without_an_agent_changes_nothing() -> None:
    residents = room("a")
    residents.use("x")
    residents.rest("x", since=1.0, weight=1)
    residents.leave("x")
    residents.answered("x")
    assert residents.keys() == ("a",)
    assert (residents.in_turn, residents.weight) == (0, 0)


# The cap.


@pytest.mark.parametrize(
    ("cap", "in_turn", "ask", "held"),
    [
        (None, "", "", 0),
        (5, "", "", 0),
        (4, "", "", 0),
        (3, "", "a", 0),
        (1, "", "abc", 0),
        (3, "a", "", 1),
        (2, "a", "b", 1),
        (2, "ab", "", 2),
        (2, "cd", "ab", 0),
        (1, "abcd", "", 3),
    ],
)
def test_only_the_first_beyond_the_cap_come_into_question(
    cap: int | None, in_turn: str, ask: str, held: int
) -> None:
    """C5"""
    assert room("abcd", in_turn).beyond(cap) == Beyond(tuple(ask), held)


def test_nobody_is_asked_twice_before_it_has_answered() -> None:
    residents = room("abc")
    assert residents.beyond(1).ask == ("a", "b")
    assert residents.beyond(1).ask == ()
    residents.answered("b")
    assert residents.beyond(1).ask == ("b",)


def test_whoever_left_and_came_back_can_be_asked_again() -> None:
    residents = room("ab")
    residents.beyond(1)
    residents.leave("a")
    residents.enter("a", in_turn=False, since=0.0, weight=0)
    residents.use("b")
    residents.rest("b", since=1.0, weight=0)
    assert residents.beyond(1).ask == ("a",)


def test_one_that_was_asked_still_counts_and_no_younger_one_goes_instead() -> None:
    """C5"""
    residents = room("abcd")
    assert residents.beyond(3).ask == ("a",)
    assert residents.beyond(3) == Beyond((), 0)


# The sweep.


@pytest.mark.parametrize(
    ("now", "ttl", "ask"),
    [
        (3.0, None, ""),
        (3.0, 5.0, ""),
        (3.0, 3.0, ""),
        (3.0, 2.0, "a"),
        (3.5, 2.0, "ab"),
        (99.0, 2.0, "abcd"),
    ],
)
def test_a_sweep_names_who_has_rested_for_longer(now: float, ttl: float | None, ask: str) -> None:
    """C6"""
    assert room("abcd").idle(now, ttl) == tuple(ask)


def test_a_sweep_skips_who_is_in_a_turn_however_old() -> None:
    """C4"""
    residents = room("abc", in_turn="b")
    residents.use("a")
    assert residents.idle(now=99.0, ttl=1.0) == ("c",)


def test_a_sweep_leaves_alone_of_whom_no_activity_is_known() -> None:
    """C6"""
    residents = Residents()
    residents.enter("adopted", in_turn=False, since=None, weight=0)
    assert residents.idle(now=1e9, ttl=1.0) == ()
    assert residents.beyond(0).ask == ("adopted",)


def test_a_sweep_asks_nobody_twice_and_goes_on_behind_them() -> None:
    residents = room("abc")
    assert residents.idle(now=1.5, ttl=1.0) == ("a",)
    assert residents.idle(now=2.5, ttl=1.0) == ("b",)
    residents.answered("a")
    assert residents.idle(now=2.5, ttl=1.0) == ("a",)


def test_to_be_told_the_same_again_does_not_make_it_rest_anew() -> None:
    residents = room("ab")
    residents.enter("a", in_turn=False, since=0.0, weight=0)
    assert residents.idle(now=1.5, ttl=1.0) == ("a",)


def test_a_sweep_costs_what_it_evicts() -> None:
    """C6"""
    looked: list[str] = []

    class Watched(Residents):
        def idle(self, now: float, ttl: float | None) -> tuple[str, ...]:
            resting = self._resting

            class Items(type(resting)):  # type: ignore[misc]  # whatever it is
                def items(self):  # type: ignore[no-untyped-def]  # as in the base
                    for key, since in resting.items():
                        looked.append(key)
                        yield key, since

            self._resting = Items()
            try:
                return super().idle(now, ttl)
            finally:
                self._resting = resting

    residents = Watched()
    for number in range(1000):
        residents.enter(str(number), in_turn=False, since=float(number), weight=0)
    assert residents.idle(now=1002.0, ttl=1000.0) == ("0", "1")
    assert len(looked) == 3


# Memory.


def test_the_oldest_that_can_be_asked() -> None:
    """C10"""
    residents = room("abcd", in_turn="a")
    residents.beyond(3)
    assert residents.oldest_free(2) == ("b", "c")
    assert residents.oldest_free(2) == ("d",)
    assert residents.oldest_free(2) == ()


def test_no_more_than_weigh_enough() -> None:
    """C10"""
    residents = room("abcd", weight=10)
    assert residents.oldest_free(9, enough=0) == ()
    assert residents.oldest_free(9, enough=11) == ("a", "b")
    assert residents.asked_weight() == 20
    assert residents.oldest_free(1, enough=99) == ("c",)
    residents.answered("a")
    assert residents.asked_weight() == 20


def look(bound: MemoryBound, residents: Residents, used: int, *, weighed: bool = False) -> str:
    """Look with a budget of 100, to be relieved at 80, two at a time."""
    return "".join(bound.look(residents, used=used, budget=100, relief=0.8, batch=2, weighed=weighed))


def test_memory_is_shed_above_the_budget_and_until_the_relief() -> None:
    """C10"""
    bound, residents = MemoryBound(), room("abcdef")
    assert (look(bound, residents, 100), bound.shedding) == ("", False)
    assert (look(bound, residents, 101), bound.shedding) == ("ab", True)
    assert [bound.gone("a"), bound.gone("b")] == [False, True]
    assert look(bound, residents, 90) == "cd"
    assert [bound.gone("d"), bound.gone("c")] == [False, True]
    assert (look(bound, residents, 80), bound.shedding) == ("", False)
    assert (look(bound, residents, 90), bound.shedding) == ("", False)


def test_the_next_batch_waits_until_the_last_is_gone_unless_memory_grows() -> None:
    """C10"""
    bound, residents = MemoryBound(), room("abcdef")
    assert look(bound, residents, 110) == "ab"
    assert look(bound, residents, 110) == ""
    assert not bound.gone("a")
    assert look(bound, residents, 105) == ""
    assert look(bound, residents, 111) == "cd"
    assert look(bound, residents, 111) == ""


def test_nobody_else_is_the_last_of_those_that_were_shed() -> None:
    bound, residents = MemoryBound(), room("ab")
    assert not bound.gone("a")
    look(bound, residents, 110)
    assert not bound.gone("x")
    assert not bound.gone("a")
    assert not bound.gone("a")
    assert bound.gone("b")
    assert not bound.gone("b")


def test_if_all_are_in_a_turn_nobody_is_shed_and_the_next_look_tries_again() -> None:
    """C10"""
    bound, residents = MemoryBound(), room("ab", in_turn="ab")
    assert look(bound, residents, 110) == ""
    residents.rest("b", since=1.0, weight=0)
    assert look(bound, residents, 110) == "b"


def test_with_known_weights_those_that_were_asked_count_as_gone() -> None:
    """C10"""
    bound, residents = MemoryBound(), room("abcdef", weight=20)
    assert residents.weight == 120
    assert look(bound, residents, 120, weighed=True) == "ab"
    assert look(bound, residents, 120, weighed=True) == ""
    residents.leave("a")
    residents.answered("b")  # it stays, after all
    assert look(bound, residents, 100, weighed=True) == "b"
    residents.leave("b")
    assert look(bound, residents, 80, weighed=True) == ""
    assert not bound.shedding


weights = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=8)


@settings(deadline=None)
@given(weights=weights, budget=st.integers(1, 150), relief=st.sampled_from([0.5, 0.9, 1.0]))
def test_shedding_by_weight_ends_at_the_relief_or_with_all_free_ones_gone(
    weights: list[tuple[int, bool]], budget: int, relief: float
) -> None:
    """C10"""
    bound, residents = MemoryBound(), Residents()
    for number, (weight, in_turn) in enumerate(weights):
        residents.enter(str(number), in_turn=in_turn, since=0.0, weight=weight)
    total = residents.weight
    gone: list[str] = []
    while ask := bound.look(
        residents, used=residents.weight, budget=budget, relief=relief, batch=3, weighed=True
    ):
        assert len(ask) <= 3
        for key in ask:
            residents.leave(key)
        gone += ask
    free = [str(number) for number, (_, in_turn) in enumerate(weights) if not in_turn]
    assert gone == free[: len(gone)], "C4, C10: least recently used first, none in a turn"
    if total <= budget:
        assert not gone
    else:
        target = int(budget * relief)
        assert residents.weight <= target or gone == free
        if gone:  # and no more than that
            assert residents.weight + weights[int(gone[-1])][0] > target


class MemoryMachine(RuleBasedStateMachine):
    """Without weights: the model is who is on the way out, and the most that was seen."""

    BUDGET, RELIEF, BATCH = 100, 0.75, 2

    def __init__(self) -> None:
        super().__init__()
        self.bound = MemoryBound()
        self.residents = Residents()
        self.shedding = False
        self.leaving: list[str] = []
        self.peak = 0
        self.count = 0

    @rule(in_turn=st.booleans())
    def enter(self, in_turn: bool) -> None:
        self.count += 1
        self.residents.enter(f"{self.count:03}", in_turn=in_turn, since=None, weight=0)

    @rule(used=st.integers(50, 130))
    def look(self, used: int) -> None:
        order = self.residents.keys()
        free = [key for key in order if not self.residents.is_in_turn(key) and key not in self.leaving]
        if used > self.BUDGET:
            self.shedding = True
        if used <= self.BUDGET * self.RELIEF:
            self.shedding = False
        ask = self.bound.look(
            self.residents,
            used=used,
            budget=self.BUDGET,
            relief=self.RELIEF,
            batch=self.BATCH,
            weighed=False,
        )
        waits = bool(self.leaving) and used <= self.peak
        expected = free[: self.BATCH] if self.shedding and not waits else []
        assert ask == tuple(expected)
        if self.shedding and not waits:
            self.leaving += ask
            self.peak = used

    @rule(data=st.data())
    def goes(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([*self.leaving, "somebody else"]))
        self.residents.leave(key)
        last = self.leaving == [key]
        assert self.bound.gone(key) == last
        if key in self.leaving:
            self.leaving.remove(key)

    @invariant()
    def the_model_agrees(self) -> None:
        assert self.bound.shedding == self.shedding


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


# All of the residents, beside a plain list.


@dataclass
class Guest:
    key: str
    in_turn: bool
    since: float | None
    weight: int
    asked: bool = False


class ResidentsMachine(RuleBasedStateMachine):
    """The model is a list of guests in order of use; every question is answered by going through it."""

    keys = st.sampled_from(KEYS)
    weights = st.integers(0, 9)

    def __init__(self) -> None:
        super().__init__()
        self.residents = Residents()
        self.guests: list[Guest] = []
        self.now = 0.0

    def find(self, key: str) -> Guest | None:
        return next((guest for guest in self.guests if guest.key == key), None)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        key=keys, in_turn=st.booleans(), since=st.sampled_from(["none", "now", "same"]), weight=weights
    )
    def enter(self, key: str, in_turn: bool, since: str, weight: int) -> None:
        guest = self.find(key)
        known = None if guest is None else guest.since
        when = {"none": None, "now": self.now, "same": known}[since]
        assert self.residents.enter(key, in_turn=in_turn, since=when, weight=weight) == (guest is None)
        if guest is None:
            self.guests.append(guest := Guest(key, in_turn, when, weight))
        guest.in_turn, guest.weight = in_turn, weight
        guest.since = None if in_turn else when

    @rule(key=keys)
    def use(self, key: str) -> None:
        self.residents.use(key)
        guest = self.find(key)
        if guest is not None:
            self.guests.remove(guest)
            self.guests.append(guest)
            guest.in_turn, guest.since = True, None

    @rule(key=keys, weight=weights)
    def rest(self, key: str, weight: int) -> None:
        self.residents.rest(key, self.now, weight)
        guest = self.find(key)
        if guest is not None:
            guest.in_turn, guest.since, guest.weight = False, self.now, weight

    @rule(key=keys)
    def leave(self, key: str) -> None:
        self.residents.leave(key)
        self.guests = [guest for guest in self.guests if guest.key != key]

    @rule(key=keys)
    def answered(self, key: str) -> None:
        self.residents.answered(key)
        guest = self.find(key)
        if guest is not None:
            guest.asked = False

    @rule(cap=st.sampled_from([None, 0, 1, 2, 3, 4]))
    def beyond(self, cap: int | None) -> None:
        """C5"""
        excess = 0 if cap is None else max(0, len(self.guests) - cap)
        window = self.guests[:excess]
        ask = [guest for guest in window if not guest.in_turn and not guest.asked]
        held = sum(guest.in_turn for guest in window)
        assert self.residents.beyond(cap) == Beyond(tuple(guest.key for guest in ask), held)
        self._are_asked(ask)

    @rule(ttl=st.sampled_from([None, 0.5, 1.0, 2.0]))
    def idle(self, ttl: float | None) -> None:
        """C6"""
        due = [
            guest
            for guest in self.guests
            if ttl is not None
            and guest.since is not None
            and self.now - guest.since > ttl
            and not guest.asked
        ]
        named = self.residents.idle(self.now, ttl)
        assert sorted(named) == sorted(guest.key for guest in due)
        since = {guest.key: guest.since or 0.0 for guest in due}
        assert list(named) == sorted(named, key=lambda key: since[key]), "longest at rest first"
        self._are_asked(due)

    @rule(most=st.integers(0, 4), enough=st.sampled_from([None, 0, 5, 20]))
    def oldest_free(self, most: int, enough: int | None) -> None:
        """C10"""
        ask: list[Guest] = []
        for guest in self.guests:
            full = enough is not None and sum(one.weight for one in ask) >= enough
            if not guest.in_turn and not guest.asked and len(ask) < most and not full:
                ask.append(guest)
        assert self.residents.oldest_free(most, enough) == tuple(guest.key for guest in ask)
        self._are_asked(ask)

    @rule(numbers=st.dictionaries(keys, st.integers(1, 9)))
    def reorder(self, numbers: dict[str, int]) -> None:
        self.residents.reorder(numbers)
        self.guests.sort(key=lambda guest: numbers.get(guest.key, 0))

    def _are_asked(self, guests: list[Guest]) -> None:
        for guest in guests:
            guest.asked = True

    @invariant()
    def the_model_agrees(self) -> None:
        residents = self.residents
        assert residents.keys() == tuple(guest.key for guest in self.guests)
        assert len(residents) == len(self.guests)
        assert residents.in_turn == sum(guest.in_turn for guest in self.guests)
        assert residents.weight == sum(guest.weight for guest in self.guests)
        assert residents.asked_weight() == sum(guest.weight for guest in self.guests if guest.asked)
        for key in KEYS:
            guest = self.find(key)
            assert (key in residents) == (guest is not None)
            assert residents.is_in_turn(key) == (guest is not None and guest.in_turn)
            assert residents.place(key) == (None if guest is None else self.guests.index(guest) + 1)


TestResidents = ResidentsMachine.TestCase
TestResidents.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


@settings(deadline=None)
@given(told=st.permutations([("a", 3, 0.5), ("b", 1, 2.0), ("c", 2, None), ("d", 4, 1.0)]))
def test_after_a_restart_both_orders_are_as_the_sessions_tell(
    told: list[tuple[str, int, float | None]],
) -> None:
    residents = Residents()
    for key, _, since in told:
        residents.enter(key, in_turn=False, since=since, weight=0)
    residents.reorder({key: number for key, number, _ in told})
    assert residents.keys() == ("b", "c", "a", "d")
    assert residents.idle(now=2.8, ttl=1.0) == ("a", "d")


# Sessions that expire.


def test_a_session_is_due_when_it_was_seen_longer_ago_than_the_ttl() -> None:
    """S6"""
    expiry = Expiry()
    expiry.watch("a", now=0.0)
    expiry.watch("b", now=1.0)
    assert expiry.due(now=5.0, ttl=5.0) == []
    assert expiry.due(now=5.5, ttl=5.0) == ["a"]
    assert len(expiry) == 1
    assert expiry.due(now=9.0, ttl=5.0) == ["b"]
    assert expiry.due(now=9.0, ttl=5.0) == []


def test_to_watch_a_session_that_is_watched_changes_nothing() -> None:
    """It is looked at when it could have expired, and put back then if it was used since."""
    expiry = Expiry()
    expiry.watch("a", now=0.0)
    expiry.watch("a", now=4.0)
    assert expiry.due(now=6.0, ttl=5.0) == ["a"]


def test_a_session_that_is_over_is_never_due() -> None:
    """S6"""
    expiry = Expiry()
    expiry.watch("a", now=0.0)
    expiry.forget("a")
    expiry.forget("never seen")
    assert len(expiry) == 0
    assert expiry.due(now=99.0, ttl=5.0) == []


def test_a_key_that_is_over_and_begins_again_is_due_by_its_new_time() -> None:
    expiry = Expiry()
    expiry.watch("a", now=0.0)
    expiry.forget("a")
    expiry.watch("a", now=10.0)
    assert expiry.due(now=12.0, ttl=5.0) == []
    assert expiry.due(now=16.0, ttl=5.0) == ["a"]


def test_a_million_sessions_that_came_and_went_leave_nothing_behind() -> None:
    """C9"""
    expiry = Expiry()
    most = 0
    for number in range(20_000):
        expiry.watch(str(number), now=float(number))
        expiry.forget(str(number))
        most = max(most, len(expiry._heap))
    assert len(expiry) == 0
    assert most < 50


class ExpiryMachine(RuleBasedStateMachine):
    """The model is a dict of times, and a look goes through all of it."""

    keys = st.sampled_from("ab")

    @initialize(ttl=st.sampled_from([1.0, 3.0]))
    def begin(self, ttl: float) -> None:
        self.expiry = Expiry()
        self.seen: dict[str, float] = {}
        self.now = 0.0
        self.ttl = ttl

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=keys)
    def watch(self, key: str) -> None:
        self.expiry.watch(key, self.now)
        self.seen.setdefault(key, self.now)

    @rule(key=keys)
    def forget(self, key: str) -> None:
        self.expiry.forget(key)
        self.seen.pop(key, None)

    @rule()
    def due(self) -> None:
        expected = {key for key, since in self.seen.items() if self.now - since > self.ttl}
        keys = self.expiry.due(self.now, self.ttl)
        assert len(keys) == len(set(keys))
        assert set(keys) == expected
        for key in keys:
            del self.seen[key]

    @invariant()
    def the_model_agrees(self) -> None:
        assert len(self.expiry) == len(self.seen)
        assert len(self.expiry._heap) <= 2 * len(self.seen) + 17 + len(self.seen)


TestExpiry = ExpiryMachine.TestCase
TestExpiry.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
