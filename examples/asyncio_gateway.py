"""An asyncio gateway in one screen: a thousand chats at once, room for 50 agents, one event loop.

Everything about the agent is async: its build, its turns, its hooks. They run on the loop of whoever
wanted the agent, and nothing here blocks it.
"""

from __future__ import annotations

import asyncio
import random
from signal import SIGINT, SIGTERM

from greenroom import AgentSpec, BuildContext, Greenroom, Policy, TurnTimeout

SPEC = AgentSpec("offline-1")


class OfflineAgent:
    """Answers without a network."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    async def arun(self, text: str) -> str:
        await asyncio.sleep(random.uniform(0.0, 0.01))
        return f"{self.session_id} heard {text!r}"

    async def commit_memory_session(self) -> None:
        await asyncio.sleep(0.005)

    async def release_clients(self) -> None:
        await asyncio.sleep(0.001)


async def build(context: BuildContext) -> OfflineAgent:
    """Connecting takes a moment, and others are served meanwhile."""
    await asyncio.sleep(0.002)
    return OfflineAgent(context.session_id)


async def answer(room: Greenroom, key: str, text: str) -> str | None:
    """What a gateway does for one message. A user who gives up leaves nothing behind."""
    try:
        async with room.turn(key, SPEC, timeout=10.0) as turn:
            return str(await turn.agent.arun(text))
    except TurnTimeout:
        return None


async def main() -> None:
    """Open a room, answer two thousand messages at once, and drain."""
    policy = Policy(cap=50)
    async with Greenroom(build, policy=policy) as room, room.shutdown_on(SIGTERM, SIGINT, deadline=10.0):
        keys = [f"discord:{number % 1000}" for number in range(2000)]
        answers = await asyncio.gather(*(answer(room, key, "hello") for key in keys))
        stats = room.stats()
        await room.aclose(deadline=10.0)
    print(f"{sum(reply is not None for reply in answers)} of {len(answers)} messages were answered")
    print(f"{stats.builds} agents were built, {stats.cached} are cached, the cap is {stats.cap}")
    print(f"after the drain {room.stats().dirty} sessions are uncommitted")


if __name__ == "__main__":
    asyncio.run(main())
