"""The decisions about accounts, each by itself: no thread, no store, no clock."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom.actors.ledger.accounts import IN_DOUBT, PINNED, Account, Accounts, judge
from greenroom.actors.ledger.coherence import Remembered, TranscriptVersion
from greenroom.actors.session.machine import Place, SessionMachine
from greenroom.actors.session.machine.effects import Entry
from greenroom.messages import (
    BeginTurn,
    CallLedger,
    EnterStore,
    RecordTurn,
)

NOW, LINGER = 100.0, 2.0
AWAY = OSError("no route")


@dataclass
class Lease:
    session_id: str = "s"
    epoch: int = 3
    generation: int = 5
    committed: int = 5
    held: bool = True
    owner: str = "another"


def accounts_of(*accounts: Account) -> Accounts:
    made = Accounts("a")
    made.by_id.update({account.session_id: account for account in accounts})
    return made


def account(session_id: str = "s", *, until: float = NOW + LINGER, **more: Any) -> Account:
    figures: dict[str, Any] = {"epoch": 3, "generation": 5, "committed": 5, "recorded": 5, **more}
    return Account(session_id, until=until, **figures)


def call(verb: str, session_id: str, **values: Any) -> CallLedger[Any]:
    return CallLedger(verb=verb, session_id=session_id, values=values)


def is_disclaimed(request: Any) -> bool:
    return isinstance(request, CallLedger) and request.verb == "disclaim"


def pause_after(tries: int) -> float:
    return float(tries)


def turn_of(session_id: str) -> BeginTurn:
    return BeginTurn(
        spec=None,
        signature=None,
        session_id=session_id,
        reject=False,
        timeout=None,
        held=(),
        loop=None,
    )


def test_a_turn_that_names_no_session_id_uses_the_account_of_the_conversation() -> None:
    accounts = accounts_of(account("a"), account("a#1"))
    running = machine(Place.IN_TURN)
    running.turn = dataclasses.replace(turn_of("s"), session_id=None)

    assert accounts.in_use(running) is accounts.by_id["a"]
    running.conversation = "a#1"
    assert accounts.in_use(running) is accounts.by_id["a#1"]


def machine(place: Place = Place.EMPTY, *, turn: str | None = None) -> SessionMachine:
    made = SessionMachine(has_store=True)
    made.place = place
    made.turn = None if turn is None else turn_of(turn)
    return made


def tidy(
    accounts: Accounts, of: SessionMachine, remembered: Remembered | None = None, recovering: Any = ()
) -> list[Any]:
    return accounts.tidy(of, remembered, recovering, NOW, LINGER)


# One account.


@pytest.mark.parametrize(
    ("more", "untold"),
    [({}, False), ({"generation": 6}, True), ({"loose": True}, True), ({"until": PINNED}, True)],
)
def test_the_store_is_to_be_told_what_it_does_not_know(more: dict[str, Any], untold: bool) -> None:
    assert account(**more).untold is untold


def test_the_record_of_a_turn_that_is_completed_has_the_next_number() -> None:
    turn = turn_of("s")
    record = account().record(turn, completed=True, now=NOW, linger=LINGER)
    assert record == RecordTurn(
        session_id="s", epoch=3, generation=6, linger=LINGER, turn=turn, asked=NOW
    )


def test_the_record_of_one_that_is_not_has_none_unless_earlier_ones_are_unrecorded() -> None:
    assert account().record(None, completed=False, now=NOW, linger=LINGER).generation is None
    behind = account(recorded=4)
    assert behind.record(None, completed=False, now=NOW, linger=LINGER).generation == 5
    assert behind.record(None, completed=True, now=NOW, linger=LINGER).generation == 6


def test_once_the_store_was_told_the_hold_lasts_from_when_it_was_asked() -> None:
    kept = account(recorded=4, loose=True, tries=3, due=NOW + 1.0, until=0.0)
    kept.told(kept.record(None, completed=True, now=NOW, linger=LINGER))
    assert (kept.generation, kept.recorded, kept.until) == (6, 6, NOW + LINGER)
    assert (kept.tries, kept.due, kept.loose) == (0, 0.0, False)


def test_what_was_told_late_takes_nothing_back() -> None:
    kept = account(generation=8, recorded=7)
    kept.told(RecordTurn(session_id="s", epoch=3, generation=6, linger=LINGER, asked=NOW))
    assert (kept.generation, kept.recorded) == (8, 7)
    kept.told(RecordTurn(session_id="s", epoch=3, generation=None, linger=LINGER, asked=NOW))
    assert (kept.generation, kept.recorded) == (8, 7)


def test_what_could_not_be_told_is_told_after_one_pause_and_not_two() -> None:
    kept = account()
    kept.not_told(NOW, pause_after)
    assert (kept.until, kept.loose, kept.tries, kept.due) == (0.0, True, 1, NOW + 1.0)
    kept.not_told(NOW + 0.5, pause_after)
    assert (kept.tries, kept.due) == (1, NOW + 1.0)
    kept.not_told(NOW + 1.0, pause_after)
    assert (kept.tries, kept.due) == (2, NOW + 3.0)


def test_the_hold_of_a_turn_that_lasts_is_pinned_once() -> None:
    kept, lasting = account(pin_at=NOW), machine(Place.IN_TURN, turn="s")
    assert tidy(accounts_of(kept), lasting) == [call("pin", "s", epoch=3)]
    assert (kept.asked, kept.pin_at) == (1, 0.0)
    kept.heard()
    assert not kept.pinned(True, None)
    assert kept.until == PINNED
    kept.pin_at = NOW
    assert tidy(accounts_of(kept), lasting) == []


@pytest.mark.parametrize(
    ("pin_at", "place"),
    [(0.0, Place.IN_TURN), (NOW + 0.1, Place.IN_TURN), (NOW, Place.RECORDING)],
    ids=["not planned", "not yet", "over"],
)
def test_a_hold_is_not_pinned_before_its_time_or_when_the_turn_is_over(
    pin_at: float, place: Place
) -> None:
    assert tidy(accounts_of(account(pin_at=pin_at)), machine(place, turn="s")) == []


def test_a_hold_is_pinned_although_there_is_a_pause_before_the_store_is_told_something() -> None:
    kept = account(pin_at=NOW, due=NOW + 10.0)
    assert tidy(accounts_of(kept), machine(Place.IN_TURN, turn="s")) == [call("pin", "s", epoch=3)]


def test_when_the_hold_would_have_been_pinned_has_no_say_in_when_the_store_is_told_again() -> None:
    kept = account(pin_at=NOW + 0.5)
    kept.not_told(NOW, pause_after)
    assert (kept.tries, kept.due) == (1, NOW + 1.0)


def test_a_hold_that_could_not_be_pinned_may_be_and_is_tried_again() -> None:
    kept = account()
    assert kept.pinned(False, AWAY)
    assert kept.loose


def test_a_hold_that_is_lost_shows_when_the_turn_ends() -> None:
    kept = account()
    assert not kept.pinned(False, None)
    assert not kept.loose
    assert kept.until != PINNED


def test_an_answer_that_nobody_waits_for_any_more_counts_for_nothing() -> None:
    kept = account()
    kept.heard()
    assert kept.asked == 0


# All of them.


def test_an_account_is_that_of_its_epoch() -> None:
    kept = account()
    accounts = accounts_of(kept)
    assert accounts.get("s") is accounts.get("s", 3) is kept
    assert accounts.get("s", 4) is None
    assert accounts.get("t") is None


def test_an_account_in_doubt_is_none_unless_it_is_asked_for() -> None:
    accounts = Accounts("a")
    in_doubt = accounts.doubt("s")
    assert accounts.get("s") is accounts.get("s", 3) is None
    assert accounts.get("s", IN_DOUBT) is in_doubt
    assert accounts.in_use(machine(Place.IN_TURN, turn="s")) is None
    assert accounts.shown("s") is None


def test_the_account_in_use_is_that_of_the_turn_or_of_the_next() -> None:
    kept = account()
    accounts = accounts_of(kept)
    coming = machine(Place.ENTERING)
    coming.next_turn = turn_of("s")
    assert accounts.in_use(machine(Place.IN_TURN, turn="s")) is kept
    assert accounts.in_use(coming) is kept
    assert accounts.in_use(machine()) is None


def test_something_is_under_way_as_long_as_an_answer_is_to_come_or_the_store_to_be_told() -> None:
    assert not accounts_of(account()).under_way
    assert accounts_of(account(loose=True)).under_way
    assert accounts_of(account(asked=1)).under_way
    asking, doubting = Accounts("a"), Accounts("a")
    asking.take_over("s")
    doubting.doubt("s")
    assert asking.under_way
    assert doubting.under_way


def test_there_are_unrecorded_turns_if_one_account_has_some() -> None:
    assert not accounts_of(account()).unrecorded
    assert accounts_of(account(), account("t", generation=6)).unrecorded


def test_every_question_for_a_turn_has_a_number_and_a_recovery_has_none() -> None:
    accounts = Accounts("a")
    assert accounts.enter("s", "home", here=False) == EnterStore(
        session_id="s", key="a", home="home", ticket=1
    )
    assert accounts.enter("s", None, here=False).ticket == 2
    assert accounts.take_over("s") == EnterStore(session_id="s", key="a")
    assert accounts.asked["s"] == 3


def test_an_answer_ends_the_doubt_about_a_session_id_if_it_says_who_has_it() -> None:
    accounts = Accounts("a")
    accounts.enter("s", None, here=False)
    accounts.enter("s", None, here=False)
    in_doubt = accounts.doubt("s")
    accounts.heard_of("s", known=False)
    assert (accounts.asked["s"], accounts.by_id) == (1, {"s": in_doubt})
    accounts.heard_of("s", known=True)
    assert ("s" in accounts.asked, accounts.by_id) == (False, {})


def test_an_answer_leaves_an_account_that_is_not_in_doubt() -> None:
    kept = account()
    accounts = accounts_of(kept)
    accounts.enter("s", None, here=False)
    accounts.heard_of("s", known=True)
    assert accounts.get("s") is kept


@pytest.mark.parametrize(
    ("kept", "free"),
    [(None, True), (account(epoch=2), True), (account(epoch=3), True), (account(epoch=4), False)],
)
def test_what_was_left_is_taken_over_unless_it_was_taken_since(kept: Account | None, free: bool) -> None:
    accounts = Accounts("a") if kept is None else accounts_of(kept)
    assert accounts.may_take_over("s", 3, machine()) is free


def test_what_a_turn_uses_or_asks_for_is_not_taken_over() -> None:
    assert not accounts_of(account()).may_take_over("s", 3, machine(Place.IN_TURN, turn="s"))
    asking = Accounts("a")
    asking.enter("s", None, here=False)
    assert not asking.may_take_over("s", 3, machine())


@pytest.mark.parametrize(
    ("until", "held"), [(NOW + 1.0, True), (NOW + 0.9, False), (PINNED, True), (0.0, False)]
)
def test_a_turn_begins_at_once_while_the_hold_has_half_its_time_left(until: float, held: bool) -> None:
    assert accounts_of(account(until=until)).holds("s", NOW, LINGER) is held
    assert not Accounts("a").holds("s", NOW, LINGER)


# A lease.


def test_a_lease_opens_an_account() -> None:
    accounts = Accounts("a")
    assert accounts.open(Lease()) == (True, None)
    assert accounts.by_id == {"s": account(until=PINNED)}


def test_a_lease_of_the_same_epoch_keeps_the_account() -> None:
    kept = account(loose=True)
    accounts = accounts_of(kept)
    assert accounts.open(Lease()) == (False, None)
    assert accounts.get("s") is kept
    assert kept.until == PINNED


def test_a_lease_of_another_epoch_closes_what_was_known() -> None:
    kept = account(epoch=2)
    accounts = accounts_of(kept)
    assert accounts.open(Lease()) == (True, kept)
    assert accounts.get("s", 3) is not None
    accounts.lose(kept)
    assert accounts.last is kept
    assert accounts.get("s", 3) is not None


def test_closing_an_account_leaves_the_one_that_took_its_place() -> None:
    old, new = account(epoch=2), account()
    accounts = accounts_of(new)
    accounts.close(old)
    assert accounts.get("s") is new


# Kept in order.


def test_an_account_that_the_store_knows_all_of_is_closed_when_nobody_needs_it() -> None:
    accounts = accounts_of(account())
    assert tidy(accounts, machine()) == []
    assert accounts.by_id == {}


def test_an_account_that_the_agent_remembers_is_kept() -> None:
    remembered = Remembered("s")
    accounts = accounts_of(account())
    remembered.remember("s", TranscriptVersion(1, False))
    assert tidy(accounts, machine(Place.IDLE), remembered) == []
    assert "s" in accounts.by_id
    remembered.remember("s", None)
    tidy(accounts, machine(Place.IDLE), remembered)
    assert accounts.by_id == {}


def test_an_account_with_uncommitted_turns_is_kept() -> None:
    accounts, of = accounts_of(account()), machine(Place.IDLE)
    of.agent = 1
    of.generations.complete(1, "s", 5, 3)
    assert tidy(accounts, of) == []
    assert "s" in accounts.by_id


def test_the_store_is_told_that_no_turn_runs() -> None:
    kept = account(until=PINNED)
    accounts = accounts_of(kept)
    assert tidy(accounts, machine(Place.IDLE)) == [
        RecordTurn(session_id="s", epoch=3, generation=None, linger=LINGER, asked=NOW)
    ]
    assert (kept.asked, kept.until) == (1, 0.0)
    assert tidy(accounts, machine(Place.IDLE)) == []  # once


@pytest.mark.parametrize("place", [Place.EMPTY, Place.IDLE])
def test_what_nobody_here_answers_for_is_handed_over_when_there_is_no_agent(place: Place) -> None:
    kept, of = account(generation=5, committed=4), machine(place)
    of.resume("s", 3, generation=5, committed=4, intended=0)
    requests = tidy(accounts_of(kept), of)
    assert requests == ([call("hand_over", "s", epoch=3)] if place is Place.EMPTY else [])
    assert kept.asked == len(requests)


def test_what_is_unrecorded_is_told_before_it_is_handed_over() -> None:
    of = machine()
    of.resume("s", 3, generation=5, committed=4, intended=0)
    [request] = tidy(accounts_of(account(recorded=4)), of)
    assert request == RecordTurn(session_id="s", epoch=3, generation=5, linger=LINGER, asked=NOW)


@pytest.mark.parametrize("busy", ["in use", "asked about", "paused", "recovered", "asked for"])
def test_an_account_that_something_is_under_way_for_is_left_alone(busy: str) -> None:
    kept = account(loose=True)
    accounts = accounts_of(kept)
    of = machine(Place.IN_TURN, turn="s") if busy == "in use" else machine()
    kept.asked = int(busy == "asked about")
    kept.due = NOW + 0.1 if busy == "paused" else 0.0
    if busy == "asked for":
        accounts.enter("s", None, here=False)
    assert tidy(accounts, of, recovering={"s"} if busy == "recovered" else ()) == []
    assert "s" in accounts.by_id


# In doubt.


def test_what_may_have_been_given_is_given_back_unless_it_is_known() -> None:
    kept = account()
    accounts = accounts_of(kept)
    assert accounts.doubt("s") is kept
    assert kept.loose
    accounts.doubt("t")
    in_use = machine(Place.IN_TURN, turn="s")
    assert tidy(accounts, in_use) == [call("disclaim", "t", key="a")]
    assert tidy(accounts, in_use) == []  # once


def test_what_is_asked_for_again_is_not_given_back() -> None:
    accounts = Accounts("a")
    accounts.enter("s", None, here=False)
    accounts.doubt("s")
    assert tidy(accounts, machine()) == []
    accounts.heard_of("s", known=False)
    assert tidy(accounts, machine()) == [call("disclaim", "s", key="a")]


def test_what_is_lost_is_in_doubt_and_its_figures_are_shown() -> None:
    kept = account()
    accounts = accounts_of(kept)
    accounts.lose(kept)
    assert accounts.get("s") is None
    assert accounts.shown("s") is kept
    assert tidy(accounts, machine()) == [call("disclaim", "s", key="a")]


def test_giving_back_is_tried_until_the_store_knows() -> None:
    accounts = Accounts("a")
    in_doubt = accounts.doubt("s")
    for tries in (1, 2):
        assert tidy(accounts, machine()) == [call("disclaim", "s", key="a")]
        in_doubt.heard()
        in_doubt.not_told(NOW, lambda _: 0.0)
        assert in_doubt.tries == tries
    accounts.close(in_doubt)
    assert (accounts.by_id, accounts.last) == ({}, None)


# For people.


def test_the_figures_of_an_account_are_shown_after_it_was_closed() -> None:
    kept = account()
    accounts = accounts_of(kept)
    assert accounts.shown("s") is kept
    accounts.close(kept)
    assert accounts.shown("s") is kept
    assert accounts.shown("t") is None
    assert accounts.shown(None) is None
    assert Accounts("a").shown("s") is None


def test_a_session_is_held_until_it_is_not_for_sure() -> None:
    accounts = accounts_of(account())
    assert accounts.is_held("s", NOW)
    assert not accounts.is_held("s", NOW + LINGER)
    assert not accounts.is_held(None, NOW)


# Verdicts.


def test_an_agent_is_stale_if_others_wrote_to_its_transcript() -> None:
    assert judge(None, None, stale=False) is Entry.FRESH
    assert judge(None, None, stale=True) is Entry.STALE
    assert judge(Lease(), None, stale=True) is Entry.STALE
    assert judge(Lease(), None, stale=False) is Entry.FRESH


@pytest.mark.parametrize("stale", [False, True])
def test_what_another_room_holds_is_held_whatever_the_agent_knows(stale: bool) -> None:
    assert judge(Lease(held=False), None, stale=stale) is Entry.HELD


@pytest.mark.parametrize(("generation", "entry"), [(5, Entry.FRESH), (4, Entry.STALE)])
def test_an_agent_is_stale_if_others_completed_turns_of_its_session(
    generation: int, entry: Entry
) -> None:
    lost = account(epoch=2, generation=generation)
    assert judge(Lease(generation=5), lost, stale=False) is entry


# Any order.


@pytest.mark.parametrize("seed", range(200))
def test_whatever_the_store_answers_everything_is_told_in_the_end(seed: int) -> None:
    """C9: no account stays loose, none is told twice at a time, and every doubt is settled."""
    chance = random.Random(seed)
    accounts, of = accounts_of(*(account(name, until=PINNED) for name in "stu")), machine()
    pending: list[Any] = []
    done: set[str] = set()
    trouble = 20
    for _ in range(200):
        pending += tidy(accounts, of)
        told = [request.session_id for request in pending]
        assert len(told) == len(set(told))
        for kept in accounts.by_id.values():
            kept.due = kept.due if chance.random() < 0.5 else 0.0  # its pause is over
        if not pending:
            continue
        request = pending.pop(chance.randrange(len(pending)))
        trouble -= 1
        error = AWAY if trouble > 0 and chance.random() < 0.5 else None
        epoch = IN_DOUBT if is_disclaimed(request) else request.epoch
        kept_now = accounts.get(request.session_id, epoch)
        if kept_now is None:
            continue
        kept_now.heard()
        if error is not None:
            kept_now.not_told(NOW, pause_after)
        elif is_disclaimed(request):
            accounts.close(kept_now)
        elif chance.random() < 0.2:
            accounts.lose(kept_now)
            done.add(request.session_id)
        else:
            kept_now.told(request)
            done.add(request.session_id)
    assert done == set("stu")
    assert accounts.by_id == {}
    assert not accounts.under_way
