"""An agent that is killed while it writes an exchange, after so many statements of that.

{"whole": …}        the exchange was written before it came to that
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from greenroom import Greenroom
from greenroom.gateway import ChatRequest
from greenroom.gateway.agents import Transcript
from greenroom.store._engine import Engine
from tests.crash.children.life import arguments, say, wait_for_locks

ANSWER: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "noon"},
    {"role": "assistant", "content": "It is noon."},
]


class Agent:
    def __init__(self, context: Any) -> None:
        self.transcript = Transcript(context)
        self.transcript.load()


def die_after(statements: int) -> None:
    """Have this thread's process killed when it has run so many more."""
    run, me, left = Engine.run, threading.get_ident(), iter(range(statements - 1))

    def run_and_die(*given: Any) -> Any:
        answer = run(*given)
        if threading.get_ident() == me and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(Engine, "run", run_and_die)  # noqa: B010  # the store has no such hook


def main() -> None:
    given = arguments()
    wait_for_locks()
    with Greenroom(Agent, store=given["url"]) as room, room.turn(given["session"]) as turn:
        die_after(given["statements"])
        turn.agent.transcript.add(
            ChatRequest(messages=({"role": "user", "content": "What time is it?"},)), ANSWER
        )
        say({"whole": True})
        os._exit(0)


if __name__ == "__main__":
    main()
