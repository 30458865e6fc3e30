"""The stage, cell by cell: every state that a session can be in, and everything that can happen in it.

`CELLS` is the whole table. For each input it gives the states, and for those what is to be done, then
behind "=>" what has changed; "*" are all other states. What comes late, or twice, has "nothing".
Below the table: one plain test for each bug that there was, and what the table cannot say.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.actors.effects import (
    HIT,
    RESTED,
    AnswerRelease,
    Build,
    CloseResources,
    Commit,
    CommitGaveUp,
    EndLife,
    Grant,
    Insert,
    Interrupt,
    LifeOver,
    Pause,
    Phase,
    Refuse,
    Retain,
    TearDown,
    TurnOver,
    Wait,
)
from greenroom.actors.lifecycle import Generations
from greenroom.actors.stage import Leaver, Stage, Wish
from greenroom.messages import BeginTurn, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STRANGER = 99
"""An incarnation, or a life, that the stage does not know."""


class Play:
    """A stage, and the turns that it was asked for, by name."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.turns: dict[str, BeginTurn] = {}
        self.did: Any = None
        """What the last input returned."""

    def turn(
        self, name: str, signature: str | None = "a", *, reject: bool = False, holder: object = None
    ) -> BeginTurn:
        """The turn of that name. Each is held by somebody else, unless told otherwise."""
        if name not in self.turns:
            self.turns[name] = BeginTurn(
                spec=name,
                signature=signature,
                session_id="s",
                reject=reject,
                timeout=None,
                holder=name if holder is None else holder,
                loop=None,
            )
        return self.turns[name]

    def begin(self, name: str, signature: str | None = "a", *, most: int = 16, **more: Any) -> Play:
        self.did = self.stage.begin(self.turn(name, signature, **more), most)
        return self

    def end(self, name: str = "t", *, completed: bool = True, discard: bool = False) -> Play:
        self.did = self.stage.end(self.turn(name), completed=completed, discard=discard)
        return self

    def end_now(self, *, completed: bool, discard: bool = False) -> Play:
        """End the turn that runs; if none does, one that is over."""
        turn = self.stage.turn or self.turn("nobody")
        self.did = self.stage.end(turn, completed=completed, discard=discard)
        return self

    def built(self, incarnation: int = 1, *, succeeded: bool = True) -> Play:
        self.did = self.stage.built(incarnation, succeeded=succeeded)
        return self

    def committed(self, *, succeeded: bool = True) -> Play:
        self.did = self.stage.committed(succeeded=succeeded)
        return self

    def close(self, *, interrupt: bool = False) -> Play:
        self.did = self.stage.close(Reason.EXPLICIT, interrupt=interrupt)
        return self

    def release(self) -> Play:
        self.did = self.stage.release(Reason.IDLE)
        return self

    def do(self, name: str, *args: Any) -> Play:
        """Any other input, by its name."""
        self.did = getattr(self.stage, name)(*args)
        return self

    @property
    def told(self) -> str:
        return tell(self.did)


# The states. "t" is the turn that has or had the place, "w" the one behind it.


def empty() -> Play:
    return Play()


def known() -> Play:
    """It completed a turn, which is committed, and was released."""
    return leaving().committed().do("torn_down", 1)


def orphan() -> Play:
    """A turn was completed elsewhere, nobody knows by whom."""
    return Play().do("complete_elsewhere", None)


def building() -> Play:
    return Play().begin("t")


def building_and_line() -> Play:
    return building().begin("w")


def building_for_nobody() -> Play:
    play = building()
    return play.do("withdraw", play.turn("t"))


def building_and_evict() -> Play:
    return building().do("evict")


def building_and_close() -> Play:
    return building().close()


def building_the_next() -> Play:
    """Another spec: the first agent commits on its way out."""
    return dirty().begin("w", "b")


def turn() -> Play:
    return building().built()


def turn_again() -> Play:
    """On an agent that has uncommitted turns."""
    return dirty().begin("t")


def turn_and_line() -> Play:
    return turn().begin("w")


def turn_and_other_line() -> Play:
    return turn().begin("w", "b")


def turn_and_evict() -> Play:
    return turn().do("evict")


def turn_and_close() -> Play:
    return turn().close()


def turn_and_flush() -> Play:
    return turn_again().do("flush")


def turn_and_commit() -> Play:
    """It called a release off, whose commit is in flight."""
    return leaving().begin("t")


def idle() -> Play:
    return turn().end(completed=False)


def dirty() -> Play:
    return _without(turn().end(), "t")


def flushing() -> Play:
    return dirty().do("flush")


def flushing_more() -> Play:
    """A turn was completed while the commit was in flight."""
    return _without(flushing().begin("t").end(), "t").do("flush")


def stuck() -> Play:
    return flushing().do("commit_stuck")


def leaving() -> Play:
    """Still whole: the release waits for its commit."""
    return dirty().release()


def committing() -> Play:
    """A leaver."""
    return _without(turn().end(discard=True), "t")


def closing() -> Play:
    """A leaver of a session that has ended."""
    return dirty().close()


def retained() -> Play:
    return committing().committed(succeeded=False)


def retained_beside() -> Play:
    """A retained leaver, and the next agent idle."""
    return _without(retained().begin("t").built(2).end(completed=False), "t")


def retained_stuck() -> Play:
    return committing().do("commit_stuck")


def tearing() -> Play:
    return idle().release()


def resources() -> Play:
    """The session has ended, and its resources are being closed."""
    return Play().close()


def failed() -> Play:
    return dirty().do("fail")


def failed_in_turn() -> Play:
    return turn().do("fail")


def draining_turn() -> Play:
    return turn_again().do("drain")


def draining_build() -> Play:
    return building().do("drain")


def draining_commit() -> Play:
    return dirty().do("drain")


def drained() -> Play:
    return Play().do("drain").do("resources_closed", 0)


def _without(play: Play, name: str) -> Play:
    """Another turn may have that name from now on."""
    play.turns["over"] = play.turns.pop(name)
    return play


STATES: dict[str, Callable[[], Play]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        empty,
        known,
        orphan,
        building,
        building_and_line,
        building_for_nobody,
        building_and_evict,
        building_and_close,
        building_the_next,
        turn,
        turn_again,
        turn_and_line,
        turn_and_other_line,
        turn_and_evict,
        turn_and_close,
        turn_and_flush,
        turn_and_commit,
        idle,
        dirty,
        flushing,
        flushing_more,
        stuck,
        leaving,
        committing,
        closing,
        retained,
        retained_beside,
        retained_stuck,
        tearing,
        resources,
        failed,
        failed_in_turn,
        draining_turn,
        draining_build,
        draining_commit,
        drained,
    )
}


# The inputs.

ONLY_WHEN_DRAINING = ("force", "abandon")
"""The supervisor says these after it said drain, never before."""


def _tearing(stage: Stage) -> int:
    leavers = (stage.leavers or {}).items()
    return next((number for number, leaver in leavers if leaver.phase is Phase.TEARING), STRANGER)


