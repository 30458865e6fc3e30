"""An agent's hooks: what greenroom calls on it, and how each is found."""

from __future__ import annotations

import functools
import inspect
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

from greenroom.actors.runtime._calls import check_function
from greenroom.actors.session.generations import Generation

__all__ = ["AgentHooks"]

Hook = Callable[[Any], Any]

NAMES = {
    "commit": "commit_memory_session",
    "release": "release_clients",
    "close": "close",
    "shutdown_memory": "shutdown_memory_provider",
    "interrupt": "interrupt",
}
"""What a hook is called on an agent that brings its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHooks:
    """Functions of an agent, sync or async, in the place of its methods. One that is not given is looked
    up on the agent by name: `commit_memory_session()`, `release_clients()`, `close()`,
    `shutdown_memory_provider()`, `interrupt()`. One that is not there either is not called."""

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

    def find(self, agent: Any, name: str) -> Callable[[], Any] | None:
        """Return the hook of this agent, to be called without arguments, if there is one.

        This runs none of the agent's own code. Where looking a hook up would (a property, or
        `__getattr__`), it is looked up when it is called, on a worker: it may be slow there, and raise.
        """
        given: Callable[..., Any] | None = getattr(self, name)
        if given is not None:
            return functools.partial(given, agent)
        found = _look_up(agent, NAMES[name])
        if found is MISSING and not hasattr(agent.__class__, "__getattr__"):
            return None
        if isinstance(found, (types.FunctionType, staticmethod, classmethod)):
            return cast("Callable[[], Any]", getattr(agent, NAMES[name]))
        if found is MISSING or hasattr(found.__class__, "__get__"):
            return functools.partial(_call_late, agent, (NAMES[name],))
        return found if callable(found) else None

    def find_commit(self, agent: Any, generation: Generation) -> Callable[[], Any] | None:
        """Return the commit hook, to be called without arguments: with this generation, if it takes one
        (an argument that it cannot be called without, or one by the name of `generation`)."""
        hook: Callable[..., Any] | None = self.find(agent, "commit")
        if hook is None:
            return None
        if getattr(hook, "func", None) is _call_late:
            return functools.partial(_call_late, agent, (NAMES["commit"],), generation)
        return functools.partial(hook, generation) if takes_generation(hook) else hook

    def farewell(self, agent: Any, *, close: bool) -> list[tuple[str, Callable[[], Any]]]:
        """Return the hooks of a release or of a close, by name, in the order they are called."""
        hooks: list[tuple[str, Callable[[], Any]]] = []
        for name in ("shutdown_memory", "close") if close else ("release", "close"):
            hook = self.find(agent, name)
            if hook is not None:
                hooks.append((NAMES[name], hook))
                if not close:
                    break
        if not close and hooks and getattr(hooks[0][1], "func", None) is _call_late:
            # Whether it has this one turns out when it is called.
            instead = (NAMES["release"], NAMES["close"])
            return [(hooks[0][0], functools.partial(_call_late, agent, instead))]
        return hooks


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


def _call_late(agent: Any, names: tuple[str, ...], generation: Generation | None = None) -> Any:
    """Call the first of these methods that the agent has."""
    for name in names:
        method = getattr(agent, name, None)
        if callable(method):
            with_it = generation is not None and takes_generation(method)
            return method(generation) if with_it else method()
    return None


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
