"""A gateway that takes turns on several threads, and says so when one is completed, until it is killed.

With `finish` it takes no turns: it waits until what others left is committed, and drains.

    {"opened": pid}                                            the room is open
    {"session": …, "generation": …, "try": …}                  a turn was completed
    {"error": …}                                               something was raised
    {"report": …}                                              it is finished
"""

from __future__ import annotations

import os
import random
import threading
import time
import traceback
from typing import Any

from greenroom import Greenroom, Policy
from greenroom.store import open_store
from tests.crash.children.life import Agent, Memory, arguments, heard, say, wait_for_locks
from tests.crash.transcripts import PARTS, content


def key_of(session: str) -> str:
    """Two conversations alternate under one key: s0 and s1 under chat:0, s2 and s3 under chat:1, …"""
    return f"chat:{int(session[1:]) // 2}"


class Gateway:
    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._chance = random.Random(f"{given['seed']}/provider")
        self._memory = Memory(given["memory"], self._hesitate)
        self.room = Greenroom(self._build, policy=Policy(**given["policy"]), store=given["url"])
        say({"opened": os.getpid()})

    def _hesitate(self) -> None:
        """A provider takes its time, so that some of us are killed while it does."""
        time.sleep(self._chance.uniform(0.0, 0.01))

    def _build(self, context: Any) -> Agent:
        if context.key != key_of(context.session_id):
            say({"error": f"{context.session_id} was built for {context.key}"})
        return Agent(context, self._memory)

    def take_turns(self, number: int) -> None:
        """Take turns for ever."""
        choose = random.Random(f"{self._given['seed']}/{number}")
        for count in range(1_000_000_000):
            session = f"s{choose.randrange(self._given['sessions'])}"
            try:
                self._take_turn(session, f"{os.getpid()}-{number}-{count}")
                self._commit_sometimes(key_of(session), choose)
            except Exception:
                say({"error": traceback.format_exc()})

    def _take_turn(self, session: str, attempt: str) -> None:
        with self.room.turn(key_of(session), session_id=session) as turn:
            agent: Agent = turn.agent
            mine = turn.generation + 1
            for part in PARTS:
                agent.write(session, part, content(mine, attempt, part))
        say({"session": session, "generation": turn.generation, "try": attempt})

    def _commit_sometimes(self, key: str, choose: random.Random) -> None:
        action = choose.random()
        if action < 0.1:
            self.room.evict(key)
        elif action < 0.2:
            self.room.commit(key, timeout=10.0)

    def finish(self) -> None:
        """Wait until what was left behind is committed, and drain."""
        with open_store(self._given["url"]) as store:
            while store.sessions(dirty=True):
                time.sleep(0.02)
        report = self.room.close(deadline=20.0)
        say({"report": {"failed": report.failed, "abandoned": report.abandoned}})


def main() -> None:
    given = arguments()
    wait_for_locks()
    gateway = Gateway(given)
    if given.get("finish"):
        gateway.finish()
        return
    for number in range(given["threads"]):
        threading.Thread(target=gateway.take_turns, args=(number,), daemon=True).start()
    for _ in heard():
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
