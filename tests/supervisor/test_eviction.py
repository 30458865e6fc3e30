"""Who should let go of its agent: each case, and beside models that do it the slow and plain way."""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from greenroom.actors.session.card import Card
from greenroom.supervisor.eviction import LOOKS, Candidates, Expiry, MemoryBound, Order, Residents

KEYS = "abcde"


class Cards(Mapping[str, Card]):
    """The cards of a room, which count how often each was looked at."""

    def __init__(self, *, cached: bool = True) -> None:
        self._cards: dict[str, Card] = {}
        self._cached = cached
        self._tick = 0
        self.looks: list[str] = []

    def __getitem__(self, key: str) -> Card:
        self.looks.append(key)
        return self._cards[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cards)

    def __len__(self) -> int:
        return len(self._cards)

    # What the sessions do to their own cards. Nobody is told.

    def of(self, key: str) -> Card:
        """The card as its session has it."""
        if key not in self._cards:
            self._cards[key] = Card()
            self._cards[key].cached = self._cached
        return self._cards[key]

    def _stamp(self, key: str) -> Card:
        self._tick += 1
        card = self.of(key)
        card.used = self._tick
        return card

    def begin(self, key: str) -> None:
        """A turn begins."""
        self._stamp(key).in_turn = True

    def end(self, key: str, now: float = 0.0) -> None:
        """A turn ends."""
        card = self._stamp(key)
        card.in_turn, card.idle_since = False, now

    def use(self, keys: Iterable[str], now: float = 0.0) -> None:
        """A turn of each."""
        for key in keys:
            self.begin(key)
            self.end(key, now)

    def adopt(self, key: str) -> None:
        """An agent comes from elsewhere: no activity of it is known."""
        card = self._stamp(key)
        card.in_turn, card.idle_since = False, None


def room(keys: str, in_turn: str = "", weight: int = 0) -> tuple[Residents, Cards]:
    """Sessions of one letter each, in order of use; each rests since its place in the alphabet."""
    residents, cards = Residents(), Cards()
    for key in keys:
        cards.use(key, now=float(ord(key) - ord("a")))
        cards.of(key).weight = weight
        if key in in_turn:
            cards.begin(key)
        residents.enter(key, cards.of(key), now=0.0)
    return residents, cards


def crowd(number: int) -> tuple[Residents, Cards]:
    """Very many sessions, in order of use; each rests since its number."""
    residents, cards = Residents(), Cards()
    for since in range(number):
        key = f"{since:06}"
        cards.use([key], now=float(since))
        cards.of(key).weight = 1
        residents.enter(key, cards.of(key), now=0.0)
    return residents, cards


def names(found: Candidates) -> str:
    """The keys of those that are named."""
    return "".join(key for key, _ in found.ask)


def say_no(residents: Residents, cards: Cards, keys: str, *, held: bool = False) -> None:
    """Answer for sessions that were asked and stay."""
    for key in keys:
        residents.answered(key, cards.of(key), held=held)


class Steps(RuleBasedStateMachine):
    """A machine with one rule, which takes any step that is possible now.

    With a rule for each step hypothesis leaves out half of them in a run, and what takes five of them
    one after the other hardly ever comes.
    """

    def possible(self) -> list[str]:
        """The names of the steps. One that is named twice is taken more often."""
        raise NotImplementedError

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.possible()), label="step")
        getattr(self, name)(data)


def one_of(data: st.DataObject, keys: Iterable[str]) -> str:
    """One of these."""
    return data.draw(st.sampled_from(sorted(keys)), label="key")


def size(thing: object) -> int:
    """How much a thing holds on to, whatever it keeps that in."""
    return len(pickle.dumps(thing))


# An order that is looked up and not told.


def test_the_first_is_the_one_with_the_lowest_number() -> None:
    order = Order()
    for key, number in (("b", 2), ("c", 3), ("a", 1)):
        order.put(key, number)
    assert order.first() == (1, "a")
    assert [order.take({"a": 1, "b": 2, "c": 3}.__getitem__, 9)[0] for _ in range(4)] == [*"abc", None]
    assert len(order) == 0


def test_a_key_that_has_moved_is_put_where_it_belongs_and_the_next_one_is_taken() -> None:
    order, now = Order(), {"a": 1, "b": 2, "c": 3}
    for key, number in now.items():
        order.put(key, number)
    now |= {"a": 9, "b": 8}
    assert order.take(now.__getitem__, looks=9) == ("c", 6)
    assert order.take(now.__getitem__, looks=9) == ("b", 8)
    assert order.take(now.__getitem__, looks=9) == ("a", 8)


def test_a_take_that_is_too_short_says_so_and_makes_progress() -> None:
    order, now = Order(), {"a": 1, "b": 2, "c": 3}
    for key, number in now.items():
        order.put(key, number)
    now |= {"a": 9, "b": 8}
    assert order.take(now.__getitem__, looks=1) == (None, 0)
    assert order.take(now.__getitem__, looks=0) == (None, 0)
    assert order.take(now.__getitem__, looks=1) == (None, 0)
    assert order.take(now.__getitem__, looks=1) == ("c", 0)


def test_a_key_that_is_put_elsewhere_is_there_once() -> None:
    order = Order()
    order.put("a", 1)
    order.put("a", 3)
    order.put("b", 2)
    assert (len(order), "a" in order, "x" in order) == (2, True, False)
    assert order.first() == (2, "b")
    order.drop("b")
    assert order.first() == (3, "a")
    order.put("a", 1)
    assert order.first() == (1, "a"), "also if it is put back to where it was before"
    order.put("a", 1)
    order.drop("a")
    order.drop("a")
    assert (len(order), order.first()) == (0, None)


@pytest.mark.parametrize("staying", [0, 1, 100])
def test_an_order_in_which_very_many_came_and_went_keeps_nothing_of_them(staying: int) -> None:
    """C9. Those that stay are behind those that go: none of these comes to the top by itself."""
    order = Order()
    for number in range(staying):
        order.put(f"staying {number}", -1)
    most = 0
    for number in range(20_000):
        order.put(f"{number:06}", number)
        order.drop(f"{number:06}")
        if number % 97 == 0:
            most = max(most, size(order))
    fresh = Order()
    for number in range(staying):
        fresh.put(f"staying {number}", -1)
    assert len(order) == staying
    assert most < 4 * size(fresh) + 2000


def test_a_key_that_moves_very_often_is_kept_once() -> None:
    """C9"""
    order = Order()
    order.put("staying", -1)
    for number in range(20_000):
        order.put("moving", number)
    assert size(order) < 2000


# Who has an agent.


def test_nobody_is_there_at_first() -> None:
    residents = Residents()
    assert len(residents) == residents.held == residents.weight == residents.asked_weight() == 0
    assert "a" not in residents
    assert residents.beyond(0, {}) == residents.idle(99.0, 1.0, {}) == Candidates([], more=False)


