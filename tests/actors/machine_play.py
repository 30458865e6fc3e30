"""A machine to play with: the situations that a session can be in, what can happen, and both in words.

"t" is the turn that has or had the place, "w" the one behind it. The session id is "s", under epoch 1,
unless told otherwise; "r" is another one of the same key.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from greenroom.actors.session.generations import Generations, Segment
from greenroom.actors.session.machine import SessionMachine
from greenroom.actors.session.machine.data import Departure, Ended, RareData
from greenroom.actors.session.machine.effects import (
    Build,
    CloseResources,
    Commit,
    CommitGaveUp,
    EndSession,
    Enter,
    EnterLater,
    Entry,
    Grant,
    Insert,
    Interrupt,
    Pause,
    Record,
    Recorded,
    Refuse,
    Retain,
    SessionOver,
    TearDown,
    TurnOver,
    Warm,
)
from greenroom.actors.session.machine.rare import Rare
from greenroom.messages import BeginTurn, Reason

STRANGER = 99
"""An incarnation, or a session's number, that the machine does not know."""


class Play:
    """A machine, and the turns that it was asked for, by name."""

    def __init__(self, *, has_store: bool = False) -> None:
        self.machine = SessionMachine(has_store=has_store)
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
        self.did = self.machine.begin(self.turn(name, signature, **more), most)
        return self

    def end(self, name: str = "t", *, completed: bool = True, discard: bool = False) -> Play:
        self.did = self.machine.end(self.turn(name), completed=completed, discard=discard)
        return self

    def end_now(self, *, completed: bool, discard: bool = False) -> Play:
        """End the turn that runs; if none does, one that is over."""
        turn = self.machine.turn or self.turn("nobody")
        self.did = self.machine.end(turn, completed=completed, discard=discard)
        return self

    def built(self, incarnation: int = 1, *, succeeded: bool = True) -> Play:
        self.did = self.machine.built(incarnation, succeeded=succeeded)
        return self

    def committed(self, *, succeeded: bool = True) -> Play:
        self.did = self.machine.committed(succeeded=succeeded)
        return self

    def close(self, *, interrupt: bool = False, conversation: str | None = None) -> Play:
        self.did = self.machine.close(Reason.EXPLICIT, interrupt=interrupt, conversation=conversation)
        return self

    def renewed(self, conversation: str) -> Play:
        self.did = self.machine.renewed(conversation)
        return self

    def release(self) -> Play:
        effects = self.machine.release(Reason.IDLE)
        self.did = ["not now"] if effects is None else ["go", *effects]
        return self

    def start_commit(self) -> Play:
        effects = self.machine.start_commit()
        self.did = ["go"] if effects is None else ["not now", *effects]
        return self

    # With a store.

    def begin_at_once(self, name: str, signature: str | None = "a") -> Play:
        """The store need not be asked."""
        self.did = self.machine.begin(self.turn(name, signature), 16, entered=True)
        return self

    def end_at_once(self) -> Play:
        """The store need not be told."""
        turn = self.machine.turn or self.turn("nobody")
        self.did = self.machine.end(turn, completed=True, discard=False, recorded=True)
        return self

    def entered(self, verdict: Entry = Entry.FRESH) -> Play:
        self.did = self.machine.entered(verdict)
        return self

    def recorded(self, outcome: Recorded = Recorded.DONE, epoch: int = 1) -> Play:
        """The store has answered; its generations of "s" are as many as the machine has."""
        self.did = self.machine.recorded(outcome, "s", self.machine.generations.generation + 1, epoch)
        return self

    def resume(self, session_id: str = "r", *, generation: int = 2, intended: int = 0) -> Play:
        self.machine.resume(session_id, 1, generation=generation, committed=0, intended=intended)
        self.did = None
        return self

    def recover(self, session_id: str = "r") -> Play:
        self.did = [f"recovery agent {self.machine.recover(session_id)}"]
        return self

    def given_up(self, incarnation: int) -> Play:
        """A build has had its time, and may still come back."""
        self.did = self.machine.built(incarnation, succeeded=False, returned=False)
        return self

    def do(self, name: str, *args: Any) -> Play:
        """Any other input, by its name."""
        self.did = getattr(self.machine, name)(*args)
        return self

    @property
    def told(self) -> str:
        return tell(self.did)


def snapshot(value: Any) -> Any:
    """Everything that a machine knows, in a form that can be compared later."""
    if isinstance(value, (SessionMachine, Departure, Ended, Segment)):
        names = {field.name for field in fields(value)} - {"rare"}
        rare = {name for name, field in vars(RareData).items() if isinstance(field, Rare)}
        names |= rare if isinstance(value, SessionMachine) else set()
        return {name: snapshot(getattr(value, name)) for name in names}
    if isinstance(value, Generations):
        return {name: snapshot(getattr(value, name)) for name in Generations.__slots__}
    return [snapshot(item) for item in value] if isinstance(value, tuple) else value


def segments(play: Play) -> str:
    """The uncommitted turns: whose they are, up to which generation, and of which session id."""
    return ",".join(
        f"{segment.owner or 'nobody'}..{segment.last}/{segment.session_id}{segment.token}"
        f"@{segment.epoch}{'!' if segment.begun else ''}"
        for segment in play.machine.generations.segments
    )


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


def building_for_nobody() -> Play:
    play = building()
    return play.do("withdraw", play.turn("t"))


def building_and_evict() -> Play:
    return building().do("evict")


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


def turn_and_evict() -> Play:
    return turn().do("evict")


def turn_and_close() -> Play:
    return turn().close()


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
    """A departure."""
    return _without(turn().end(discard=True), "t")


def closing() -> Play:
    """A departure of a session that has ended."""
    return dirty().close()


def retained() -> Play:
    return committing().committed(succeeded=False)


def retained_beside() -> Play:
    """A retained departure, and the next agent idle."""
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


def draining_commit() -> Play:
    return dirty().do("drain")


def drained() -> Play:
    return Play().do("drain").do("resources_closed", 0)


def _without(play: Play, name: str) -> Play:
    """Another turn may have that name from now on."""
    play.turns["over"] = play.turns.pop(name)
    return play


# What is to be done, in words.


def tell(did: Any) -> str:
    """What is to be done, in words."""
    if did is None:
        return "none"
    if isinstance(did, Warm):
        return did.name.lower()
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
        case EndSession(number=number):
            return f"end session {number}"
        case CloseResources(number=number):
            return f"resources {number}"
        case SessionOver(number=number, reason=reason):
            return f"session {number} over{_because(reason)}"
        case _:
            raise AssertionError(effect)


def _because(reason: Reason | None) -> str:
    return "" if reason is None else f" ({reason})"
