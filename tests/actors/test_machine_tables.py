"""The four machines of a session, cell by cell: every state, and everything that can happen in it.

Each table here has an input of the whole machine in its rows, a state in its columns, and in its cells
the state after. "." says that nothing changes and nothing is done, "same" that something else changes,
"!" that something is done. Together these inputs take every cell of the tables in `states.py`.
"""

from __future__ import annotations

import dis
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.actors.session.machine import CommitState, Mode, Phase, Place, SessionMachine
from greenroom.actors.session.machine.effects import (
    HIT,
    RESTED,
    Entry,
    Recorded,
    Refusal,
    Refuse,
)
from greenroom.actors.session.machine.states import COMMIT, DEPARTURE, MODE, PLACE
from greenroom.messages import Reason
from tests.actors import machine_play as without_store
from tests.actors import machine_store_play as with_store
from tests.actors.machine_play import STRANGER, Play, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum

    from greenroom.messages import BeginTurn

PLACES: dict[Place, Callable[[], Play]] = {
    Place.EMPTY: with_store.empty,
    Place.ENTERING: with_store.entering_dirty,
    Place.BUILDING: with_store.building,
    Place.IN_TURN: with_store.turn,
    Place.RECORDING: with_store.recording,
    Place.IDLE: with_store.dirty,
    Place.LEAVING: with_store.leaving,
}

PLACE_TABLE = """
                      EMPTY     ENTERING  BUILDING  IN_TURN    RECORDING  IDLE      LEAVING
begin                 ENTERING  same      same      same       same       ENTERING  ENTERING
begin, entered        ENTERING  same      same      same       same       IN_TURN   ENTERING
end                   .         .         .         RECORDING  !          .         .
end, recorded         .         .         .         IDLE       !          .         .
end of another turn   .         .         .         .          .          .         .
withdraw              .         same      same      RECORDING  !          .         .
withdraw a stranger   .         .         .         .          .          .         .
expire                .         same      same      .          .          .         .
entered               .         IN_TURN   .         .          .          .         .
entered, stale        .         BUILDING  .         .          .          .         .
entered, held         .         same      .         .          .          .         .
entered, away         .         IDLE      .         .          .          .         .
enter again           .         !         .         .          .          .         .
recorded              .         .         .         .          IDLE       .         .
recorded, lost        .         .         .         .          EMPTY      .         .
built                 .         .         IN_TURN   .          .          .         .
built late            same      same      same      same       same       same      same
build failed          .         .         EMPTY     .          .          .         .
adopt                 IDLE      .         .         .          .          IDLE      IDLE
release               .         .         .         .          .          LEAVING   .
evict                 .         same      same      same       same       LEAVING   .
spoil                 .         same      same      same       same       EMPTY     EMPTY
close                 same      same      same      same       same       EMPTY     EMPTY
force                 .         EMPTY     .         EMPTY      .          .         .
drain                 same      same      same      same       same       EMPTY     EMPTY
"""


def _turn_at(play: Play) -> BeginTurn:
    return play.machine.turn or play.machine.next_turn or play.turn("nobody")


def _built(play: Play, *, succeeded: bool) -> Play:
    """One that comes from a place where none is being built was given up before, and failed late."""
    number = play.machine.building
    return play.built(number or STRANGER, succeeded=succeeded and bool(number))


