"""The commit hook: which agents are told the generation, and what that is."""

from __future__ import annotations

import asyncio
import functools
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import AgentHooks, Generation, Greenroom
from greenroom.actors.session.hooks import takes_generation
from tests.actors.actors import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = Generation(7, "20261115-a1")
NOT_GIVEN = object()


class Notes:
    """What the hooks of a test were called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []


class Plain(Notes):
    def commit_memory_session(self) -> None:
        self.calls.append(NOT_GIVEN)


class Required(Notes):
    def commit_memory_session(self, upto: int) -> None:
        self.calls.append(upto)


class PositionalOnly(Notes):
    def commit_memory_session(self, upto: int, /) -> None:
        self.calls.append(upto)


class OwnOption(Notes):
    def commit_memory_session(self, messages: Any = NOT_GIVEN) -> None:
        self.calls.append(messages)


class OptionalGeneration(Notes):
    def commit_memory_session(self, generation: Any = NOT_GIVEN) -> None:
        self.calls.append(generation)


class GenerationBehindAnOption(Notes):
    def commit_memory_session(self, messages: Any = NOT_GIVEN, generation: Any = NOT_GIVEN) -> None:
        self.calls.append(messages)


class KeywordOnly(Notes):
    def commit_memory_session(self, *, generation: Any = NOT_GIVEN) -> None:
        self.calls.append(generation)


class AnyArguments(Notes):
    def commit_memory_session(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append(args[0] if args else NOT_GIVEN)


class OneOfTheClass(Notes):
    calls_of_class: list[Any]

    @classmethod
    def commit_memory_session(cls, generation: int) -> None:
        cls.calls_of_class.append(generation)

    def __init__(self) -> None:
        super().__init__()
        type(self).calls_of_class = self.calls


class Property(Notes):
    @property
    def commit_memory_session(self) -> Callable[[int], None]:
        return self.calls.append


class PropertyOfOneWithoutArguments(Notes):
    @property
    def commit_memory_session(self) -> Callable[[], None]:
        return lambda: self.calls.append(NOT_GIVEN)


class Dynamic(Notes):
    def __getattr__(self, name: str) -> Any:
        if name != "commit_memory_session":
            raise AttributeError(name)

        def commit(generation: int) -> None:
            self.calls.append(generation)

        return commit


class InTheInstance(Notes):
    def __init__(self) -> None:
        super().__init__()
        self.commit_memory_session = lambda generation: self.calls.append(generation)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Plain, NOT_GIVEN),
        (Required, TOKEN),
        (PositionalOnly, TOKEN),
        (OwnOption, NOT_GIVEN),
        (OptionalGeneration, TOKEN),
        (GenerationBehindAnOption, NOT_GIVEN),
        (KeywordOnly, NOT_GIVEN),
        (AnyArguments, NOT_GIVEN),
        (OneOfTheClass, TOKEN),
        (Property, TOKEN),
        (PropertyOfOneWithoutArguments, NOT_GIVEN),
        (Dynamic, TOKEN),
        (InTheInstance, TOKEN),
    ],
)
def test_an_agent_is_told_the_generation_if_its_hook_takes_one(kind: type[Notes], given: Any) -> None:
    agent = kind()
    hook = AgentHooks().find_commit(agent, TOKEN)

    assert hook is not None
    assert agent.calls == []
    hook()

    assert agent.calls == [given]
    if given is TOKEN:
        assert agent.calls[0] is TOKEN


def test_an_agent_without_the_hook_has_none() -> None:
    assert AgentHooks().find_commit(object(), TOKEN) is None


def test_looking_the_hook_up_runs_none_of_the_agents_code() -> None:
    class Slow(Notes):
        @property
        def commit_memory_session(self) -> Any:
            self.calls.append("looked up")
            return self.calls.append

    agent = Slow()
    hook = AgentHooks().find_commit(agent, TOKEN)
    assert agent.calls == []
    assert hook is not None
    hook()
    assert agent.calls == ["looked up", TOKEN]


def test_an_agent_that_answers_to_any_name_and_has_no_hook_is_not_called() -> None:
    class Nothing:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    hook = AgentHooks().find_commit(Nothing(), TOKEN)
    assert hook is not None
    assert hook() is None


# Functions in the place of methods.


def test_a_function_of_the_agent_alone_is_not_told() -> None:
    calls: list[Any] = []
    hook = AgentHooks(commit=calls.append).find_commit("agent", TOKEN)
    assert hook is not None
    hook()
    assert calls == ["agent"]


def test_a_function_of_agent_and_generation_is_told() -> None:
    calls: list[Any] = []

    def commit(agent: Any, generation: Generation) -> None:
        calls.append((agent, generation, generation.session_id))

    hook = AgentHooks(commit=commit).find_commit("agent", TOKEN)
    assert hook is not None
    hook()
    assert calls == [("agent", 7, "20261115-a1")]


def test_a_function_with_an_option_of_its_own_is_not_told() -> None:
    calls: list[Any] = []

    def commit(_: Any, messages: Any = NOT_GIVEN) -> None:
        calls.append(messages)

    hook = AgentHooks(commit=commit).find_commit("agent", TOKEN)
    assert hook is not None
    hook()
    assert calls == [NOT_GIVEN]


def test_a_function_with_an_optional_generation_is_told() -> None:
    calls: list[Any] = []

    def commit(_: Any, generation: int | None = None) -> None:
        calls.append(generation)

    hook = AgentHooks(commit=commit).find_commit("agent", TOKEN)
    assert hook is not None
    hook()
    assert calls == [TOKEN]


@pytest.mark.parametrize("told", [False, True])
def test_async_hooks_are_told_as_well(told: bool) -> None:
    calls: list[Any] = []

    class Silent:
        async def commit_memory_session(self) -> None:
            calls.append(NOT_GIVEN)

    class Told:
        async def commit_memory_session(self, generation: int) -> None:
            calls.append(generation)

    async def alone(_: Any) -> None:
        calls.append(NOT_GIVEN)

    async def both(_: Any, generation: int) -> None:
        calls.append(generation)

    agent: Any = Told() if told else Silent()
    for hooks in (AgentHooks(), AgentHooks(commit=both if told else alone)):
        hook = hooks.find_commit(agent, TOKEN)
        assert hook is not None
        asyncio.run(hook())
    assert calls == [TOKEN if told else NOT_GIVEN] * 2


def test_a_bound_argument_does_not_count() -> None:
    def both(agent: Any, generation: int) -> tuple[Any, int]:
        return agent, generation

    assert takes_generation(both)
    assert takes_generation(functools.partial(both, "agent"))
    assert not takes_generation(functools.partial(both, "agent", 1))


def test_a_hook_whose_signature_nobody_knows_is_not_told() -> None:
    assert not takes_generation(dict)  # it is written in C


# Generations.


def test_a_generation_is_a_number() -> None:
    assert TOKEN == 7
    assert TOKEN + 1 == 8
    assert sorted([Generation(2, "a"), Generation(1, "b")]) == [1, 2]
    assert hash(TOKEN) == hash(7)
    assert f"{TOKEN:03}" == "007"
    assert str(TOKEN) == repr(TOKEN) == "7"
    assert isinstance(TOKEN, int)


def test_a_generation_knows_its_session() -> None:
    assert TOKEN.session_id == "20261115-a1"
    assert Generation(1, None).session_id is None


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_generation_survives_pickling(protocol: int) -> None:
    again = pickle.loads(pickle.dumps(TOKEN, protocol))
    assert type(again) is Generation
    assert (again, again.session_id) == (7, "20261115-a1")


# Without a store.


def test_without_a_store_the_hook_gets_the_rooms_own_count() -> None:
    """G2: the count of the key's turns, and no session id to tell them by."""
    agent = Required()
    with Greenroom(lambda _: agent) as room:
        for session_id in ("s1", "s2"):
            with room.turn("a", session_id=session_id):
                pass
        assert room.commit("a")
        with room.turn("a"):
            pass
        assert room.commit("a")
    assert agent.calls == [2, 3]
    assert [call.session_id for call in agent.calls] == [None, None]


def test_a_second_try_without_a_store_covers_what_came_meanwhile() -> None:
    """G4: without a ledger nothing binds a commit to the number it was begun with."""
    calls: list[int] = []

    class Failing:
        def commit_memory_session(self, generation: int) -> None:
            calls.append(generation)
            if len(calls) == 1:
                raise OSError("not today")

    with Greenroom(lambda _: Failing()) as room:
        for _ in range(2):
            with room.turn("a"):
                pass
            room.commit("a")
    assert calls == [1, 2]


def test_an_async_agent_of_a_room_is_told() -> None:
    """G2"""
    calls: list[int] = []

    class Async:
        async def commit_memory_session(self, generation: int) -> None:
            calls.append(generation)

    async def main() -> None:
        async with Greenroom(lambda _: Async()) as room:
            async with room.turn("a"):
                pass
            assert await room.session("a").commit()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert calls == [1]