def _current(play: Play) -> BeginTurn:
    return play.stage.turn or play.turn("nobody")


INPUTS: dict[str, Callable[[Play], Play]] = {
    "begin": lambda play: play.begin("new"),
    "begin, any agent": lambda play: play.begin("new", None),
    "begin, other spec": lambda play: play.begin("new", "b"),
    "begin or reject": lambda play: play.begin("new", reject=True),
    "begin, same holder": lambda play: play.begin("new", holder=_current(play).holder),
    "begin, long line": lambda play: play.begin("new", most=0),
    "end, completed": lambda play: play.end_now(completed=True),
    "end, not completed": lambda play: play.end_now(completed=False),
    "end, discard": lambda play: play.end_now(completed=True, discard=True),
    "end of another turn": lambda play: play.end("nobody"),
    "withdraw the turn": lambda play: play.do("withdraw", _current(play)),
    "withdraw the builder": lambda play: play.do("withdraw", play.stage.builder or play.turn("nobody")),
    "withdraw who waits": lambda play: play.do("withdraw", play.turn("w")),
    "withdraw nobody": lambda play: play.do("withdraw", play.turn("nobody")),
    "expire the turn": lambda play: play.do("expire", _current(play)),
    "expire the builder": lambda play: play.do("expire", play.stage.builder or play.turn("nobody")),
    "expire who waits": lambda play: play.do("expire", play.turn("w")),
    "expire nobody": lambda play: play.do("expire", play.turn("nobody")),
    "built": lambda play: play.built(play.stage.building or STRANGER),
    "build failed": lambda play: play.built(play.stage.building or STRANGER, succeeded=False),
    "built late": lambda play: play.built(STRANGER),
    "adopt": lambda play: play.do("adopt", "a"),
    "release": lambda play: play.release(),
    "evict": lambda play: play.do("evict"),
    "close": lambda play: play.close(),
    "close, interrupt": lambda play: play.close(interrupt=True),
    "torn down": lambda play: play.do("torn_down", _tearing(play.stage)),
    "torn down, unknown": lambda play: play.do("torn_down", STRANGER),
    "resources closed": lambda play: play.do("resources_closed", 0 if play.stage.closing else STRANGER),
    "resources closed, unknown": lambda play: play.do("resources_closed", STRANGER),
    "flush": lambda play: play.do("flush"),
    "offer": lambda play: play.do("offer", STRANGER),
    "complete elsewhere": lambda play: play.do("complete_elsewhere", None),
    "complete elsewhere, the agent": lambda play: play.do(
        "complete_elsewhere", play.stage.agent or STRANGER
    ),
    "committed": lambda play: play.committed(),
    "commit failed": lambda play: play.committed(succeeded=False),
    "start commit": lambda play: play.do("start_commit"),
    "commit stuck": lambda play: play.do("commit_stuck"),
    "retry": lambda play: play.do("retry"),
    "fail": lambda play: play.do("fail"),
    "drain": lambda play: play.do("drain"),
    "force": lambda play: play.do("force"),
    "abandon": lambda play: play.do("abandon"),
}


# How a cell is spelt.


def tell(did: Any) -> str:
    """What is to be done, in words."""
    if did is None:
        return "none"
    if did is HIT:
        return "hit"
    if did is RESTED:
        return "rested"
    if isinstance(did, tuple) and len(did) == 2 and isinstance(did[0], int):
        return "; ".join([f"number {did[0]}", *map(_word, did[1])])
    if isinstance(did, bool):
        return "go" if did else "not now"
    if isinstance(did, int):
        return f"generation {did}"
    return "; ".join(map(_word, did))


def _word(effect: object) -> str:
    match effect:
        case Grant(turn=turn, reused=reused, reason=reason):
            return f"grant {turn.spec}{' reused' if reused else ''}{_because(reason)}"
        case Wait(turn=turn):
            return f"wait {turn.spec}"
        case Refuse(turn=turn, why=why):
            return f"refuse {turn.spec}: {why.value}"
        case TurnOver(turn=turn):
            return f"over {turn.spec}"
        case Build(turn=turn, incarnation=number):
            return f"build {number} for {turn.spec}"
        case Insert(incarnation=number, reason=reason):
            return f"insert {number}{_because(reason)}"
        case Commit(owner=owner, generation=generation):
            return f"{owner} commits to {generation}"
        case CommitGaveUp():
            return "gave up"
        case Retain(incarnation=number, reason=reason):
            return f"retain {number}{_because(reason)}"
        case Pause(tries=tries):
            return f"pause {tries}"
        case TearDown(incarnation=number, close=close, reason=reason):
            return f"{'close' if close else 'release'} {number}{_because(reason)}"
        case Interrupt(incarnation=number):
            return f"interrupt {number}"
        case EndLife(life=life):
            return f"end life {life}"
        case CloseResources(life=life):
            return f"resources {life}"
        case LifeOver(life=life, reason=reason):
            return f"life {life} over{_because(reason)}"
        case AnswerRelease(accepted=accepted):
            return "yes" if accepted else "no"
        case _:
            raise AssertionError(effect)


def _because(reason: Reason | None) -> str:
    return "" if reason is None else f" ({reason})"


def picture(stage: Stage) -> dict[str, str]:
    """All that a stage knows, in words."""
    known = {name: _spell(getattr(stage, name)) for name in Stage.__slots__ if name != "generations"}
    generations = stage.generations
    known["generation"] = str(generations.generation)
    known["committed"] = str(generations.committed)
    known["flying"] = _spell(generations.in_flight)
    known["segments"] = _spell(generations.segments)
    return known


def _spell(value: Any) -> str:
    match value:
        case None | 0 | () | False | deque(maxlen=None) if not value:
            return "-"
        case BeginTurn(spec=name):
            return str(name)
        case Leaver(reason=reason, close=close, life=life, phase=phase):
            return f"{phase.value}/{'close' if close else 'release'}/{reason}/{life}"
        case Wish(reason=reason, close=close):
            return f"{'close' if close else 'release'}/{reason}"
        case dict():
            return ",".join(f"{number}:{_spell(item)}" for number, item in value.items())
        case deque() | tuple():
            return ",".join(map(_spell, value))
        case Generations():
            raise AssertionError(value)
        case _ if hasattr(value, "owner"):
            return f"{value.owner or 'nobody'}..{value.last}"
        case _:
            return "yes" if value is True else str(value)


def outcome(state: str, given: str) -> str:
    """Put a stage into the state, apply the input, and say what it does and what has changed."""
    play = STATES[state]()
    before = picture(play.stage)
    told = INPUTS[given](play).told
    after = picture(play.stage)
    changed = [f"{name}={after[name]}" for name in sorted(after) if after[name] != before[name]]
    if told in ("", "none") and not changed:
        return "nothing"
    return told if not changed else f"{told or '-'} => {' '.join(changed)}"


def cells_of(given: str) -> list[str]:
    """The states in which this can happen."""
    if given in ONLY_WHEN_DRAINING:
        return [state for state in STATES if STATES[state]().stage.draining]
    return list(STATES)