PLACE_INPUTS: dict[str, Callable[[Play], Any]] = {
    "begin": lambda play: play.begin("new"),
    "begin, entered": lambda play: play.begin_at_once("new"),
    "end": lambda play: play.end_now(completed=True),
    "end, recorded": lambda play: play.end_at_once(),
    "end of another turn": lambda play: play.end("nobody"),
    "withdraw": lambda play: play.do("withdraw", _turn_at(play)),
    "withdraw a stranger": lambda play: play.do("withdraw", play.turn("nobody")),
    "expire": lambda play: play.do("expire", _turn_at(play)),
    "entered": lambda play: play.entered(),
    "entered, stale": lambda play: play.entered(Entry.STALE),
    "entered, held": lambda play: play.entered(Entry.HELD),
    "entered, away": lambda play: play.entered(Entry.AWAY),
    "enter again": lambda play: play.do("enter_again"),
    "recorded": lambda play: play.recorded(),
    "recorded, lost": lambda play: play.recorded(Recorded.LOST),
    "built": lambda play: _built(play, succeeded=True),
    "built late": lambda play: play.built(STRANGER),
    "build failed": lambda play: _built(play, succeeded=False),
    "adopt": lambda play: play.do("adopt", "a"),
    "release": lambda play: play.release(),
    "evict": lambda play: play.do("evict"),
    "spoil": lambda play: play.do("spoil", Reason.LOOP_CLOSED),
    "close": lambda play: play.close(),
    "force": lambda play: play.do("force"),
    "drain": lambda play: play.do("drain"),
}

COMMITS: dict[CommitState, Callable[[], Play]] = {
    CommitState.NONE: with_store.dirty,
    CommitState.SENT: with_store.flushing,
    CommitState.STARTED: lambda: with_store.flushing().start_commit(),
    CommitState.STUCK: lambda: with_store.flushing().do("commit_stuck"),
}

COMMIT_TABLE = """
                      NONE      SENT      STARTED   STUCK
flush                 SENT      .         .         same
start                 .         STARTED   .         NONE
start, in a turn      .         NONE      NONE      NONE
committed             .         NONE      NONE      NONE
commit failed         .         NONE      NONE      NONE
commit lost           .         NONE      NONE      NONE
commit stuck          .         STUCK     STUCK     .
retry                 .         .         .         .
drain, abandon        STUCK     STUCK     STUCK     STUCK
"""


COMMIT_INPUTS: dict[str, Callable[[Play], Any]] = {
    "flush": lambda play: play.do("flush"),
    "start": lambda play: play.start_commit(),
    "start, in a turn": lambda play: play.start_commit(),
    "committed": lambda play: play.committed(),
    "commit failed": lambda play: play.committed(succeeded=False),
    "commit lost": lambda play: play.do("commit_lost"),
    "commit stuck": lambda play: play.do("commit_stuck"),
    "retry": lambda play: play.do("retry"),
    "drain, abandon": lambda play: play.do("drain").do("abandon"),
}

DEPARTURES: dict[Phase, Callable[[], Play]] = {
    Phase.COMMITTING: without_store.committing,
    Phase.RETAINED: without_store.retained,
    Phase.TEARING: without_store.tearing,
}

DEPARTURE_TABLE = """
                      COMMITTING  RETAINED    TEARING
committed             TEARING     .           .
commit failed         RETAINED    .           .
commit stuck          RETAINED    .           .
retry                 .           COMMITTING  .
close                 same        same        same
drain                 same        COMMITTING  same
drain, commit failed  same        TEARING     same
drain, abandon        TEARING     TEARING     same
torn down             .           .           gone
"""

DEPARTURE_INPUTS: dict[str, Callable[[Play], Any]] = {
    "committed": lambda play: play.committed(),
    "commit failed": lambda play: play.committed(succeeded=False),
    "commit stuck": lambda play: play.do("commit_stuck"),
    "retry": lambda play: play.do("retry"),
    "close": lambda play: play.close(),
    "drain": lambda play: play.do("drain"),
    "drain, commit failed": lambda play: play.do("drain").committed(succeeded=False),
    "drain, abandon": lambda play: play.do("drain").do("abandon"),
    "torn down": lambda play: play.do("torn_down", 1),
}

MODES: dict[Mode, Callable[[], Play]] = {
    Mode.OPEN: without_store.dirty,
    Mode.FAILED: without_store.failed,
    Mode.DRAINING: without_store.draining_commit,
    Mode.ABANDONED: lambda: without_store.draining_commit().do("abandon"),
}

