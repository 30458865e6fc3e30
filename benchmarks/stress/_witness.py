"""The witness: whether the invariants of the design held, from what was seen. Pure.

It is told everything in the order of the log (`_observations` says what that order means) and looks at
the room's own figures now and then. It remembers what is going on, agents that are alive and sessions in
which something is under way, and forgets the rest: an hour costs what a second costs.

What it concludes must be certain. Where a look can fall into the middle of something, it is only a
violation if it stays so: see `look`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from greenroom.stress._figures import Histogram
from greenroom.stress._findings import INVARIANTS, Finding, Lasting
from greenroom.stress._observations import Kind, Seen
from greenroom.stress._result import Check

__all__ = ["HUNG", "TOO_LONG", "Agent", "Witness"]

HUNG = 1.0
"""A hook that has not come back for so many seconds may be hung."""

TOO_LONG = 5.0
"""A turn that needs nothing but its own idle agent, and waits for longer, waits for somebody else."""


@dataclass(slots=True)
class Agent:
    """What is known of an agent that is alive, or whose last turn is not yet LEFT."""

    key: str
    in_turn: bool = False
    ending: int = 0
    """Turns that are ENDED and not LEFT."""

    ended: int = 0
    """Turns that were ENDED, completed or not."""

    owed: int = 0
    """The last generation that was completed with it; without exact numbers, how many were."""

    settled: int = 0
    """The same, when last no turn was ENDED and not LEFT: every other turn has a later one."""

    left: set[int] = field(default_factory=set[int])
    """The generations that were LEFT since."""

    paid: int = 0
    """The same as `owed`, of what was committed."""

    pays: int = 0
    """The same, of the commit in flight."""

    token: int = 0
    committing: float | None = None
    torn: float | None = None


class Session:
    """What is under way in a session. One in which nothing is, is forgotten."""

    __slots__ = ("agents", "asked", "commits")

    def __init__(self) -> None:
        self.agents = 0
        self.asked = 0
        self.commits = 0


class Witness:
    """Is told what was seen, and answers for it."""

    def __init__(self, *, exact: bool = True, began: float = 0.0) -> None:
        """`exact`: commits name the generations that turns have (a store counts on from an earlier run).
        `began`: when the run did, on the clock of the observations."""
        self.findings = {number: Finding(number) for number in INVARIANTS}
        self.commits = Histogram()
        self.teardowns = Histogram()
        self.planned_failures = 0
        self._exact = exact
        self._began = began
        self._agents: dict[int, Agent] = {}
        self._sessions: dict[str, Session] = {}
        self._hooks: dict[tuple[str, int], tuple[float, str]] = {}
        """The builds, commits and teardowns in flight, oldest first."""
        self._alive = 0
        self._draining: float | None = None
        self._over = False
        self._let_go_dirty: dict[str, str] = {}
        self._unexplained = Lasting()
        self._see: dict[Kind, Callable[[Seen], None]] = {
            Kind.ASKED: self._asked,
            Kind.BEGAN: self._begun,
            Kind.ENDED: self._ended,
            Kind.LEFT: self._left,
            Kind.REFUSED: self._answered,
            Kind.GAVE_UP: self._answered,
            Kind.BUILDING: self._building,
            Kind.BUILT: self._built,
            Kind.UNBUILT: self._unbuilt,
            Kind.COMMIT: self._commit,
            Kind.COMMITTED: self._committed,
            Kind.TEARDOWN: self._teardown,
            Kind.TORN: self._torn,
            Kind.PLANNED: self._planned,
            Kind.DRAINING: self._drain,
            Kind.OVER: self._is_over,
        }

    def see(self, seen: Seen) -> None:
        """Be told of the next observation."""
        self._see[seen.kind](seen)

    @property
    def remembered(self) -> int:
        """How much it has in mind: agents, sessions, hooks."""
        return len(self._agents) + len(self._sessions) + len(self._hooks)

    # Turns.

    def _asked(self, seen: Seen) -> None:
        self._session(seen.key).asked += 1
        self.findings[5].seen += 1

    def _answered(self, seen: Seen) -> None:
        self._session(seen.key).asked -= 1
        self._forget(seen.key)

    def _begun(self, seen: Seen) -> None:
        agent = self._agents.get(seen.agent)
        self.findings[1].seen += 1
        if agent is None or agent.torn is not None:
            self._violated(1, seen, "a turn got an agent that had been let go")
        elif agent.in_turn:
            self._violated(1, seen, "two turns had the same agent at once")
        else:
            agent.in_turn = True
        waited: float | None = seen.what
        if waited is not None and self._somebody_hangs(seen.key, seen.at - waited):
            self.findings[7].seen += 1
            if waited > TOO_LONG:
                self._violated(7, seen, f"a turn waited {waited:.1f} s for its idle agent")

    def _somebody_hangs(self, key: str, since: float) -> bool:
        """Whether a hook of another session, and none of this one, was under way long before."""
        others = False
        for began, whose in self._hooks.values():
            if whose == key:
                return False
            if began > since - HUNG:
                break
            others = True
        return others and not self._session(key).commits

    def _ended(self, seen: Seen) -> None:
        agent = self._agents.get(seen.agent)
        if agent is not None:
            agent.in_turn = False
            agent.ending += 1
            agent.ended += 1

    def _left(self, seen: Seen) -> None:
        self._answered(seen)
        agent = self._agents.get(seen.agent)
        if agent is None:
            return
        agent.ending -= 1
        if seen.what is not None:
            self.findings[4].seen += 1
            self._complete(seen, agent, seen.what)
        if not agent.ending:
            agent.settled = agent.owed
            agent.left.clear()
        if agent.torn is not None and not agent.ending:
            self._drop(seen.agent, agent)

    def _complete(self, seen: Seen, agent: Agent, generation: int) -> None:
        if not self._exact or not generation:
            agent.owed += 1
        else:
            # Of two turns that are ENDED, the later one may be LEFT first: the loop wakes whom it likes.
            if generation <= agent.settled or generation in agent.left:
                self._violated(3, seen, f"generation {agent.owed} was followed by {generation}")
            agent.left.add(generation)
            agent.owed = max(agent.owed, generation)
        if agent.torn is not None and agent.owed > agent.paid:
            self._is_let_go_dirty(seen, agent)

    # Builds.

    def _building(self, seen: Seen) -> None:
        self._hooks["build", seen.agent] = seen.at, seen.key

    def _unbuilt(self, seen: Seen) -> None:
        self._hooks.pop(("build", seen.agent), None)

    def _built(self, seen: Seen) -> None:
        self._unbuilt(seen)
        self.findings[6].seen += 1
        self._agents[seen.agent] = Agent(seen.key)
        session = self._session(seen.key)
        session.agents += 1
        self._alive += session.agents == 1

    # Commits.

    def _commit(self, seen: Seen) -> None:
        agent = self._agents.get(seen.agent)
        session = self._session(seen.key)
        self.findings[3].seen += 1
        self._hooks["commit", seen.agent] = seen.at, seen.key
        session.commits += 1
        if session.commits > 1:
            self._violated(3, seen, f"{session.commits} commits were in flight at once")
        if agent is None:
            self._violated(4, seen, "an agent was asked to commit after it had been let go")
            return
        agent.committing = seen.at
        agent.pays = agent.ended if not self._exact or seen.what is None else seen.what
        if self._exact:
            self._is_about_something(seen, agent)

    def _is_about_something(self, seen: Seen, agent: Agent) -> None:
        if not agent.ended:
            self._violated(3, seen, "a commit for an agent that has completed no turn")
        elif agent.pays < agent.token:
            self._violated(3, seen, f"a commit up to {agent.token} was followed by {agent.pays}")
        elif agent.owed and agent.pays > agent.owed + agent.ending:
            self._violated(3, seen, f"a commit up to {agent.pays}, and {agent.owed} turns are completed")
        agent.token = max(agent.token, agent.pays)

    def _committed(self, seen: Seen) -> None:
        self._hooks.pop(("commit", seen.agent), None)
        self._session(seen.key).commits -= 1
        agent = self._agents.get(seen.agent)
        if agent is not None and agent.committing is not None:
            if not self._over:
                self.commits.add(seen.at - agent.committing)
            agent.committing = None
            if seen.what:
                agent.paid = max(agent.paid, agent.pays)
        self._forget(seen.key)

    # Teardowns.

    def _teardown(self, seen: Seen) -> None:
        agent = self._agents.get(seen.agent)
        self.findings[1].seen += 1
        self._hooks["teardown", seen.agent] = seen.at, seen.key
        if agent is None or agent.torn is not None:
            self._violated(6, seen, "an agent was let go twice")
            return
        agent.torn = seen.at
        if agent.in_turn:
            self._violated(1, seen, "an agent was let go in the middle of a turn")
        if agent.owed > agent.paid:
            self._is_let_go_dirty(seen, agent)
        session = self._session(seen.key)
        session.agents -= 1
        self._alive -= not session.agents
        if not agent.ending:
            self._drop(seen.agent, agent)

    def _is_let_go_dirty(self, seen: Seen, agent: Agent) -> None:
        """A drain may do that, at its deadline. It has to say so."""
        text = f"an agent was let go with turns up to {agent.owed}, committed up to {agent.paid}"
        if self._draining is None:
            self._violated(4, seen, text)
        else:
            self._let_go_dirty[seen.key] = self._told(seen, text)

    def _torn(self, seen: Seen) -> None:
        began = self._hooks.pop(("teardown", seen.agent), None)
        if began is not None and not self._over:
            self.teardowns.add(seen.at - began[0])
        self._forget(seen.key)

    def _drop(self, number: int, agent: Agent) -> None:
        del self._agents[number]
        self._forget(agent.key)

    # The rest.

    def _planned(self, seen: Seen) -> None:
        self.planned_failures += 1

    def _drain(self, seen: Seen) -> None:
        self._draining = seen.at

    def _is_over(self, seen: Seen) -> None:
        self._over = True

    def look(
        self, at: float, *, cached: int, cap: int | None, in_turn: int, busy: int, retained: int
    ) -> bool:
        """Compare with the room's own figures. True: there are agents that nothing explains yet: look
        again soon. The figures and the log are not of one and the same moment."""
        if cap is None or self._draining is not None:
            return False
        self.findings[2].seen += 1
        explained = cap + in_turn
        alive = self._alive - busy - retained  # on its way in or out, or kept for its commit
        excess = max(cached - explained, alive - explained)
        stayed = self._unexplained.see(excess)
        if stayed:
            self.findings[2].violation(
                f"{at - self._began:.2f} s: {cached} were cached, {self._alive} sessions had an agent; "
                f"the cap is {cap}, {in_turn} were in a turn"
            )
        return stayed is False

    def vanished(self, at: float, key: str) -> None:
        """The room knows nothing of a turn that it has not answered."""
        self._violated(
            5, Seen(Kind.ASKED, at, key), "a turn was not answered, and the room does not know it"
        )

    def finish(
        self, *, known_dirty: Collection[str], abandoned: Collection[str], drain: float, deadline: float
    ) -> list[Check]:
        """The room is drained, and says which sessions it could not commit, and which it gave up."""
        for key, text in self._let_go_dirty.items():
            if key not in known_dirty:
                self.findings[4].violation(f"{text}; the drain did not report it")
        for agent in self._agents.values():
            if agent.torn is not None or agent.key in abandoned:
                continue
            self.findings[6].violation(f"session {agent.key!r}: an agent was never let go")
            if agent.owed > agent.paid and agent.key not in known_dirty:
                self.findings[4].violation(
                    f"session {agent.key!r}: turns up to {agent.owed} were completed, committed up to "
                    f"{agent.paid}; the drain did not report it"
                )
        for key, session in self._sessions.items():
            if session.asked > 0:
                self.findings[5].violation(f"session {key!r}: {session.asked} turns were never answered")
        self.findings[7].seen += 1
        if drain > deadline + 1.0:
            text = f"the drain took {drain:.1f} s: its deadline was {deadline:g} s, and a second"
            self.findings[7].violation(text)
        return [finding.check() for finding in self.findings.values()]

    def _session(self, key: str) -> Session:
        session = self._sessions.get(key)
        if session is None:
            self._sessions[key] = session = Session()
        return session

    def _forget(self, key: str) -> None:
        session = self._sessions.get(key)
        if session is not None and not (session.agents or session.asked or session.commits):
            del self._sessions[key]

    def _violated(self, number: int, seen: Seen, text: str) -> None:
        self.findings[number].violation(self._told(seen, text))

    def _told(self, seen: Seen, text: str) -> str:
        return f"{seen.at - self._began:.2f} s, session {seen.key!r}: {text}"