def test_whoever_enters_counts_until_it_leaves() -> None:
    """C8"""
    residents, cards = Residents(), Cards()
    cards.use("ab")
    cards.of("a").weight, cards.of("b").weight = 3, 4
    assert residents.enter("a", cards.of("a"), now=0.0)
    assert residents.enter("b", cards.of("b"), now=0.0)
    assert (len(residents), residents.weight, "b" in residents) == (2, 7, True)
    residents.leave("b")
    assert (len(residents), residents.weight, "b" in residents) == (1, 3, False)
    residents.leave("b")
    assert (len(residents), residents.weight) == (1, 3)
    residents.leave("a")
    assert residents.idle(99.0, 1.0, cards).ask == []


def test_entering_again_says_what_it_weighs_now() -> None:
    """C10"""
    residents, cards = room("ab", weight=3)
    cards.of("a").weight = 5
    assert not residents.enter("a", cards.of("a"), now=0.0)
    assert (len(residents), residents.weight) == (2, 8)


def test_what_is_told_of_a_session_without_an_agent_changes_nothing() -> None:
    residents, cards = room("a")
    cards.use("x")
    residents.leave("x")
    say_no(residents, cards, "x", held=True)
    residents.rested("x", cards.of("x"))
    assert (len(residents), residents.held, residents.weight) == (1, 0, 0)
    assert names(residents.beyond(0, cards)) == "a"


@pytest.mark.parametrize("kind", [Residents, Expiry])
def test_a_million_sessions_that_came_and_went_leave_nothing_behind(
    kind: type[Residents | Expiry],
) -> None:
    """C9. One stays that is older than all of them."""
    things, cards = kind(), Cards()
    cards.use("a")

    def put(key: str, now: float) -> None:
        if isinstance(things, Residents):
            things.enter(key, cards.of(key), now)
        else:
            things.put(key, now)

    put("a", 0.0)
    before = size(things)
    for number in range(10_000):
        cards.use("b", now=float(number))
        put("b", float(number))
        if isinstance(things, Residents):
            things.beyond(0, cards, looks=number % 3)
            things.leave("b")
        else:
            things.drop("b")
    assert len(things) == 1
    assert size(things) < before + 2000


# The order of use.


def test_a_turn_makes_the_most_recently_used_although_nobody_was_told() -> None:
    """C2"""
    residents, cards = room("abcd")
    cards.use("ca")
    assert names(residents.beyond(0, cards)) == "bdca"


def test_provisional_sessions_are_first_among_themselves_in_order_of_use() -> None:
    """C2"""
    residents, cards = room("abcde")
    for key in "bd":
        cards.of(key).provisional = True
        residents.leave(key)
        residents.enter(key, cards.of(key), now=0.0)
    cards.use("b")
    assert names(residents.beyond(0, cards)) == "dbace"


def test_a_session_that_is_not_provisional_any_more_is_not_the_first_to_go() -> None:
    """C2"""
    residents, cards = room("a")
    cards.use("b")
    cards.of("b").provisional = True
    residents.enter("b", cards.of("b"), now=0.0)
    cards.of("b").provisional = False
    assert names(residents.beyond(1, cards)) == "a"


def test_the_end_of_a_turn_makes_the_most_recently_used() -> None:
    """C2"""
    residents, cards = room("abc", in_turn="a")
    cards.use("b")
    cards.end("a", now=9.0)
    assert names(residents.beyond(0, cards)) == "cba"


def test_the_last_use_that_was_seen_is_told_of_everyone_who_is_named() -> None:
    residents, cards = room("ab")
    cards.use("a")
    for found in (
        residents.beyond(1, cards),
        residents.oldest_free(1, cards),
    ):
        assert found.ask == [(key, cards.of(key).used) for key, _ in found.ask]
    residents, cards = room("a")
    assert residents.idle(99.0, 1.0, cards).ask == [("a", cards.of("a").used)]


def test_the_order_costs_nothing_until_somebody_has_to_go() -> None:
    residents, cards = room("abcd")
    cards.use("abcd" * 10)
    assert residents.beyond(4, cards) == residents.beyond(None, cards) == Candidates([])
    assert cards.looks == []


# The cap.


@pytest.mark.parametrize(
    ("cap", "ask"), [(None, ""), (5, ""), (4, ""), (3, "a"), (2, "ab"), (1, "abc"), (0, "abcd")]
)
def test_only_the_first_beyond_the_cap_come_into_question(cap: int | None, ask: str) -> None:
    """C3, C5. Also those that seem to be in a turn: only the session knows."""
    for in_turn in ("", "abcd"):
        residents, cards = room("abcd", in_turn)
        found = residents.beyond(cap, cards)
        assert (names(found), found.more) == (ask, False)


def test_nobody_is_asked_twice_before_it_has_answered() -> None:
    residents, cards = room("abc")
    assert names(residents.beyond(1, cards)) == "ab"
    assert names(residents.beyond(1, cards)) == ""
    assert names(residents.idle(99.0, 1.0, cards)) == "c"
    assert names(residents.oldest_free(9, cards)) == ""
    say_no(residents, cards, "b")
    assert names(residents.beyond(1, cards)) == ""
    assert names(residents.beyond(0, cards)) == "b"


def test_one_that_was_asked_still_counts_and_no_younger_one_goes_instead() -> None:
    """C5"""
    residents, cards = room("abcd")
    assert names(residents.beyond(3, cards)) == "a"
    assert residents.beyond(3, cards) == Candidates([])
    assert len(residents) == 4


def test_one_that_said_no_because_it_was_used_is_not_the_next_to_be_asked() -> None:
    """C2, C5"""
    residents, cards = room("abcd")
    assert names(residents.beyond(3, cards)) == "a"
    cards.use("a")
    say_no(residents, cards, "a")
    assert names(residents.beyond(3, cards)) == "b"


def test_one_that_is_in_a_turn_is_held_and_not_replaced_by_a_younger_one() -> None:
    """C5"""
    residents, cards = room("abcd", in_turn="a")
    assert names(residents.beyond(2, cards)) == "ab"
    say_no(residents, cards, "a", held=True)
    residents.leave("b")
    assert (len(residents), residents.held) == (3, 1)
    assert residents.beyond(2, cards) == Candidates([])


def test_one_that_was_held_and_rests_is_the_most_recently_used() -> None:
    """C2, C5"""
    residents, cards = room("abcd", in_turn="a")
    residents.beyond(3, cards)
    say_no(residents, cards, "a", held=True)
    cards.end("a")
    residents.rested("a", cards.of("a"))
    assert residents.held == 0
    assert names(residents.beyond(3, cards)) == "b"


