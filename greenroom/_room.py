"""The room: what a gateway embeds.

It has two parts: a `Line` to its actors, which asks them, and an `Ending`, which drains and closes.
"""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, cast

import pykka

from greenroom._ending import Ending
from greenroom._explanation import Explanation, explain
from greenroom._line import FORKED, Line, check_key
from greenroom._shutdown import Shutdown
from greenroom._spec import AgentSpec, signature_of
from greenroom._stores import open_store
from greenroom._turn import Turn
from greenroom.actors import (
    AgentHooks,
    Future,
    NotSettled,
    Policy,
    RoomClosed,
    RoomContext,
    Runtime,
    Settings,
)
from greenroom.actors.ledger.bookkeeping import Bookkeeping, check_durability, check_names
from greenroom.actors.runtime._calls import check_function, check_wait, is_async
from greenroom.actors.runtime._loops import running_loop
from greenroom.actors.runtime._threads import OwnThread
from greenroom.actors.session.card import cached_keys
from greenroom.actors.session.holding import held_around, names_of
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
    InterruptTurn,
    Listen,
    Reason,
    RenewSession,
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

T = TypeVar("T")


class Greenroom:
    """Keeps the live agents of a gateway: one actor for each session, and a bounded number of agents.

        async with Greenroom(build, policy=Policy(cap=128, idle_ttl=3600.0)) as room:
            async with room.turn("telegram:12345", spec) as turn:
                reply = await turn.agent.arun(text)

        with Greenroom(build) as room:                           # the same, in threads
            with room.turn("telegram:12345", spec) as turn:
                reply = turn.agent.run(text)

    `build(context)` makes an agent; it may be sync or async. The room caches the agent for the next turn
    of the same key, and releases agents that are idle or beyond the cap, never one that is in a turn.

    Leaving the room (`async with`, `with`, `await aclose()` or `close()`) drains it: running turns may
    finish, uncommitted turns are committed, and every agent is closed. A room that is dropped, or still
    open when the interpreter exits, warns (`ResourceWarning`, and a line in the log) and is closed in a
    few seconds, as far as that goes.

    All methods may be called from any thread. `commit()`, `renew()`, `settle()`, `drain()` and `close()`
    may block for long: on an event loop, call `aclose()`, and for the others await the proxies
    (`session()`, `supervisor`).
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
            build: makes an agent from a `BuildContext`. It may be slow, may raise and may be async.
            policy: the bounds and timeouts; see `Policy`.
            store: holds transcripts and the ledger of completed turns. Either a URL
                (`sqlite:///greenroom.db`, `postgresql://…`), which the room opens and closes, or an
                object with the methods of `greenroom.store.Store`. `build` finds it in
                `context.store`.
            durability: what a completed turn survives once its `with` block has been left.
                `full`: a killed process and a power cut. `normal`: a killed process; a power cut may
                lose the last moments. `off`: neither. With `off` the room only reads the store, to
                notice other writers, and does not keep two rooms from using the same session.
            hooks: functions to call instead of the agents' own methods; see `AgentHooks`.
            prepare: called as `prepare(agent, turn)` at the start of every turn, with a new agent or a
                reused one. Use it for what changes from turn to turn (callbacks, reasoning effort) and
                to reset flags that the last turn may have left.
            runtime: runs the actors. By default the room starts its own, and closes it in the end.
        """
        check_function("build", "a function that makes an agent", build)
        check_function("prepare", "a function of an agent and a turn, or None", prepare, True)
        hooks = _check_kind("hooks", hooks, AgentHooks, "commit=…, close=…")
        policy = _check_kind("policy", policy, Policy, "cap=…, idle_ttl=…")
        if policy.memory_budget is not None and policy.weigh is None:
            resident()  # where the system does not tell, say so now and not at the first insert
        self.runtime = Runtime(name="greenroom") if runtime is None else runtime
        self._prepare = prepare
        own, root = ExitStack(), None
        try:
            self._books = _keep_books(store, durability, own)
            if runtime is None:
                own.callback(self.runtime.close, timeout=1.0)
            self._context = RoomContext(self.runtime, build, policy, hooks, self._books)
            root = self.runtime.start(RootSupervisor, self._context, resident)
            self._line = Line(self._context, root.proxy().start_supervisor().get())
            self._ending = Ending(self._context, self._line, root, own)
        except BaseException:
            if root is not None:
                root.stop(block=False)
            own.close()
            raise

    def __del__(self) -> None:
        ending = getattr(self, "_ending", None)
        if ending is not None:  # else it was never opened
            ending.dropped(self)

    def __repr__(self) -> str:
        state = "closed" if self._line.closed else "draining" if self._context.draining else "open"
        return f"<Greenroom, {'its parent process has it' if self._line.closed == FORKED else state}>"

    def __reduce__(self) -> NoReturn:
        msg = (
            "a room cannot be pickled or copied: open one in each process, on the same store if need be"
        )
        raise TypeError(msg)

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
        given: Any = None,
        provisional: bool = False,
    ) -> Turn:
        """Return a turn of a session. Use it with `with` or `async with`; inside, it has the agent.

        Args:
            key: names the chat. Each key has one session, and a session has one turn at a time.
            spec: what to build the agent from. If the cached agent has another signature, it is
                released and a new one is built. `None` accepts any cached agent.
            session_id: names the conversation. `None` is the key's current one: the key itself, until
                `renew()`.
            on_busy: what to do if the session is in a turn: wait, or raise `SessionBusy` at once.
            timeout: how many seconds to wait for the turn to begin, the build included. Then
                `TurnTimeout` is raised.
            ephemeral: do not count the turn as completed.
            given: reaches `build` as `context.given` if this turn needs a new agent. It is no part of
                the signature. Use it for what only a new agent needs, such as the history of the chat.
            provisional: if this is the session's first turn, the session is the first to leave when
                agents have to go, until its second turn. Use it for chats that may never come back.
        """
        if not isinstance(key, str) or not key:
            check_key(key)
        if session_id is not None and (not isinstance(session_id, str) or not session_id):
            msg = f"a session id must be a string that is not empty, or None, not {session_id!r}"
            raise ValueError(msg)
        if on_busy not in ("wait", "reject"):
            msg = f"on_busy must be 'wait' or 'reject', not {on_busy!r}"
            raise ValueError(msg)
        if timeout is not None:
            check_wait("timeout", timeout)
        if self._books is not None:
            check_names(key, session_id or key)
        if self._line.closed:
            raise RoomClosed(self._line.closed, key)
        signature = spec._signature if isinstance(spec, AgentSpec) else signature_of(spec)
        return Turn(
            self, key, spec, signature, session_id, on_busy, timeout, ephemeral, given, provisional
        )

    # Commits.

    def commit(self, key: str, *, wait: bool = True, timeout: float | None = None) -> CommitOutcome:
        """Commit the completed turns of a session that are uncommitted, oldest first.

        It stops at the first failure. The result is true if anything was committed, and its `note` says
        why nothing was. A session that is in a turn is committed when the turn ends, so that no commit
        sees half a turn. Inside a turn of the same session the call therefore returns at once, and the
        commit follows.

        Args:
            key: names the session.
            wait: wait for the running turn, or for a commit that another caller started. With
                `wait=False` the call returns at once in these two cases; it still waits for a commit
                that it starts itself.
            timeout: return after this many seconds. The commit goes on.
        """
        check_wait("timeout", timeout)
        request = CommitSession(wait=wait, timeout=timeout, held=names_of(held_around()))
        outcome = self._line.ask_session(key, request)
        return CommitOutcome(note="there is no such session") if outcome is None else outcome

    def has_uncommitted(self, key: str) -> bool:
        """Return whether a session has completed turns that are not committed."""
        check_key(key)
        card = self._context.cards.get(key)
        return card is not None and card.dirty

    # What is cached.

    def keys(self) -> tuple[str, ...]:
        """Return the keys of the sessions that have an agent, least recently used first."""
        return cached_keys(self._context.cards)

    def __len__(self) -> int:
        """Return how many agents are cached."""
        return self._line.ask(CountAgents(), 0)

    def __bool__(self) -> bool:
        """A room is true, also when it has no agent."""
        return True

    def __contains__(self, key: object) -> bool:
        """Return whether a session has a cached agent."""
        card = self._context.cards.get(key) if isinstance(key, str) else None
        return card is not None and card.cached

    def evict(self, key: str) -> bool:
        """Release a session's agent: now, or when its turn ends. Returns whether it has one.

        The call returns at once, and the agent is released in the background; `settle()` waits for that.
        A turn that arrives while the agent is still being committed cancels the release, and gets this
        agent. To make sure of a new agent, call `turn.discard()`.
        """
        return self._line.ask_session(key, EvictAgent()) or False

    def interrupt(self, key: str) -> bool:
        """Call the `interrupt()` of the agent that is in a turn. Returns whether there is such a turn.

        The call returns at once; the turn ends when its agent has noticed. It may have ended meanwhile,
        and the next one begun: `prepare` is the place to clear what a late interrupt has left.
        """
        return self._line.ask_session(key, InterruptTurn()) or False

    def end(self, key: str, *, interrupt: bool = False) -> bool:
        """End a session: now, or when its turn ends. Returns whether there is such a session.

        Uncommitted turns are committed, the agent and the session's resources are closed, and its
        settings are dropped. The call returns at once, and this happens in the background. The next turn
        of the key begins a new session, without waiting for it. Its session id is the same, so that its
        agent finds the same transcript: for a new conversation, call `renew()`. `interrupt=True` calls
        the agent's `interrupt()`, so that a running turn ends sooner.
        """
        request = CloseSession(interrupt=interrupt, reason=Reason.EXPLICIT)
        return self._line.ask_session(key, request) or False

    def renew(self, key: str) -> str:
        """End a key's conversation and begin another one, as for `/new`. Returns its session id.

        The session ends as with `end()`: now, or when its turn ends. From then on, turns that name no
        session id belong to the new conversation. With a store, the old session id is ended there, and
        the new one is remembered for all rooms before the call returns. If the store cannot be reached,
        `StoreAway` is raised. Without a store, the room remembers it until the session ends.
        """
        return cast("str", self._line.ask_session(key, RenewSession(), create=True))

    def sweep(self) -> int:
        """Release the agents that have been idle for longer than `idle_ttl`. Returns how many.

        The room does this by itself every `sweep_every` seconds.
        """
        return self._line.ask(SweepRoom(), 0)

    def adopt(
        self,
        key: str,
        agent: Any,
        spec: AgentSpec | Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
    ) -> None:
        """Give a session an agent that was built elsewhere.

        It counts against the cap, but is not swept as idle before its first turn. If the session has
        another agent, that one is released. Raises `SessionBusy` if the session is in a turn, or its
        agent is being built.
        """
        if agent is None:
            msg = "adopt() needs an agent, not None"
            raise TypeError(msg)
        if self._books is not None:
            check_names(key, session_id or key)
        request = AdoptAgent(
            agent=agent,
            signature=signature_of(spec),
            session_id=session_id,
            weight=self._context.weigh(key, agent),
            loop=running_loop(),
        )
        self._line.ask_session(key, request, create=True)

    # Settings.

    def settings(self, key: str) -> Settings:
        """Return a session's settings: a mapping that outlives its agents and ends with the session."""
        check_key(key)

        def use(method: str, *args: Any) -> Any:
            return self._line.ask_session(key, UseSettings(method=method, args=args), create=True)

        return Settings(key, use)

    def configure(self, **changes: Any) -> Policy:
        """Change figures of the policy, such as `cap=64`, at once. Returns the new policy."""
        return cast("Policy", self._line.require(Configure(changes=changes)))

    @property
    def store(self) -> Any:
        """The store that the room was given, or has opened. `None` if it has none."""
        return None if self._books is None else self._books.store

    @property
    def policy(self) -> Policy:
        """The current policy."""
        return self._context.policy

    # What is going on.

    def stats(self) -> RoomStats:
        """Return the room's counters. Those of a closed room are the last ones."""
        return self._ending.stats()

    def snapshot(self) -> tuple[SessionRow, ...]:
        """Return a row for each session that the room knows, with an agent or without."""
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
        """Explain why a session is live or not, what keeps it, and what is uncommitted.

        `print(room.explain(key))` shows sentences for people; `.session` has the figures.
        """
        row, books = self._line.ask_session(key, DescribeSession()), self._books
        return explain(
            key,
            row,
            cached=self.keys(),
            policy=self.policy,
            draining=self._context.draining or bool(self._line.closed),
            owner=None if books is None else books.owner,
            stored=() if books is None else books.held_for(key),
        )

    def events(self, callback: Callable[[Event], Any], *, hits: bool = True) -> Callable[[], None]:
        """Call `callback(event)` for every event from now on. Returns a function that stops this.

        Events come in order, on a thread of their own: a slow or failing callback delays nobody. Most of
        them are cache hits, turns that found their agent. `hits=False` leaves these out, and then a
        listener does not slow down warm turns.
        """
        check_function("the callback", "a function of an event", callback)
        if is_async(callback):
            msg = "events() needs a plain function: have it hand the event to your loop"
            raise TypeError(msg)
        number = self._line.require(Listen(callback=callback, hits=hits))

        def stop() -> None:
            self._line.ask(StopListening(number=number), None)

        return stop

    def settle(self, timeout: float | None = 5.0) -> bool:
        """Wait until no build, commit, release or close is under way. Raises `NotSettled` on timeout.

        It does not wait for running turns, nor for the pause before a failed commit is retried.
        """
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
        """Return a session's actor as a typed pykka proxy: `await room.session(key).commit()`.

        The actor is started if there is none. It stops when its session is ended, or when there is
        nothing left to remember about it. Its proxy then raises `ActorDeadError`: get another one.
        """
        check_key(key)
        session = self._line.find(key)
        if session is None or not session.is_alive():
            session = self._line.open(key)
        return cast("SessionProxy", session.proxy())

    # The end.

    def drain(self, deadline: float = 30.0) -> DrainReport:
        """Refuse new turns, let running turns and commits finish, commit the rest, close every agent.

        Running turns have `deadline` seconds to finish. The call returns at most one second after that,
        whatever hangs, with a report of the sessions that were committed, failed or abandoned. Another
        call returns the same report.
        """
        return self._ending.drain(deadline)

    def close(self, deadline: float = 30.0) -> DrainReport:
        """Drain the room, then stop its actors and threads. Closing twice is fine.

        In a forked child this does nothing: the room belongs to the parent process.
        """
        if self._line.closed == FORKED:
            return DrainReport()
        report = self.drain(deadline)
        self._ending.shut()
        return report

    async def aclose(self, deadline: float = 30.0) -> DrainReport:
        """Drain the room, then stop its actors and threads, without blocking the event loop."""
        if self._line.closed == FORKED:
            return DrainReport()  # the loop's threads are the parent's, too
        self._ending.check_caller()
        # On another thread: a drain of very many sessions takes its time, which is not the loop's. Not
        # on one of the loop's own, which stuck agents may hold. The context has the caller's turns.
        report: Future[DrainReport] = Future()

        def close() -> None:
            try:
                report.set(self.close(deadline))
            except BaseException as error:
                report.set_exception(error)

        OwnThread(copy_context().run, close, name=f"{self.runtime.name}-aclose").start()
        return await report

    def shutdown_on(self, *signals: int, deadline: float = 30.0) -> Shutdown:
        """End on signals, by default SIGTERM and SIGINT, without an exception in the middle of anything.

            async with Greenroom(build) as room, room.shutdown_on():
                await serve(room)

        The first signal starts a drain: no turn begins any more, and running turns have until the
        deadline, in seconds. Then the handler that was there before is called; if there was none, the
        block is left with `SystemExit(0)`. A second signal does not wait for the drain, and
        ends it. Use it with `with` or `async with`, on the main thread.
        """
        return Shutdown(self, signals, deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _check_kind(name: str, value: T | None, kind: type[T], example: str) -> T:
    """Refuse what only looks alike, such as a mapping. `None` stands for the defaults."""
    if value is not None and not isinstance(value, kind):
        msg = f"{name} must be {kind.__name__}({example}) or None, not of type {type(value).__name__}"
        raise TypeError(msg)
    return kind() if value is None else value


def _keep_books(store: Any, durability: str, own: ExitStack) -> Bookkeeping | None:
    """The books of a room with a store. `own` lets the store go, and closes one that is opened here."""
    check_durability(durability)
    if store is None:
        return None
    if isinstance(store, str):
        store = open_store(store, durability=durability)
        own.callback(store.close)
    books = Bookkeeping(store, durability=durability)
    own.callback(books.let_go)
    return books