MODE_TABLE = """
                      OPEN      FAILED    DRAINING  ABANDONED
begin                 same      .         .         .
adopt                 same      .         .         .
fail                  FAILED    .         .         .
close                 same      OPEN      same      same
drain                 DRAINING  DRAINING  .         .
abandon               .         .         ABANDONED .
flush                 same      same      .         !
"""

MODE_INPUTS: dict[str, Callable[[Play], Any]] = {
    "begin": lambda play: play.begin("new"),
    "adopt": lambda play: play.do("adopt", "a"),
    "fail": lambda play: play.do("fail"),
    "close": lambda play: play.close(),
    "drain": lambda play: play.do("drain"),
    "abandon": lambda play: play.do("abandon"),
    "flush": lambda play: play.do("flush"),
}


def _phase(play: Play) -> Phase | None:
    departure = play.machine.departure(1)
    return None if departure is None else departure.phase


def cells(text: str) -> list[tuple[str, str, str]]:
    """The state, the input and the state after of each cell."""
    head, *rows = text.strip("\n").splitlines()
    parsed = []
    for row in rows:
        given, after = row[:22].strip(), row[22:].split()
        parsed += [(state, given, name) for state, name in zip(head.split(), after, strict=True)]
    return parsed


def check(play: Play, given: Callable[[Play], Any], state: Callable[[], Any], after: str) -> None:
    before, known = state(), snapshot(play.machine)
    given(play)
    changed, done = snapshot(play.machine) != known, not _answers_only(play.did)
    if after in (".", "!", "same"):
        assert state() is before
        assert (changed, done or changed) == (after == "same", after != ".")
    else:
        assert ("gone" if state() is None else state().name) == after


def _answers_only(did: Any) -> bool:
    """Whether all that is to be done is to say no."""
    if not isinstance(did, list):
        return did is None
    return all(effect in ("go", "not now") or is_refusal(effect) for effect in did)


def is_refusal(effect: object) -> bool:
    return isinstance(effect, Refuse)


@pytest.mark.parametrize(("state", "given", "after"), cells(PLACE_TABLE))
def test_the_place(state: str, given: str, after: str) -> None:
    play = PLACES[Place[state]]()
    check(play, PLACE_INPUTS[given], lambda: play.machine.place, after)


@pytest.mark.parametrize(("state", "given", "after"), cells(COMMIT_TABLE))
def test_the_commit(state: str, given: str, after: str) -> None:
    play = COMMITS[CommitState[state]]()
    if given == "start, in a turn":
        play.begin_at_once("new")
    check(play, COMMIT_INPUTS[given], lambda: play.machine.commit, after)


@pytest.mark.parametrize(("state", "given", "after"), cells(DEPARTURE_TABLE))
def test_a_departure(state: str, given: str, after: str) -> None:
    play = DEPARTURES[Phase[state]]()
    check(play, DEPARTURE_INPUTS[given], lambda: _phase(play), after)


@pytest.mark.parametrize(("state", "given", "after"), cells(MODE_TABLE))
def test_the_mode(state: str, given: str, after: str) -> None:
    play = MODES[Mode[state]]()
    check(play, MODE_INPUTS[given], lambda: play.machine.mode, after)


# The tables of `states.py`.

TABLES: dict[str, dict[str, dict[Any, Any]]] = {
    "place": PLACE,
    "commit": COMMIT,
    "departure": DEPARTURE,
    "mode": MODE,
}

TESTED: list[tuple[str, Callable[[str], Play], dict[str, Callable[[Play], Any]]]] = [
    (PLACE_TABLE, lambda state: PLACES[Place[state]](), PLACE_INPUTS),
    (COMMIT_TABLE, lambda state: COMMITS[CommitState[state]](), COMMIT_INPUTS),
    (DEPARTURE_TABLE, lambda state: DEPARTURES[Phase[state]](), DEPARTURE_INPUTS),
    (MODE_TABLE, lambda state: MODES[Mode[state]](), MODE_INPUTS),
]