def test_one_that_was_held_and_leaves_is_held_no_more() -> None:
    residents, cards = room("abc", in_turn="a")
    residents.beyond(2, cards)
    say_no(residents, cards, "a", held=True)
    residents.leave("a")
    assert (len(residents), residents.held) == (2, 0)
    assert names(residents.beyond(1, cards)) == "b"


@pytest.mark.parametrize("bound", ["idle", "memory"])
def test_only_who_was_asked_for_the_cap_is_held(bound: str) -> None:
    """C5. The card did not show yet that the turn had begun."""
    residents, cards = room("ab")
    found = residents.oldest_free(1, cards) if bound == "memory" else residents.idle(1.5, 1.0, cards)
    assert names(found) == "a"
    cards.of("a").in_turn = True
    say_no(residents, cards, "a", held=True)
    assert residents.held == 0
    assert names(residents.beyond(1, cards)) == "a"


def test_an_answer_that_comes_twice_counts_once() -> None:
    residents, cards = room("ab", in_turn="a")
    residents.beyond(1, cards)
    say_no(residents, cards, "a", held=True)
    say_no(residents, cards, "a", held=False)
    assert residents.held == 1
    assert residents.beyond(1, cards) == Candidates([])


def test_whoever_left_and_came_back_can_be_asked_again() -> None:
    residents, cards = room("ab")
    assert names(residents.beyond(1, cards)) == "a"
    residents.leave("a")
    residents.enter("a", cards.of("a"), now=0.0)
    assert names(residents.beyond(1, cards)) == "a"


def test_one_that_comes_back_and_is_older_goes_before_one_that_is_held() -> None:
    """C5. Its release was called off without a use."""
    residents, cards = room("abcd", in_turn="c")
    residents.leave("a")
    residents.leave("b")
    assert names(residents.beyond(1, cards)) == "c"
    say_no(residents, cards, "c", held=True)
    residents.enter("b", cards.of("b"), now=0.0)
    assert residents.held == 0
    assert names(residents.beyond(2, cards)) == "b", "and of these three only the oldest"
    assert names(residents.beyond(1, cards)) == "c"


def test_one_that_comes_back_and_is_younger_leaves_held_who_is() -> None:
    """C5"""
    residents, cards = room("abcd", in_turn="b")
    residents.leave("a")
    assert names(residents.beyond(2, cards)) == "b"
    say_no(residents, cards, "b", held=True)
    cards.use("a")
    residents.enter("a", cards.of("a"), now=0.0)
    assert residents.held == 1
    assert names(residents.beyond(2, cards)) == "c"


@pytest.mark.parametrize("answers", ["xk", "kx"])
def test_one_that_stays_and_is_older_goes_before_one_that_is_held(answers: str) -> None:
    """C5. 1. x is asked  2. x is used, and after that k begins a turn  3. one more enters, and k is
    asked  4. that one leaves  5. both say no. Only x is beyond the cap now, and it is not in a turn."""
    residents, cards = room("xk")
    assert names(residents.beyond(1, cards)) == "x"
    cards.use("x")
    cards.begin("k")
    cards.use("z")
    residents.enter("z", cards.of("z"), now=0.0)
    assert names(residents.beyond(1, cards)) == "k"
    residents.leave("z")
    for key in answers:
        assert residents.beyond(1, cards) == Candidates([])
        say_no(residents, cards, key, held=key == "k")
    assert names(residents.beyond(1, cards)) == "x"


def test_one_that_rested_before_another_began_goes_before_that_one() -> None:
    """C5. As above; here x was held, and its word that it rests comes late."""
    residents, cards = room("xk", in_turn="x")
    assert names(residents.beyond(1, cards)) == "x"
    say_no(residents, cards, "x", held=True)
    cards.end("x")
    cards.begin("k")
    cards.use("z")
    residents.enter("z", cards.of("z"), now=0.0)
    assert names(residents.beyond(1, cards)) == "k"
    say_no(residents, cards, "k", held=True)
    residents.leave("z")
    residents.rested("x", cards.of("x"))
    assert names(residents.beyond(1, cards)) == "x"


@pytest.mark.parametrize("read", ["with its answer", "in the order"])
def test_one_whose_agent_is_gone_puts_no_younger_one_beyond_the_cap(read: str) -> None:
    """C5. 1. b is held by its turn  2. d's turn ends, and its agent is gone; the notice is on its way
    3. the supervisor reads d's card, which says so, and that d was used after c. Only b and c are left,
    and only b is beyond the cap: c is not asked in its place, and b goes when its turn is over."""
    residents, cards = room("bdc", in_turn="bd")
    answers = read == "with its answer"
    assert names(residents.beyond(1 if answers else 2, cards)) == ("bd" if answers else "b")
    say_no(residents, cards, "b", held=True)
    cards.end("d")
    cards.of("d").cached = False
    if answers:
        say_no(residents, cards, "d", held=True)
    assert residents.beyond(1, cards) == Candidates([])
    assert (len(residents), residents.held) == (2, 1)
    cards.of("b").in_turn = False  # its turn expired before it was granted: that is no use
    residents.rested("b", cards.of("b"))
    assert names(residents.beyond(1, cards)) == "b"


def test_a_look_for_the_cap_that_is_too_short_says_more_and_makes_progress() -> None:
    """C3"""
    residents, cards = room("abcd")
    cards.use("abc")
    looks = [residents.beyond(2, cards, looks=2) for _ in range(3)]
    assert [(names(found), found.more) for found in looks] == [("", True), ("d", True), ("a", False)]


def test_a_look_that_ends_with_the_last_one_says_no_more() -> None:
    residents, cards = room("ab")
    assert residents.beyond(1, cards, looks=1).more is False
    assert residents.beyond(0, cards, looks=0).more is True
    assert residents.beyond(0, cards, looks=1).more is False
    say_no(residents, cards, "ab")
    assert residents.oldest_free(2, cards, looks=2).more is False
    assert residents.oldest_free(2, cards, looks=0).more is False, "there is nobody else"


def test_one_look_corrects_a_bounded_number_of_entries() -> None:
    """However many were used since."""
    residents, cards = crowd(3 * LOOKS)
    cards.use(cards)
    looks = [residents.beyond(len(cards) - 1, cards) for _ in range(4)]
    assert [(names(found), found.more) for found in looks] == [("", True)] * 3 + [("000000", False)]
    assert len(cards.looks) <= 3 * LOOKS + 2


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
    residents, cards = room("abcd")
    found = residents.idle(now, ttl, cards)
    assert (names(found), found.more) == (ask, False)


def test_a_sweep_skips_who_is_in_a_turn_however_old() -> None:
    """C4"""
    residents, cards = room("abc", in_turn="b")
    cards.begin("a")
    assert names(residents.idle(99.0, 1.0, cards)) == "c"


