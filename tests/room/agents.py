"""Agents that remember what was done to them, the cast that builds them, and turns that are held."""

from __future__ import annotations

import gc
import inspect
import itertools
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

from greenroom import AgentSpec, Greenroom, Policy
from greenroom.actors import ManualClock, Runtime
from tests.actors.actors import PATIENCE, Gate, in_thread

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Iterator

    from greenroom import BuildContext, SessionRow, Turn
    from greenroom.actors.runtime._timers import Clock

    Action = Gate | BaseException | Callable[[], object]

SPEC = AgentSpec(model="model-1")
OTHER = AgentSpec(model="model-2")


class Agent:
    """An agent with every hook. Its name is its key and its number there: the second one of `a` is
    `a/2`. Each hook is noted in the cast's log, and then does what the cast has planned for it."""

    def __init__(self, cast: Cast, key: str, name: str, context: BuildContext | None = None) -> None:
        self.cast = cast
        self.key = key
        self.name = name
        self.session_id = None if context is None else context.session_id
        self.spec = None if context is None else context.spec
        self.weight = 100
        self.interrupted = False
        self._session_messages: list[str] = []

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

    @property
    def transcript(self) -> list[str]:
        return self._session_messages

    def run(self, text: str) -> str:
        """Answer, as an agent does: not if it was interrupted."""
        if self.interrupted:
            raise InterruptedError(self.name)
        self._session_messages.append(text)
        return f"{self.name}: {text}"

    def commit_memory_session(self) -> Any:
        return self.cast.act("commit", self)

    def release_clients(self) -> Any:
        return self.cast.act("release", self)

    def close(self) -> Any:
        return self.cast.act("close", self)

    def shutdown_memory_provider(self) -> Any:
        return self.cast.act("shutdown", self)

    def interrupt(self) -> Any:
        self.interrupted = True
        return self.cast.act("interrupt", self)


class AsyncAgent(Agent):
    """The same with async hooks. What is planned for one may be async too."""

    async def commit_memory_session(self) -> None:
        await _awaited(self.cast.act("commit", self))

    async def release_clients(self) -> None:
        await _awaited(self.cast.act("release", self))

    async def close(self) -> None:
        await _awaited(self.cast.act("close", self))

    async def shutdown_memory_provider(self) -> None:
        await _awaited(self.cast.act("shutdown", self))

    async def interrupt(self) -> None:
        self.interrupted = True
        await _awaited(self.cast.act("interrupt", self))


