"""One of many gateways that want the same sessions. It opens room after room, takes some turns in each,
and notes them in a file.

    {"ready": pid}      everything is loaded. It begins when it hears `{"seconds": …}`
    {"errors": […]}     it is through
"""

from __future__ import annotations

import os
import random
import threading
import time
import traceback
from typing import Any

from greenroom import Greenroom, Policy, TurnTimeout
from greenroom.store import open_store
from tests.crash.children.life import Agent, arguments, heard, say, wait_for_locks
from tests.crash.history import Noted


class Rival:
    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._store = open_store(given["url"], durability="normal")
        self._log = os.open(given["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._choose = random.Random(given["seed"])
        self.errors: list[str] = []

    def run(self, until: float) -> None:
        """Open one room after the other. Each hands its sessions over when it closes."""
        while time.monotonic() < until:
            room = Greenroom(
                lambda context: Agent(context, None),
                policy=Policy(lease_ttl=60.0),  # nobody's ends
                store=self._store,
                durability="normal",
            )
            threads = [
                threading.Thread(target=self._try_turns, args=(room, self._choose.random(), until))
                for _ in range(self._given["threads"])
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            room.close(deadline=20.0)
        self._store.close()

    def _try_turns(self, room: Greenroom, seed: float, until: float) -> None:
        choose = random.Random(seed)
        try:
            for _ in range(choose.randint(2, 8)):
                if time.monotonic() < until:
                    self._try_turn(room, f"s{choose.randrange(self._given['sessions'])}")
        except Exception:
            self.errors.append(traceback.format_exc())

    def _try_turn(self, room: Greenroom, session: str) -> None:
        turn = room.turn(f"chat:{session}", session_id=session, timeout=1.0)
        try:
            with turn:
                begin = time.monotonic_ns()
                row = self._store.session(session)
                end = time.monotonic_ns()
        except TurnTimeout:
            return  # others hold it
        noted = Noted(
            session=session,
            begin=begin,
            end=end,
            generation=turn.generation,
            epoch=row.epoch,
            writer=str(row.owner),
        )
        os.write(self._log, f"{noted}\n".encode())


def main() -> None:
    given = arguments()
    wait_for_locks()
    rival = Rival(given)
    say({"ready": os.getpid()})
    for start in heard():
        rival.run(time.monotonic() + start["seconds"])
        say({"errors": rival.errors})
    os._exit(0)


if __name__ == "__main__":
    main()