def test_one_that_was_in_a_turn_is_found_when_it_has_rested_for_long_enough() -> None:
    """C6"""
    residents, cards = room("a", in_turn="a")
    assert names(residents.idle(10.0, 5.0, cards)) == ""
    cards.end("a", now=11.0)
    assert names(residents.idle(16.0, 5.0, cards)) == ""
    assert names(residents.idle(16.5, 5.0, cards)) == "a"


def test_one_that_was_used_since_is_found_when_it_has_rested_for_long_enough() -> None:
    """C6"""
    residents, cards = room("a")
    cards.use("a", now=4.0)
    assert names(residents.idle(6.0, 5.0, cards)) == ""
    assert names(residents.idle(9.0, 5.0, cards)) == ""
    assert names(residents.idle(9.5, 5.0, cards)) == "a"


def test_a_sweep_leaves_alone_of_whom_no_activity_is_known_until_it_was_used_and_rested() -> None:
    """C6"""
    residents, cards = Residents(), Cards()
    cards.adopt("a")
    residents.enter("a", cards.of("a"), now=1.0)
    for now in (5.0, 1e3, 1e9):
        assert names(residents.idle(now, 1.0, cards)) == ""
    cards.use("a", now=1e9 + 1)
    assert names(residents.idle(1e9 + 2, 1.0, cards)) == ""
    assert names(residents.idle(1e9 + 3, 1.0, cards)) == "a"


def test_the_cap_counts_of_whom_no_activity_is_known() -> None:
    """C3, C6"""
    residents, cards = Residents(), Cards()
    cards.adopt("a")
    residents.enter("a", cards.of("a"), now=1.0)
    assert names(residents.beyond(0, cards)) == "a"
    say_no(residents, cards, "a")
    assert names(residents.idle(1e9, 1.0, cards)) == "", "also if it was asked and stays"


def test_a_sweep_skips_who_is_held() -> None:
    """C4. By its card, it may be at rest: word of that is on its way."""
    residents, cards = room("ab", in_turn="a")
    residents.beyond(1, cards)
    say_no(residents, cards, "a", held=True)
    cards.end("a", now=1.0)
    assert names(residents.idle(99.0, 1.0, cards)) == "b"
    residents.rested("a", cards.of("a"))
    assert names(residents.idle(199.0, 1.0, cards)) == "a"


def test_one_that_said_no_to_a_sweep_can_be_asked_again() -> None:
    """C6"""
    residents, cards = room("abc")
    assert names(residents.idle(1.5, 1.0, cards)) == "a"
    assert names(residents.idle(2.5, 1.0, cards)) == "b"
    say_no(residents, cards, "a")
    assert names(residents.idle(2.5, 1.0, cards)) == "a"


def test_one_that_a_sweep_has_named_counts_for_the_cap_as_asked() -> None:
    """C5"""
    residents, cards = room("abc")
    assert names(residents.idle(1.5, 1.0, cards)) == "a"
    assert names(residents.beyond(2, cards)) == ""
    assert names(residents.beyond(1, cards)) == "b"


def test_a_sweep_costs_what_it_evicts_and_not_what_it_keeps() -> None:
    """C6"""
    residents, cards = crowd(1000)
    assert names(residents.idle(1002.0, 1000.0, cards)) == "000000" + "000001"
    assert names(residents.idle(1002.0, 1000.0, cards)) == ""
    assert cards.looks == ["000000", "000001"]


def test_a_sweep_looks_once_at_each_that_was_used_since_and_not_again_in_an_idle_ttl() -> None:
    """C6"""
    residents, cards = room("abc", in_turn="c")
    cards.use("ab", now=50.0)
    assert residents.idle(50.0, 10.0, cards).ask == []
    assert sorted(cards.looks) == ["a", "b", "c"]
    for _ in range(10):
        cards.use("a", now=60.0)
        assert residents.idle(60.0, 10.0, cards).ask == []
    assert len(cards.looks) == 3
    cards.use("b", now=60.5)
    assert residents.idle(60.5, 10.0, cards).ask == []
    assert len(cards.looks) == 6


def test_a_sweep_that_is_too_short_says_more_and_makes_progress() -> None:
    """C6"""
    residents, cards = room("abcd")
    cards.use("bc", now=98.0)
    looks = [residents.idle(99.0, 5.0, cards, looks=1) for _ in range(5)]
    assert [names(found) for found in looks] == ["a", "", "", "d", ""]
    assert [found.more for found in looks] == [True, True, True, False, False]


@given(since=st.floats(0, 1e6), ttl=st.floats(1e-3, 1e4), steps=st.integers(-3, 3))
def test_what_a_sweep_names_has_rested_since_before_the_cutoff(
    since: float, ttl: float, steps: int
) -> None:
    """C6. The session is told the cutoff and compares with that: also in the last bit of a float."""
    residents, cards = Residents(), Cards()
    cards.use("a", now=-1e6)
    residents.enter("a", cards.of("a"), now=0.0)
    cards.use("a", now=since)
    now = since + ttl
    for _ in range(abs(steps)):
        now = math.nextafter(now, math.inf if steps > 0 else -math.inf)
    assert (names(residents.idle(now, ttl, cards)) == "a") == (since < now - ttl)


# Memory.


def test_the_oldest_that_can_be_asked() -> None:
    """C10"""
    residents, cards = room("abcd", in_turn="b")
    residents.beyond(3, cards)
    cards.use("c")
    assert names(residents.oldest_free(1, cards)) == "d"
    assert names(residents.oldest_free(2, cards)) == "c"
    cards.end("b")
    assert names(residents.oldest_free(2, cards)) == "b"
    assert names(residents.oldest_free(2, cards)) == ""


def test_no_more_than_weigh_enough() -> None:
    """C10"""
    residents, cards = room("abcd", weight=10)
    assert names(residents.oldest_free(9, cards, enough=0)) == ""
    assert names(residents.oldest_free(9, cards, enough=11)) == "ab"
    assert residents.asked_weight() == 20
    assert names(residents.oldest_free(1, cards, enough=99)) == "c"
    say_no(residents, cards, "a")
    assert residents.asked_weight() == 20


def test_those_in_a_turn_use_up_no_look_and_keep_their_place() -> None:
    """C10. Else a look that finds nobody but these would say that there is more, again and again."""
    residents, cards = room("abcd", in_turn="abc")
    found = residents.oldest_free(2, cards, looks=1)
    assert (names(found), found.more) == ("d", False)
    found = residents.oldest_free(2, cards, looks=1)
    assert (names(found), found.more) == ("", False)
    assert names(residents.beyond(1, cards)) == "ab"


def test_a_look_for_memory_that_is_too_short_says_more_and_makes_progress() -> None:
    """C10"""
    residents, cards = room("abcd", in_turn="b")
    cards.use("ac")
    looks = [residents.oldest_free(1, cards, looks=1) for _ in range(3)]
    assert [(names(found), found.more) for found in looks] == [("", True), ("", True), ("d", False)]