def parsed(text: str) -> dict[str, dict[str, str]]:
    """For each input the outcome by state."""
    table: dict[str, dict[str, str]] = {}
    row: dict[str, str] = {}
    states: list[str] = []
    behind_outcome = True
    for line in text.strip().splitlines():
        depth, words = len(line) - len(line.lstrip()), line.strip()
        if depth == 0:
            row = table[words] = {}
        elif depth == 2:
            states = words.split() if behind_outcome else states + words.split()
        elif depth == 4:
            assert not row.keys() & set(states), f"twice: {states}"
            row.update(dict.fromkeys(states, words))
        else:
            row.update({state: f"{row[state]} {words}" for state in states})
        behind_outcome = depth != 2
    return table


CELLS = """
begin
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=a
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2
  building building-for-nobody building-and-evict building-and-close building-the-next turn
  turn-again turn-and-evict turn-and-close turn-and-flush turn-and-commit
    wait new => waiting=new
  building-and-line turn-and-line turn-and-other-line
    wait new => waiting=w,new
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
begin, any agent
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2 signature=-
  building building-for-nobody building-and-evict building-and-close building-the-next turn
  turn-again turn-and-evict turn-and-close turn-and-flush turn-and-commit
    wait new => waiting=new
  building-and-line turn-and-line turn-and-other-line
    wait new => waiting=w,new
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
begin, other spec
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=b
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2 signature=b
  building building-for-nobody building-and-evict building-and-close building-the-next turn
  turn-again turn-and-evict turn-and-close turn-and-flush turn-and-commit
    wait new => waiting=new
  building-and-line turn-and-line turn-and-other-line
    wait new => waiting=w,new
  idle
    release 1 (spec); build 2 for new => agent=- builder=new building=2 incarnations=2
      last_reason=spec leavers=1:tearing/release/spec/0 signature=b
  dirty
    build 2 for new; 1 commits to 1 => agent=- builder=new building=2 flying=1..1 incarnations=2
      last_reason=spec leavers=1:committing/release/spec/0 signature=b
  flushing flushing-more
    build 2 for new => agent=- builder=new building=2 incarnations=2 last_reason=spec
      leavers=1:committing/release/spec/0 signature=b
  stuck
    retain 1 (spec); build 2 for new => agent=- builder=new building=2 incarnations=2
      last_reason=spec leavers=1:retained/release/spec/0 signature=b
  leaving
    build 2 for new => agent=- builder=new building=2 incarnations=2 last_reason=spec
      leavers=1:committing/release/spec/0 leaving=- signature=b
  retained-beside
    release 2 (spec); build 3 for new => agent=- builder=new building=3 incarnations=3
      last_reason=spec leavers=1:retained/release/discard/0,2:tearing/release/spec/0 signature=b
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
begin or reject
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=a
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
  *
    refuse new: busy
begin, same holder
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=a
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2
  building building-for-nobody building-and-evict building-and-close building-the-next
    wait new => waiting=new
  building-and-line
    wait new => waiting=w,new
  turn turn-again turn-and-line turn-and-other-line turn-and-evict turn-and-close turn-and-flush
  turn-and-commit
    refuse new: self
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
begin, long line
  empty orphan resources
    build 1 for new => builder=new building=1 incarnations=1 signature=a
  known committing closing retained retained-stuck tearing
    build 2 for new => builder=new building=2 incarnations=2
  idle dirty flushing flushing-more stuck retained-beside
    hit => turn=new
  leaving
    grant new reused => leaving=- turn=new
  failed failed-in-turn
    refuse new: failed
  draining-turn draining-build draining-commit drained
    refuse new: closed
  *
    refuse new: overloaded
end, completed
  turn failed-in-turn
    rested => generation=1 segments=1..1 turn=-
  turn-again
    rested => generation=2 segments=1..2 turn=-
  turn-and-line
    over t; grant w reused => generation=1 segments=1..1 turn=w waiting=-
  turn-and-other-line
    over t; build 2 for w; 1 commits to 1 => agent=- builder=w building=2 flying=1..1 generation=1
      incarnations=2 last_reason=spec leavers=1:committing/release/spec/0 segments=1..1 signature=b
      turn=- waiting=-
  turn-and-evict
    over t; 1 commits to 1 => _wish=- flying=1..1 generation=1 leaving=explicit segments=1..1 turn=-
  turn-and-close
    over t; end life 0; 1 commits to 1 => _wish=- agent=- ending=0:explicit flying=1..1 generation=1
      known=- leavers=1:committing/close/explicit/0 life=1 segments=1..1 turn=-
  turn-and-flush
    over t; 1 commits to 2 => flying=1..2 generation=2 segments=1..2 turn=-
  turn-and-commit
    rested => generation=2 segments=1..1,1..2 turn=-
  draining-turn
    over t; end life 0; 1 commits to 2 => agent=- ending=0:shutdown flying=1..2 generation=2 known=-
      leavers=1:committing/close/shutdown/0 life=1 segments=1..2 turn=-
  *
    nothing
end, not completed
  turn turn-again turn-and-commit failed-in-turn
    rested => turn=-
  turn-and-line
    over t; grant w reused => turn=w waiting=-
  turn-and-other-line
    over t; release 1 (spec); build 2 for w => agent=- builder=w building=2 incarnations=2
      last_reason=spec leavers=1:tearing/release/spec/0 signature=b turn=- waiting=-
  turn-and-evict
    over t; release 1 (explicit) => _wish=- agent=- last_reason=explicit
      leavers=1:tearing/release/explicit/0 turn=-
  turn-and-close
    over t; close 1 (explicit); end life 0 => _wish=- agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1 turn=-
  turn-and-flush
    over t; 1 commits to 1 => flying=1..1 turn=-
  draining-turn
    over t; end life 0; 1 commits to 1 => agent=- ending=0:shutdown flying=1..1 known=-
      leavers=1:committing/close/shutdown/0 life=1 turn=-
  *
    nothing
end, discard
  turn failed-in-turn
    over t; 1 commits to 1 => agent=- flying=1..1 generation=1 last_reason=discard
      leavers=1:committing/release/discard/0 segments=1..1 turn=-
  turn-again turn-and-flush
    over t; 1 commits to 2 => agent=- flying=1..2 generation=2 last_reason=discard
      leavers=1:committing/release/discard/0 segments=1..2 turn=-
  turn-and-line
    over t; build 2 for w; 1 commits to 1 => agent=- builder=w building=2 flying=1..1 generation=1
      incarnations=2 last_reason=discard leavers=1:committing/release/discard/0 segments=1..1 turn=-
      waiting=-
  turn-and-other-line
    over t; build 2 for w; 1 commits to 1 => agent=- builder=w building=2 flying=1..1 generation=1
      incarnations=2 last_reason=discard leavers=1:committing/release/discard/0 segments=1..1
      signature=b turn=- waiting=-
  turn-and-evict
    over t; 1 commits to 1 => _wish=- agent=- flying=1..1 generation=1 last_reason=discard
      leavers=1:committing/release/discard/0 segments=1..1 turn=-
  turn-and-close
    over t; end life 0; 1 commits to 1 => _wish=- agent=- ending=0:explicit flying=1..1 generation=1
      known=- leavers=1:committing/close/explicit/0 life=1 segments=1..1 turn=-
  turn-and-commit
    over t => agent=- generation=2 last_reason=discard leavers=1:committing/release/discard/0
      segments=1..1,1..2 turn=-
  draining-turn
    over t; end life 0; 1 commits to 2 => agent=- ending=0:shutdown flying=1..2 generation=2 known=-
      leavers=1:committing/close/shutdown/0 life=1 segments=1..2 turn=-
  *
    nothing
end of another turn
  *
    nothing
withdraw the turn
  turn turn-again turn-and-commit failed-in-turn
    over t => turn=-
  turn-and-line
    over t; grant w reused => turn=w waiting=-
  turn-and-other-line
    over t; release 1 (spec); build 2 for w => agent=- builder=w building=2 incarnations=2
      last_reason=spec leavers=1:tearing/release/spec/0 signature=b turn=- waiting=-
  turn-and-evict
    over t; release 1 (explicit) => _wish=- agent=- last_reason=explicit
      leavers=1:tearing/release/explicit/0 turn=-
  turn-and-close
    over t; close 1 (explicit); end life 0 => _wish=- agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1 turn=-
  turn-and-flush
    over t; 1 commits to 1 => flying=1..1 turn=-
  draining-turn
    over t; end life 0; 1 commits to 1 => agent=- ending=0:shutdown flying=1..1 known=-
      leavers=1:committing/close/shutdown/0 life=1 turn=-
  *
    nothing
withdraw the builder
  building building-and-evict building-and-close building-the-next
    - => builder=-
  building-and-line
    - => builder=w waiting=-
  *
    nothing
withdraw who waits
  building-and-line turn-and-line turn-and-other-line
    - => waiting=-
  building-the-next
    - => builder=-
  *
    nothing
withdraw nobody
  *
    nothing
expire the turn
  *
    nothing
expire the builder
  building building-and-evict building-and-close
    refuse t: timeout => builder=-
  building-and-line
    refuse t: timeout => builder=w waiting=-
  building-the-next
    refuse w: timeout => builder=-
  *
    nothing
expire who waits
  building-and-line turn-and-line turn-and-other-line
    refuse w: timeout => waiting=-
  building-the-next
    refuse w: timeout => builder=-
  *
    nothing
expire nobody
  *
    nothing
built
  building building-and-line building-and-evict building-and-close
    insert 1; grant t => agent=1 builder=- building=- known=yes turn=t
  building-for-nobody
    insert 1 => agent=1 building=- known=yes
  building-the-next
    insert 2 (spec); grant w (spec) => agent=2 builder=- building=- last_reason=- turn=w
  committing
    release 99 (discard) => leavers=1:committing/release/discard/0,99:tearing/release/discard/0
  closing
    release 99 (discard) => leavers=1:committing/close/explicit/0,99:tearing/release/discard/1
  retained retained-beside retained-stuck
    release 99 (discard) => leavers=1:retained/release/discard/0,99:tearing/release/discard/0
  tearing
    release 99 (discard) => leavers=1:tearing/release/idle/0,99:tearing/release/discard/0
  resources
    release 99 (discard) => leavers=99:tearing/release/discard/1
  draining-turn
    close 99 (discard) => leavers=99:tearing/close/discard/0
  draining-build
    insert 1; close 1 (shutdown); end life 0 => building=- ending=0:shutdown
      leavers=1:tearing/close/shutdown/0 life=1
  draining-commit
    close 99 (discard) => leavers=1:committing/close/shutdown/0,99:tearing/close/discard/1
  drained
    close 99 (discard) => leavers=99:tearing/close/discard/1
  *
    release 99 (discard) => leavers=99:tearing/release/discard/0
build failed
  building
    refuse t: build => builder=- building=-
  building-and-line
    refuse t: build; build 2 for w => builder=w building=2 incarnations=2 waiting=-
  building-for-nobody
    - => building=-
  building-and-evict
    refuse t: build => _wish=- builder=- building=-
  building-and-close
    refuse t: build; end life 0; resources 0 => _wish=- builder=- building=- closing=1
      ending=0:explicit life=1
  building-the-next
    refuse w: build => builder=- building=-
  draining-build
    end life 0; resources 0 => building=- closing=1 ending=0:shutdown life=1
  *
    nothing
built late
  building-the-next
    release 99 (discard) => leavers=1:committing/release/spec/0,99:tearing/release/discard/0
  committing
    release 99 (discard) => leavers=1:committing/release/discard/0,99:tearing/release/discard/0
  closing
    release 99 (discard) => leavers=1:committing/close/explicit/0,99:tearing/release/discard/1
  retained retained-beside retained-stuck
    release 99 (discard) => leavers=1:retained/release/discard/0,99:tearing/release/discard/0
  tearing
    release 99 (discard) => leavers=1:tearing/release/idle/0,99:tearing/release/discard/0
  resources
    release 99 (discard) => leavers=99:tearing/release/discard/1
  draining-turn draining-build
    close 99 (discard) => leavers=99:tearing/close/discard/0
  draining-commit
    close 99 (discard) => leavers=1:committing/close/shutdown/0,99:tearing/close/discard/1
  drained
    close 99 (discard) => leavers=99:tearing/close/discard/1
  *
    release 99 (discard) => leavers=99:tearing/release/discard/0
adopt
  empty resources
    number 1; insert 1 => agent=1 incarnations=1 known=yes signature=a
  known tearing
    number 2; insert 2 (idle) => agent=2 incarnations=2 last_reason=-
  orphan
    number 1; insert 1 => agent=1 incarnations=1 signature=a
  idle
    number 2; release 1 (explicit); insert 2 (explicit) => agent=2 incarnations=2
      leavers=1:tearing/release/explicit/0
  dirty
    number 2; insert 2 (explicit); 1 commits to 1 => agent=2 flying=1..1 incarnations=2
      leavers=1:committing/release/explicit/0
  flushing flushing-more
    number 2; insert 2 (explicit) => agent=2 incarnations=2 leavers=1:committing/release/explicit/0
  stuck
    number 2; retain 1 (explicit); insert 2 (explicit) => agent=2 incarnations=2
      leavers=1:retained/release/explicit/0
  leaving
    number 2; insert 2 (explicit) => agent=2 incarnations=2 leavers=1:committing/release/explicit/0
      leaving=-
  committing retained retained-stuck
    number 2; insert 2 (discard) => agent=2 incarnations=2 last_reason=-
  closing
    number 2; insert 2 => agent=2 incarnations=2 known=yes
  retained-beside
    number 3; release 2 (explicit); insert 3 (explicit) => agent=3 incarnations=3
      leavers=1:retained/release/discard/0,2:tearing/release/explicit/0
  *
    nothing
release
  idle
    yes; release 1 (idle) => agent=- last_reason=idle leavers=1:tearing/release/idle/0
  dirty failed
    yes; 1 commits to 1 => flying=1..1 leaving=idle
  flushing flushing-more
    yes => leaving=idle
  stuck
    yes; retain 1 (idle) => agent=- last_reason=idle leavers=1:retained/release/idle/0
  retained-beside
    yes; release 2 (idle) => agent=- last_reason=idle
      leavers=1:retained/release/discard/0,2:tearing/release/idle/0
  *
    no
evict
  building building-and-line building-for-nobody building-the-next turn turn-again turn-and-line
  turn-and-other-line turn-and-flush turn-and-commit failed-in-turn draining-turn draining-build
    - => _wish=release/explicit
  idle
    release 1 (explicit) => agent=- last_reason=explicit leavers=1:tearing/release/explicit/0
  dirty failed
    1 commits to 1 => flying=1..1 leaving=explicit
  flushing flushing-more
    - => leaving=explicit
  stuck
    retain 1 (explicit) => agent=- last_reason=explicit leavers=1:retained/release/explicit/0
  retained-beside
    release 2 (explicit) => agent=- last_reason=explicit
      leavers=1:retained/release/discard/0,2:tearing/release/explicit/0
  *
    nothing
close
  empty
    end life 0; resources 0 => closing=1 ending=0:explicit life=1
  known
    end life 0; resources 0 => closing=1 ending=0:explicit known=- last_reason=- life=1
  orphan
    end life 0; resources 0 => closing=1 ending=0:explicit known=- life=1
  building-and-close turn-and-close
    nothing
  idle
    close 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1
  dirty
    end life 0; 1 commits to 1 => agent=- ending=0:explicit flying=1..1 known=-
      leavers=1:committing/close/explicit/0 life=1
  flushing flushing-more
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 life=1
  stuck
    retain 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:retained/close/explicit/0 life=1
  leaving
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 leaving=-
      life=1
  committing
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:committing/close/explicit/0
      life=1
  closing
    end life 1; resources 1 => closing=1 ending=0:explicit,1:explicit life=2
  retained retained-stuck
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:retained/close/explicit/0 life=1
  retained-beside
    close 2 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:retained/close/explicit/0,2:tearing/close/explicit/0 life=1
  tearing
    end life 0 => ending=0:explicit known=- last_reason=- life=1
  resources
    end life 1; resources 1 => closing=2 ending=0:explicit,1:explicit life=2
  failed
    end life 0; 1 commits to 1 => agent=- ending=0:explicit failed=- flying=1..1 known=-
      leavers=1:committing/close/explicit/0 life=1
  draining-commit
    end life 1; resources 1 => closing=1 ending=0:shutdown,1:explicit life=2
  drained
    end life 1; resources 1 => closing=1 ending=1:explicit life=2
  *
    - => _wish=close/explicit
close, interrupt
  empty
    end life 0; resources 0 => closing=1 ending=0:explicit life=1
  known
    end life 0; resources 0 => closing=1 ending=0:explicit known=- last_reason=- life=1
  orphan
    end life 0; resources 0 => closing=1 ending=0:explicit known=- life=1
  building building-and-line building-for-nobody building-and-evict building-the-next draining-build
    - => _wish=close/explicit
  building-and-close
    nothing
  turn turn-again turn-and-line turn-and-other-line turn-and-evict turn-and-flush turn-and-commit
  failed-in-turn draining-turn
    interrupt 1 => _wish=close/explicit
  turn-and-close
    interrupt 1
  idle
    close 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:tearing/close/explicit/0 life=1
  dirty
    end life 0; 1 commits to 1 => agent=- ending=0:explicit flying=1..1 known=-
      leavers=1:committing/close/explicit/0 life=1
  flushing flushing-more
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 life=1
  stuck
    retain 1 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:retained/close/explicit/0 life=1
  leaving
    end life 0 => agent=- ending=0:explicit known=- leavers=1:committing/close/explicit/0 leaving=-
      life=1
  committing
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:committing/close/explicit/0
      life=1
  closing
    end life 1; resources 1 => closing=1 ending=0:explicit,1:explicit life=2
  retained retained-stuck
    end life 0 => ending=0:explicit known=- last_reason=- leavers=1:retained/close/explicit/0 life=1
  retained-beside
    close 2 (explicit); end life 0 => agent=- ending=0:explicit known=-
      leavers=1:retained/close/explicit/0,2:tearing/close/explicit/0 life=1
  tearing
    end life 0 => ending=0:explicit known=- last_reason=- life=1
  resources
    end life 1; resources 1 => closing=2 ending=0:explicit,1:explicit life=2
  failed
    end life 0; 1 commits to 1 => agent=- ending=0:explicit failed=- flying=1..1 known=-
      leavers=1:committing/close/explicit/0 life=1
  draining-commit
    end life 1; resources 1 => closing=1 ending=0:shutdown,1:explicit life=2
  drained
    end life 1; resources 1 => closing=1 ending=1:explicit life=2
torn down
  tearing
    - => known=- leavers=-
  *
    nothing
torn down, unknown
  *
    nothing
resources closed
  resources
    life 0 over (explicit) => closing=- ending=-
  *
    nothing
resources closed, unknown
  *
    nothing
flush
  building-the-next turn-again turn-and-commit stuck leaving committing closing retained-stuck
    - => flush_to=1
  turn-and-flush flushing flushing-more draining-turn draining-commit
    nothing
  dirty retained retained-beside failed
    1 commits to 1 => flush_to=1 flying=1..1
  *
    gave up
offer
  orphan
    none => segments=99..1
  *
    nothing
complete elsewhere
  empty building building-and-line building-for-nobody building-and-evict building-and-close
  resources draining-build drained
    generation 1 => generation=1 known=yes segments=nobody..1
  known orphan
    generation 2 => generation=2 segments=nobody..2
  turn turn-and-line turn-and-other-line turn-and-evict turn-and-close idle tearing failed-in-turn
    generation 1 => generation=1 segments=nobody..1
  flushing-more
    generation 3 => generation=3 segments=1..1,1..2,nobody..3
  closing draining-commit
    generation 2 => generation=2 known=yes segments=1..1,nobody..2
  *
    generation 2 => generation=2 segments=1..1,nobody..2
complete elsewhere, the agent
  empty building building-and-line building-for-nobody building-and-evict building-and-close
  resources draining-build drained
    generation 1 => generation=1 known=yes segments=99..1
  known
    generation 2 => generation=2 segments=99..2
  orphan
    generation 2 => generation=2 segments=nobody..1,99..2
  building-the-next committing retained retained-stuck
    generation 2 => generation=2 segments=1..1,99..2
  turn turn-and-line turn-and-other-line turn-and-evict turn-and-close idle failed-in-turn
    generation 1 => generation=1 segments=1..1
  turn-again turn-and-flush dirty failed draining-turn
    generation 2 => generation=2 segments=1..2
  turn-and-commit flushing stuck leaving
    generation 2 => generation=2 segments=1..1,1..2
  flushing-more
    generation 3 => generation=3 segments=1..1,1..3
  closing draining-commit
    generation 2 => generation=2 known=yes segments=1..1,99..2
  retained-beside
    generation 2 => generation=2 segments=1..1,2..2
  tearing
    generation 1 => generation=1 segments=99..1
committed
  building-the-next
    release 1 (spec) => committed=1 flying=- leavers=1:tearing/release/spec/0 segments=-
  turn-and-commit flushing
    - => committed=1 flying=- segments=-
  flushing-more
    1 commits to 2 => committed=1 flying=1..2 segments=1..2
  stuck
    - => committed=1 flying=- segments=- stuck=- tries=-
  leaving
    release 1 (idle) => agent=- committed=1 flying=- last_reason=idle
      leavers=1:tearing/release/idle/0 leaving=- segments=-
  committing
    release 1 (discard) => committed=1 flying=- leavers=1:tearing/release/discard/0 segments=-
  closing
    close 1 (explicit) => committed=1 flying=- leavers=1:tearing/close/explicit/0 segments=-
  retained-stuck
    release 1 (discard) => committed=1 flying=- leavers=1:tearing/release/discard/0 segments=-
      stuck=- tries=-
  draining-commit
    close 1 (shutdown) => committed=1 flying=- leavers=1:tearing/close/shutdown/0 segments=-
  *
    nothing
commit failed
  building-the-next
    gave up; retain 1 (spec); pause 1 => flying=- leavers=1:retained/release/spec/0 tries=1
  turn-and-commit
    gave up => flying=- tries=1
  flushing flushing-more
    gave up => flush_to=- flying=- tries=1
  stuck
    gave up => flying=- stuck=- tries=2
  leaving
    gave up; retain 1 (idle); pause 1 => agent=- flying=- last_reason=idle
      leavers=1:retained/release/idle/0 leaving=- tries=1
  committing
    gave up; retain 1 (discard); pause 1 => flying=- leavers=1:retained/release/discard/0 tries=1
  closing
    gave up; retain 1 (explicit); pause 1 => flying=- leavers=1:retained/close/explicit/0 tries=1
  retained-stuck
    gave up; pause 2 => flying=- stuck=- tries=2
  draining-commit
    gave up; close 1 (shutdown) => flush_to=- flying=- leavers=1:tearing/close/shutdown/0 tries=1
  *
    nothing
start commit
  building-the-next flushing flushing-more stuck leaving committing closing retained-stuck
  draining-commit
    go => started=yes
  turn-and-commit
    not now => flying=-
  *
    not now
commit stuck
  building-the-next
    gave up; retain 1 (spec) => leavers=1:retained/release/spec/0 stuck=yes tries=1
  turn-and-commit
    gave up => stuck=yes tries=1
  flushing flushing-more
    gave up => flush_to=- stuck=yes tries=1
  leaving
    gave up; retain 1 (idle) => agent=- last_reason=idle leavers=1:retained/release/idle/0 leaving=-
      stuck=yes tries=1
  committing
    gave up; retain 1 (discard) => leavers=1:retained/release/discard/0 stuck=yes tries=1
  closing
    gave up; retain 1 (explicit) => leavers=1:retained/close/explicit/0 stuck=yes tries=1
  draining-commit
    gave up; close 1 (shutdown) => flush_to=- leavers=1:tearing/close/shutdown/0 stuck=yes tries=1
  *
    nothing
retry
  retained retained-beside
    1 commits to 1 => flying=1..1 leavers=1:committing/release/discard/0
  *
    nothing
fail
  building building-and-evict building-and-close
    refuse t: failed => builder=- failed=yes
  building-and-line
    refuse t: failed; refuse w: failed => builder=- failed=yes waiting=-
  building-the-next
    refuse w: failed => builder=- failed=yes
  turn-and-line turn-and-other-line
    refuse w: failed => failed=yes waiting=-
  failed failed-in-turn
    nothing
  *
    - => failed=yes
drain
  empty
    end life 0; resources 0 => closing=1 draining=yes ending=0:shutdown life=1
  known
    end life 0; resources 0 => closing=1 draining=yes ending=0:shutdown flush_to=1 known=-
      last_reason=- life=1
  orphan
    end life 0; resources 0 => closing=1 draining=yes ending=0:shutdown flush_to=1 known=- life=1
  building building-and-evict building-and-close
    refuse t: closed => builder=- draining=yes
  building-and-line
    refuse t: closed; refuse w: closed => builder=- draining=yes waiting=-
  building-for-nobody turn turn-and-evict turn-and-close turn-and-flush failed-in-turn
    - => draining=yes
  building-the-next
    refuse w: closed => builder=- draining=yes flush_to=1
  turn-again turn-and-commit
    - => draining=yes flush_to=1
  turn-and-line turn-and-other-line
    refuse w: closed => draining=yes waiting=-
  idle
    close 1 (shutdown); end life 0 => agent=- draining=yes ending=0:shutdown known=-
      leavers=1:tearing/close/shutdown/0 life=1
  dirty
    end life 0; 1 commits to 1 => agent=- draining=yes ending=0:shutdown flush_to=1 flying=1..1
      known=- leavers=1:committing/close/shutdown/0 life=1
  flushing flushing-more
    end life 0 => agent=- draining=yes ending=0:shutdown known=-
      leavers=1:committing/close/shutdown/0 life=1
  stuck
    close 1 (shutdown); end life 0 => agent=- draining=yes ending=0:shutdown flush_to=1 known=-
      leavers=1:tearing/close/shutdown/0 life=1
  leaving
    end life 0 => agent=- draining=yes ending=0:shutdown flush_to=1 known=-
      leavers=1:committing/close/shutdown/0 leaving=- life=1
  committing retained-stuck
    end life 0 => draining=yes ending=0:shutdown flush_to=1 known=- last_reason=-
      leavers=1:committing/close/shutdown/0 life=1
  closing
    end life 1; resources 1 => closing=1 draining=yes ending=0:explicit,1:shutdown flush_to=1 life=2
  retained
    end life 0; 1 commits to 1 => draining=yes ending=0:shutdown flush_to=1 flying=1..1 known=-
      last_reason=- leavers=1:committing/close/shutdown/0 life=1
  retained-beside
    close 2 (shutdown); end life 0; 1 commits to 1 => agent=- draining=yes ending=0:shutdown
      flush_to=1 flying=1..1 known=-
      leavers=1:committing/close/shutdown/0,2:tearing/close/shutdown/0 life=1
  tearing
    end life 0 => draining=yes ending=0:shutdown known=- last_reason=- life=1
  resources
    end life 1; resources 1 => closing=2 draining=yes ending=0:explicit,1:shutdown life=2
  failed
    end life 0; 1 commits to 1 => agent=- draining=yes ending=0:shutdown failed=- flush_to=1
      flying=1..1 known=- leavers=1:committing/close/shutdown/0 life=1
  draining-turn draining-build draining-commit drained
    nothing
force
  draining-turn
    over t; interrupt 1; end life 0; 1 commits to 1 => agent=- ending=0:shutdown flying=1..1 known=-
      leavers=1:committing/close/shutdown/0 life=1 turn=-
  draining-build draining-commit drained
    nothing
abandon
  draining-turn draining-build drained
    - => abandoned=yes
  draining-commit
    close 1 (shutdown) => abandoned=yes leavers=1:tearing/close/shutdown/0 stuck=yes
"""


