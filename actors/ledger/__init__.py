"""What exists only where a room has a store: how it uses it, and what it remembers of transcripts.

`_ledger` is a session's side of it: it asks, and sets timers. `accounts` decides which session ids are
this room's, `coherence` whether an agent still knows its transcript; both are pure. `bookkeeping` is all
that a room asks of a store, `_bound_store` is the store as a session's agents get it.
"""

from greenroom.actors.ledger._bound_store import BoundStore, Fences
from greenroom.actors.ledger.bookkeeping import Bookkeeping
from greenroom.actors.ledger.coherence import Remembered, TranscriptVersion

__all__ = ["Bookkeeping", "BoundStore", "Fences", "Remembered", "TranscriptVersion"]
