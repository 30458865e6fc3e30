"""The room: what a gateway embeds."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import pykka

from greenroom._explanation import Explanation, explain
from greenroom._spec import AgentSpec, signature_of
from greenroom._turn import Turn
from greenroom.actors import (
    AgentHooks,
    Board,
    GreenroomError,
    NotRecorded,
    NotSettled,
    Policy,
    RoomClosed,
    Runtime,
    RuntimeClosed,
    SessionBusy,
    Settings,
)
from greenroom.actors._calls import check_function, check_wait, is_async
from greenroom.actors.bookkeeping import Bookkeeping, check_durability, check_names
from greenroom.actors.holding import held_around, held_here
from greenroom.messages import (
    AdoptAgent,
    BeginTurn,
    CloseSession,
    CommitOutcome,
    CommitSession,
    Configure,
    CountAgents,
    DescribeSession,
    DrainReport,
    DrainRoom,
    EndTurn,
    EvictAgent,
    FlushEvents,
    GetPosition,
    GetStats,
    GiveBackTurn,
    HasAgent,
    Listen,
    ListKeys,
    ListListeners,
    OpenSession,
    Position,
    Reason,
    RoomStats,
    SessionRow,
    SettleRoom,
    StopListening,
    SweepRoom,
    TurnGranted,
    UseSettings,
    WithdrawTurn,
)
from greenroom.supervisor import Keeper, resident

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from greenroom._proxies import SessionProxy, SupervisorProxy
    from greenroom.actors import ActorRef, Future
    from greenroom.actors.session import Session
    from greenroom.messages import Event

__all__ = ["Greenroom"]

logger = logging.getLogger("greenroom")


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
        self._owns_runtime = runtime is None
        self.runtime = Runtime(name="greenroom") if runtime is None else runtime
        self._prepare = prepare
        self._opened_store: Any = None
        books = self._keep_books(store, durability)
        self._board = Board(self.runtime, build, policy, hooks or AgentHooks(), books)
        self._keeper = self.runtime.start(Keeper, self._board, resident)
        self._supervisor: ActorRef[Any] = self._keeper.proxy().start_supervisor().get()
        self._report: DrainReport | None = None
        self._last_stats: RoomStats | None = None
        self._closed = False
        self._forked = False
        self._why_closed = "the room is being drained, or is closed. Open another one"
        _open_rooms.add(self)

    def _keep_books(self, store: Any, durability: str) -> Bookkeeping | None:
        if isinstance(store, str):
            from greenroom.store import open_store  # SQLAlchemy is for those who have a store

            check_durability(durability)
            self._opened_store = store = open_store(store, durability=durability)
        if store is None:
            check_durability(durability)
            return None
        return Bookkeeping(store, durability=durability)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "draining" if self._board.draining else "open"
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
        if not isinstance(key, str) or not key:
            raise ValueError(_bad_key(key))
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
        if self._board.books is not None:
            check_names(key, session_id)
        if self._closed:
            raise RoomClosed(self._why_closed, key)
        signature = spec.signature if isinstance(spec, AgentSpec) else signature_of(spec)
        return Turn(self, key, spec, signature, session_id, on_busy == "reject", timeout, ephemeral)

    def _begin(self, key: str, request: BeginTurn) -> tuple[ActorRef[Session], TurnGranted]:
        session = self._board.directory.get(key) or self._open(key)
        while True:
            try:
                return session, session.actor_inbox.ask(request, gives_way=False)
            except GreenroomError:
                raise
            except pykka.ActorDeadError:
                # It ended before it came to this. The supervisor knows, or hears of it first.
                session = self._open(key)
            except BaseException:
                _tell(session, WithdrawTurn(turn=request))
                raise

    async def _begin_async(self, key: str, request: BeginTurn) -> tuple[ActorRef[Session], TurnGranted]:
        session = self._board.directory.get(key) or await self._open_async(key)
        while True:
            try:
                return session, await session.ask(request, block=False)
            except GreenroomError:
                raise
            except pykka.ActorDeadError:
                session = await self._open_async(key)
            except BaseException:
                # Cancelled, say: whether it was granted meanwhile or not, it is not held any more.
                _tell(session, WithdrawTurn(turn=request))
                raise

    def _end(self, key: str, end: EndTurn) -> int | None:
        session = self._board.directory.get(key)
        if self._forked:
            return None  # the turn is the parent's
        try:
            if session is not None:
                return cast("int | None", session.ask(end))
            _too_late(key)
        except GreenroomError:
            raise  # it is over, and this is what came of it
        except pykka.ActorDeadError:
            _too_late(key)
        except Exception as error:
            self._insist(session, end, error)
        return None

    async def _end_async(self, key: str, end: EndTurn) -> int | None:
        session = self._board.directory.get(key)
        if self._forked:
            return None
        try:
            if session is not None:
                return cast("int | None", await session.ask(end, block=False))
            _too_late(key)
        except GreenroomError:
            raise
        except pykka.ActorDeadError:
            _too_late(key)
        except Exception as error:
            self._insist(session, end, error)
        except BaseException:
            # Cancelled: whatever the answer will be, nobody hears it.
            _tell(session, GiveBackTurn(end=end))
            raise
        return None

    def _insist(self, session: ActorRef[Session] | None, end: EndTurn, error: Exception) -> None:
        """The session could not handle it, and said so. As a notice, it is its supervisor's business:
        the session is restarted, and does not get away without handling it."""
        _tell(session, GiveBackTurn(end=end))
        books = self._board.books
        if books is not None and books.ledger and end.completed:
            msg = "the turn is given back, but whether it was recorded could not be learned"
            raise NotRecorded(msg) from error

    def _withdraw(self, key: str, request: BeginTurn) -> None:
        _tell(self._board.directory.get(key), WithdrawTurn(turn=request))

    # Commits.

    def commit(self, key: str, *, wait: bool = True, timeout: float | None = None) -> CommitOutcome:
        """Commit what is uncommitted, oldest first, and stop at a failure. True if anything was.

        `wait=False` does not wait for a commit of somebody else's that is in flight, nor for the end of
        a turn, but answers at once. After `timeout` seconds it answers and the commit goes on. A session
        that is in a turn is committed when the turn ends, so that no commit sees half of one.
        """
        check_wait("timeout", timeout)
        request = CommitSession(wait=wait, timeout=timeout, held=held_around())
        outcome = self._ask_session(key, request)
        return CommitOutcome(note="there is no such session") if outcome is None else outcome

    def has_uncommitted(self, key: str) -> bool:
        """Tell whether a session has completed turns that are not committed."""
        row = self._ask_session(key, DescribeSession())
        return row is not None and row.standing.dirty

    # What is cached.

    def keys(self) -> tuple[str, ...]:
        """The sessions that have an agent, least recently used first."""
        return cast("tuple[str, ...]", self._ask(ListKeys(), ()))

    def __len__(self) -> int:
        return cast("int", self._ask(CountAgents(), 0))

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and cast("bool", self._ask(HasAgent(key=key), False))

    def evict(self, key: str) -> bool:
        """Release a session's agent: now, or when its turn ends. True if it has one.

        It is accepted at once and done in the background; `settle()` waits for that. A turn that comes
        while the agent is being committed, and is still whole, calls it off.
        """
        return bool(self._ask_session(key, EvictAgent()))

    def end(self, key: str, *, interrupt: bool = False) -> bool:
        """End a session: now, or when its turn ends, which `interrupt` asks the agent to hurry up with.
        True if there is such a session.

        It is accepted at once and done in the background. The next turn of the key begins a new session,
        without waiting for that.
        """
        request = CloseSession(interrupt=interrupt, reason=Reason.EXPLICIT)
        return bool(self._ask_session(key, request))

    def sweep(self) -> int:
        """Release what has been idle for longer than `idle_ttl`, and tell how many."""
        return cast("int", self._ask(SweepRoom(), 0))

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
        if self._board.books is not None:
            check_names(key, session_id or key)
        request = AdoptAgent(
            agent=agent,
            signature=signature_of(spec),
            session_id=session_id or key,
            weight=self._board.weigh(key, agent),
            loop=asyncio._get_running_loop(),
        )
        self._ask_session(key, request, create=True)

    # Settings.

    def settings(self, key: str) -> Settings:
        """Return a session's settings: a mapping that outlives agents and ends with the session."""
        if not isinstance(key, str) or not key:
            raise ValueError(_bad_key(key))

        def use(method: str, *args: Any) -> Any:
            return self._ask_session(key, UseSettings(method=method, args=args), create=True)

        return Settings(key, use)

    def configure(self, **changes: Any) -> Policy:
        """Change the policy of the running room. It takes effect at once. Returns the new policy."""
        self._refuse_when_closed()
        return cast("Policy", self._supervisor.ask(Configure(changes=changes)))

    @property
    def policy(self) -> Policy:
        """The policy as it is now."""
        return self._board.policy

    # What is going on.

    def stats(self) -> RoomStats:
        """Count."""
        if self._last_stats is not None:
            return self._last_stats
        return cast("RoomStats", self._ask(GetStats(), RoomStats()))

    def snapshot(self) -> tuple[SessionRow, ...]:
        """Return a row for each session, with an agent or without."""
        asked = [ref.ask(DescribeSession(), block=False) for ref in list(self._board.directory.values())]
        rows: list[SessionRow] = []
        for future in asked:
            try:
                rows.append(future.get())
            except pykka.ActorDeadError:
                pass  # it ended meanwhile
        return tuple(rows)

    def explain(self, key: str) -> Explanation:
        """Say why a session is live or not, what keeps it, and what is uncommitted."""
        row = self._ask_session(key, DescribeSession())
        nowhere = Position(cached=0, cap=self.policy.cap, place=None)
        position = self._ask(GetPosition(key=key), nowhere)
        books = self._board.books
        owner = None if books is None else books.owner
        stored = () if books is None else books.held_for(key)
        return explain(key, row, position, self.policy, self._board.draining, owner, stored)

    def events(self, callback: Callable[[Event], Any]) -> Callable[[], None]:
        """Call back with every event from now on, in order, on a thread of its own. Returns a function
        that ends it. A slow or failing callback delays nobody."""
        check_function("the callback", "a function of an event", callback)
        if is_async(callback):
            msg = "events() needs a plain function: have it hand the event to your loop"
            raise TypeError(msg)
        self._refuse_when_closed()
        number = cast("int", self._supervisor.ask(Listen(callback=callback)))

        def stop() -> None:
            self._ask(StopListening(number=number), None)

        return stop

    def settle(self, timeout: float | None = 5.0) -> bool:
        """Wait until no build, commit, release or close is under way, or raise `NotSettled`.

        Turns in progress and pauses between tries of a commit do not count."""
        try:
            return cast("bool", self._ask(SettleRoom(), True, timeout=timeout))
        except pykka.Timeout:
            busy = [row.key for row in self.snapshot() if row.standing.busy]
            msg = f"after {timeout} s something is still under way in these sessions: {busy[:10]}"
            raise NotSettled(msg) from None

    # The actors themselves.

    @property
    def supervisor(self) -> SupervisorProxy:
        """The cache supervisor, as a typed pykka proxy."""
        return cast("SupervisorProxy", self._supervisor.proxy())

    def session(self, key: str) -> SessionProxy:
        """A session's actor, as a typed pykka proxy: `await room.session(key).commit()`.

        It is started if need be. An actor that ends (its session was ended, or there is nothing to
        remember about it) answers with `ActorDeadError` afterwards: get the proxy again.
        """
        if not isinstance(key, str) or not key:
            raise ValueError(_bad_key(key))
        session = self._board.directory.get(key)
        if session is None or not session.is_alive():
            session = self._open(key)
        return cast("SessionProxy", session.proxy())

    # The end.

    def drain(self, deadline: float = 30.0) -> DrainReport:
        """Begin no turn any more; let running turns and commits end, until `deadline` seconds from now;
        commit what is uncommitted; close every agent. Returns within a second of the deadline."""
        future = self._start_drain(deadline)
        if future is not None:
            self._report = future.get()
        assert self._report is not None
        return self._report

    def _start_drain(self, deadline: float) -> Future[DrainReport] | None:
        check_wait("the deadline of a drain", deadline)
        if self._report is not None:
            return None
        if held_here():
            msg = "this very caller is in a turn, and a drain would wait for its end: end it first"
            raise SessionBusy(msg)
        return cast(
            "Future[DrainReport]", self._supervisor.ask(DrainRoom(deadline=deadline), block=False)
        )

    def close(self, deadline: float = 30.0) -> DrainReport:
        """Drain the room, and end its actors and threads. Closing twice is fine."""
        report = self.drain(deadline)
        self._shut()
        return report

    def _shut(self) -> None:
        if self._closed:
            return
        self._flush_events(1.0)
        self._last_stats = self.stats()
        self._closed = True
        self._keeper.stop(block=False)
        if self._owns_runtime:
            self.runtime.close(timeout=1.0)
        if self._opened_store is not None:
            self._opened_store.close()

    def _flush_events(self, patience: float) -> None:
        """Give listeners a moment to hear of the end."""
        flushed = [ref.ask(FlushEvents(), block=False) for ref in self._ask(ListListeners(), ())]
        until = time.monotonic() + patience
        for future in flushed:
            try:
                future.get(timeout=max(0.0, until - time.monotonic()))
            except (pykka.Timeout, pykka.ActorDeadError):
                logger.warning("A listener is too slow: it does not hear of all that the end brought")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # On another thread: a drain of very many sessions takes its time, which is not the loop's.
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    # How actors are asked.

    def _refuse_when_closed(self) -> None:
        if self._closed or self._board.draining:
            raise RoomClosed(self._why_closed)

    def _open(self, key: str) -> ActorRef[Session]:
        try:
            return cast("ActorRef[Session]", self._supervisor.ask(OpenSession(key=key)))
        except (pykka.ActorDeadError, RuntimeClosed) as error:
            raise RoomClosed(self._why_closed, key) from error

    async def _open_async(self, key: str) -> ActorRef[Session]:
        try:
            return cast(
                "ActorRef[Session]", await self._supervisor.ask(OpenSession(key=key), block=False)
            )
        except (pykka.ActorDeadError, RuntimeClosed) as error:
            raise RoomClosed(self._why_closed, key) from error

    def _ask(self, request: Any, otherwise: Any, timeout: float | None = None) -> Any:
        """Ask the supervisor; a closed room answers with `otherwise`."""
        try:
            return self._supervisor.ask(request, timeout=timeout)
        except pykka.ActorDeadError:
            return otherwise

    def _ask_session(self, key: str, request: Any, *, create: bool = False) -> Any:
        """Ask a session; `None` if there is none, unless it is to be created."""
        if not isinstance(key, str) or not key:
            raise ValueError(_bad_key(key))
        session = self._board.directory.get(key)
        while True:
            if session is None and not create:
                return None
            try:
                return (session or self._open(key)).ask(request)
            except pykka.ActorDeadError:  # it ended before it came to this
                session = self._open(key) if create else None


_open_rooms: weakref.WeakSet[Greenroom] = weakref.WeakSet()


def _close_after_fork() -> None:
    """A forked process has none of the threads: no turn of a room from before can begin in it."""
    for room in list(_open_rooms):
        room._closed = room._forked = True
        room._why_closed = "this process was forked from the room's. Open another one in here"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_after_fork)


def _bad_key(key: object) -> str:
    return f"a key must be a string that is not empty, such as 'telegram:12345', not {key!r}"


def _tell(session: ActorRef[Session] | None, message: Any) -> None:
    try:
        if session is not None:
            session.tell(message)
    except pykka.ActorDeadError:
        pass


def _too_late(key: str) -> None:
    logger.warning(
        "A turn of %r was given back after its session was closed by force. It is not counted", key
    )
