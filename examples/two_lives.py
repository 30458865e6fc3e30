"""A gateway that is killed in the middle of its work, and what its next life finds.

The first life completes five turns, tells of each, and is killed with SIGKILL: nothing was committed.
The second opens the same store, and the room commits what the first one left, before anybody writes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from greenroom import BuildContext, Event, Generation, Greenroom, Policy

POLICY = Policy(lease_ttl=1.0)  # how long a room that was killed is taken for alive


class OfflineAgent:
    """Answers without a network, and writes to the transcript what was said."""

    def __init__(self, context: BuildContext) -> None:
        self.store = context.store
        self.session_id = context.session_id

    def run(self, text: str) -> str:
        self.store.append(self.session_id, role="user", content=text)
        self.store.append(self.session_id, role="assistant", content=f"I heard {text!r}")
        return f"I heard {text!r}"

    def commit_memory_session(self, generation: Generation) -> None:
        said = [m.content for m in self.store.messages(self.session_id) if m.role == "user"]
        print(f"  memories of {self.session_id} up to turn {generation}: {', '.join(said)}")


def first_life(url: str) -> None:
    """Complete some turns, and be killed."""
    room = Greenroom(OfflineAgent, store=url, policy=POLICY)
    for number in range(1, 6):
        with room.turn("telegram:12345", session_id="20261115-a1") as turn:
            turn.agent.run(f"message {number}")
        print(f"  turn {turn.generation} is completed")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def second_life(url: str) -> None:
    """Find what the first life left, and go on."""
    recovered = threading.Event()

    def listen(event: Event) -> None:
        if event.kind == "recover":
            recovered.set()

    with Greenroom(OfflineAgent, store=url, policy=POLICY) as room:
        room.events(listen)
        recovered.wait(timeout=30.0)
        with room.turn("telegram:12345", session_id="20261115-a1") as turn:
            print(f"  {turn.agent.run('are you still there?')}")
        print(f"  turn {turn.generation} is completed")


def main() -> None:
    """Live twice."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'greenroom.db'}"
        print("The first life:")
        sys.stdout.flush()
        ended = subprocess.run([sys.executable, __file__, url], check=False)
        print(f"… was killed ({signal.Signals(-ended.returncode).name}). The second:")
        second_life(url)


if __name__ == "__main__":
    first_life(sys.argv[1]) if len(sys.argv) > 1 else main()