def look(
    bound: MemoryBound, in_room: tuple[Residents, Cards], used: int, *, weighed: bool = False
) -> str:
    """Look with a budget of 100 and a relief of 80, two at a time."""
    found = bound.look(*in_room, used=used, budget=100, relief=0.8, batch=2, weighed=weighed)
    assert not found.more
    return names(found)


def test_memory_is_shed_above_the_budget_and_until_the_relief() -> None:
    """C10"""
    bound, in_room = MemoryBound(), room("abcdef")
    assert (look(bound, in_room, 100), bound.shedding) == ("", False)
    assert (look(bound, in_room, 101), bound.shedding) == ("ab", True)
    assert [bound.gone("a"), bound.gone("b")] == [False, True]
    assert look(bound, in_room, 90) == "cd"
    assert [bound.gone("d"), bound.gone("c")] == [False, True]
    assert (look(bound, in_room, 80), bound.shedding) == ("", False)
    assert (look(bound, in_room, 90), bound.shedding) == ("", False)


def test_the_next_batch_waits_until_the_last_is_gone_unless_memory_grows() -> None:
    """C10"""
    bound, in_room = MemoryBound(), room("abcdef")
    assert look(bound, in_room, 110) == "ab"
    assert look(bound, in_room, 110) == ""
    assert not bound.gone("a")
    assert look(bound, in_room, 105) == ""
    assert look(bound, in_room, 111) == "cd"
    assert look(bound, in_room, 111) == ""


def test_nobody_else_is_the_last_of_those_that_were_shed() -> None:
    bound, in_room = MemoryBound(), room("ab")
    assert not bound.gone("a")
    look(bound, in_room, 110)
    assert not bound.gone("x")
    assert not bound.gone("a")
    assert not bound.gone("a")
    assert bound.gone("b")
    assert not bound.gone("b")


def test_if_all_are_in_a_turn_nobody_is_shed_and_the_next_look_tries_again() -> None:
    """C10"""
    bound, (residents, cards) = MemoryBound(), room("ab", in_turn="ab")
    assert look(bound, (residents, cards), 110) == ""
    cards.end("b")
    assert look(bound, (residents, cards), 110) == "b"


def test_with_known_weights_those_that_were_asked_count_as_gone() -> None:
    """C10"""
    bound, (residents, cards) = MemoryBound(), room("abcdef", weight=20)
    assert residents.weight == 120
    assert look(bound, (residents, cards), 120, weighed=True) == "ab"
    assert look(bound, (residents, cards), 120, weighed=True) == ""
    residents.leave("a")
    say_no(residents, cards, "b")
    assert look(bound, (residents, cards), 100, weighed=True) == "b"
    residents.leave("b")
    assert look(bound, (residents, cards), 80, weighed=True) == ""
    assert not bound.shedding


@pytest.mark.parametrize("weighed", [False, True])
def test_a_look_at_memory_that_is_too_short_says_more_and_the_next_goes_on(weighed: bool) -> None:
    """C10"""
    bound, (residents, cards) = MemoryBound(), crowd(LOOKS + 10)
    cards.use(cards)

    def once() -> Candidates:
        return bound.look(
            residents, cards, used=len(cards), budget=9, relief=1.0, batch=2, weighed=weighed
        )

    assert once() == Candidates([], more=True)
    assert names(once()) == "000000" + "000001"


weights = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=8)


@settings(deadline=None)
@given(
    weights=weights,
    used_again=st.lists(st.integers(0, 7), max_size=8),
    budget=st.integers(1, 150),
    relief=st.sampled_from([0.5, 0.9, 1.0]),
)
def test_shedding_by_weight_ends_at_the_relief_or_with_all_free_ones_gone(
    weights: list[tuple[int, bool]], used_again: list[int], budget: int, relief: float
) -> None:
    """C10"""
    bound, residents, cards = MemoryBound(), Residents(), Cards()
    for number, (weight, in_turn) in enumerate(weights):
        key = str(number)
        cards.begin(key)
        cards.of(key).weight = weight
        if not in_turn:
            cards.end(key)
        residents.enter(key, cards.of(key), now=0.0)
    free = [str(number) for number, (_, in_turn) in enumerate(weights) if not in_turn]
    cards.use(str(number) for number in used_again if str(number) in free)
    free.sort(key=lambda key: cards.of(key).used)
    total = residents.weight
    gone: list[str] = []
    while ask := bound.look(
        residents, cards, used=residents.weight, budget=budget, relief=relief, batch=3, weighed=True
    ).ask:
        assert len(ask) <= 3
        for key, _ in ask:
            residents.leave(key)
            gone.append(key)
    assert gone == free[: len(gone)], "C4, C10: least recently used first, none in a turn"
    if total <= budget:
        assert not gone
    else:
        target = int(budget * relief)
        assert residents.weight <= target or gone == free
        if gone:  # and no more than that
            assert residents.weight + weights[int(gone[-1])][0] > target


class MemoryMachine(Steps):
    """Without weights: the model is who is on the way out, and the most that was seen."""

    BUDGET, RELIEF, BATCH = 100, 0.75, 2

    def __init__(self) -> None:
        super().__init__()
        self.bound = MemoryBound()
        self.residents, self.cards = Residents(), Cards()
        self.shedding = False
        self.leaving: list[str] = []
        self.peak = 0

    def possible(self) -> list[str]:
        return ["enter", "look", "look", "goes", *(["is_used"] if self.cards else [])]

    def enter(self, data: st.DataObject) -> None:
        key = f"{len(self.cards):03}"
        self._use(key, data)
        self.residents.enter(key, self.cards.of(key), now=0.0)

    def is_used(self, data: st.DataObject) -> None:
        """Nobody is told."""
        self._use(one_of(data, self.cards), data)

    def _use(self, key: str, data: st.DataObject) -> None:
        self.cards.begin(key)
        if data.draw(st.booleans(), label="and it ends"):
            self.cards.end(key)

    def look(self, data: st.DataObject) -> None:
        used = data.draw(st.integers(50, 130), label="used")
        cards = self.cards
        there = [key for key in cards if key in self.residents and key not in self.leaving]
        free = sorted(
            (key for key in there if not cards.of(key).in_turn), key=lambda key: cards.of(key).used
        )
        if used > self.BUDGET:
            self.shedding = True
        if used <= self.BUDGET * self.RELIEF:
            self.shedding = False
        found = self.bound.look(
            self.residents,
            cards,
            used=used,
            budget=self.BUDGET,
            relief=self.RELIEF,
            batch=self.BATCH,
            weighed=False,
        )
        waits = bool(self.leaving) and used <= self.peak
        expected = free[: self.BATCH] if self.shedding and not waits else []
        assert found == Candidates([(key, cards.of(key).used) for key in expected])
        if self.shedding and not waits:
            self.leaving += expected
            self.peak = used

    def goes(self, data: st.DataObject) -> None:
        key = one_of(data, [*self.leaving, "another"])
        self.residents.leave(key)
        last = self.leaving == [key]
        assert self.bound.gone(key) == last
        if key in self.leaving:
            self.leaving.remove(key)

    @invariant()
    def the_model_agrees(self) -> None:
        assert self.bound.shedding == self.shedding


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