TABLE = parsed(CELLS)


def test_the_table_has_every_input_and_only_states_that_there_are() -> None:
    assert list(TABLE) == list(INPUTS)
    for given, row in TABLE.items():
        assert row.keys() - {"*"} <= set(cells_of(given)), given


@pytest.mark.parametrize("given", INPUTS)
def test_in_every_state_what_happens_has_this_outcome(given: str) -> None:
    row = TABLE[given]
    expected = {state: row.get(state) or row["*"] for state in cells_of(given)}
    assert {state: outcome(state, given) for state in cells_of(given)} == expected


SEEN = """
empty                known     blank
known                known
orphan               known
building             building  busy
building-and-line    building  busy
building-for-nobody  building  busy
building-and-evict   building  busy
building-and-close   building  busy
building-the-next    building  busy
turn                 in turn
turn-again           in turn
turn-and-line        in turn
turn-and-other-line  in turn
turn-and-evict       in turn
turn-and-close       in turn
turn-and-flush       in turn
turn-and-commit      in turn   busy
idle                 idle
dirty                idle
flushing             idle      busy
flushing-more        idle      busy
stuck                idle
leaving              leaving   busy
committing           leaving   busy
closing              leaving   busy
retained             retained  retained
retained-beside      idle      retained
retained-stuck       retained  retained
tearing              leaving   busy
resources            closing   busy
failed               failed
failed-in-turn       failed
draining-turn        in turn
draining-build       building  busy
draining-commit      leaving   busy
drained              known     blank
"""


