"""The drop-in beside a plain list of segments, in whatever order its functions are called."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import greenroom.integrations.hermes_webui as lifecycle

SID = "20261115-a1"


class Named:
    """An agent that notes its commits in a log, and fails when it is told to."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.fails = False

    def commit_memory_session(self) -> None:
        self.log.append(self.name)
        if self.fails:
            raise OSError(self.name)


class Lifecycle(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        lifecycle._reset_for_tests()
        self.log: list[str] = []
        self.agents = {name: Named(name, self.log) for name in "abc"}
        # The model: the owner of each uncommitted generation, oldest first.
        self.segments: list[str | None] = []
        self.current: str | None = None
        self.generation = 0
        self.expected: list[str] = []

    who = st.sampled_from(["a", "b", "c", None])

    def agent(self, name: str | None) -> Any:
        return None if name is None else self.agents[name]

    @rule(name=who)
    def register(self, name: str | None) -> None:
        lifecycle.register_agent(SID, self.agent(name))
        self.current = name

    @rule()
    def unregister(self) -> None:
        lifecycle.unregister_agent(SID)
        self.current = None

    @rule(name=who)
    def mark(self, name: str | None) -> None:
        self.current = name or self.current
        self.generation += 1
        self.segments.append(self.current)
        assert lifecycle.mark_turn_completed(SID, agent=self.agent(name)) == self.generation

    @rule(name=who, fails=st.booleans(), wait=st.booleans())
    def commit(self, name: str | None, fails: bool, wait: bool) -> None:
        for agent in self.agents.values():
            agent.fails = fails
        committed = lifecycle.commit_session_memory(SID, self.agent(name), wait=wait)
        owner = self.take_oldest(name or self.current)
        assert committed is (owner is not None and not fails)
        if owner is not None:
            self.expected.append(owner)
        if committed:
            while self.segments and self.segments[0] == owner:
                del self.segments[0]

    def take_oldest(self, offered: str | None) -> str | None:
        """Whoever owns the oldest segment. One without an owner takes whom it is offered, and keeps
        it."""
        if not self.segments:
            return None
        for number, owner in enumerate(self.segments):
            if owner is not None:
                break
            self.segments[number] = offered
        return self.segments[0]

    @rule(fails=st.booleans())
    def drain(self, fails: bool) -> None:
        for agent in self.agents.values():
            agent.fails = fails
        lifecycle.drain_all_on_shutdown()
        while (owner := self.take_oldest(self.current)) is not None:
            self.expected.append(owner)
            if fails:
                return
            while self.segments and self.segments[0] == owner:
                del self.segments[0]

    @rule()
    def discard(self) -> None:
        clean = not self.segments
        assert lifecycle.discard_session(SID) is clean
        if clean:
            self.current, self.generation = None, 0

    @invariant()
    def agrees(self) -> None:
        assert self.log == self.expected
        assert lifecycle.has_uncommitted_work(SID) is bool(self.segments)

    def teardown(self) -> None:
        lifecycle._reset_for_tests()


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(max_examples=40, stateful_step_count=25)
