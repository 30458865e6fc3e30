"""The cache supervisor: order and bounds. A shell around `eviction.py` and `drain.py`, which decide.

It never takes an agent away and never runs a hook. It asks a session to release, and counts the session
until that has answered. What it knows of sessions it reads on their cards, when it matters; sessions
tell it when they got an agent or let it go, and nothing of a warm turn.

It has parts, and takes messages to them:

    Bounds       who has an agent and in which order; who has to let it go      learned from the cards
    Settling     who waits until nothing is under way                           learned from the cards
    Requests     what sessions were asked and have not answered                 outlives a crash
    Draining     how far a drain is, and its report                             outlives a crash
    Counters     what has happened                                              outlives a crash
    Listeners    who hears of it                                                outlives a crash

What if it crashes? The root supervisor starts the next incarnation with the parts that outlive a crash,
and with whoever waits for an answer. The order is read from the cards.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar, cast

from greenroom import messages
from greenroom.actors import Actor, RestartPolicy, RuntimeClosed
from greenroom.actors.errors import RoomClosed
from greenroom.actors.runtime._answers import ask_and_hear
from greenroom.actors.runtime._calls import check_wait
from greenroom.actors.runtime._logging import get_log
from greenroom.actors.runtime._saving import Saved, put_back, take_down
from greenroom.actors.session import Session
from greenroom.actors.session._session_state import SessionState
from greenroom.actors.session.card import Card, cached_keys
from greenroom.actors.session.policy import Policy
from greenroom.messages import Call, DrainReport, RoomStats, SweepRoom
from greenroom.supervisor._meter import give_back
from greenroom.supervisor._state import SupervisorState
from greenroom.supervisor.announcer import Announcer
from greenroom.supervisor.bounds import Bounds
from greenroom.supervisor.counters import count_cards
from greenroom.supervisor.drain import REPORT
from greenroom.supervisor.requests import Sweep
from greenroom.supervisor.settling import Settling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never

    from greenroom.actors import ActorRef, Future, Timer
    from greenroom.actors.session.context import RoomContext

__all__ = ["CacheSupervisor"]

logger = get_log("greenroom.supervisor")

T = TypeVar("T")

GONE = (messages.AgentReleased, messages.AgentClosed, messages.AgentRetained)
"""An agent is gone, or it is kept for its commit, and gives no memory back soon."""

LATER: Never = cast("Never", None)
"""What a handler returns that has deferred its reply: a value of any type, which nobody gets."""


class CacheSupervisor(Actor):
    """Holds the sessions of a room to its policy."""

    def __init__(
        self, context: RoomContext, meter: Callable[[], int], state: SupervisorState | None = None
    ) -> None:
        """Begin, or go on with what another incarnation left."""
        super().__init__()
        self._context = context
        self._restarted = state is not None
        self._state = state = SupervisorState(context) if state is None else state
        self._counters, self._listeners = state.counters, state.listeners
        self._requests, self._draining = state.requests, state.draining
        self._meter = meter
        self._bounds = Bounds(context, meter, self._requests)
        self._settling = Settling(context, state.settling)
        self._looking = False
        """A look at the bounds was too short, and the next is on its way to us."""
        self._giving_back = False
        """A worker gives memory back to the system."""
        self._sweeper: Timer | None = None

    # Life.

    def hand_over(self) -> SupervisorState:
        """What the next incarnation cannot learn from the cards."""
        return self._state

    def on_start(self) -> None:
        """Set the timers; after a restart, learn from the cards how the sessions are."""
        self._set_sweeper()
        self._say_whether_warm()
        if self._restarted:
            logger.warning("The supervisor was restarted: it reads %s cards", len(self._context.cards))
            self._learn()

    can_restore = True

    def save(self) -> tuple[bool, Saved, Saved]:
        """What cannot be learned from the cards, but for the requests: they are made again. Most of the
        time there is nothing but the counters."""
        state = self._state
        counters, waiting = state.counters, state.requests.sweeps or state.settling
        rare: Saved = []
        if waiting or state.listeners.announcers or state.draining.progress is not None:
            rare = take_down(state.rare())
        return self._giving_back, take_down((counters.counts, counters.reasons)), rare

    def restore(self, saved: tuple[bool, Saved, Saved]) -> None:
        """Put it back, learn the rest from the cards, and stop a session that nobody was told of."""
        self._giving_back, counted, rare = saved
        put_back(counted)
        if rare:
            put_back(rare)
        else:
            self._state.forget_rare()
        self._bounds = Bounds(self._context, self._meter, self._requests)
        self._settling = Settling(self._context, self._state.settling)
        known = {card.mailbox for card in list(self._context.cards.values())}
        for child, ref in list(self.actor_inbox.children.items()):
            if child not in known and issubclass(ref.actor_class, Session):
                ref.stop(block=False)
        self._learn()

    def _learn(self) -> None:
        self._bounds.learn()
        self._requests.ask_again()
        self._set_drain_timers()
        if self._draining.report is not None and not self._draining.answered:
            self._leave_sessions_to_others()
        # As a message: should it be what we fail on, it is dropped in the end, and does not come again
        # with every restart.
        self._looking = True
        self.actor_ref.tell(Call(self._look_again))

    def _set_sweeper(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        every = self._context.policy.sweep_every
        if every is not None:
            self._sweeper = self.call_every(every, SweepRoom())

    def _say_whether_warm(self) -> None:
        """Say in the context whether turns may begin and end without a message: nobody wants to hear of
        each of them, and nothing must be checked after each."""
        context = self._context
        context.hits = self._listeners.hear_of_hits
        context.weighing = self._bounds.budget is not None or context.policy.weigh is not None
        told = context.hits or context.weighing or context.draining
        context.warm = None if told else self.runtime.tick

    def on_child_failed(self, failure: messages.ChildFailed) -> None:
        """Restart a session with all that it held; too often, and it takes no turn until it is ended."""
        state: Any = failure.state
        if isinstance(state, SessionState):
            self._restart_session(failure, state)
        elif issubclass(failure.ref.actor_class, Announcer) and state is not None:
            self.restart_child(failure, *state)
        else:
            self.give_up_child(failure)

    def _restart_session(self, failure: messages.ChildFailed, session: SessionState) -> None:
        key = session.key
        restarts = self._state.restarts
        again, past = RestartPolicy().decide(restarts.get(key, ()), self.runtime.clock())
        if again:
            restarts[key] = past
            self._counters.counts["restarts"] += 1
        else:
            restarts.pop(key, None)
            session.failing = failure.exception
            logger.error(
                "Session %r failed %s times in a short time and takes no turn any more until it is "
                "ended with room.end(). The last failure was %r",
                key,
                len(past) + 1,
                failure.exception,
            )
        self._settling.disturbed()
        self.restart_child(failure, self._context, key, session.card, session, replay=True)

    # Sessions.

    def on_open_session(self, message: messages.OpenSession) -> ActorRef[Session]:
        """Find the session of a key, or start it."""
        context, key = self._context, message.key
        card = context.cards.get(key)
        if card is not None and card.ref.is_alive():
            return card.ref
        if context.draining:
            msg = f"session {key!r} begins no turn any more: the room is drained, or being drained"
            raise RoomClosed(msg, key)
        if card is not None:
            self._forget(key, card)
        card = Card()
        card.ref = self.start_child(Session, context, key, card)
        card.mailbox = card.ref.actor_inbox
        context.cards[key] = card
        self._bounds.opened(key)
        return card.ref

    def on_session_changed(self, message: messages.SessionChanged) -> None:
        """Look at its card."""
        card = self._context.cards.get(message.key)
        if card is None:
            return  # it has stopped since
        if self._bounds.changed(message.key, card):
            self._shed(message.key)  # should it have been leaving: that was called off
        self._look(card)

    def on_release_answered(self, message: messages.ReleaseAnswered) -> None:
        """It lets its agent go, or not."""
        self._requests.answered(message.key, message.number, accepted=message.accepted)
        self._bounds.answered(message)
        if not message.accepted:
            self._shed(message.key)
        self._look(self._context.cards.get(message.key))

    def on_session_stopped(self, message: messages.SessionStopped) -> None:
        """It is no more."""
        card = self._context.cards.get(message.key)
        if card is not None and card.ref is message.ref:
            self._forget(message.key, card)
            self.runtime.send(self._context.cards.pop, message.key)

    def _forget(self, key: str, card: Card) -> None:
        self._counters.counts["hits"] += card.hits
        self._state.restarts.pop(key, None)
        self._bounds.forget(key)
        self._requests.gone(key)
        self._shed(key)
        self._draining.gone(key)
        self._look_whether_drained()
        self._settling.gone(card)
        self._look_whether_settled()

    # Events.

    def on_event(self, event: messages.Event) -> None:
        """Count what happened, and pass it on."""
        self._counters.count(event)
        if isinstance(event, GONE):
            self._shed(event.key)
        self._listeners.announce(event)

    def on_agent_reused(self, event: messages.AgentReused) -> None:
        """Pass it on. Its card counts it."""
        self._listeners.announce(event)

    def on_listen(self, message: messages.Listen) -> int:
        """Take a listener in."""
        announcer = self.start_child(Announcer, message.callback)
        number = self._listeners.add(announcer, hits=message.hits)
        self._say_whether_warm()
        return number

    def on_stop_listening(self, message: messages.StopListening) -> None:
        """Let a listener go."""
        self._listeners.remove(message.number)
        self._say_whether_warm()

    def on_flush_events(self, request: messages.FlushEvents) -> list[Future[bool]]:
        """Have each listener called with every event that there is."""
        return self._listeners.flush(request)

    # Bounds.

    def _look(self, card: Card | None = None) -> None:
        """Something has changed, perhaps in the session of this card: hold the bounds, and see who
        waited for it."""
        if self._bounds.hold() and not self._looking:
            self._looking = True
            self.actor_ref.tell(Call(self._look_again))
        self._look_whether_settled(card)

    def _look_again(self) -> None:
        self._looking = False
        self._look()

    def _shed(self, key: str) -> None:
        """An agent is gone, or stays. Behind the last of those that were shed, memory is given back."""
        if not self._bounds.shed(key) or self._giving_back:
            return
        try:
            given = self.runtime.submit(give_back, name="give memory back")
        except RuntimeClosed:
            return
        self._giving_back = True
        over = Call(self._memory_given_back)
        self.pipe_to_self(given, lambda _: over, lambda _: over)

    def _memory_given_back(self) -> None:
        self._giving_back = False
        self._look()

    def on_sweep_room(self, _: SweepRoom) -> int:
        """Release what is idle now, and close what has expired."""
        sweep = Sweep(self.defer_reply())
        self._requests.begin_sweep(sweep)
        self._go_on_sweeping(sweep)
        return LATER

    def _go_on_sweeping(self, sweep: Sweep) -> None:
        more = self._bounds.sweep(sweep)
        self._look()
        if more:
            self.actor_ref.tell(Call(self._go_on_sweeping, sweep))
        else:
            self._requests.found_all(sweep)

    def on_configure(self, message: messages.Configure) -> Policy:
        """Change the policy."""
        unknown = sorted(set(message.changes) - set(Policy.names()))
        if unknown:
            msg = f"no such setting: {', '.join(unknown)}. There are: {', '.join(Policy.names())}"
            raise TypeError(msg)
        context = self._context
        old, new = context.policy, dataclasses.replace(context.policy, **message.changes)
        self._bounds.follow(new)
        context.policy = new
        self._say_whether_warm()
        if new.sweep_every != old.sweep_every:
            self._set_sweeper()
        if new.session_ttl is not None and old.session_ttl is None:
            self._bounds.watch_expiry()
        if new.lease_ttl != old.lease_ttl and context.writer is not None:
            context.writer.beat()
        logger.info("The policy is now %s", new)
        self._look()
        if self._bounds.sweep_idle():
            self.actor_ref.tell(SweepRoom())
        return new

    # Settling.

    def on_settle_room(self, _: messages.SettleRoom) -> bool:
        """Answer when nothing is under way."""
        self._settling.wait(self.defer_reply())
        self._look_whether_settled()
        return LATER

    def _look_whether_settled(self, card: Card | None = None) -> None:
        """Something is over, perhaps the last of what was waited for."""
        if not self._settling.waiting:
            return
        if card is not None:
            self._settling.heard_of(card)
        if not self._under_way() and self._settling.wants_a_look():
            self.actor_ref.tell(Call(self._settle))

    def _settle(self) -> None:
        self._settling.look(under_way=self._under_way())
        self._look_whether_settled()

    def _under_way(self) -> bool:
        return bool(self._requests.asked) or self._giving_back or self._looking

    # Drain.

    def on_drain_room(self, message: messages.DrainRoom) -> DrainReport:
        """Begin no turn any more, commit what is dirty, close everything."""
        draining = self._draining
        if draining.report is not None and draining.answered:
            return draining.report
        draining.wait(self.defer_reply())
        begins = draining.progress is None
        if begins:
            draining.begin(message.deadline)
        # Behind what the sessions are told: what a caller that sees this asks of one comes later.
        self.runtime.send(self._say_draining, None)
        if begins:
            self._set_drain_timers()
            self._look_whether_drained()
        elif message.hurries and draining.hurry(message.deadline):
            self._set_drain_timers()
        return LATER

    def _say_draining(self, _: None) -> None:
        self._context.draining = True
        self._say_whether_warm()

    def _set_drain_timers(self) -> None:
        for stage, seconds in self._draining.stages_left().items():
            self.call_later(seconds, Call(self._reach_stage, stage))

    def _reach_stage(self, stage: int) -> None:
        self._draining.reach(stage)
        self._look_whether_drained(late=stage == REPORT)

    def on_session_drained(self, message: messages.SessionDrained) -> None:
        """It has done what it could."""
        self._draining.drained(message)
        self._look_whether_drained()

    def _look_whether_drained(self, *, late: bool = False) -> None:
        if self._draining.sum_up(late=late):
            self._leave_sessions_to_others()

    def _leave_sessions_to_others(self) -> None:
        """Leave the sessions to other rooms, where there is a store. Then it is time for the answer."""
        if self._context.writer is None:
            self._draining.answer()
        else:
            ask_and_hear(self, self._context.writer, messages.CloseBooks())

    def on_answered(self, _: messages.Answered) -> None:
        """The sessions are left to other rooms, as far as the store could be told."""
        self._draining.answer()

    # Figures.

    def on_count_agents(self, _: messages.CountAgents) -> int:
        """Count the sessions that have an agent."""
        return len(self._bounds.residents)

    def on_get_stats(self, _: messages.GetStats) -> tuple[RoomStats, list[Card]]:
        """Hand out the counters and the cards, for `count_cards()`."""
        # Both in one step: the hits of a session that ends are on its card, or in the counters.
        stats = self._counters.stats(
            self._context, memory_budget=self._bounds.budget, events_dropped=self._listeners.dropped
        )
        return stats, list(self._context.cards.values())

    # What gateways call through a proxy, when they want the actor itself.

    def sweep(self) -> int:
        """Release what is idle now. See `Greenroom.sweep`."""
        return self.on_sweep_room(SweepRoom())

    def stats(self) -> RoomStats:
        """Count. See `Greenroom.stats`."""
        return self._on_a_worker(count_cards, self.on_get_stats(messages.GetStats()))

    def keys(self) -> tuple[str, ...]:
        """The sessions with an agent, least recently used first."""
        return self._on_a_worker(cached_keys, self._context.cards)

    def _on_a_worker(self, count: Callable[..., T], what: Any) -> T:
        """Answer with what is counted on a worker: it would be too long for a handler."""
        self.runtime.submit(count, what, name="count").on_done(self.defer_reply().pass_on)
        return LATER

    def configure(self, /, **changes: Any) -> Policy:
        """Change the policy. See `Greenroom.configure`."""
        return self.on_configure(messages.Configure(changes=changes))

    def settle(self) -> bool:
        """Answer when nothing is under way. See `Greenroom.settle`."""
        return self.on_settle_room(messages.SettleRoom())

    def drain(self, deadline: float = 30.0) -> DrainReport:
        """Drain the room. See `Greenroom.drain`."""
        check_wait("the deadline of a drain", deadline)
        return self.on_drain_room(messages.DrainRoom(deadline=deadline))