@pytest.mark.parametrize("line", SEEN.strip().splitlines(), ids=lambda line: line.split()[0])
def test_what_people_and_the_supervisor_see(line: str) -> None:
    name, word, flags = line[:21].strip(), line[21:31].strip(), line[31:].split()
    stage = STATES[name]().stage
    assert stage.state == word
    assert stage.busy == ("busy" in flags)
    assert stage.blank == ("blank" in flags)
    assert stage.retained == ("retained" in flags)


def test_every_state_is_seen() -> None:
    assert [line.split()[0] for line in SEEN.strip().splitlines()] == list(STATES)


# What takes more than one step.


def owners(did: Iterable[object]) -> list[int]:
    return [effect.owner for effect in did if isinstance(effect, Commit)]


def torn(did: Iterable[object]) -> list[int]:
    return [effect.incarnation for effect in did if isinstance(effect, TearDown)]


def test_the_line_is_served_in_order_through_a_failed_build() -> None:
    """T5"""
    play = building().begin("u").begin("v", "b")
    assert play.built(1, succeeded=False).told == "refuse t: build; build 2 for u"
    assert play.built(2).told == "insert 2; grant u"
    assert play.end("u").told == "over u; build 3 for v; 2 commits to 1"
    assert play.built(3).told == "insert 3 (spec); grant v (spec)"


