"""Each agent is torn down exactly once, whichever hooks it has and however it goes: S1, S2."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import AgentHooks
from tests.room.agents import Cast, touch

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom import Greenroom

HOOKS = ("release_clients", "close", "aclose", "__aexit__")
TAKEN = {
    "evict": HOOKS,
    **dict.fromkeys(("end", "close"), ("close", "aclose", "__aexit__", "release_clients")),
}
"""Which of them is called: the first that the agent has."""


def agent_with(names: tuple[str, ...], calls: list[str], *, dynamic: bool = False) -> Any:
    """An agent with these hooks, on its class or found by `__getattr__`."""

    def hook(name: str) -> Callable[..., Any]:
        async def asynchronous(*args: Any) -> None:
            assert args == ((None,) * 3 if name == "__aexit__" else ())
            calls.append(name)

        def plain() -> None:
            calls.append(name)

        return asynchronous if name.startswith(("a", "_")) else plain

    hooks = {name: hook(name) for name in names}

    class Fixed:
        def __getattr__(self, name: str) -> Any:
            if dynamic and name in hooks:
                return hooks[name]
            raise AttributeError(name)

    if not dynamic:
        del Fixed.__getattr__
        for name, function in hooks.items():
            setattr(Fixed, name, staticmethod(function))
    return Fixed()


def always(agent: Any) -> Callable[[Any], Any]:
    return lambda _: agent


def let_go(room: Greenroom, how: str) -> None:
    touch(room, "a")
    if how != "close":
        getattr(room, how)("a")
        room.settle()
    room.close()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("how", ["evict", "end", "close"])
def test_every_agent_gets_exactly_one_teardown_whichever_hooks_it_has(how: str, dynamic: bool) -> None:
    """S1, S2"""
    for count in range(1, len(HOOKS) + 1):
        for names in itertools.combinations(HOOKS, count):
            calls: list[str] = []
            agent = agent_with(names, calls, dynamic=dynamic)
            cast = Cast()
            let_go(cast.room(build=always(agent)), how)
            assert calls == [next(name for name in TAKEN[how] if name in names)], names


@pytest.mark.parametrize("how", ["evict", "end", "close"])
def test_a_given_hook_stands_in_for_the_one_that_is_not_there(cast: Cast, how: str) -> None:
    """S1, S2"""
    calls: list[Any] = []

    class Dynamic:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    for hooks in (AgentHooks(release=calls.append), AgentHooks(close=calls.append)):
        for agent in (object(), Dynamic()):
            let_go(cast.room(build=always(agent), hooks=hooks), how)
            assert calls == [agent]
            calls.clear()


def test_an_attribute_that_is_none_is_no_hook(cast: Cast) -> None:
    """S2"""
    calls: list[str] = []

    class Agent:
        close = None
        commit_memory_session = None

        def __init__(self) -> None:
            self.aclose = None

        def release_clients(self) -> None:
            calls.append("release_clients")

    room = cast.room(build=lambda _: Agent())
    let_go(room, "end")
    assert calls == ["release_clients"]
    assert room.stats().hook_failures == 0