# All of the residents, beside a list that is sorted at every look.


@dataclass
class Guest:
    card: Card
    weight: int
    seen: float | None = None
    """It was asked, and has not answered: the use that was seen."""
    for_cap: bool = False
    held: bool = False
    overtaken: bool = False
    """Since it was asked, one came back to the order that is older."""


def repeat(look: Callable[[], Candidates], most: int) -> list[tuple[str, float]]:
    """Look again while there is more: all that were named."""
    named: list[tuple[str, float]] = []
    for _ in range(most):
        found = look()
        named += found.ask
        if not found.more:
            return named
    raise AssertionError("it never came to an end")


class ResidentsMachine(Steps):
    """The model reads every card at every question, and sorts. The residents are told of no turn."""

    LOOKS = st.sampled_from([1, 2, 3, LOOKS])

    def __init__(self) -> None:
        super().__init__()
        self.residents, self.cards = Residents(), Cards()
        self.guests: dict[str, Guest] = {}
        self.now = 100.0

    def possible(self) -> list[str]:
        return [
            *["enters_or_leaves", "begins", "time_passes", "is_adopted", "an_answer_comes_twice"],
            *["beyond", "beyond", "idle", "idle", "oldest_free"],
            *(["ends", "ends"] if self._in_turn() else []),
            *(["answers"] * 3 if self._asked() else []),
        ]

    def _in_turn(self) -> list[str]:
        return [key for key in self.cards if self.cards.of(key).in_turn]

    def _asked(self) -> list[str]:
        return [key for key, guest in self.guests.items() if guest.seen is not None]

    # What the sessions do. Nobody is told, unless a session is held and its turn ends.

    def time_passes(self, data: st.DataObject) -> None:
        self.now += data.draw(st.sampled_from([0.5, 1.0, 3.0]), label="seconds")

    def begins(self, data: st.DataObject) -> None:
        key = one_of(data, KEYS)
        if not self.cards.of(key).in_turn:
            self.cards.begin(key)

    def ends(self, data: st.DataObject) -> None:
        """And perhaps the next turn begins at once."""
        key = one_of(data, self._in_turn())
        self.cards.end(key, self.now)
        if data.draw(st.booleans(), label="and the next begins"):
            self.cards.begin(key)
        self.residents.rested(key, self.cards.of(key))
        guest = self.guests.get(key)
        if guest is not None and guest.held:
            guest.held = False
            self._overtakes(guest)

    def is_adopted(self, data: st.DataObject) -> None:
        key = one_of(data, KEYS)
        if not self.cards.of(key).in_turn:
            self.cards.adopt(key)

    # What the residents are told.

    def enters_or_leaves(self, data: st.DataObject) -> None:
        key = one_of(data, KEYS)
        card, guest = self.cards.of(key), self.guests.get(key)
        if guest is not None and data.draw(st.booleans(), label="leaves"):
            self._leave(key)
            return
        if not card.used:
            self.cards.adopt(key)
        card.weight = data.draw(st.integers(0, 9), label="weight")
        assert self.residents.enter(key, card, self.now) == (guest is None)
        if guest is None:
            self.guests[key] = guest = Guest(card, card.weight)
            self._overtakes(guest)
        guest.weight = card.weight

    def _leave(self, key: str) -> None:
        self.residents.leave(key)
        del self.guests[key]

    def an_answer_comes_twice(self, data: st.DataObject) -> None:
        key = one_of(data, KEYS)
        if key not in self._asked():
            card = self.cards.of(key)
            self.residents.answered(key, card, held=card.in_turn)

    def answers(self, data: st.DataObject) -> None:
        """As a session does: not if it was used since, and not in a turn."""
        key = one_of(data, self._asked())
        card, guest = self.cards.of(key), self.guests[key]
        if guest.seen == card.used and not card.in_turn:
            self._leave(key)
        else:
            held = guest.seen == card.used
            self.residents.answered(key, card, held=held)
            guest.seen, guest.held = None, held and guest.for_cap
            if not guest.held:
                self._overtakes(guest)

    def _overtakes(self, guest: Guest) -> None:
        for other in self.guests.values():
            if guest.card.used < other.card.used:
                other.overtaken = True

    # What they are asked.

    def _are_asked(self, named: list[tuple[str, float]], *, for_cap: bool) -> None:
        for key, seen in named:
            guest = self.guests[key]
            assert guest.seen is None, "it was named twice before it had answered"
            assert seen == guest.card.used
            guest.seen, guest.for_cap = seen, for_cap
            guest.held = guest.overtaken = False

    def _by_use(self) -> list[str]:
        """Those that were not asked, least recently used first."""
        return sorted(
            (key for key, guest in self.guests.items() if guest.seen is None),
            key=lambda key: self.guests[key].card.used,
        )

    def beyond(self, data: st.DataObject) -> None:
        """C5. The first (size - cap) in order of use, but for those that are held."""
        cap = data.draw(st.sampled_from([1, 2, 3, 0, None]), label="cap")
        looks = data.draw(self.LOOKS, label="looks")
        by_use = self._by_use()
        window = by_use[: max(0, len(by_use) - cap)] if cap is not None else []
        before = self.residents.held
        named = repeat(lambda: self.residents.beyond(cap, self.cards, looks), 2 * len(KEYS))
        keys = [key for key, _ in named]
        held = [key for key in window if self.guests[key].held and key not in keys]
        assert [key for key in window if key not in held] == keys, "least recently used first"
        assert all(self.guests[key].overtaken for key in keys if self.guests[key].held)
        assert len(held) <= before == self.residents.held
        self._are_asked(named, for_cap=True)
        assert self.residents.beyond(cap, self.cards) == Candidates([])

    def idle(self, data: st.DataObject) -> None:
        """C6"""
        ttl = data.draw(st.sampled_from([2.0, 1.0, None]), label="ttl")
        looks = data.draw(self.LOOKS, label="looks")
        due = [
            key
            for key in self._by_use()
            if ttl is not None
            and not self.guests[key].card.in_turn
            and (since := self.guests[key].card.idle_since) is not None
            and self.now - since > ttl
        ]
        named = repeat(lambda: self.residents.idle(self.now, ttl, self.cards, looks), 2 * len(KEYS))
        assert sorted(key for key, _ in named) == sorted(due)
        self._are_asked(named, for_cap=False)
        self.cards.looks.clear()
        assert self.residents.idle(self.now, ttl, self.cards) == Candidates([])
        assert self.cards.looks == [], "nobody is looked at again before it could be idle"

    def oldest_free(self, data: st.DataObject) -> None:
        """C10"""
        most = data.draw(st.integers(0, 4), label="most")
        enough = data.draw(st.sampled_from([None, 0, 5, 20]), label="enough")
        looks = data.draw(self.LOOKS, label="looks")
        expected: list[str] = []
        for key in self._by_use():
            full = enough is not None and self._weigh(expected) >= enough
            if not self.guests[key].card.in_turn and len(expected) < most and not full:
                expected.append(key)
        named: list[tuple[str, float]] = []

        def look() -> Candidates:
            still = None if enough is None else enough - self._weigh([key for key, _ in named])
            found = self.residents.oldest_free(most - len(named), self.cards, still, looks)
            named.extend(found.ask)
            return found

        repeat(look, 2 * len(KEYS))
        assert [key for key, _ in named] == expected
        self._are_asked(named, for_cap=False)

    def _weigh(self, keys: list[str]) -> int:
        return sum(self.guests[key].weight for key in keys)

    @invariant()
    def the_model_agrees(self) -> None:
        residents, guests = self.residents, self.guests
        assert len(residents) == len(guests)
        assert residents.weight == self._weigh(list(guests))
        assert residents.asked_weight() == self._weigh(self._asked())
        held = [guest for guest in guests.values() if guest.held]
        assert sum(not guest.overtaken for guest in held) <= residents.held <= len(held)
        for key in KEYS:
            assert (key in residents) == (key in guests)