def test_a_turn_behind_one_that_left_takes_its_build_only_if_that_fits() -> None:
    """T3"""
    for signature, builder in (("a", "w"), (None, "w"), ("b", None)):
        play = building().begin("w", signature)
        play.do("withdraw", play.turn("t"))
        assert (play.stage.builder and play.stage.builder.spec) == builder


def test_an_agent_that_was_built_for_nobody_goes_to_whoever_waits() -> None:
    play = building_for_nobody().begin("new", None)
    assert play.built().told == "insert 1; grant new reused"


def test_an_agent_that_was_built_for_nobody_makes_way_for_another_spec() -> None:
    """T2"""
    play = building_for_nobody().begin("new", "b")
    assert play.built().told == "insert 1; release 1 (spec); build 2 for new"


def test_an_agent_that_is_wanted_out_before_it_is_built_has_its_turn_first() -> None:
    """T7"""
    play = building_and_evict().built()
    assert play.end(completed=False).told == "over t; release 1 (explicit)"
    play = building_for_nobody().do("evict")
    assert play.built().told == "insert 1; release 1 (explicit)"


def test_an_eviction_takes_effect_although_somebody_waits() -> None:
    """T7"""
    play = turn_and_line().do("evict").end(completed=False)
    assert play.told == "over t; release 1 (explicit); build 2 for w"
    assert play.built(2).told == "insert 2 (explicit); grant w (explicit)"


