"""greenroom keeps the live agents of a chat gateway.

One actor a session, a bounded number of agents in memory, none of them taken away in the middle of a
turn, and no finished turn ever forgotten.

- `greenroom.actors`: the actor runtime, on pykka. An idle actor costs under a kilobyte and no thread.
- `greenroom.messages`: what actors send each other.
- `greenroom.supervisor`: what is kept alive, and what is restarted.
"""

__all__: list[str] = []
