"""An agent's hooks: what greenroom calls on it, and how each is found."""

from __future__ import annotations

import functools
import inspect
import types
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NoReturn, cast

from greenroom.actors.runtime._calls import check_function, is_async
from greenroom.actors.session.generations import Generation

__all__ = ["AgentHooks"]

Hook = Callable[[Any], Any]
Found = tuple[str, Callable[[], Any]]

NAMES = {
    "commit": ("commit_memory_session",),
    "release": ("release_clients",),
    "close": ("close", "aclose", "__aexit__"),
    "shutdown_memory": ("shutdown_memory_provider",),
    "interrupt": ("interrupt",),
}
"""What a hook is called on an agent that brings its own. The first that it has is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHooks:
    """Functions of an agent, sync or async, in the place of its methods. One that is not given is looked
    up on the agent by name: `commit_memory_session()`, `release_clients()`, `close()` (or `aclose()`, or
    `__aexit__()`), `shutdown_memory_provider()`, `interrupt()`. One that is not there either, or is
    `None`, is not called. Of `release` and `close`, each stands in for the other: an agent that has one
    of them is torn down once, whichever way it goes."""

    commit: Callable[..., Any] | None = None
    """Extract memories from the turns since the last commit. It may take the generation as well."""

    release: Hook | None = None
    """Free clients and buffers; the session may resume."""

    close: Hook | None = None
    """Shut everything; the session is over."""

    shutdown_memory: Hook | None = None
    """Shut the memory provider, before `close`."""

    interrupt: Hook | None = None
    """Stop the running turn, soon."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check_function(
                field.name, "a function of an agent, or None", getattr(self, field.name), True
            )

    def find(self, agent: Any, *kinds: str) -> Found | None:
        """Return the first of these hooks that the agent has: its name, and the hook, to be called
        without arguments.

        This runs none of the agent's own code. Where looking a hook up would (a property, or
        `__getattr__`), it is looked up when it is called, on a worker: it may be slow there, and raise.
        """
        late: list[str] = []
        found = None
        for name, hook in self._all(agent, kinds):
            if hook is not None:
                found = name, hook
                break
            late.append(name)
        if not late:
            return found
        return late[0], functools.partial(_call_late, agent, late, found and found[1])

    def _all(self, agent: Any, kinds: tuple[str, ...]) -> Iterator[tuple[str, Callable[[], Any] | None]]:
        """The hooks that the agent has, or may have: `None`, that turns out when it is called."""
        for kind in kinds:
            given: Hook | None = getattr(self, kind)
            if given is not None:
                yield NAMES[kind][0], functools.partial(given, agent)
                continue
            for name in NAMES[kind]:
                found = _look_up(agent, name)
                if isinstance(found, (types.FunctionType, staticmethod, classmethod)):
                    yield name, _bound(getattr(agent, name), name)
                elif found is MISSING:
                    if hasattr(agent.__class__, "__getattr__"):
                        yield name, None
                elif hasattr(found.__class__, "__get__"):
                    yield name, None
                elif found is not None:
                    yield name, _bound(found, name)

    def find_commit(self, agent: Any, generation: Generation) -> Callable[[], Any] | None:
        """Return the commit hook, to be called without arguments: with this generation, if it takes one
        (an argument that it cannot be called without, or one by the name of `generation`)."""
        found = self.find(agent, "commit")
        if found is None:
            return None
        hook: Any = found[1]
        if getattr(hook, "func", None) is _call_late:
            return functools.partial(hook, generation=generation)
        return functools.partial(hook, generation) if takes_generation(hook) else hook

    def farewell(self, agent: Any, *, close: bool) -> list[Found]:
        """Return the hooks of a release or of a close, by name, in the order they are called."""
        if not close:
            found = [self.find(agent, "release", "close")]
        else:
            found = [self.find(agent, "shutdown_memory"), self.find(agent, "close", "release")]
        return [hook for hook in found if hook is not None]

    def has_async(self, agent: Any) -> bool:
        """Whether the agent has an async method, or a hook that is given for it is async."""
        given = (getattr(self, name) for name in NAMES)
        return _has_async(cast("Any", type(agent))) or any(
            hook is not None and is_async(hook) for hook in given
        )


MISSING = object()


def _look_up(agent: Any, name: str) -> Any:
    """What `inspect.getattr_static` finds, and far quicker for nearly all agents."""
    found, ordinary = _on_class(cast("Any", type(agent)), name)
    if not ordinary:
        return inspect.getattr_static(agent, name, MISSING)
    if found is MISSING or not hasattr(found, "__set__"):
        return getattr(agent, "__dict__", {}).get(name, found)
    return found


@functools.lru_cache(maxsize=1024)
def _on_class(cls: Any, name: str) -> tuple[Any, bool]:
    """What a class has by this name, and whether its instances keep their attributes where all do.

    Looked up once for each class: a method that a class gets after its first agent was let go is not
    seen. An agent's own attributes are looked at every time."""
    found = inspect.getattr_static(cls, name, MISSING)
    theirs: list[Any] = [vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base)]
    shadowed = any(not isinstance(way, types.GetSetDescriptorType) for way in theirs)
    ordinary = cls.__getattribute__ is object.__getattribute__ and not issubclass(cls, type)
    return found, ordinary and not shadowed


@functools.lru_cache(maxsize=1024)
def _has_async(cls: Any) -> bool:
    methods = (getattr(member, "__func__", member) for _, member in inspect.getmembers_static(cls))
    return any(inspect.isasyncgenfunction(one) or inspect.iscoroutinefunction(one) for one in methods)


def _bound(method: Any, name: str) -> Callable[[], Any]:
    """What is called without arguments. Leaving a context takes three: here, no exception."""
    if not callable(method):
        return functools.partial(_refuse, name, type(method).__name__)
    return functools.partial(method, None, None, None) if name == "__aexit__" else method


def _refuse(name: str, kind: str) -> NoReturn:
    msg = f"{name} of the agent is of type {kind}, and cannot be called: make it a method, or None"
    raise TypeError(msg)


def _call_late(
    agent: Any,
    names: list[str],
    otherwise: Callable[[], Any] | None = None,
    generation: Generation | None = None,
) -> Any:
    """Call the first of these methods that the agent has."""
    for name in names:
        method = getattr(agent, name, None)
        if method is not None:
            hook: Callable[..., Any] = _bound(method, name)
            return hook(generation) if generation is not None and takes_generation(hook) else hook()
    return None if otherwise is None else otherwise()


def takes_generation(hook: Callable[..., Any]) -> bool:
    """Tell whether a commit hook wants to know up to which generation it commits.

    An argument that may be left out is somebody's own (the messages to extract from, say), unless it is
    called `generation`.
    """
    plain = hook.__func__ if isinstance(hook, types.MethodType) else None
    if isinstance(plain, types.FunctionType) and not vars(plain):
        # An ordinary method: what inspect comes to as well, which takes far longer and looks for all
        # that a decorator may have left.
        names = plain.__code__.co_varnames[: plain.__code__.co_argcount][1:]
        optional = len(plain.__defaults__ or ())
        return bool(names) and (optional < len(names) or names[0] == "generation")
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):  # it is written in C, say
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional:
        return False
    return positional[0].default is inspect.Parameter.empty or positional[0].name == "generation"


def forget_transcript(agent: Any) -> None:
    """Empty the transcript buffer of a released agent, where it has one: the store has it."""
    messages = _look_up(agent, "_session_messages")
    if isinstance(messages, (list, dict, set, deque)):
        messages.clear()
