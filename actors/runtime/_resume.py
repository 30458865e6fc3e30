"""How the next incarnation of an actor goes on with what the failed one was doing.

Two things outlive an incarnation, if its parent restarts it with `replay=True`:

- **The message in hand**, with its asker, if one still waits. The next incarnation gets it first.
- **What was decided.** A handler that decides first and acts then gives its decision to `Actor.do()`,
  which keeps it in the mailbox, the *outbox*, and performs one effect after the other. If one raises,
  the next incarnation goes on with that one. The message has done its part and does not come again.

    the handler raises      it was asked, the reply was not deferred       it was told, or deferred
      before do()           the asker gets the exception                   the message comes again
      in do() or behind     the same; then the outbox goes on, at once     the outbox goes on

    the next incarnation:   on_start(), the outbox, the message, what waited behind it

Where do they live? Before `on_start()` both are put at the front of the backlog, the outbox as a
`Resume`: whoever looks whether a mailbox has something to do finds them, the short way of an ask
included, and no other message is handled before. An actor that neither fails nor calls `do()` has
nothing of all this.

Every failure is a strike against the message, or the effect, in hand. After more than `at_most` strikes
in a row that is dropped: logged, reported as a dead letter, told to the next incarnation
(`on_dropped()`); and the actor lives on. An `on_start()` that raises is no strike, unless it raised in
`do()`.

What about an asker? If its reply was deferred and not answered, the message takes the future along, and
the reply that the failed incarnation made is void: its end must not answer for the next. If the message
is dropped, its asker gets the exception. An asker that was answered before, with an exception or because
of a Ctrl-C, knows that its message was not handled: that does not come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenroom.actors.runtime._life import Item

__all__ = ["LookForDropped", "Resume", "Unfinished"]


class Resume:
    """What a mailbox tells itself: go on with the outbox."""

    __slots__ = ()


class LookForDropped(Resume):
    """What a mailbox tells itself: a reply may have been let go without an answer. Behind the message in
    hand, which may be put back, and then its reply counts for nothing."""

    __slots__ = ()


class Unfinished:
    """What an incarnation failed on, and how many before it failed on the same."""

    item: Item | None = None
    """The message, if it is one that may come again."""
    exception: BaseException | None = None
    """What its asker gets if it does not."""
    at_most: int | None = None
    """How often it may come again: what the parent says. `None`: not at all."""
    struck: Any = None
    strikes = 0

    def strike(self, on: Any) -> int:
        """Count a failure on this, in a row."""
        self.strikes = self.strikes + 1 if on is self.struck else 1
        self.struck = on
        return self.strikes
