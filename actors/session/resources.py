"""What a session has besides its agent: resources, which outlive agents, and settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from greenroom.actors.errors import RoomClosed
from greenroom.actors.runtime._future import Future

__all__ = ["BuildContext", "Resources", "Settings"]

T = TypeVar("T")


class Resources:
    """What belongs to a session and not to one agent object: a terminal, a browser, processes.

    Builds use it, on their workers. Two may be at it at once (one that was given up and has not noticed,
    and the next one), so each name is a future: whoever puts it there makes it, the other waits.
    """

    __slots__ = ("_closed", "_key", "_made")

    def __init__(self, key: str) -> None:
        self._key = key
        self._made: dict[str, tuple[Future[Any], Callable[[Any], Any] | None]] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def get(self, name: str, factory: Callable[[], T], close: Callable[[T], Any] | None = None) -> T:
        """Return the session's resource of that name. The first time, `factory()` makes it; when the
        session is over, `close(resource)` is called, last made first. A factory that raises leaves
        nothing behind."""
        mine: tuple[Future[Any], Callable[[Any], Any] | None] = (Future(), close)
        there = self._made.setdefault(name, mine)
        if there is not mine:
            resource: T = there[0].get()
            return resource
        try:
            # Only now: 1. we find the session open  2. it ends, and takes what there is  3. we put ours
            # there, which nobody would ever close. From here on, `take_all` has found ours, or we find
            # the session ended.
            if self._closed:
                msg = (
                    f"the session {self._key!r} has ended: its resource {name!r} cannot be had any more"
                )
                raise RoomClosed(msg, self._key)
            made = factory()
            if inspect.isawaitable(made):
                if inspect.iscoroutine(made):
                    made.close()
                msg = (
                    f"the factory of the resource {name!r} is async, and build may use it again and "
                    "again: make it in an async build, and keep what it returned"
                )
                raise TypeError(msg)
        except BaseException as error:
            if self._made.get(name) is mine:
                self._made.pop(name, None)
            mine[0].set_exception(error)
            raise
        mine[0].set(made)
        return made

    def take_all(self) -> list[tuple[str, Callable[[], Any]]]:
        """Close for good. Returns what is to be called, by name, last made first."""
        self._closed = True
        taken: list[tuple[str, Callable[[], Any]]] = []
        while True:
            try:
                name, (future, close) = self._made.popitem()
            except KeyError:
                return taken
            if close is not None:
                taken.append((name, _closer(future, close)))


def _closer(future: Future[T], close: Callable[[T], Any]) -> Callable[[], Any]:
    """Make the call that closes a resource: now, or when it is made, should somebody still be at it."""

    def close_made(future: Future[T]) -> Any:
        try:
            made = future.get()
        except BaseException:
            return None  # it was not made after all, and its build was told why
        return close(made)

    def call() -> Any:
        if future.done():
            return close_made(future)
        future.on_done(close_made)
        return None

    return call


class Settings(MutableMapping[str, Any]):
    """A session's control state: model overrides, pending approvals. It stays when the agent is
    released, and is dropped when the session ends.

    A mapping like any other, but each access is a message to the session, so it may be used from any
    thread and never tears. Values are kept as they are: put nothing mutable into it.
    """

    __slots__ = ("_key", "_use")

    def __init__(self, key: str, use: Callable[..., Any]) -> None:
        self._key = key
        self._use = use
        """`use(method, *args)` calls a method of the dict that the session holds, in the session."""

    def __repr__(self) -> str:
        return f"<Settings of {self._key!r}: {', '.join(sorted(self)) or 'none'}>"

    def __getitem__(self, name: str) -> Any:
        return self._use("__getitem__", name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._use("__setitem__", name, value)

    def __delitem__(self, name: str) -> None:
        self._use("__delitem__", name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._use("copy"))

    def __len__(self) -> int:
        return int(self._use("__len__"))

    def __contains__(self, name: object) -> bool:
        return bool(self._use("__contains__", name))

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting, or the default."""
        return self._use("get", name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Take a setting out, in one step: of two who pop it, one gets it."""
        return self._use("pop", name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a setting, putting it there first if need be, in one step."""
        return self._use("setdefault", name, default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Change several in one step."""
        self._use("update", dict(*args, **kwargs))

    def clear(self) -> None:
        """Drop all of them."""
        self._use("clear")


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class BuildContext:
    """What `build` gets: which session it builds for, and what that session has."""

    key: str
    session_id: str
    spec: Any
    settings: Settings
    store: Any
    resources: Resources
    given: Any = None
    """What the turn was given for `build`, beside the spec. `None` when a session is recovered."""

    def __repr__(self) -> str:
        # Neither the spec nor what was given: there may be secrets in them.
        return f"<BuildContext key={self.key!r} session_id={self.session_id!r}>"
