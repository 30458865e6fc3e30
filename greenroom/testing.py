"""For your tests: agents that record and fail, a clock that you own, faults where you want them.

    def test_my_gateway_commits_at_the_boundary(greenroom_room, greenroom_build):
        room = greenroom_room(cap=1)
        with room.turn("telegram:1"):
            pass
        evict_now(room, "telegram:1")
        assert greenroom_build.agents[0].calls == ["commit_memory_session", "release_clients"]

The fixtures come with the package (a pytest plugin): `greenroom_build`, `greenroom_clock` and
`greenroom_room`. For whole histories from a seed see `greenroom.actors.simulation`: it is a runtime, so
`Greenroom(build, runtime=Simulation(seed))` is a room in virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.actors import ManualClock, Runtime
from greenroom.actors.simulation import InjectedFault

if TYPE_CHECKING:
    from greenroom._room import Greenroom
    from greenroom.actors import BuildContext

__all__ = [
    "FaultyRuntime",
    "InjectedFault",
    "ManualClock",
    "RecordingAgent",
    "RecordingBuild",
    "evict_now",
]


class RecordingAgent:
    """An agent that writes down which of its hooks were called, in order, and fails as told.

    `fails` maps the name of a hook to what it raises: an exception, or a class of one. Change it at any
    time; take an entry out and the hook works again.
    """

    def __init__(self, context: BuildContext, fails: dict[str, Any] | None = None) -> None:
        self.key = context.key
        self.session_id = context.session_id
        self.spec = context.spec
        self.calls: list[str] = []
        self.fails: dict[str, Any] = {} if fails is None else fails

    def __repr__(self) -> str:
        return f"<RecordingAgent of {self.key!r}: {', '.join(self.calls) or 'no calls'}>"

    def commit_memory_session(self) -> None:
        """Commit, or fail."""
        self._called("commit_memory_session")

    def release_clients(self) -> None:
        """Be released, or fail."""
        self._called("release_clients")

    def shutdown_memory_provider(self) -> None:
        """Shut the memory provider, or fail."""
        self._called("shutdown_memory_provider")

    def close(self) -> None:
        """Be closed, or fail."""
        self._called("close")

    def interrupt(self) -> None:
        """Be interrupted, or fail."""
        self._called("interrupt")

    def _called(self, hook: str) -> None:
        self.calls.append(hook)
        if hook in self.fails:
            raise self.fails[hook]


class RecordingBuild:
    """Builds `RecordingAgent`s, keeps them, and fails as told: `fails` is shared by all of them, and an
    entry `"build"` makes the build itself raise."""

    def __init__(self) -> None:
        self.agents: list[RecordingAgent] = []
        self.fails: dict[str, Any] = {}

    def __call__(self, context: BuildContext) -> RecordingAgent:
        if "build" in self.fails:
            raise self.fails["build"]
        agent = RecordingAgent(context, self.fails)
        self.agents.append(agent)
        return agent

    def of(self, key: str) -> list[RecordingAgent]:
        """The agents of one session, oldest first."""
        return [agent for agent in self.agents if agent.key == key]


class FaultyRuntime(Runtime):
    """A runtime on which you make actors crash, to see that nothing is lost.

    `runtime.fail_next("effect")` makes the next session that is about to do something (answer, build,
    commit, release, tell the supervisor) fail there; it is restarted and does it after all.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._to_fail: dict[str, list[None]] = {}

    def fail_next(self, point: str, times: int = 1) -> None:
        """Fail the next `times` times that a fault point of this name is passed."""
        self._to_fail[point] = [None] * times

    def fault_point(self, name: str) -> None:
        """Raise `InjectedFault` if it is time to."""
        try:
            self._to_fail.get(name, []).pop()  # a single step: sessions pass here on many threads
        except IndexError:
            return
        raise InjectedFault(name)


def evict_now(room: Greenroom, key: str, timeout: float = 5.0) -> bool:
    """Release a session's agent and wait until that is done. True if it had one.

    A session in a turn is released when the turn ends, which this does not wait for.
    """
    evicted = room.evict(key)
    room.settle(timeout)
    return evicted
