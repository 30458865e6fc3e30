"""The session actor, its parts, and the pure machines that it has.

    session ── has ──> machine        whose turn it is, where the agent is, how agents leave (`machine`)
                       generations    what was completed, what is committed (`generations`)
                       card           what others may read of it (`card`)
                       callers        who waits for a turn or a commit, and what they are told
                       agents         what is built and torn down
                       commits        what is committed
                       ledger         with a store: whose the session ids are (`greenroom.actors.ledger`)
                       slow work      on workers, loops, the caller's thread (`slow_work`)

A message goes to the machine, which returns effects; the actor performs them. A warm turn is no message:
its caller's thread takes one short step at either end, with the session's baton in hand.
"""

from greenroom.actors.session._session import Session

__all__ = ["Session"]
