"""A stage to play with: the states that it can be in, what can happen, and both in words."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from greenroom.actors._stage_exits import Ending, StageExits
from greenroom.actors.effects import (
    HIT,
    RESTED,
    AnswerRelease,
    Build,
    CloseResources,
    Commit,
    CommitGaveUp,
    EndLife,
    Enter,
    EnterLater,
    Entry,
    Grant,
    Insert,
    Interrupt,
    LifeOver,
    Pause,
    Phase,
    Record,
    Recorded,
    Refuse,
    Retain,
    TearDown,
    TurnOver,
    Wait,
)
from greenroom.actors.lifecycle import Generations, Segment
from greenroom.actors.stage import Leaver, Stage, Wish
from greenroom.messages import BeginTurn, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

STRANGER = 99
"""An incarnation, or a life, that the stage does not know."""


class Play:
    """A stage, and the turns that it was asked for, by name."""

    def __init__(self, *, checked: bool = False) -> None:
        self.stage = Stage(checked=checked)
        self.turns: dict[str, BeginTurn] = {}
        self.did: Any = None
        """What the last input returned."""

    def turn(
        self,
        name: str,
        signature: str | None = "a",
        *,
        reject: bool = False,
        held: tuple[BeginTurn, ...] = (),
        session_id: str = "s",
    ) -> BeginTurn:
        """The turn of that name. Each is held by somebody else, unless told otherwise."""
        if name not in self.turns:
            self.turns[name] = BeginTurn(
                spec=name,
                signature=signature,
                session_id=session_id,
                reject=reject,
                timeout=None,
                held=held,
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

    def start_commit(self) -> Play:
        effects = self.stage.start_commit()
        self.did = ["go"] if effects is None else ["not now", *effects]
        return self

    # With a store.

    def begin_at_once(self, name: str, signature: str | None = "a") -> Play:
        """The store need not be asked."""
        self.did = self.stage.begin(self.turn(name, signature), 16, entered=True)
        return self

    def end_at_once(self) -> Play:
        """The store need not be told."""
        turn = self.stage.turn or self.turn("nobody")
        self.did = self.stage.end(turn, completed=True, discard=False, recorded=True)
        return self

    def entered(self, verdict: Entry = Entry.FRESH) -> Play:
        self.did = self.stage.entered(verdict)
        return self

    def recorded(self, outcome: Recorded = Recorded.DONE, epoch: int = 1) -> Play:
        """The store has answered; its generations of "s" are as many as the stage has."""
        self.did = self.stage.recorded(outcome, "s", self.stage.generations.generation + 1, epoch)
        return self

    def resume(self, session_id: str = "r", *, generation: int = 2, intended: int = 0) -> Play:
        self.stage.resume(session_id, 1, generation=generation, committed=0, intended=intended)
        self.did = None
        return self

    def recover(self, session_id: str = "r") -> Play:
        self.did = [f"rescuer {self.stage.recover(session_id)}"]
        return self

    def given_up(self, incarnation: int) -> Play:
        """A build has had its time, and may still come back."""
        self.did = self.stage.built(incarnation, succeeded=False, returned=False)
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
    "begin, same caller": lambda play: play.begin("new", held=(_current(play),)),
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
    "start commit": lambda play: play.start_commit(),
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
    if isinstance(did, int):
        return f"generation {did}"
    return "; ".join(map(_word, did))


def _word(effect: object) -> str:
    match effect:
        case str():
            return effect
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
        case Enter(turn=turn):
            return f"enter {turn.spec}"
        case EnterLater(tries=tries):
            return f"enter later {tries}"
        case Record(turn=turn, completed=completed):
            return f"record {turn.spec}{'' if completed else ' as not completed'}"
        case Commit(owner=owner, generation=generation, session_id=session_id, epoch=epoch):
            whose = "" if session_id is None else f" of {session_id}@{epoch}"
            return f"{owner} commits to {generation}{whose}"
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
    known = {
        name: _spell(getattr(stage, name)) for name in StageExits.__slots__ if name != "generations"
    }
    if stage.entering:
        known["building"] = "the-store"
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
        case Leaver(reason=reason, close=close, life=life, phase=phase, in_vain=in_vain):
            how = f"{phase.value}/{'close' if close else 'release'}/{reason}/{life}"
            return f"{how}/in-vain" if in_vain else how
        case Wish(reason=reason, close=close):
            return f"{'close' if close else 'release'}/{reason}"
        case Ending(completed=completed, discard=discard):
            return f"{'completed' if completed else 'not-completed'}{'/discard' if discard else ''}"
        case dict():
            return ",".join(f"{number}:{_spell(item)}" for number, item in value.items())
        case deque() | tuple():
            return ",".join(map(_spell, value))
        case frozenset():
            return ",".join(map(str, sorted(value)))
        case Generations():
            raise AssertionError(value)
        case Segment(owner=owner, last=last):
            return f"{owner or 'nobody'}..{last}{_account(value)}"
        case _:
            return "yes" if value is True else str(value)


def _account(segment: Segment) -> str:
    """Of which session id, up to which generation of it, and under which epoch."""
    if segment.session_id is None:
        return ""
    return f"/{segment.session_id}{segment.token}@{segment.epoch}{'!' if segment.begun else ''}"


def outcome(state: str, given: str) -> str:
    """Put a stage into the state, apply the input, and say what it does and what has changed."""
    return what_changes(STATES[state](), INPUTS[given])


def what_changes(play: Play, given: Callable[[Play], Play]) -> str:
    before = picture(play.stage)
    told = given(play).told
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
