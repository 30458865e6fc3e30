"""A threaded gateway in one screen: 40 chats, 8 threads, room for 16 agents.

The agents are offline stand-ins with the hooks that real ones have. Run it: nothing is lost, no agent is
taken away in the middle of a turn, and the room holds no more than sixteen. Press Ctrl-C: running
turns end, and everything is committed.
"""

from __future__ import annotations

import random
import threading
import time
from signal import SIGINT, SIGTERM

from greenroom import AgentSpec, BuildContext, Greenroom, Policy, RoomClosed

SPEC = AgentSpec("offline-1", toolsets=("clock",), system_prompt="You are brief.")
MEMORIES: list[str] = []


class OfflineAgent:
    """Answers without a network, and has a memory provider that is slow to write."""

    def __init__(self, context: BuildContext) -> None:
        self.session_id = context.session_id
        self.turns = 0
        self.extracted = 0

    def run(self, text: str) -> str:
        time.sleep(random.uniform(0.001, 0.005))
        self.turns += 1
        return f"{self.session_id} heard {text!r}"

    def commit_memory_session(self) -> None:
        time.sleep(0.005)
        MEMORIES.extend(f"{self.session_id} {turn}" for turn in range(self.extracted, self.turns))
        self.extracted = self.turns

    def release_clients(self) -> None:
        time.sleep(0.002)


def serve_chats(room: Greenroom, messages: int) -> None:
    """What one thread of a gateway does: a message comes, the agent of its chat answers."""
    for number in range(messages):
        key = f"telegram:{random.randrange(40)}"
        try:
            with room.turn(key, SPEC) as turn:
                turn.agent.run(f"message {number}")
        except RoomClosed:
            return  # the program ends


def main() -> None:
    """Open a room, serve, and drain."""
    policy = Policy(cap=16, idle_ttl=60.0)
    with (
        Greenroom(OfflineAgent, policy=policy) as room,
        room.shutdown_on(SIGTERM, SIGINT, deadline=10.0),
    ):
        threads = [threading.Thread(target=serve_chats, args=(room, 50)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = room.stats()
        report = room.drain(deadline=10.0)
    print(f"{stats.hits} turns found their agent, {stats.builds} agents were built")
    print(f"{stats.cached} agents were cached at the end, the cap is {stats.cap}")
    print(f"{len(report.committed)} sessions were committed by the drain, {len(report.failed)} failed")
    print(f"{len(MEMORIES)} of 400 turns are in the memory")


if __name__ == "__main__":
    main()
