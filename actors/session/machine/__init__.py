"""The machine of a session: whose turn it is, where its agent is, and how agents leave.

Pure: no threads, clocks, I/O or logging. The session actor tells it what happened and does what it
answers. Four small machines, each one value with a table (`states`), and a list of rules between them
that runs to a fixed point after every input (`rules`). Everything they know is in `data`, the inputs are
the methods of `SessionMachine` (`machine`), and what they answer is in `effects`.

    begin, end            a turn, from the waiting line to its end; withdraw and expire leave the line
    entered, recorded     what a store says before a turn and after it
    built, adopt          an agent comes
    release, evict, close it goes: at once, or when the turn has ended; torn_down when it has gone
    flush, start_commit, committed, commit_stuck, commit_lost, retry
    fail, drain, force, abandon

A release that may be called off (idle, capacity, memory, evict) leaves the agent in its place while its
commit runs; one that may not (another spec, discard, close) makes it a departure at once. Turns wait for
neither: the next agent is built beside what leaves. Commits are one at a time for the session, oldest
first.

With a store, the machine asks before a turn begins whether the session is this room's (else the turn
waits, or is refused) and whether the agent still knows its transcript (else it goes first). What the
ledger has of turns that were completed elsewhere is *resumed*: the next agent commits them, or a
*recovery agent* that is built only for that (`recover`) and is a departure from its first moment. What
another room has taken over is *lost*: nothing here commits it any more.
"""

from greenroom.actors.session.machine.machine import SessionMachine
from greenroom.actors.session.machine.states import CommitState, Mode, Phase, Place

__all__ = ["CommitState", "Mode", "Phase", "Place", "SessionMachine"]