def test_whoever_waits_gets_the_next_session_when_this_one_ends() -> None:
    """T7"""
    play = turn_and_line().close().end()
    assert play.told == "over t; end life 0; build 2 for w; 1 commits to 1"
    assert play.built(2).told == "insert 2; grant w"
    assert play.committed().told == "close 1 (explicit)"
    assert play.do("torn_down", 1).told == "resources 0"
    assert play.do("resources_closed", 0).told == "life 0 over (explicit)"
    assert play.stage.turn is play.turn("w")


def test_a_wish_to_close_is_stronger_than_one_to_evict_whichever_comes_first() -> None:
    """T7"""
    for play in (turn_and_evict().close(), turn_and_close().do("evict")):
        assert play.end(completed=False).told == "over t; close 1 (explicit); end life 0"


def test_a_release_is_called_off_while_the_agent_is_whole_and_its_commit_goes_on() -> None:
    """G3"""
    play = turn_and_commit().end()
    assert play.committed().told == ""
    assert (play.stage.agent, play.stage.generations.dirty) == (1, 1)


def test_a_commit_that_was_sent_before_a_turn_began_waits_for_its_end() -> None:
    play = flushing().begin("t")
    assert play.do("start_commit").told == "not now"
    assert play.stage.generations.in_flight is None
    assert play.end().told == "over t; 1 commits to 2"
    assert play.do("start_commit").told == "go"
    assert play.stage.started
    play.committed()
    assert not play.stage.started


def test_a_leaver_commits_while_the_next_agent_is_in_a_turn() -> None:
    """C7"""
    play = building_the_next().built(2)
    assert play.do("start_commit").told == "go"
    assert play.committed().told == "release 1 (spec)"


def test_after_a_success_everything_that_was_retained_is_tried_again() -> None:
    """G9"""
    play = retained_beside().begin("t").end(discard=True)
    assert play.told == "over t; 1 commits to 1"
    assert play.committed(succeeded=False).told == "gave up; retain 2 (discard); pause 2"
    assert play.do("retry").told == "1 commits to 1"
    assert play.committed().told == "release 1 (discard); 2 commits to 2"
    assert play.committed().told == "release 2 (discard)"


def test_a_stuck_commit_that_comes_back_is_what_the_others_waited_for() -> None:
    """G8"""
    play = retained_stuck().begin("t").built(2).end(discard=True)
    assert play.told == "over t; retain 2 (discard)"
    assert play.committed().told == "release 1 (discard); 2 commits to 2"


