"""A store as the agents of one session get it: they write to a transcript while it is their session's.

1. an agent of ours begins a turn  2. our process is suspended  3. another room takes the session over,
and goes on with its transcript  4. we wake up, and our agent writes what it was about to. That would be
a message in the middle of somebody else's turn, so it is refused, with `LostOwnership`.

Each write therefore shows a fence: who holds the session id, and under which epoch. The store compares
that with what it has, in the transaction of the write: whoever looks first and writes then can be
suspended in between. A session id that the session never held, or 256 others ago, has no fence, and can
be written to as by anybody.

What this asks of a store, beside what `bookkeeping` lists: `append`, `extend`, `end_session` and their
twins that end in `_soon` take a `fence`, which is `None` or an object with `owner` and `epoch`; and the
error with which they refuse one has an attribute `fenced` that is true. Everything else is the store's
own.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actors.errors import LostOwnership

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

__all__ = ["BoundPending", "BoundStore", "Fence", "Fences"]

FENCED = ("append", "end_session", "extend")
FENCED_SOON = ("append_soon", "end_session_soon", "extend_soon")

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


class Fence(NamedTuple):
    """What a write must show: who held the session when it was made, and under which epoch."""

    owner: str
    epoch: int


@dataclass(slots=True, eq=False, repr=False)
class BoundStore:
    """A store as the agents of one session get it. What they write to a transcript of their session is
    refused with `LostOwnership` once another room has taken that over."""

    _store: Any
    _key: str
    _fences: Fences

    def __repr__(self) -> str:
        return f"<{self._store!r}, for the agents of {self._key!r}>"

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name in FENCED:
            return partial(self._write, method)
        return partial(self._write_soon, method) if name in FENCED_SOON else method

    def _write(self, write: Callable[..., Any], session_id: str, *what: Any, **more: Any) -> Any:
        with self._translating(session_id):
            return write(session_id, *what, fence=self._fences.get(session_id), **more)

    def _write_soon(
        self, write: Callable[..., Any], session_id: str, *what: Any, **more: Any
    ) -> BoundPending:
        pending = write(session_id, *what, fence=self._fences.get(session_id), **more)
        return BoundPending(pending, partial(self._translating, session_id))

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


@dataclass(slots=True, eq=False)
class BoundPending:
    """What comes of a write that was begun: awaited, or got."""

    _pending: Any
    _translating: Callable[[], AbstractContextManager[None]]

    def __await__(self) -> Generator[Any, None, Any]:
        awaiting: Generator[Any, None, Any] = self._pending.__await__()
        with self._translating():
            return (yield from awaiting)

    def get(self, timeout: float | None = None) -> Any:
        """Wait for it."""
        with self._translating():
            return self._pending.get(timeout)
