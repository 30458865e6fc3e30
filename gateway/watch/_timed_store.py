"""A store that tells how long it takes. Everything else is as in the store that it stands before.

    store = TimedStore(open_store(url))
    store.observe = note           # note("append", 0.0007, False), on whatever thread it was

Timed are the beginnings and ends of turns and transactions on the ledger, from asking for a connection
to the commit, and all that reads or writes a transcript: in its blocking form, and in that which ends in
`_soon`, from asking to the answer.
Not timed is what never waits (`peek`, `own_writes`): the room asks that in the handlers of its actors,
and gets the store's own methods, without a detour.

What counts as a failure is what the room takes for one: the store could not be asked or told. That there
is no such session, or that somebody else has it, is an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

__all__ = ["OPERATIONS", "Observe", "TimedStore"]

Observe = Callable[[str, float, bool], object]
"""Is told the operation, its seconds, and whether it failed. On any thread; must not raise."""

OPERATIONS = (
    "append",
    "create_session",
    "delete_session",
    "end_session",
    "extend",
    "messages",
    "record",
    "session",
    "sessions",
    "take_all",
    "transaction",
)
"""What is timed, where the store has it."""

UNTIMED = ("can_peek", "own_writes", "own_writes_done", "peek")
"""What is asked in handlers of actors, and must cost nothing."""


class TimedStore:
    """A store, and somebody who is told how long it takes."""

    def __init__(self, store: Any, observe: Observe | None = None) -> None:
        self.store = store
        """The store itself."""
        self.observe = observe
        """Who is told. `None`: nobody."""
        for name in UNTIMED:
            if hasattr(store, name):
                setattr(self, name, getattr(store, name))
        if hasattr(store, "transact"):
            self.transact = self._timed("transaction", store.transact)
        for name in OPERATIONS:
            if name != "transaction" and hasattr(store, name):
                setattr(self, name, self._timed(name, getattr(store, name)))
            if hasattr(store, f"{name}_soon"):
                setattr(self, f"{name}_soon", self._timed_soon(name, getattr(store, f"{name}_soon")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def __repr__(self) -> str:
        return repr(self.store)

    def transaction(self, durability: str | None = None) -> Any:
        """See `Store.transaction`."""
        return _TimedTransaction(self, self.store.transaction(durability))

    def note(self, name: str, began: float, error: BaseException | None) -> None:
        """Tell of a call that is over."""
        observe = self.observe
        if observe is not None:
            observe(name, perf_counter() - began, error is not None and _away(error))

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter()
            try:
                answer = call(*args, **kwargs)
            except BaseException as error:
                self.note(name, began, error)
                raise
            self.note(name, began, None)
            return answer

        return timed

    def _timed_soon(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter()
            pending = call(*args, **kwargs)
            # What was asked for goes on, and is timed, whether somebody waits for it or not.
            future: Future[Any] | None = getattr(pending, "_future", None)
            if future is not None:
                future.add_done_callback(lambda done: self.note(name, began, done.exception()))
            return pending

        return timed


class _TimedTransaction:
    """A transaction. Its own class, since a generator in the place of it would cost as much again."""

    __slots__ = ("_began", "_store", "_transaction")

    def __init__(self, store: TimedStore, transaction: Any) -> None:
        self._store = store
        self._transaction = transaction

    def __enter__(self) -> Any:
        self._began = perf_counter()
        try:
            return self._transaction.__enter__()
        except BaseException as error:
            self._store.note("transaction", self._began, error)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            handled: bool | None = self._transaction.__exit__(kind, error, traceback)
        except BaseException as last:
            self._store.note("transaction", self._began, last)
            raise
        self._store.note("transaction", self._began, None if handled else error)
        return handled


def _away(error: BaseException) -> bool:
    """Whether it is the store, and not what was asked of it."""
    return isinstance(error, OSError) or bool(getattr(error, "temporary", False))
