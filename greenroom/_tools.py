"""Tool definitions, made once for each toolset and configuration, and never shared.

    cache = ToolDefinitionCache(load)                    # load(toolsets, **config) -> definitions
    cache.get(["web", "files"], quiet=True)              # loads
    cache.get(["files", "web"], quiet=True)              # the same, from the cache
    cache.get(["files", "web"], quiet=True, fresh=True)  # loads, and leaves the cache alone

Definitions are lists of dicts, and gateways change theirs: they strip a field that a provider refuses,
or add a hint for one model. With a list that several share, such a change reaches whoever asks next. So
the cache keeps a copy that nobody else ever sees, and everybody gets a deep copy of it, the first caller
too.

**Threads.** Any number may call. The entries are a dict that is never changed: whoever adds to it puts
another one in its place. So there is nothing to wait for, and never more than `max_entries` of them.

1. two threads miss the same entry  2. both load  3. both put in place what they loaded: the last stays.
Two that add different entries at the very same moment may leave only one of them. In both cases
somebody loads once more than would have been needed, and gets what is right.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from greenroom.actors.runtime._calls import check_function

__all__ = ["ToolDefinitionCache"]


class ToolDefinitionCache:
    """Remembers what `load(toolsets, **config)` returned, for the last `max_entries` combinations.

    `load` gets the names of the toolsets as a sorted tuple without repetitions, or `None` if none were
    asked for in particular, and returns the definitions. What it raises is raised, and not remembered.
    """

    __slots__ = ("_entries", "_load", "_max_entries")

    def __init__(self, load: Callable[..., Iterable[Any]], *, max_entries: int = 8) -> None:
        check_function("load", "a function of (toolsets, **config)", load, may_yield=True)
        if not isinstance(max_entries, int) or isinstance(max_entries, bool) or max_entries < 1:
            msg = f"max_entries must be a whole number, 1 or more, not {max_entries!r}"
            raise ValueError(msg)
        self._load = load
        self._max_entries = max_entries
        self._entries: dict[Any, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<ToolDefinitionCache with {len(self)} of at most {self._max_entries} entries>"

    def get(
        self, toolsets: Iterable[str] | None = None, *, fresh: bool = False, **config: Any
    ) -> list[Any]:
        """Return the definitions of these toolsets under this configuration, as a list of your own.

        The order of `toolsets` does not matter, nor how often each is named; `None` and no toolset at
        all are two different things. `fresh=True` loads in any case, and neither reads nor changes the
        cache.
        """
        names = _names(toolsets)
        if fresh:
            return self._loaded(names, config)
        key = (names, _frozen(config, "config"))
        kept = self._entries.get(key)
        if kept is None:
            kept = self._loaded(names, config)
            self._keep(key, kept)
        return copy.deepcopy(kept)

    def _loaded(self, names: tuple[str, ...] | None, config: dict[str, Any]) -> list[Any]:
        loaded: Any = self._load(names, **config)
        if not _is_list(loaded):
            msg = f"load must return a list of definitions, not {type(loaded).__name__}"
            raise TypeError(msg)
        return copy.deepcopy(list(loaded))  # what `load` returned may be a list of its own

    def _keep(self, key: Any, kept: list[Any]) -> None:
        entries = {**self._entries, key: kept}
        for oldest in list(entries)[: -self._max_entries]:
            del entries[oldest]
        self._entries = entries


def _names(toolsets: Iterable[str] | None) -> tuple[str, ...] | None:
    if toolsets is None:
        return None
    if not _is_list(toolsets):
        msg = f"toolsets must be a list of names such as ['web', 'files'], or None, not {toolsets!r}"
        raise TypeError(msg)
    names: tuple[Any, ...] = tuple(toolsets)
    for name in names:
        if not isinstance(name, str):
            msg = f"each of toolsets must be a name, not {name!r}"
            raise TypeError(msg)
    return tuple(sorted(set(names)))


def _is_list(value: object) -> bool:
    """Whether something has items that are not letters, bytes or keys."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _frozen(value: Any, where: str) -> Any:
    """Something hashable that is equal for equal values, and differs for `1`, `1.0` and `True`."""
    kind: type[Any] = value.__class__
    if issubclass(kind, Mapping):
        items = (
            (_frozen(key, where), _frozen(item, f"{where}[{key!r}]")) for key, item in value.items()
        )
        return "map", frozenset(items)
    if issubclass(kind, (list, tuple)):
        return kind, tuple(_frozen(item, f"{where}[{at}]") for at, item in enumerate(value))
    if issubclass(kind, AbstractSet):
        return "set", frozenset(_frozen(item, where) for item in value)
    if issubclass(kind, float):
        return float, value.hex()  # one NaN is like another here
    try:
        hash(value)
    except TypeError as error:
        msg = (
            f"{where} is a {kind.__name__}, which cannot be compared with what is in the cache: "
            "give plain values, or ask with fresh=True"
        )
        raise TypeError(msg) from error
    return kind, value