RARE: list[Callable[[], Play]] = [
    lambda: without_store.leaving().begin("new"),
    lambda: with_store.leaving().begin("new", "b").committed(),
    lambda: with_store.leaving().begin("new", "b").do("evict").entered(Entry.AWAY),
    lambda: with_store.retained().do("lose", "s", 1),
    lambda: without_store.retained_stuck().do("drain").do("abandon"),
]
"""What takes cells that no single input takes."""


class Watched(dict[Any, Any]):
    """A row of a table that notes which of its cells are read."""

    def __init__(self, row: dict[Any, Any], read: set[Any]) -> None:
        super().__init__(row)
        self.read = read

    def __getitem__(self, state: Any) -> Any:
        self.read.add(state)
        return super().__getitem__(state)

    def get(self, state: Any, default: Any = None) -> Any:
        self.read |= {state} & self.keys()
        return super().get(state, default)


def test_every_cell_of_every_table_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[tuple[str, str], set[Any]] = {}
    rows = {name: {given: set(row) for given, row in table.items()} for name, table in TABLES.items()}
    for name, table in TABLES.items():
        for given, row in table.items():
            monkeypatch.setitem(table, given, Watched(row, read.setdefault((name, given), set())))
    for text, start, inputs in TESTED:
        for state, given, _ in cells(text):
            inputs[given](start(state))
    for play in RARE:
        play()
    missing = {
        (name, given, state)
        for name, table in rows.items()
        for given, states in table.items()
        for state in states - read[name, given]
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("table", "states"), [(PLACE, Place), (COMMIT, CommitState), (DEPARTURE, Phase), (MODE, Mode)]
)
def test_every_state_is_reached(table: dict[str, dict[Any, Any]], states: type[Enum]) -> None:
    first = next(iter(states))
    assert {after for row in table.values() for after in row.values()} | {first} == set(states)


# A warm turn.


def test_a_warm_turn_goes_through_the_same_cells_and_has_no_effect() -> None:
    """T1"""
    play = without_store.idle().begin("new")
    assert play.did is HIT
    assert play.machine.place is PLACE["grant"][Place.IDLE]
    assert play.end("new").did is RESTED
    assert play.machine.place is PLACE["end"][Place.IN_TURN]
    assert play.machine.generations.dirty == 1


WARM_BEGIN = {without_store.idle, without_store.dirty, without_store.flushing, without_store.stuck}
"""From where a turn begins on the idle agent, and nothing else is done."""

WARM_END = {without_store.turn, without_store.turn_again, without_store.turn_and_commit}
"""From where one ends that is all there is to do."""


@pytest.mark.parametrize(
    "play",
    [
        without_store.building,
        without_store.building_for_nobody,
        without_store.turn,
        without_store.turn_again,
        without_store.turn_and_line,
        without_store.turn_and_evict,
        without_store.turn_and_close,
        without_store.turn_and_commit,
        without_store.idle,
        without_store.dirty,
        without_store.flushing,
        without_store.stuck,
        without_store.leaving,
        lambda: without_store.idle().do("fail"),
        lambda: without_store.turn().do("drain"),
        lambda: without_store.turn_again().do("flush"),
        lambda: without_store.dirty().begin("w", "b").built(2),
    ],
)
def test_a_warm_step_is_made_where_it_is_all_there_is_to_do_and_else_changes_nothing(
    play: Callable[[], Play],
) -> None:
    """T1"""
    machine = play().machine
    before = snapshot(machine)
    assert machine.begin_now("new", "a") == (play in WARM_BEGIN)
    assert (machine.turn == "new") == (play in WARM_BEGIN)
    assert play in WARM_BEGIN or snapshot(machine) == before

    for completed in (False, True):
        machine = play().machine
        before, generation = snapshot(machine), machine.generations.generation
        ended = machine.end_now(machine.turn or "nobody", completed)
        assert ended == (generation + completed if play in WARM_END else None)
        assert play in WARM_END or snapshot(machine) == before


def test_a_warm_step_wants_the_signature_of_the_agent() -> None:
    """T2"""
    assert not without_store.idle().machine.begin_now("new", "another")
    assert without_store.idle().machine.begin_now("new", None)


