"""Decides which sessions keep an agent in memory, and brings back those that fail.

The supervisor holds order and bounds. It never takes an agent away: it asks the session to release it,
and a session in a turn says no.

    RootSupervisor        restarts the other two if they fail
      ├ CacheSupervisor   order and bounds, listeners, drain; restarts sessions that fail
      │   ├ Session       one for each key (`greenroom.actors`)
      │   └ Announcer     one for each listener
      └ Recovery          with a ledger: takes up what other rooms have left

With a store there is a `StoreWriter`, too. It is no actor: whoever waits for a write writes, for all.

`eviction.py` (order of use, order of rest, cap, memory, expiry) and `drain.py` are pure: they decide,
the supervisor's parts (`cache.py` names them) send the messages.

Guarantees, with their tests in `tests/`:

- Only the first (size - cap) in the order of use are ever asked to release for the cap; one that is in a
  turn stays, and no younger one goes in its place.
- A sweep costs what it evicts, not what it keeps.
- A session that fails is restarted with its generations, agent and waiting turns, at most 3 times in
  5 s; then it takes no turn until it is ended. Others notice nothing.
- A supervisor that fails learns its order from the sessions.
- A drain answers within a second of its deadline, whatever hangs.
- What sessions ask of the store is written in their order, everything that waits in one transaction.
"""

from greenroom.supervisor._meter import MemoryUnknown, resident
from greenroom.supervisor.cache import CacheSupervisor
from greenroom.supervisor.counters import count_cards
from greenroom.supervisor.root import RootSupervisor

__all__ = ["CacheSupervisor", "MemoryUnknown", "RootSupervisor", "count_cards", "resident"]
