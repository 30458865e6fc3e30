"""A store as the agents of one session get it: they write to a transcript while it is their session's.

1. an agent of ours begins a turn  2. our process is suspended  3. another room takes the session over,
and goes on with its transcript  4. we wake up, and our agent writes what it was about to. That would be
a message in the middle of somebody else's turn, so it is refused, with `LostOwnership`.

Each write therefore shows a fence: who holds the session id, and under which epoch. The store compares
that with what it has, in the transaction of the write: whoever looks first and writes then can be
suspended in between. A session id that the session never held, or 256 others ago, has no fence, and can
be written to as by anybody.

What this asks of a store, beside what `bookkeeping` lists: `append`, `end_session` and their twins that
end in `_soon` take a `fence`, which is `None` or an object with `owner` and `epoch`; and the error with
which they refuse one has an attribute `fenced` that is true. Everything else is the store's own.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from greenroom.actors.errors import LostOwnership

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

__all__ = ["BoundPending", "BoundStore", "Fence", "Fences"]

MOST_FENCES = 256
"""For how many session ids of one session it is remembered under which epoch it held them."""


class Fences:
    """Under which epoch a session holds its session ids. The session writes, its agents' threads read:
    the dict is replaced, never changed."""

    __slots__ = ("_epochs", "owner")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._epochs: dict[str, int] = {}

    def set(self, session_id: str, epoch: int) -> None:
        """The session holds this session id, under this epoch."""
        epochs = {held: under for held, under in self._epochs.items() if held != session_id}
        epochs[session_id] = epoch
        if len(epochs) > MOST_FENCES:
            del epochs[next(iter(epochs))]
        self._epochs = epochs

    def get(self, session_id: str) -> Fence | None:
        """What a write to this session id must show. `None`: nothing, the session never held it."""
        epoch = self._epochs.get(session_id)
        return None if epoch is None else Fence(self.owner, epoch)


class Fence:
    """What a write must show: who held the session when it was made, and under which epoch."""

    __slots__ = ("epoch", "owner")

    def __init__(self, owner: str, epoch: int) -> None:
        self.owner = owner
        self.epoch = epoch


class BoundStore:
    """A store as the agents of one session get it. What they write to a transcript of their session is
    refused with `LostOwnership` once another room has taken that over."""

    __slots__ = ("_fences", "_key", "_store")

    def __init__(self, store: Any, key: str, fences: Fences) -> None:
        self._store = store
        self._key = key
        self._fences = fences

    def __repr__(self) -> str:
        return f"<{self._store!r}, for the agents of {self._key!r}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, session_id: str, *, role: str, content: Any) -> Any:
        """Append a message. See `Store.append`."""
        return self._fenced(self._store.append, session_id, role=role, content=content)

    def end_session(self, session_id: str) -> Any:
        """End a session. See `Store.end_session`."""
        return self._fenced(self._store.end_session, session_id)

    def append_soon(self, session_id: str, *, role: str, content: Any) -> BoundPending:
        """Append a message, on an event loop."""
        fence = self._fences.get(session_id)
        pending = self._store.append_soon(session_id, role=role, content=content, fence=fence)
        return BoundPending(pending, lambda: self._translating(session_id))

    def end_session_soon(self, session_id: str) -> BoundPending:
        """End a session, on an event loop."""
        pending = self._store.end_session_soon(session_id, fence=self._fences.get(session_id))
        return BoundPending(pending, lambda: self._translating(session_id))

    def _fenced(self, write: Callable[..., Any], session_id: str, **more: Any) -> Any:
        with self._translating(session_id):
            return write(session_id, fence=self._fences.get(session_id), **more)

    @contextmanager
    def _translating(self, session_id: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not getattr(error, "fenced", False):
                raise
            msg = (
                f"session {self._key!r}: another room has taken {session_id!r} over, and nothing can be "
                f"written to it here any more ({error})"
            )
            raise LostOwnership(msg, self._key) from error


class BoundPending:
    """What comes of a write that was begun: awaited, or got."""

    __slots__ = ("_pending", "_translating")

    def __init__(self, pending: Any, translating: Callable[[], AbstractContextManager[None]]) -> None:
        self._pending = pending
        self._translating = translating

    def __await__(self) -> Generator[Any, None, Any]:
        awaiting: Generator[Any, None, Any] = self._pending.__await__()
        with self._translating():
            return (yield from awaiting)

    def get(self, timeout: float | None = None) -> Any:
        """Wait for it."""
        with self._translating():
            return self._pending.get(timeout)