def test_a_turn_whose_caller_was_to_build_and_does_not_is_over_without_a_word() -> None:
    """T5"""
    play = without_store.building().begin("w").do("not_built")
    assert play.told == "build 2 for w"
    assert play.machine.next_turn is play.turn("w")


@pytest.mark.parametrize(
    ("method", "first", "last"),
    [
        ("begin_now", "self.turn = turn", "self.place = IN_TURN"),
        ("end_now", "segment.last = generation", "self.place = IDLE"),
    ],
)
def test_a_warm_turn_assigns_its_fields_in_a_row(method: str, first: str, last: str) -> None:
    """K1: signals are delivered at calls and backward jumps only, and there is none between them."""
    function = getattr(SessionMachine, method)
    source, start = inspect.getsourcelines(function)
    lines = [line.strip() for line in source]
    between = range(start + lines.index(first), start + lines.index(last) + 1)
    done = [step.opname for step in dis.get_instructions(function) if _line_of(step) in between]
    assert "STORE_ATTR" in done
    assert not [name for name in done if name.startswith(("CALL", "PRECALL", "JUMP_BACKWARD"))]


def _line_of(step: dis.Instruction) -> int | None:
    return None if step.positions is None else step.positions.lineno


# Who does not begin.


@pytest.mark.parametrize(
    ("start", "more", "why"),
    [
        (without_store.turn, {"reject": True}, Refusal.BUSY),
        (without_store.turn, {"most": 0}, Refusal.OVERLOADED),
        (without_store.failed, {}, Refusal.FAILED),
        (without_store.drained, {}, Refusal.CLOSED),
    ],
)
def test_a_turn_that_does_not_begin_is_told_why(
    start: Callable[[], Play], more: dict[str, Any], why: Refusal
) -> None:
    """T3"""
    play = start().begin("new", **more)
    assert play.did == [Refuse(play.turn("new"), why)]


def test_a_turn_inside_the_one_that_runs_is_refused() -> None:
    """T3, K3"""
    play = without_store.turn()
    play.begin("new", held=(play.turn("t"),))
    assert play.did == [Refuse(play.turn("new"), Refusal.SELF)]


def test_a_turn_inside_the_build_for_another_is_refused() -> None:
    """T3, K3"""
    play = without_store.building()
    play.begin("new", held=(play.turn("t"),))
    assert play.did == [Refuse(play.turn("new"), Refusal.SELF)]


# What others see.

SEEN = """
empty                 known     forgettable unused
known                 known
orphan                known
building              building  busy
turn                  in turn   used
idle                  idle
dirty                 idle
flushing              idle      busy
stuck                 idle
leaving               leaving   busy
committing            leaving   busy
closing               leaving   busy unused
retained              retained  retained
retained-beside       idle      retained
retained-stuck        retained  retained
tearing               leaving   busy
resources             closing   busy unused
failed                failed
failed-in-turn        failed    used
draining-turn         in turn   used
draining-commit       leaving   busy unused
drained               known     forgettable unused
store/entering        entering  busy
store/entering-idle   entering  busy used
store/held            entering  busy
store/recording       in turn   used
store/resumed         known     unused
store/recovering      known     busy unused
store/recovering-late known     unused
"""


@pytest.mark.parametrize("line", SEEN.strip().splitlines(), ids=lambda line: line.split()[0])
def test_what_people_and_the_supervisor_see(line: str) -> None:
    name, word, flags = line[:22].strip(), line[22:32].strip(), line[32:].split()
    module: Any = with_store if name.startswith("store/") else without_store
    machine = getattr(module, name.removeprefix("store/").replace("-", "_"))().machine
    assert machine.state == word
    assert machine.busy == ("busy" in flags)
    assert machine.forgettable == ("forgettable" in flags)
    assert machine.retained == ("retained" in flags)
    assert machine.unused == ("unused" in flags)
    assert machine.in_use == ("used" in flags)
