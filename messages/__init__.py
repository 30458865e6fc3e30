"""Every message that actors send each other, and nothing else.

A message is a frozen, slotted, keyword-only dataclass: an imperative for what is asked, the past tense
for what happened. Nothing mutable travels inside one, so it may be read on any thread.
"""

from greenroom.messages._runtime import ChildFailed

__all__ = ["ChildFailed"]