TestResidents = ResidentsMachine.TestCase
TestResidents.settings = settings(max_examples=250, stateful_step_count=60, deadline=None)


# A room whose messages take their time.


@dataclass
class Actor:
    """An honest session: it says no in a turn, or if it was used since, and tells what it owes."""

    card: Card
    requests: deque[tuple[float, float | None]] = field(default_factory=deque)
    """What it was asked: the use that was seen, the cutoff."""
    notices: deque[str] = field(default_factory=deque)
    """What it has told, and the supervisor has not heard."""


class RoomMachine(Steps):
    """Plain sessions and a plain supervisor, with messages between them that take as long as they like.
    When all have come, the room is within its cap, or those beyond it are in a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.residents, self.cards = Residents(), Cards(cached=False)
        self.actors = {key: Actor(self.cards.of(key)) for key in "abcd"}
        self.cap, self.looks = 1, LOOKS
        self.more = False
        self.now = 100.0

    @initialize(cap=st.integers(0, 2), looks=st.sampled_from([1, LOOKS]))
    def opens(self, cap: int, looks: int) -> None:
        self.cap, self.looks = cap, looks

    def possible(self) -> list[str]:
        return [
            *["sheds", "sweeps", "is_configured"],
            *(["looks_again"] if self.more else []),
            *(["a_turn_begins"] * 3 + ["an_agent_leaves_or_comes_back"] if self._not_in_turn() else []),
            *(["a_turn_ends"] * 2 if self._in_turn() else []),
            *(["a_session_answers"] * 3 if self._asked() else []),
            *(["the_supervisor_hears"] * 4 if self._unheard() else []),
        ]

    def _in_turn(self) -> list[str]:
        return [key for key, actor in self.actors.items() if actor.card.in_turn]

    def _not_in_turn(self) -> list[str]:
        return [key for key, actor in self.actors.items() if not actor.card.in_turn]

    def _asked(self) -> list[str]:
        return [key for key, actor in self.actors.items() if actor.requests]

    def _unheard(self) -> list[str]:
        return [key for key, actor in self.actors.items() if actor.notices]

    # Sessions.

    def _changed(self, key: str) -> None:
        self.actors[key].notices.append("changed")

    def a_turn_begins(self, data: st.DataObject) -> None:
        key = one_of(data, self._not_in_turn())
        self.cards.begin(key)
        card = self.cards.of(key)
        if not card.cached:
            card.cached = True
            self._changed(key)

    def a_turn_ends(self, data: st.DataObject) -> None:
        """And perhaps the next one begins at once."""
        key = one_of(data, self._in_turn())
        self.cards.end(key, self.now)
        if data.draw(st.booleans(), label="and the next begins"):
            self.cards.begin(key)
        card = self.cards.of(key)
        if card.owes is not None:
            card.owes = None
            self._changed(key)

    def an_agent_leaves_or_comes_back(self, data: st.DataObject) -> None:
        """Without a turn."""
        key = one_of(data, self._not_in_turn())
        card = self.cards.of(key)
        if card.used:
            card.cached = not card.cached
            self._changed(key)

    def a_session_answers(self, data: st.DataObject) -> None:
        self._answer(one_of(data, self._asked()))

    def _answer(self, key: str) -> None:
        actor, card = self.actors[key], self.cards.of(key)
        seen, cutoff = actor.requests.popleft()
        idle = cutoff is not None and card.idle_since is not None and card.idle_since < cutoff
        wanted = seen == card.used if cutoff is None else idle
        if wanted and card.in_turn:
            card.owes = card.used
            actor.notices.append("held")
        elif wanted and card.cached:
            card.cached = False
            actor.notices.append("accepted")
        else:
            actor.notices.append("refused")

    # The supervisor.

    def the_supervisor_hears(self, data: st.DataObject) -> None:
        self._hear(one_of(data, self._unheard()))

    def _hear(self, key: str) -> None:
        card, notice = self.cards.of(key), self.actors[key].notices.popleft()
        if notice == "accepted" or (notice == "changed" and not card.cached):
            self.residents.leave(key)
        elif notice == "changed":
            self.residents.enter(key, card, self.now)
            self.residents.rested(key, card)
        else:
            self.residents.answered(key, card, held=notice == "held")
        self._hold()

    def _hold(self) -> None:
        self.more = False
        self._ask(self.residents.beyond(self.cap, self.cards, self.looks))

    def _ask(self, found: Candidates, cutoff: float | None = None) -> None:
        for key, seen in found.ask:
            self.actors[key].requests.append((seen, cutoff))
        self.more = self.more or found.more

    def looks_again(self, _: st.DataObject) -> None:
        self._hold()

    def sheds(self, _: st.DataObject) -> None:
        self._ask(self.residents.oldest_free(1, self.cards, looks=self.looks))

    def sweeps(self, data: st.DataObject) -> None:
        self.now += data.draw(st.sampled_from([0.0, 2.0]), label="seconds")
        self._ask(self.residents.idle(self.now, 1.0, self.cards, self.looks), cutoff=self.now - 1.0)

    def is_configured(self, data: st.DataObject) -> None:
        self.cap = data.draw(st.integers(0, 2), label="cap")
        self._hold()

    # When all messages have come.

    def teardown(self) -> None:
        """C3, C5"""
        for _ in range(1000):
            if self.more:
                self._hold()
            elif self._asked():
                self._answer(self._asked()[0])
            elif self._unheard():
                self._hear(self._unheard()[0])
            else:
                break
        else:
            raise AssertionError("it never came to an end")
        cached = sorted(
            (actor.card for actor in self.actors.values() if actor.card.cached),
            key=lambda card: card.used,
        )
        assert len(self.residents) == len(cached)
        beyond = cached[: max(0, len(cached) - self.cap)]
        assert all(card.in_turn for card in beyond), "one that could go has stayed"
        assert all(card.owes == card.used for card in beyond), "nobody would look when its turn ends"
        assert self.residents.held >= len(beyond)


TestRoom = RoomMachine.TestCase
TestRoom.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


# Sessions that expire.


def expiry(**since: float | None) -> tuple[Expiry, Cards]:
    """Sessions that were last active then, all of them opened at 0."""
    sessions, cards = Expiry(), Cards()
    for key, when in since.items():
        cards.of(key).idle_since = when
        sessions.put(key, 0.0)
    return sessions, cards


def test_a_session_is_due_when_it_was_used_longer_ago_than_the_ttl() -> None:
    """S6"""
    sessions, cards = expiry(a=0.0, b=1.0)
    assert sessions.due(5.0, 5.0, cards) == ([], False)
    assert sessions.due(5.5, 5.0, cards) == (["a"], False)
    assert sessions.due(9.0, 5.0, cards) == (["b"], False)
    assert sessions.due(9.0, 5.0, cards) == ([], False)


def test_a_session_that_was_never_used_is_due_by_when_it_was_opened() -> None:
    """S6"""
    sessions, cards = expiry(a=None)
    assert sessions.due(5.0, 5.0, cards) == ([], False)
    assert sessions.due(5.5, 5.0, cards) == (["a"], False)


def test_a_session_that_was_used_since_is_due_by_that_although_nobody_was_told() -> None:
    """S6"""
    sessions, cards = expiry(a=0.0)
    cards.use("a", now=4.0)
    assert sessions.due(6.0, 5.0, cards) == ([], False)
    assert sessions.due(9.0, 5.0, cards) == ([], False)
    assert sessions.due(9.5, 5.0, cards) == (["a"], False)


@pytest.mark.parametrize("how", ["in_turn", "waiting", "busy"])
def test_a_session_in_use_is_not_due_and_is_looked_at_again_after_another_ttl(how: str) -> None:
    """C4, S6"""
    sessions, cards = expiry(a=0.0)
    setattr(cards.of("a"), how, True)
    assert sessions.due(6.0, 5.0, cards) == ([], False)
    setattr(cards.of("a"), how, False)
    assert sessions.due(11.0, 5.0, cards) == ([], False)
    assert sessions.due(11.5, 5.0, cards) == (["a"], False)


def test_a_session_that_was_due_and_stays_is_due_again_after_another_ttl() -> None:
    """S6"""
    sessions, cards = expiry(a=0.0)
    assert sessions.due(6.0, 5.0, cards) == (["a"], False)
    assert sessions.due(11.0, 5.0, cards) == ([], False)
    assert sessions.due(11.5, 5.0, cards) == (["a"], False)


def test_a_session_that_is_over_is_never_due() -> None:
    """S6"""
    sessions, cards = expiry(a=0.0)
    sessions.drop("a")
    sessions.drop("never seen")
    assert len(sessions) == 0
    assert sessions.due(99.0, 5.0, cards) == ([], False)


def test_a_key_that_is_over_and_begins_again_is_due_by_its_new_time() -> None:
    """S6"""
    sessions, cards = expiry(a=None)
    sessions.drop("a")
    sessions.put("a", 10.0)
    assert sessions.due(12.0, 5.0, cards) == ([], False)
    assert sessions.due(16.0, 5.0, cards) == (["a"], False)


def test_a_look_for_expired_sessions_that_is_too_short_says_more_and_makes_progress() -> None:
    """S6"""
    sessions, cards = expiry(a=0.0, b=98.0, c=0.0)
    looks = [sessions.due(99.0, 5.0, cards, looks=1) for _ in range(4)]
    assert looks == [(["a"], True), ([], True), (["c"], False), ([], False)]


class ExpiryMachine(Steps):
    """The model is a dict of times, and a look goes through all of it."""

    @initialize(ttl=st.sampled_from([1.0, 3.0]))
    def begin(self, ttl: float) -> None:
        self.expiry, self.cards = Expiry(), Cards()
        self.known: dict[str, float] = {}
        """When each was last active, as far as anybody looked."""
        self.now = 0.0
        self.ttl = ttl

    def possible(self) -> list[str]:
        return ["time_passes", "opens_or_ends", "is_used", "is_busy", "due", "due"]

    def time_passes(self, data: st.DataObject) -> None:
        self.now += data.draw(st.sampled_from([0.5, 1.0, 4.0]), label="seconds")

    def opens_or_ends(self, data: st.DataObject) -> None:
        key = one_of(data, "abc")
        if self.known.pop(key, None) is None:
            self.cards.of(key).idle_since = None
            self.expiry.put(key, self.now)
            self.known[key] = self.now
        else:
            self.expiry.drop(key)

    def is_used(self, data: st.DataObject) -> None:
        """Nobody is told."""
        key = one_of(data, "abc")
        if self.cards.of(key).in_turn:
            self.cards.end(key, self.now)
        else:
            self.cards.begin(key)

    def is_busy(self, data: st.DataObject) -> None:
        """Nor of this."""
        card = self.cards.of(one_of(data, "abc"))
        card.busy, card.waiting = data.draw(st.sampled_from([(False, 0), (True, 0), (False, 1)]))

    def due(self, data: st.DataObject) -> None:
        """S6"""
        looks = data.draw(st.sampled_from([1, 2, LOOKS]), label="looks")
        expected: list[str] = []
        for key, known in self.known.items():
            if self.now - known > self.ttl:
                card = self.cards.of(key)
                last = known if card.idle_since is None else card.idle_since
                if card.in_turn or card.waiting or card.busy:
                    last = self.now
                elif self.now - last > self.ttl:
                    expected.append(key)
                    last = self.now
                self.known[key] = last
        named: list[str] = []
        for _ in range(10):
            keys, more = self.expiry.due(self.now, self.ttl, self.cards, looks)
            named += keys
            if not more:
                break
        else:
            raise AssertionError("it never came to an end")
        assert sorted(named) == sorted(expected)
        assert self.expiry.due(self.now, self.ttl, self.cards) == ([], False)

    @invariant()
    def the_model_agrees(self) -> None:
        assert len(self.expiry) == len(self.known)


TestExpiry = ExpiryMachine.TestCase
TestExpiry.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