async def _awaited(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


class Cast:
    """Builds agents, remembers in one log what was called on them, and clears up after a test."""

    def __init__(self, kind: type[Agent] = Agent) -> None:
        self.kind = kind
        self.log: list[str] = []
        """`build a/1`, `commit a/1`, …, each when it began, in that order."""
        self.done: list[str] = []
        """The same, each when it had come to an end without raising."""
        self.at: dict[str, Action] = {}
        """What is to happen in a hook: by its name (`commit`), and the key or agent (`commit a`,
        `commit a/2`). A gate is waited at, an exception raised, anything else called."""
        self.agents: list[Agent] = []
        """Those that were built, unless `keep` is off: then nothing here keeps an agent alive."""
        self.keep = True
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
        self._gates: list[Gate] = []
        self._held: list[Held] = []
        self._rooms: list[Greenroom] = []
        self._runtimes: list[Runtime] = []

    # What a room calls.

    def build(self, context: BuildContext) -> Agent:
        name = f"{context.key}/{next(self._numbers[context.key])}"
        agent = self.kind(self, context.key, name, context)
        self.act("build", agent)
        if self.keep:
            self.agents.append(agent)
        return agent

    def act(self, what: str, agent: Agent) -> Any:
        """Note that this is done to an agent, and do what is planned."""
        self.log.append(f"{what} {agent.name}")
        result = self._do(what, agent)
        self.done.append(f"{what} {agent.name}")
        return result

    def _do(self, what: str, agent: Agent) -> Any:
        at = self.at
        named = at.get(f"{what} {agent.name}") or at.get(f"{what} {agent.key}")
        action = named or at.get(what)
        if isinstance(action, Gate):
            return action.wait()
        if isinstance(action, BaseException):
            raise action
        return None if action is None else action()

    # What a test asks.

    def did(self, what: str) -> list[str]:
        """The agents that this was done to, in order: `did("release") == ["a/1"]`."""
        return [name for done, _, name in (entry.partition(" ") for entry in self.log) if done == what]

    def done_to(self, name: str) -> list[str]:
        """What was done to an agent, in order."""
        return [done for done, _, to in (entry.partition(" ") for entry in self.log) if to == name]

    def farewells(self) -> dict[str, int]:
        """How often each agent that was built was released or closed."""
        gone = self.did("release") + self.did("close")
        return {name: gone.count(name) for name in self.did("build")}

    # What a test is given, and what is cleared up after it.

    def gate(self) -> Gate:
        """A gate that is opened when the test is over, at the latest."""
        self._gates.append(Gate())
        return self._gates[-1]

    def room(
        self,
        *,
        build: Callable[[Any], Any] | None = None,
        prepare: Callable[[Any, Turn], Any] | None = None,
        hooks: Any = None,
        store: Any = None,
        clock: Clock | None = None,
        workers: int | None = None,
        **policy: Any,
    ) -> Greenroom:
        """Open a room of this cast: with figures of the policy; on a clock, or with so many workers."""
        runtime = None
        if clock is not None or workers is not None:
            runtime = Runtime(clock=clock, workers=workers or 32)
            self._runtimes.append(runtime)
        room = Greenroom(
            build or self.build,
            policy=Policy(**policy),
            prepare=prepare,
            hooks=hooks,
            store=store,
            runtime=runtime,
        )
        self._rooms.append(room)
        return room

    def hold(self, room: Greenroom, key: str, spec: Any = None, **kwargs: Any) -> Held:
        """Begin a turn on a thread of its own, which has it until `end()`."""
        held = self.start(room, key, spec, **kwargs)
        held.wait_begun()
        return held

    def queue(self, room: Greenroom, key: str, spec: Any = None, **kwargs: Any) -> Held:
        """Ask for a turn on a thread of its own, and come back when it waits for it."""
        before = waiting_for(room, key)
        held = self.start(room, key, spec, **kwargs)
        until(lambda: waiting_for(room, key) == before + 1, f"a turn of {key} that waits")
        return held

    def start(self, room: Greenroom, key: str, spec: Any = None, **kwargs: Any) -> Held:
        """Ask for a turn on a thread of its own, and come back at once."""
        self._held.append(Held(room, key, spec, **kwargs))
        return self._held[-1]

    def finish(self) -> None:
        """Open all gates, end all turns, close all rooms."""
        for gate in self._gates:
            gate.open()
        for held in self._held:
            held.let_go()
        for room in self._rooms:
            closing = in_thread(room.close)
            clock = room.runtime.clock
            deadline = time.monotonic() + PATIENCE
            while closing.is_alive() and time.monotonic() < deadline:
                closing.join(1.0)
                if closing.is_alive() and isinstance(clock, ManualClock):
                    clock.advance(31.0)
            assert not closing.is_alive(), "a room did not close"
        for held in self._held:
            held.outcome()
        for runtime in self._runtimes:
            runtime.close(timeout=1.0)


class Stopwatch:
    """A clock on real time, which stands still until it is started."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __call__(self) -> float:
        return 0.0 if self._began is None else time.monotonic() - self._began

    def start(self) -> None:
        """Begin to run."""
        self._began = time.monotonic()


class Held:
    """A turn on a thread of its own: until `end()`, or while `during(turn)` is called."""

    def __init__(
        self,
        room: Greenroom,
        key: str,
        spec: Any = None,
        *,
        during: Callable[[Turn], object] | None = None,
        **kwargs: Any,
    ) -> None:
        self.turn = room.turn(key, spec, **kwargs)
        self._during = during
        self._begun = threading.Event()
        self._may_end = threading.Event()
        self._error: BaseException | None = None
        self._thread = in_thread(self._run)

    def _run(self) -> None:
        try:
            with self.turn as turn:
                self._begun.set()
                if self._during is not None:
                    self._during(turn)
                else:
                    assert self._may_end.wait(2 * PATIENCE), "nobody ended the turn"
        except BaseException as error:
            self._error = error
        finally:
            self._begun.set()

    def wait_begun(self) -> Self:
        """Wait until it has begun. Raises what kept it from that."""
        assert self._begun.wait(PATIENCE), "the turn did not begin"
        if self._error is not None:
            raise self._error
        return self

    @property
    def begun(self) -> bool:
        """Whether it has begun, or will never."""
        return self._begun.is_set()

    def let_go(self) -> None:
        """Let it end, soon."""
        self._may_end.set()

    def outcome(self) -> BaseException | None:
        """Wait until its thread is through, without letting it go. What was raised, if anything was."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "a turn did not end"
        return self._error

    def end(self) -> None:
        """Let it end, and wait for that. Raises what it raised."""
        self.let_go()
        error = self.outcome()
        if error is not None:
            raise error


def row_of(room: Greenroom, key: str) -> SessionRow:
    """The row of a session in the snapshot."""
    return next(row for row in room.snapshot() if row.key == key)


def waiting_for(room: Greenroom, key: str) -> int:
    """How many turns wait for a session, or for its build."""
    return sum(row.waiting for row in room.snapshot() if row.key == key)


def take_turn(room: Greenroom, key: str, spec: Any = None, **kwargs: Any) -> Agent:
    """Take a turn and complete it. Returns the agent."""
    with room.turn(key, spec, **kwargs) as turn:
        agent: Agent = turn.agent
        agent.run("hello")
    return agent


def touch(room: Greenroom, *keys: str) -> None:
    """Take a turn of each and complete it, keeping no agent."""
    for key in keys:
        with room.turn(key):
            pass


def look_at(room: Greenroom, *keys: str) -> None:
    """Take a turn of each that does not count."""
    for key in keys:
        with room.turn(key, ephemeral=True):
            pass


def until(condition: Callable[[], object], what: str = "what was waited for") -> None:
    """Wait until something is so. It is a wait for a state, not for an order of things."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"it never came to {what}"
        time.sleep(0.001)


def let_pass(room: Greenroom, clock: ManualClock, seconds: float) -> None:
    """Let time pass, and come back when the sessions have heard of it, and the supervisor of them.

    A timer tells a session; if another thread is not through with that session's actor yet, the message
    waits there, and meanwhile a room that is asked whether it has settled would say so."""
    clock.advance(seconds)
    room.snapshot()


def wait_dead(ref: weakref.ref[Any]) -> None:
    """Wait until an object is gone. The worker that called its last hook may be on its way out of it."""

    def dead() -> bool:
        gc.collect()
        return ref() is None

    until(dead, "the end of an agent that nobody refers to")
