"""A runtime in one thread, with virtual time and a seed: for tests, yours as well as ours.

The same actors, mailboxes, futures and timers as on the real runtime; only who runs next is decided in
another way. At every step the simulation makes a list of what could happen now (which mailbox handles
its next message, which task goes on, whether time passes) and its seed picks one. Slow work takes a
random, virtual time. Fault points fail with the probability they are given.

    with Simulation(seed=7) as sim:
        account = sim.start(Account)
        sim.task(withdraw(account, 80))
        sim.task(withdraw(account, 80))
        sim.run()
        assert account.proxy().balance.get() >= 0

Guarantees, each with its test in `tests/actors/simulation/`:

- One seed, one schedule: the trace of two runs is the same byte for byte, in any process.
- Blocking on a future drives the simulation until it is set. If nothing can run any more, `Deadlock`
  says who waits for whom.
- Time passes only when the simulation lets it. An hour of timers takes as long as its messages.

When not to use it: for code that waits for something outside (a socket, an asyncio loop, a thread).
What is not in the simulation it cannot schedule. And whatever the code under test draws from elsewhere
(`random`, the real clock, the order of a set) the seed does not repeat: take `sim.random` and
`runtime.clock()`.
"""

from greenroom.actors.simulation._faults import InjectedFault
from greenroom.actors.simulation._simulation import Simulation
from greenroom.actors.simulation._tasks import SimulatedTask
from greenroom.actors.simulation._waiting import Deadlock, NotIdle

__all__ = ["Deadlock", "InjectedFault", "NotIdle", "SimulatedTask", "Simulation"]
