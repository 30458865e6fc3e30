"""The session actor: the one authority on its session. A shell around `stage.py`, which decides.

A message goes to the stage, which returns effects; each effect is performed here: answer a caller, send
slow work on its way, tell the supervisor. After every message but the two of a warm turn the supervisor
is told the session's standing, if that has changed: the whole of it, so that a notice that is lost to
a crash, or comes twice, does no harm.

What if the actor crashes? Everything it knows is in one `SessionState`, which the supervisor hands to
the next incarnation of the actor, together with the message that was not handled. Effects that were
decided and not performed are in there too, and come first. Timers are set anew. The mailbox, deferred
replies, and slow work under way are untouched by a restart: they know the reference, which stays.
"""

from __future__ import annotations

import logging
from collections import deque
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pykka

from greenroom.actors import stage as effects_of
from greenroom.actors._actor import Actor
from greenroom.actors.errands import Errands
from greenroom.actors.errors import (
    BuildFailed,
    GreenroomError,
    Overloaded,
    RoomClosed,
    SessionBusy,
    SessionFailed,
    TurnTimeout,
)
from greenroom.actors.resources import BuildContext, Resources, Settings
from greenroom.actors.stage import HIT, RESTED, Refusal, Stage
from greenroom.messages import (
    AbandonSession,
    AdoptAgent,
    AgentBuilt,
    AgentClosed,
    AgentReleased,
    AgentRetained,
    AgentReused,
    BeginTurn,
    BuildEnded,
    BuildFailure,
    CloseSession,
    CommitEnded,
    CommitFailure,
    CommitOutcome,
    CommitSession,
    CommitStuck,
    CommitSucceeded,
    CompleteElsewhere,
    DescribeSession,
    DrainSession,
    EndTurn,
    EvictAgent,
    ExpireCommit,
    ExpireTurn,
    ForceSession,
    GiveBackTurn,
    HookFailure,
    Reason,
    ReleaseAgent,
    ReleaseAnswered,
    ReportStanding,
    ResourcesClosed,
    RetryCommit,
    SessionChanged,
    SessionDrained,
    SessionEnded,
    SessionFailure,
    SessionRow,
    SessionStopped,
    Standing,
    StartCommit,
    TeardownEnded,
    TurnEnded,
    TurnGranted,
    UseSettings,
    WithdrawTurn,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from greenroom.actors._reply import Reply
    from greenroom.actors._timers import Timer
    from greenroom.actors.board import Board
    from greenroom.actors.stage import Effect

__all__ = ["Session", "SessionState"]

logger = logging.getLogger("greenroom.actors")

GRACE = 0.5
"""How many seconds after the deadline of a drain its last commits have."""


@dataclass(slots=True)
class Tenant:
    """An agent that the session holds."""

    agent: Any
    session_id: str
    loop: asyncio.AbstractEventLoop | None
    reused: AgentReused
    granted: TurnGranted | None = None
    """What the supervisor and the caller are told for every turn that gets it: always the same."""

    weight: int = 0
    seconds: float = 0.0
    adopted: bool = False


@dataclass(slots=True)
class Waiter:
    """Somebody who waits for a turn, or for a commit."""

    reply: Reply
    context: Context | None
    due: float | None
    timer: Timer | None = None
    target: int = 0
    before: int = 0


class SessionState:
    """All that a session actor knows: what is handed to its next incarnation."""

    __slots__ = (
        "answer",
        "attempt",
        "committers",
        "drain",
        "drained_from",
        "ended",
        "forced",
        "idle_since",
        "key",
        "last_error",
        "problem",
        "redo",
        "resources",
        "retry_timer",
        "sent",
        "session_id",
        "settings",
        "stage",
        "tenants",
        "todo",
        "used",
        "waiters",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.stage = Stage()
        self.tenants: dict[int, Tenant] = {}
        self.waiters: dict[BeginTurn, Waiter] | None = None
        self.committers: dict[CommitSession, Waiter] | None = None
        self.settings: dict[str, Any] | None = None
        self.resources: Resources | None = None
        self.ended: dict[int, Resources | None] | None = None
        """The resources of sessions that have ended and are not yet closed."""
        self.session_id: str | None = None
        self.used = 0
        self.idle_since: float | None = None
        self.sent: Standing | None = None
        """What the supervisor was told last. `None`: something else, so it is told anew."""
        self.todo: deque[Effect] | None = None
        self.redo: Any = None
        self.attempt = 0
        self.last_error: str | None = None
        self.problem: str | None = None
        self.drain: DrainSession | None = None
        self.drained_from = 0
        self.forced = False
        self.answer: bool | None = None
        """What the supervisor is to be told about a release, behind the session's new standing."""
        self.retry_timer: Timer | None = None


class Session(Actor):
    """One chat session: its agent, its turns, its generations, its resources and settings."""

    def __init__(
        self,
        board: Board,
        key: str,
        state: SessionState | None = None,
        failed: BaseException | None = None,
    ) -> None:
        """Begin a session, or go on with the state that another incarnation of the actor left.

        `failed` says that it failed once too often: it takes no turn until the session is ended.
        """
        super().__init__()
        self._board = board
        self._key = key
        self._restarted = state is not None
        self._state = SessionState(key) if state is None else state
        self._failed = failed

    def __str__(self) -> str:
        return f"session {self._key!r}"

    # Restarts.

    def on_start(self) -> None:
        """After a restart: set the timers anew, and go on where the last incarnation stopped."""
        if not self._restarted:
            return
        state = self._state
        state.sent = None
        for turn, waiter in (state.waiters or {}).items():
            self._set_timer(waiter, ExpireTurn(turn=turn))
        for request, waiter in (state.committers or {}).items():
            self._set_timer(waiter, ExpireCommit(request=request))
        if state.stage.retained:
            self._pause(effects_of.Pause(state.stage.tries))
        redo = state.redo
        if self._failed is not None:
            self._event(SessionFailure(key=self._key, error=self._failed))
            self._perform(state.stage.fail())
        else:
            self._perform(())
        state.redo = redo
        if state.redo is not None:
            self.on_receive(state.redo)

    def hand_over(self) -> SessionState:
        """Everything."""
        return self._state

    # Messages.

    def on_receive(self, message: Any) -> Any:
        """Handle one message of the protocol."""
        return self._handlers[message.__class__](self, message)

    # The warm way: a turn on the agent that is there, and nothing else to do.

    def _begin_turn(self, turn: BeginTurn) -> TurnGranted | None:
        state, board = self._state, self._board
        stage = state.stage
        effects = stage.begin(turn, board.policy.max_waiting)
        if effects is HIT:
            state.used = next(board.uses)
            state.session_id = turn.session_id
            state.sent = None
            tenant = state.tenants[stage.agent]
            self._leave(tenant.reused)
            granted = tenant.granted
            if granted is None:
                tenant.granted = granted = TurnGranted(
                    agent=tenant.agent, reused=True, rebuild_reason=None
                )
            return granted
        timeout = turn.timeout
        due = None if timeout is None else self.runtime.clock() + timeout
        if state.waiters is None:
            state.waiters = {}
        state.waiters[turn] = waiter = Waiter(self.defer_reply(), copy_context(), due)
        self._perform(effects)
        if turn in (state.waiters or ()):
            self._set_timer(waiter, ExpireTurn(turn=turn))
        return None

    def _end_turn(self, message: EndTurn) -> int | None:
        state = self._state
        stage = state.stage
        incarnation = stage.agent
        effects = stage.end(
            message.turn, completed=message.completed, discard=message.discard is not None
        )
        if effects is None:
            logger.warning(
                "%s: a turn was given back that was over before, and changes nothing: it was given back "
                "twice, or its session was closed by force",
                self,
            )
            return None
        if message.weight is not None and incarnation in state.tenants:
            state.tenants[incarnation].weight = message.weight
        generations = stage.generations
        if effects is RESTED:
            state.idle_since = now = self._board.runtime.clock()
            state.sent = None
            self._leave(
                TurnEnded(
                    key=self._key,
                    dirty=generations.generation > generations.committed,
                    idle_since=now,
                    weight=state.tenants[incarnation].weight,
                )
            )
            return generations.generation
        generation = generations.generation
        if message.discard is not None:
            logger.info("%s: its agent is discarded after the turn: %s", self, message.discard)
        self._perform(effects)
        return generation

    # All others.

    def _give_back_turn(self, message: GiveBackTurn) -> None:
        self._end_turn(message.end)

    def _withdraw_turn(self, message: WithdrawTurn) -> None:
        effects = self._state.stage.withdraw(message.turn)
        self._forget_waiter(message.turn)
        self._perform(effects)

    def _expire_turn(self, message: ExpireTurn) -> None:
        self._perform(self._state.stage.expire(message.turn))

    def _release_agent(self, message: ReleaseAgent) -> None:
        self._perform(self._state.stage.release(message.reason))

    def _evict_agent(self, _: EvictAgent) -> bool:
        effects = self._state.stage.evict()
        self._perform(effects or ())
        return effects is not None

    def _close_session(self, message: CloseSession) -> bool:
        state = self._state
        if self._nothing_to_remember():
            self._perform(())
            return False
        self._perform(state.stage.close(message.reason, interrupt=message.interrupt))
        return True

    def _adopt_agent(self, message: AdoptAgent) -> None:
        state = self._state
        adopted = state.stage.adopt(message.signature)
        if adopted is None:
            self._refuse_adoption()
        else:
            incarnation, effects = adopted
            tenant = self._tenant(incarnation, message.agent, message.session_id)
            tenant.weight, tenant.adopted = message.weight or 0, True
            state.session_id = message.session_id
            state.used = next(self._board.uses)
            state.idle_since = None
            self._perform(effects)

    def _refuse_adoption(self) -> None:
        if self._state.stage.draining:
            raise self._error(Refusal.CLOSED)
        if self._state.stage.failed:
            raise self._error(Refusal.FAILED)
        msg = (
            f"{self} is in a turn, or its agent is being built: no other agent can be adopted now. "
            "Do it when the turn is over"
        )
        raise SessionBusy(msg, self._key)

    def _use_settings(self, message: UseSettings) -> Any:
        state = self._state
        settings = {} if state.settings is None else state.settings
        try:
            return message.call(settings, *message.args)
        finally:
            state.settings = settings or None
            self._perform(())

    def _describe_session(self, _: DescribeSession) -> SessionRow:
        state = self._state
        stage = state.stage
        tenant = state.tenants.get(stage.agent)
        resting = stage.turn is None and state.idle_since is not None
        row = SessionRow(
            key=self._key,
            session_id=state.session_id,
            state=stage.state,
            cached=bool(stage.agent) and stage.leaving is None,
            incarnation=stage.agent,
            generation=stage.generations.generation,
            committed=stage.generations.committed,
            waiting=self._waiting(),
            retained=stage.retained,
            idle_seconds=self.runtime.clock() - (state.idle_since or 0.0) if resting else None,
            weight=0 if tenant is None else tenant.weight,
            last_reason=stage.last_reason,
            last_error=state.last_error,
            standing=self._standing(),
        )
        self._perform(())
        return row

    def _report_standing(self, _: ReportStanding) -> None:
        self._state.sent = None
        self._perform(())

    # Commits.

    def _commit_session(self, message: CommitSession) -> CommitOutcome | None:
        state = self._state
        stage = state.stage
        generations = stage.generations
        left = generations.dirty
        if message.agent is not None and left and generations.in_flight is None:
            self._offer(message.agent)
        note = self._why_not_commit(message)
        if note is not None:
            self._perform(())
            return CommitOutcome(left=left, note=note)
        if state.committers is None:
            state.committers = {}
        timeout = message.timeout
        state.committers[message] = waiter = Waiter(
            self.defer_reply(),
            None,
            None if timeout is None else self.runtime.clock() + timeout,
            target=generations.generation,
            before=generations.committed,
        )
        self._perform(stage.flush())
        if message in (state.committers or ()):
            self._set_timer(waiter, ExpireCommit(request=message))
        return None

    def _why_not_commit(self, message: CommitSession) -> str | None:
        stage = self._state.stage
        if not stage.generations.dirty:
            return "there is nothing to commit"
        if stage.stuck:
            return "the commit in flight is stuck; the turns stay uncommitted until it comes back"
        if stage.generations.in_flight is not None and not message.wait:
            return "a commit is in flight"
        if stage.turn is None or stage.generations.next_owner != stage.agent:
            return None
        if message.holder is not None and message.holder == stage.turn.holder:
            stage.flush()
            return "this very caller is in the turn: what is completed is committed when it ends"
        return None if message.wait else "the session is in a turn"

    def _offer(self, agent: Any) -> None:
        state = self._state
        known = next((i for i, t in state.tenants.items() if t.agent is agent), None)
        if known is None and state.stage.generations.next_owner is None:
            known = self._take_in(agent)
        if known is not None:
            state.stage.offer(known)

    def _take_in(self, agent: Any) -> int:
        """Give an agent a number that is not in the room: it is there for commits only."""
        state = self._state
        state.stage.incarnations += 1
        self._tenant(state.stage.incarnations, agent, state.session_id or self._key)
        return state.stage.incarnations

    def _complete_elsewhere(self, message: CompleteElsewhere) -> int:
        state = self._state
        known: int | None = None
        if message.agent is not None:
            known = next((i for i, t in state.tenants.items() if t.agent is message.agent), None)
            known = known or self._take_in(message.agent)
        state.idle_since = self.runtime.clock()
        generation = state.stage.complete_elsewhere(known)
        self._perform(())
        return generation

    def _expire_commit(self, message: ExpireCommit) -> None:
        waiter = (self._state.committers or {}).pop(message.request, None)
        if waiter is not None:
            self._answer_commit(waiter, "it took longer than the caller would wait, and goes on")
        self._perform(())

    # What slow work came to.

    def _build_ended(self, message: BuildEnded) -> None:
        state = self._state
        stage = state.stage
        wanted = message.incarnation == stage.building
        turn = stage.builder
        if message.error is None:
            tenant = state.tenants.get(message.incarnation) or self._tenant(
                message.incarnation, message.agent, state.session_id or self._key
            )
            tenant.agent, tenant.weight, tenant.seconds = message.agent, message.weight, message.seconds
        elif wanted:
            state.tenants.pop(message.incarnation, None)
            state.last_error = f"build: {_text(message.error)}"
            logger.warning("%s: its agent could not be built: %s", self, _text(message.error))
            self._event(
                BuildFailure(
                    key=self._key,
                    incarnation=message.incarnation,
                    error=message.error,
                    seconds=message.seconds,
                )
            )
            if turn is not None:
                self._refuse_build(turn, message.error)
        if not wanted:
            what = "and is let go" if message.error is None else "with an error"
            logger.warning("%s: a build that was given up came back late, %s", self, what)
        if wanted and turn is None:
            state.idle_since = self.runtime.clock()
        self._perform(stage.built(message.incarnation, succeeded=message.error is None))

    def _refuse_build(self, turn: BeginTurn, error: BaseException) -> None:
        msg = (
            f"{self}: its agent could not be built: {_text(error)}. Nothing was cached; the next turn "
            "tries again"
        )
        failure = BuildFailed(msg, self._key)
        failure.__cause__ = error
        waiter = self._forget_waiter(turn)
        if waiter is not None:
            waiter.reply.set_exception(failure)

    def _start_commit(self, message: StartCommit) -> bool:
        state = self._state
        if message.attempt != state.attempt or state.stage.generations.in_flight is None:
            return False
        if state.stage.start_commit():
            return True
        self._perform(())
        return False

    def _commit_ended(self, message: CommitEnded) -> None:
        state = self._state
        stage = state.stage
        segment = stage.generations.in_flight
        if segment is None or message.attempt != state.attempt:
            return
        owner = segment.owner or 0
        before = stage.generations.committed
        if message.error is not None:
            self._note_commit_failure(owner, message.error, message.seconds)
        effects = stage.committed(succeeded=message.error is None)
        if message.error is None:
            generations = stage.generations
            if state.last_error is not None and state.last_error.startswith("commit"):
                state.last_error = None
            self._event(
                CommitSucceeded(
                    key=self._key,
                    incarnation=owner,
                    turns=generations.committed - before,
                    generation=generations.committed,
                    seconds=message.seconds,
                )
            )
            if not self._is_ours(owner) and not generations.owes(owner):
                state.tenants.pop(owner, None)
        self._perform(effects)

    def _commit_stuck(self, message: CommitStuck) -> None:
        state = self._state
        segment = state.stage.generations.in_flight
        if segment is not None and message.attempt == state.attempt and not state.stage.stuck:
            self._note_commit_failure(segment.owner or 0, message.error, 0.0)
            self._perform(state.stage.commit_stuck())

    def _note_commit_failure(self, owner: int, error: BaseException, seconds: float) -> None:
        state = self._state
        state.last_error = state.problem = f"commit: {_text(error)}"
        logger.warning(
            "%s: %s uncommitted turns could not be committed (%s). They are kept, with their agent",
            self,
            state.stage.generations.dirty,
            _text(error),
        )
        self._event(
            CommitFailure(
                key=self._key,
                incarnation=owner,
                error=error,
                tries=state.stage.tries + 1,
                seconds=seconds,
            )
        )

    def _is_ours(self, incarnation: int) -> bool:
        """Whether it is in its place or leaving. If not, it was only there for a commit."""
        stage = self._state.stage
        return incarnation == stage.agent or incarnation in (stage.leavers or ())

    def _teardown_ended(self, message: TeardownEnded) -> None:
        stage = self._state.stage
        leaver = (stage.leavers or {}).get(message.incarnation)
        if leaver is None:
            return  # its time was over before
        for hook, error in message.errors:
            self._hook_failed(message.incarnation, hook, leaver.reason, error)
        event = AgentClosed if leaver.close else AgentReleased
        self._event(
            event(
                key=self._key,
                incarnation=message.incarnation,
                reason=leaver.reason,
                seconds=message.seconds,
            )
        )
        self._perform(stage.torn_down(message.incarnation))

    def _resources_closed(self, message: ResourcesClosed) -> None:
        stage = self._state.stage
        reason = (stage.ending or {}).get(message.life)
        for name, error in message.errors:
            self._hook_failed(0, f"resource {name}", reason or Reason.EXPLICIT, error)
        self._perform(stage.resources_closed(message.life))

    def _hook_failed(self, incarnation: int, hook: str, reason: Reason, error: BaseException) -> None:
        text = _text(error)
        self._state.last_error = f"{hook}: {text}"
        if self._state.drain is not None:
            self._state.problem = f"{hook}: {text}"
        logger.warning("%s: %s() raised when it was let go (%s): %s", self, hook, reason, text)
        self._event(
            HookFailure(key=self._key, incarnation=incarnation, hook=hook, reason=reason, error=error)
        )

    def _retry_commit(self, _: RetryCommit) -> None:
        self._state.retry_timer = None
        self._perform(self._state.stage.retry())

    # Drain.

    def _drain_session(self, message: DrainSession) -> None:
        state = self._state
        if state.drain is None:
            state.drain = message
            state.drained_from = state.stage.generations.committed
            state.problem = None
            self._perform(state.stage.drain())

    def _force_session(self, _: ForceSession) -> None:
        if self._state.stage.turn is not None:
            self._state.forced = True
            self._state.problem = "its turn was still running at the deadline"
            logger.warning("%s: its turn was still running at the deadline of the drain", self)
        self._perform(self._state.stage.force())

    def _abandon_session(self, _: AbandonSession) -> None:
        if self._state.stage.generations.in_flight is not None:
            self._state.forced = True
            self._state.problem = "its commit was still running at the deadline"
        self._perform(self._state.stage.abandon())

    # Effects.

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Do what was decided, tell the supervisor what has changed, and stop if nothing is left.

        An effect is taken off the list after it was performed. If one raises, it and the rest are still
        to be done: by the next incarnation of the actor, or, if whoever asked is told of the exception
        and the actor lives on, with the next message, which is sent here.
        """
        state = self._state
        state.redo = None  # the message that led here is handled: what is left of it is in the list
        if state.todo is None:
            state.todo = deque()
        todo = state.todo
        todo.extend(effects)
        try:
            while todo:
                self.runtime.fault_point("effect")
                effect = todo[0]
                more = self._performers[effect.__class__](self, effect)
                todo.popleft()
                if more:
                    todo.extend(more)
        except BaseException:
            self.actor_ref.tell(ReportStanding())
            raise
        state.todo = None
        self._answer_committers()
        standing = self._standing()
        if standing != state.sent:
            state.sent = standing
            self._tell(SessionChanged(key=self._key, standing=standing))
        if state.answer is not None:
            # Behind the standing: at no moment does it look as if nothing were under way.
            self._tell(ReleaseAnswered(key=self._key, accepted=state.answer))
            state.answer = None
        if standing.blank:
            self._retire()

    def _grant(self, effect: effects_of.Grant) -> None:
        state = self._state
        stage = state.stage
        waiter = self._forget_waiter(effect.turn)
        state.used = next(self._board.uses)
        state.session_id = effect.turn.session_id
        if effect.reused:
            self._tell(state.tenants[stage.agent].reused)
        granted = TurnGranted(
            agent=state.tenants[stage.agent].agent,
            reused=effect.reused,
            rebuild_reason=effect.reason,
        )
        if waiter is None or not waiter.reply.set(granted):
            # Whoever wanted it is gone, and so is the way to say so.
            self.actor_ref.tell(WithdrawTurn(turn=effect.turn))

    def _wait(self, effect: effects_of.Wait) -> None:
        """Nothing to do: the reply is deferred as it is."""

    def _refuse(self, effect: effects_of.Refuse) -> None:
        waiter = self._forget_waiter(effect.turn)
        if waiter is not None:
            waiter.reply.set_exception(self._error(effect.why, effect.turn))

    def _turn_over(self, effect: effects_of.TurnOver) -> None:
        self._state.idle_since = self.runtime.clock()

    def _build(self, effect: effects_of.Build) -> None:
        state, turn = self._state, effect.turn
        if state.resources is None:
            state.resources = Resources(self._key)
        context = BuildContext(
            key=self._key,
            session_id=turn.session_id,
            spec=turn.spec,
            settings=Settings(self._key, self._ask_settings),
            store=self._board.store,
            resources=state.resources,
        )
        self._tenant(effect.incarnation, None, turn.session_id).loop = turn.loop
        waiter = (state.waiters or {}).get(turn)
        caller = copy_context() if waiter is None or waiter.context is None else waiter.context
        # The context variables of whoever wants the turn, and not of whoever ended the one before.
        caller.copy().run(self._errands().build, effect.incarnation, context, turn.loop)

    def _insert(self, effect: effects_of.Insert) -> None:
        tenant = self._state.tenants[effect.incarnation]
        self._event(
            AgentBuilt(
                key=self._key,
                incarnation=effect.incarnation,
                session_id=tenant.session_id,
                reason=effect.reason,
                adopted=tenant.adopted,
                seconds=tenant.seconds,
            )
        )

    def _commit(self, effect: effects_of.Commit) -> None:
        state, board = self._state, self._board
        state.attempt += 1
        tenant = state.tenants[effect.owner]
        hook = board.hooks.find(tenant.agent, "commit")
        if hook is None:
            self._errand_is_nothing(CommitEnded(attempt=state.attempt, error=None, seconds=0.0))
            return
        timeout = board.policy.commit_timeout
        if state.drain is not None:
            left = max(state.drain.deadline + GRACE - self.runtime.clock(), 0.01)
            timeout = left if timeout is None else min(timeout, left)
        self._errands().commit(state.attempt, hook, timeout, tenant.loop)

    def _commit_gave_up(self, _: effects_of.CommitGaveUp) -> None:
        committers, self._state.committers = self._state.committers, None
        for waiter in (committers or {}).values():
            self._answer_commit(waiter, self._state.last_error or "nobody could be asked to commit")

    def _retain(self, effect: effects_of.Retain) -> None:
        self._event(AgentRetained(key=self._key, incarnation=effect.incarnation, reason=effect.reason))

    def _pause(self, effect: effects_of.Pause) -> None:
        state, policy = self._state, self._board.policy
        if state.retry_timer is not None:
            state.retry_timer.cancel()
        pause = min(policy.retry_first * 2.0 ** min(effect.tries - 1, 60), policy.retry_most)
        spread = self.runtime.random.uniform(0.75, 1.25)
        state.retry_timer = self.call_later(pause * spread, RetryCommit())

    def _tear_down(self, effect: effects_of.TearDown) -> None:
        state = self._state
        tenant = state.tenants[effect.incarnation]
        what = "closed" if effect.close else "released"
        logger.info("%s: its agent is %s: %s", self, what, effect.reason)
        self._errands().tear_down(effect.incarnation, tenant.agent, effect.close, tenant.loop)
        del state.tenants[effect.incarnation]

    def _interrupt(self, effect: effects_of.Interrupt) -> None:
        tenant = self._state.tenants.get(effect.incarnation)
        hook = None if tenant is None else self._board.hooks.find(tenant.agent, "interrupt")
        if tenant is None or hook is None:
            return
        key, incarnation, tell = self._key, effect.incarnation, self._tell

        def failed(error: BaseException) -> None:
            logger.warning("session %r: interrupt() raised: %s", key, _text(error))
            tell(
                HookFailure(
                    key=key,
                    incarnation=incarnation,
                    hook="interrupt",
                    reason=Reason.EXPLICIT,
                    error=error,
                )
            )

        self._errands().interrupt(hook, tenant.loop, failed)

    def _end_life(self, effect: effects_of.EndLife) -> None:
        state = self._state
        if state.ended is None:
            state.ended = {}
        state.ended[effect.life] = state.resources
        state.resources = state.settings = None

    def _close_resources(self, effect: effects_of.CloseResources) -> Iterable[Effect]:
        state = self._state
        resources = (state.ended or {}).pop(effect.life, None)
        state.ended = state.ended or None
        closers = [] if resources is None else resources.take_all()
        if not closers:
            return state.stage.resources_closed(effect.life)
        self._errands().close_resources(effect.life, closers)
        return ()

    def _life_over(self, effect: effects_of.LifeOver) -> None:
        self._event(SessionEnded(key=self._key, reason=effect.reason))

    def _answer_release(self, effect: effects_of.AnswerRelease) -> None:
        self._state.answer = effect.accepted

    # Helpers.

    def _tenant(self, incarnation: int, agent: Any, session_id: str) -> Tenant:
        reused = AgentReused(key=self._key, incarnation=incarnation)
        self._state.tenants[incarnation] = tenant = Tenant(agent, session_id, None, reused)
        return tenant

    def _errands(self) -> Errands:
        return Errands(self._board, self._key, self.actor_ref)

    def _errand_is_nothing(self, outcome: Any) -> None:
        """There is no hook to call: the outcome comes as if there were one, without a worker."""
        self.actor_ref.tell(outcome)

    def _ask_settings(self, call: Any, *args: Any) -> Any:
        return self.actor_ref.ask(UseSettings(call=call, args=args))

    def _leave(self, message: Any) -> None:
        """Tell the supervisor of a warm turn: when it runs next, unless it wants to hear at once.

        First the message, then the look at the board; the supervisor writes to the board first and looks
        for messages then. Whichever second step comes last sees the other's first.
        """
        board = self._board
        supervisor = board.supervisor
        if supervisor is not None:
            mailbox = supervisor.actor_inbox
            mailbox.leave(message)
            if board.pressed:
                mailbox.knock()

    def _tell(self, message: Any) -> None:
        """Tell the supervisor, if there still is one."""
        supervisor = self._board.supervisor
        if supervisor is not None:
            try:
                supervisor.actor_inbox.deliver(message)
            except pykka.ActorDeadError:
                pass

    _event = _tell

    def _waiting(self) -> int:
        stage = self._state.stage
        return len(stage.waiting or ()) + (stage.builder is not None)

    def _standing(self) -> Standing:
        state = self._state
        stage = state.stage
        tenant = state.tenants.get(stage.agent)
        return Standing(
            cached=bool(stage.agent) and stage.leaving is None,
            in_turn=stage.turn is not None,
            dirty=stage.generations.dirty > 0,
            waiting=self._waiting(),
            retained=stage.retained,
            busy=stage.busy,
            weight=0 if tenant is None else tenant.weight,
            used=state.used,
            idle_since=state.idle_since,
            blank=self._nothing_to_remember(),
            failed=stage.failed,
        )

    def _nothing_to_remember(self) -> bool:
        state = self._state
        if not state.stage.blank:
            return False
        return state.stage.draining or not (state.settings or state.resources)

    def _retire(self) -> None:
        state = self._state
        if state.drain is not None:
            left = state.stage.generations.dirty
            self._tell(
                SessionDrained(
                    key=self._key,
                    committed=state.stage.generations.committed > state.drained_from and not left,
                    left=left,
                    abandoned=state.forced,
                    problem=state.problem,
                )
            )
        self._tell(SessionStopped(key=self._key, ref=self.actor_ref))
        self.stop_now()

    def _set_timer(self, waiter: Waiter, message: Any) -> None:
        if waiter.due is not None:
            waiter.timer = self.call_later(max(0.0, waiter.due - self.runtime.clock()), message)

    def _forget_waiter(self, turn: BeginTurn) -> Waiter | None:
        state = self._state
        waiter = (state.waiters or {}).pop(turn, None)
        state.waiters = state.waiters or None
        if waiter is not None and waiter.timer is not None:
            waiter.timer.cancel()
        return waiter

    def _answer_committers(self) -> None:
        state = self._state
        committed = state.stage.generations.committed
        for request, waiter in list((state.committers or {}).items()):
            if committed >= waiter.target and state.committers is not None:
                del state.committers[request]
                self._answer_commit(waiter, "")
        state.committers = state.committers or None

    def _answer_commit(self, waiter: Waiter, note: str) -> None:
        generations = self._state.stage.generations
        if waiter.timer is not None:
            waiter.timer.cancel()
        waiter.reply.set(
            CommitOutcome(
                committed=generations.committed - waiter.before, left=generations.dirty, note=note
            )
        )

    def _error(self, why: Refusal, turn: BeginTurn | None = None) -> GreenroomError:
        text, kind = _REFUSALS[why]
        waited = "" if turn is None else f"{turn.timeout} s"
        most = self._board.policy.max_waiting
        return kind(f"{self} {text.format(waited=waited, most=most)}", self._key)

    # What gateways call through a proxy, when they want the actor itself.

    def commit(self, *, wait: bool = True, timeout: float | None = None) -> CommitOutcome:
        """Commit every dirty segment. See `Greenroom.commit`."""
        return self._commit_session(CommitSession(wait=wait, timeout=timeout))  # type: ignore[return-value]  # deferred

    def evict(self) -> bool:
        """Release the agent. See `Greenroom.evict`."""
        return self._evict_agent(EvictAgent())

    def end(self, *, interrupt: bool = False) -> bool:
        """End the session. See `Greenroom.end`."""
        return self._close_session(CloseSession(interrupt=interrupt, reason=Reason.EXPLICIT))

    def complete(self, agent: Any = None) -> int:
        """Count a turn that was run elsewhere, by `agent`. Returns the new generation."""
        return self._complete_elsewhere(CompleteElsewhere(agent=agent))

    def has_uncommitted(self) -> bool:
        """Tell whether completed turns are uncommitted."""
        dirty = self._state.stage.generations.dirty > 0
        self._perform(())
        return dirty

    def describe(self) -> SessionRow:
        """Say how the session is."""
        return self._describe_session(DescribeSession())

    _handlers: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        AbandonSession: _abandon_session,
        AdoptAgent: _adopt_agent,
        BeginTurn: _begin_turn,
        BuildEnded: _build_ended,
        CloseSession: _close_session,
        CommitEnded: _commit_ended,
        CommitSession: _commit_session,
        CommitStuck: _commit_stuck,
        CompleteElsewhere: _complete_elsewhere,
        DescribeSession: _describe_session,
        DrainSession: _drain_session,
        EndTurn: _end_turn,
        EvictAgent: _evict_agent,
        ExpireCommit: _expire_commit,
        ExpireTurn: _expire_turn,
        ForceSession: _force_session,
        GiveBackTurn: _give_back_turn,
        ReleaseAgent: _release_agent,
        ReportStanding: _report_standing,
        ResourcesClosed: _resources_closed,
        RetryCommit: _retry_commit,
        StartCommit: _start_commit,
        TeardownEnded: _teardown_ended,
        UseSettings: _use_settings,
        WithdrawTurn: _withdraw_turn,
    }

    _performers: ClassVar[dict[type, Callable[[Any, Any], Iterable[Effect] | None]]] = {
        effects_of.AnswerRelease: _answer_release,
        effects_of.Build: _build,
        effects_of.CloseResources: _close_resources,
        effects_of.Commit: _commit,
        effects_of.CommitGaveUp: _commit_gave_up,
        effects_of.EndLife: _end_life,
        effects_of.Grant: _grant,
        effects_of.Insert: _insert,
        effects_of.Interrupt: _interrupt,
        effects_of.LifeOver: _life_over,
        effects_of.Pause: _pause,
        effects_of.Refuse: _refuse,
        effects_of.Retain: _retain,
        effects_of.TearDown: _tear_down,
        effects_of.TurnOver: _turn_over,
        effects_of.Wait: _wait,
    }


_REFUSALS: dict[Refusal, tuple[str, type[GreenroomError]]] = {
    Refusal.BUSY: (
        "is in a turn. Try again later, or wait for it with on_busy='wait'",
        SessionBusy,
    ),
    Refusal.SELF: (
        "is in a turn of this very caller, which would wait for itself. End that turn first",
        SessionBusy,
    ),
    Refusal.OVERLOADED: (
        "has {most} turns waiting, its max_waiting. Try again later, or raise max_waiting",
        Overloaded,
    ),
    Refusal.TIMEOUT: (
        "did not become free within {waited}. Wait longer, or interrupt the turn that has it",
        TurnTimeout,
    ),
    Refusal.BUILD: ("could not be given an agent", BuildFailed),
    Refusal.CLOSED: ("begins no turn any more: the room is being drained, or is closed", RoomClosed),
    Refusal.FAILED: (
        "failed too often and takes no turn. The log says why. End it with room.end() to begin afresh",
        SessionFailed,
    ),
}


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