def test_a_stuck_commit_that_comes_back_failed_is_tried_again_after_a_pause() -> None:
    """G9"""
    play = retained_stuck().committed(succeeded=False)
    assert play.told == "gave up; pause 2"
    assert play.do("retry").told == "1 commits to 1"


def test_a_flush_goes_through_all_segments_and_stops_at_a_failure() -> None:
    """G5"""
    play = retained_beside().begin("t").end()
    assert play.do("flush").told == "1 commits to 1"
    assert play.committed().told == "release 1 (discard); 2 commits to 2"
    assert play.committed(succeeded=False).told == "gave up"
    assert play.stage.flush_to == 0
    assert play.do("flush").told == "2 commits to 2"


def test_turns_that_nobody_completed_are_the_agents_that_is_offered() -> None:
    """G6"""
    play = orphan().do("flush")
    assert play.told == "gave up"
    assert play.do("offer", 7).do("flush").told == "7 commits to 1"
    assert play.committed(succeeded=False).told == "gave up"
    assert play.do("offer", 8).do("flush").told == "7 commits to 1"


def test_turns_that_nobody_completed_are_the_agents_that_is_there() -> None:
    """G6"""
    assert idle().do("complete_elsewhere", None).do("flush").told == "1 commits to 1"


def test_a_session_is_not_forgotten_while_an_agent_from_elsewhere_commits() -> None:
    """G6"""
    play = Play().do("complete_elsewhere", 7).do("drain").do("resources_closed", 0)
    assert (play.stage.busy, play.stage.blank) == (True, False)
    play.committed()
    assert (play.stage.busy, play.stage.blank) == (False, True)


def test_an_agent_that_came_and_went_leaves_no_trace() -> None:
    """C9"""
    play = tearing()
    assert play.do("torn_down", 1).told == ""
    assert play.stage.blank


def test_a_session_that_ended_is_forgotten_when_its_resources_are_closed() -> None:
    """C9"""
    play = idle().close().do("torn_down", 1).do("resources_closed", 0)
    assert play.stage.blank


def test_a_failed_session_takes_turns_again_after_it_was_ended() -> None:
    play = failed().close()
    assert play.begin("new").told == "build 2 for new"


def test_a_drain_in_a_turn_commits_what_that_completes() -> None:
    """D1"""
    play = draining_turn().end()
    assert play.stage.flush_to == 1
    assert play.told == "over t; end life 0; 1 commits to 2"
    assert play.committed().told == "close 1 (shutdown)"
    assert play.do("torn_down", 1).told == "resources 0"
    assert play.do("resources_closed", 0).told == "life 0 over (shutdown)"
    assert play.stage.blank


def test_who_is_being_torn_down_is_not_torn_down_again_when_the_rest_is_abandoned() -> None:
    """S2"""
    play = retained_beside().do("drain")
    assert play.told == "close 2 (shutdown); end life 0; 1 commits to 1"
    assert torn(play.do("abandon").did) == [1]


def test_a_forced_turn_that_is_given_back_later_changes_nothing() -> None:
    """T8"""
    play = draining_turn().do("force")
    assert play.end().did is None
    assert play.stage.generations.generation == 1


# One for each bug that there was.


def test_a_drain_asks_no_agent_to_commit_that_it_has_torn_down() -> None:
    """D1: its commit failed, it was closed; then the turn of the next agent ends."""
    play = building_the_next().built(2).do("drain")
    assert torn(play.committed(succeeded=False).did) == [1]
    assert 1 not in owners(play.end("w").did)


def test_a_commit_that_comes_back_after_it_was_abandoned_begins_no_other() -> None:
    """D2: the owner of the next segment is torn down as well."""
    play = building_the_next().built(2).end("w").do("drain").do("abandon")
    assert owners(play.committed().did) == []


def test_a_stuck_commit_that_comes_back_in_a_drain_begins_none_of_who_is_torn_down() -> None:
    """D2: what was completed meanwhile has the same owner, which is closed already."""
    play = stuck().begin("t").end().do("drain")
    assert "close 1" in play.told
    assert owners(play.committed().did) == []


def test_turns_that_nobody_completed_are_not_given_to_who_is_being_torn_down() -> None:
    """G6"""
    play = idle().do("complete_elsewhere", None).release()
    assert play.told == "yes; release 1 (idle)"
    assert play.do("flush").told == "gave up"


def test_a_drain_gives_turns_that_nobody_completed_to_nobody_who_is_torn_down() -> None:
    """G6, D1"""
    play = idle().do("complete_elsewhere", None).do("drain")
    assert not set(owners(play.did)) & set(torn(play.did))


def test_turns_that_nobody_completed_are_not_given_to_an_agent_in_a_turn() -> None:
    """G6: a commit must not see half a turn."""
    play = turn().do("complete_elsewhere", None).do("flush")
    assert owners(play.did) == []
    assert owners(play.end(completed=False).did) == [1]


def test_nor_does_a_drain_give_them_to_an_agent_in_a_turn_or_torn_down_after_it() -> None:
    """G6, D1"""
    play = turn().do("complete_elsewhere", None).do("drain")
    assert owners(play.did) == []
    play.end(completed=False)
    assert not set(owners(play.did)) & set(torn(play.did))


def test_whoever_waits_for_a_commit_hears_if_nobody_can_go_on_with_it() -> None:
    """G6: the first segment is committed, and for the second there is nobody."""
    play = Play().do("complete_elsewhere", 7).do("complete_elsewhere", None)
    assert play.do("flush").told == "7 commits to 1"
    assert play.committed().told == "gave up"


def test_while_a_commit_is_stuck_a_retry_changes_nothing() -> None:
    """G8: a session whose commit hangs would look busy for ever, and settle() would wait for it."""
    play = retained().do("flush").do("commit_stuck").do("retry")
    assert (play.stage.busy, play.stage.retained) == (False, 1)


def test_resources_that_are_closed_twice_count_once() -> None:
    """S2: given up after their time, and closed late, while those of the next session are."""
    play = resources().do("resources_closed", 0).close()
    assert play.do("resources_closed", 0).told == ""
    assert play.stage.busy


def test_a_release_behind_a_stuck_commit_is_retained_and_counted() -> None:
    """G9"""
    play = stuck().release()
    assert play.told == "yes; retain 1 (idle)"
    assert play.stage.retained == 1


def test_whoever_waits_for_a_commit_hears_that_it_is_abandoned() -> None:
    """D2"""
    play = flushing().do("drain").do("abandon")
    assert "gave up" in play.told


def test_a_commit_that_is_put_off_after_its_time_leaves_nobody_retained_for_ever() -> None:
    """G9: agent 2 took turns without an owner, leaver 1 waits behind it; a turn began meanwhile."""
    play = orphan().begin("t").built(1).end().do("adopt", "b")
    assert play.told == "number 2; insert 2 (explicit); 2 commits to 1"
    assert play.do("commit_stuck").told == "gave up; retain 1 (explicit)"
    assert play.begin("new", "b").do("start_commit").told == "not now"
    assert owners(play.end("new").did) == [2]
