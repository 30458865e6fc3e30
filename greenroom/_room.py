"""The room: what a gateway embeds.

It has two parts: a `Line` to its actors, which asks them, and an `Ending`, which drains and closes.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import pykka

from greenroom._ending import Ending
from greenroom._explanation import Explanation, explain
from greenroom._line import Line, check_key
from greenroom._spec import AgentSpec, signature_of
from greenroom._stores import open_store
from greenroom._turn import Turn
from greenroom.actors import AgentHooks, NotSettled, Policy, RoomClosed, RoomContext, Runtime, Settings
from greenroom.actors.ledger.bookkeeping import Bookkeeping, check_durability, check_names
from greenroom.actors.runtime._calls import check_function, check_wait, is_async
from greenroom.actors.runtime._loops import running_loop
from greenroom.actors.session.card import cached_keys
from greenroom.actors.session.holding import held_around
from greenroom.messages import (
    AdoptAgent,
    CloseSession,
    CommitOutcome,
    CommitSession,
    Configure,
    CountAgents,
    DescribeSession,
    DrainReport,
    EvictAgent,
    Listen,
    Reason,
    RoomStats,
    SessionRow,
    SettleRoom,
    StopListening,
    SweepRoom,
    UseSettings,
)
from greenroom.supervisor import RootSupervisor, resident

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from greenroom._proxies import SessionProxy, SupervisorProxy
    from greenroom.messages import Event

__all__ = ["Greenroom"]


class Greenroom:
    """Keeps the live agents of a gateway: one actor a session, a bounded number of agents in memory.

        room = Greenroom(build, policy=Policy(cap=128, idle_ttl=3600.0))

        with room.turn("telegram:12345", spec) as turn:          # in a thread
            reply = turn.agent.run(text)

        async with room.turn("telegram:12345", spec) as turn:    # on an event loop
            reply = await turn.agent.arun(text)

    `build(context)` makes an agent, sync or async. Leaving the room (`with`, `async with`, or `close()`)
    drains it: what is uncommitted is committed, and every agent is closed.
    """

    def __init__(
        self,
        build: Callable[[Any], Any],
        *,
        policy: Policy | None = None,
        store: Any = None,
        durability: Literal["full", "normal", "off"] = "full",
        hooks: AgentHooks | None = None,
        prepare: Callable[[Any, Turn], Any] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        """Open a room.

        Args:
            build: makes an agent from a `BuildContext`. May be slow, may raise, may be async.
            policy: the bounds; see `Policy`.
            store: where transcripts and the ledger of completed turns are: a URL
                (`sqlite:///greenroom.db`, `postgresql://…`), which the room opens and closes, or an
                object with the methods of `greenroom.store.Store`. Passed on to `build` as
                `context.store`.
            durability: what a completed turn survives, once its `with` block is left. `full`: the end
                of the process and a power cut. `normal`: the end of the process, by SIGKILL too; a
                power cut may cost the last moments. `off`: neither; the room then only reads the store,
                to see whether others have written, and does not keep two rooms apart.
            hooks: functions in the place of the agents' own methods; see `AgentHooks`.
            prepare: called as `prepare(agent, turn)` before every turn, reused agent or not: for what
                changes from turn to turn, and for flags that the last turn may have left set.
            runtime: where the actors run. One of its own by default, which ends with the room.
        """
        check_function("build", "a function that makes an agent", build)
        check_function("prepare", "a function of an agent and a turn, or None", prepare, True)
        policy = Policy() if policy is None else policy
        if policy.memory_budget is not None and policy.weigh is None:
            resident()  # where the system does not tell, say so now and not at the first insert
        self.runtime = Runtime(name="greenroom") if runtime is None else runtime
        self._prepare = prepare
        own = ExitStack()
        books = _keep_books(store, durability, own)
        if runtime is None:
            own.callback(self.runtime.close, timeout=1.0)
        self._context = RoomContext(self.runtime, build, policy, hooks or AgentHooks(), books)
        root = self.runtime.start(RootSupervisor, self._context, resident)
        self._line = Line(self._context, root.proxy().start_supervisor().get())
        self._ending = Ending(self._context, self._line, root, own)

    def __repr__(self) -> str:
        state = "closed" if self._line.closed else "draining" if self._context.draining else "open"
        return f"<Greenroom, {state}>"

    # Turns.

    def turn(
        self,
        key: str,
        spec: AgentSpec | Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
        on_busy: Literal["wait", "reject"] = "wait",
        timeout: float | None = None,
        ephemeral: bool = False,
    ) -> Turn:
        """Return a turn of a session, to be used with `with` or `async with`.

        Args:
            key: names the chat.
            spec: what the agent is built from. One with another signature than the cached agent's makes
                a new agent. `None`: the one that is there will do, whatever it was built from.
            session_id: names the conversation; the key, by default.
            on_busy: if the session is in a turn, wait for it, or raise `SessionBusy` at once.
            timeout: how many seconds to wait for the session, its build included, before `TurnTimeout`.
            ephemeral: do not count the turn as completed.
        """
        if key.__class__ is not str or not key:
            check_key(key)
        if session_id is None:
            session_id = key
        elif not isinstance(session_id, str) or not session_id:
            msg = f"a session id must be a string that is not empty, or None, not {session_id!r}"
            raise ValueError(msg)
        if on_busy not in ("wait", "reject"):
            msg = f"on_busy must be 'wait' or 'reject', not {on_busy!r}"
            raise ValueError(msg)
        if timeout is not None:
            check_wait("timeout", timeout)
        if self._context.books is not None:
            check_names(key, session_id)
        if self._line.closed:
            raise RoomClosed(self._line.closed, key)
        signature = spec.signature if isinstance(spec, AgentSpec) else signature_of(spec)
        return Turn(self, key, spec, signature, session_id, on_busy, timeout, ephemeral)

    # Commits.

    def commit(self, key: str, *, wait: bool = True, timeout: float | None = None) -> CommitOutcome:
        """Commit what is uncommitted, oldest first, and stop at a failure. True if anything was.

        `wait=False` does not wait for a commit of somebody else's that is in flight, nor for the end of
        a turn, but answers at once. After `timeout` seconds it answers and the commit goes on. A session
        that is in a turn is committed when the turn ends, so that no commit sees half of one.
        """
        check_wait("timeout", timeout)
        request = CommitSession(wait=wait, timeout=timeout, held=held_around())
        outcome = self._line.ask_session(key, request)
        return CommitOutcome(note="there is no such session") if outcome is None else outcome

    def has_uncommitted(self, key: str) -> bool:
        """Tell whether a session has completed turns that are not committed."""
        check_key(key)
        card = self._context.cards.get(key)
        return card is not None and card.dirty

    # What is cached.

    def keys(self) -> tuple[str, ...]:
        """The sessions that have an agent, least recently used first."""
        return cached_keys(self._context.cards)

    def __len__(self) -> int:
        return self._line.ask(CountAgents(), 0)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        card = self._context.cards.get(key) if isinstance(key, str) else None
        return card is not None and card.cached

    def evict(self, key: str) -> bool:
        """Release a session's agent: now, or when its turn ends. True if it has one.

        It is accepted at once and done in the background; `settle()` waits for that. A turn that comes
        while the agent is being committed, and is still whole, calls it off.
        """
        return self._line.ask_session(key, EvictAgent()) or False

    def end(self, key: str, *, interrupt: bool = False) -> bool:
        """End a session: now, or when its turn ends, which `interrupt` asks the agent to hurry up with.
        True if there is such a session.

        It is accepted at once and done in the background. The next turn of the key begins a new session,
        without waiting for that.
        """
        request = CloseSession(interrupt=interrupt, reason=Reason.EXPLICIT)
        return self._line.ask_session(key, request) or False

    def sweep(self) -> int:
        """Release what has been idle for longer than `idle_ttl`, and tell how many."""
        return self._line.ask(SweepRoom(), 0)

    def adopt(
        self,
        key: str,
        agent: Any,
        spec: AgentSpec | Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
    ) -> None:
        """Hand in an agent that was built elsewhere. It counts against the cap; no sweep finds it until
        it was used. Another agent that the session has is released; a session in a turn is busy."""
        if agent is None:
            msg = "adopt() needs an agent, not None"
            raise TypeError(msg)
        if self._context.books is not None:
            check_names(key, session_id or key)
        request = AdoptAgent(
            agent=agent,
            signature=signature_of(spec),
            session_id=session_id or key,
            weight=self._context.weigh(key, agent),
            loop=running_loop(),
        )
        self._line.ask_session(key, request, create=True)

    # Settings.

    def settings(self, key: str) -> Settings:
        """Return a session's settings: a mapping that outlives agents and ends with the session."""
        check_key(key)

        def use(method: str, *args: Any) -> Any:
            return self._line.ask_session(key, UseSettings(method=method, args=args), create=True)

        return Settings(key, use)

    def configure(self, **changes: Any) -> Policy:
        """Change the policy of the running room. It takes effect at once. Returns the new policy."""
        return cast("Policy", self._line.require(Configure(changes=changes)))

    @property
    def store(self) -> Any:
        """The store that the room was given, or has opened. `None`: it has none."""
        return None if self._context.books is None else self._context.books.store

    @property
    def policy(self) -> Policy:
        """The policy as it is now."""
        return self._context.policy

    # What is going on.

    def stats(self) -> RoomStats:
        """Count."""
        return self._ending.stats()

    def snapshot(self) -> tuple[SessionRow, ...]:
        """Return a row for each session, with an agent or without."""
        cards = list(self._context.cards.values())
        asked = [card.ref.ask(DescribeSession(), block=False) for card in cards]
        rows: list[SessionRow] = []
        for future in asked:
            try:
                rows.append(future.get())
            except pykka.ActorDeadError:
                pass  # it ended meanwhile
        return tuple(rows)

    def explain(self, key: str) -> Explanation:
        """Say why a session is live or not, what keeps it, and what is uncommitted."""
        row, books = self._line.ask_session(key, DescribeSession()), self._context.books
        return explain(
            key,
            row,
            cached=self.keys(),
            policy=self.policy,
            draining=self._context.draining,
            owner=None if books is None else books.owner,
            stored=() if books is None else books.held_for(key),
        )

    def events(self, callback: Callable[[Event], Any], *, hits: bool = True) -> Callable[[], None]:
        """Call back with every event from now on, in order, on a thread of its own. Returns a function
        that ends it. A slow or failing callback delays nobody.

        Nearly all events are turns that found their agent. With `hits=False` these are left out, and
        warm turns pay nothing for the listener."""
        check_function("the callback", "a function of an event", callback)
        if is_async(callback):
            msg = "events() needs a plain function: have it hand the event to your loop"
            raise TypeError(msg)
        number = self._line.require(Listen(callback=callback, hits=hits))

        def stop() -> None:
            self._line.ask(StopListening(number=number), None)

        return stop

    def settle(self, timeout: float | None = 5.0) -> bool:
        """Wait until no build, commit, release or close is under way, or raise `NotSettled`.

        Turns in progress and pauses between tries of a commit do not count."""
        try:
            return self._line.ask(SettleRoom(), True, timeout=timeout)
        except pykka.Timeout:
            busy = [row.key for row in self.snapshot() if row.busy]
            msg = f"after {timeout} s something is still under way in these sessions: {busy[:10]}"
            raise NotSettled(msg) from None

    # The actors themselves.

    @property
    def supervisor(self) -> SupervisorProxy:
        """The cache supervisor, as a typed pykka proxy."""
        return cast("SupervisorProxy", self._line.supervisor.proxy())

    def session(self, key: str) -> SessionProxy:
        """A session's actor, as a typed pykka proxy: `await room.session(key).commit()`.

        It is started if need be. An actor that ends (its session was ended, or there is nothing to
        remember about it) answers with `ActorDeadError` afterwards: get the proxy again.
        """
        check_key(key)
        session = self._line.find(key)
        if session is None or not session.is_alive():
            session = self._line.open(key)
        return cast("SessionProxy", session.proxy())

    # The end.

    def drain(self, deadline: float = 30.0) -> DrainReport:
        """Begin no turn any more; let running turns and commits end, until `deadline` seconds from now;
        commit what is uncommitted; close every agent. Returns within a second of the deadline."""
        return self._ending.drain(deadline)

    def close(self, deadline: float = 30.0) -> DrainReport:
        """Drain the room, and end its actors and threads. Closing twice is fine."""
        report = self.drain(deadline)
        self._ending.shut()
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # On another thread: a drain of very many sessions takes its time, which is not the loop's.
        await asyncio.get_running_loop().run_in_executor(None, self.close)


def _keep_books(store: Any, durability: str, own: ExitStack) -> Bookkeeping | None:
    """The books of a room with a store. A store that is opened for them is closed by `own`."""
    check_durability(durability)
    if store is None:
        return None
    if isinstance(store, str):
        store = open_store(store, durability=durability)
        own.callback(store.close)
    return Bookkeeping(store, durability=durability)
