"""What users of `greenroom.actors` meet in signatures, they can import from there."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import greenroom.actors
import greenroom.messages
from greenroom.actors import Actor, ActorRef, Future, Policy, Reply, Runtime, Timer, runtime

INSIDE = {"Mailbox"}
"""What only the runtime itself deals with."""


def names_in_signatures(kind: type) -> set[str]:
    """The classes that the annotations of its public methods, and of its constructor, name."""
    found: set[str] = set()
    for name, member in vars(kind).items():
        function: Any = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            found.update(
                re.findall(r"\b[A-Z]\w+", " ".join(map(str, function.__annotations__.values())))
            )
    return found


def is_ours(name: str) -> bool:
    """Whether the runtime, or one of its messages, has this name."""
    modules = [vars(module) for module in vars(runtime).values() if inspect.ismodule(module)]
    return name in greenroom.messages.__all__ or any(
        inspect.isclass(module.get(name)) and module[name].__module__.startswith("greenroom.")
        for module in modules
    )


@pytest.mark.parametrize("kind", [Actor, ActorRef, Future, Reply, Runtime, Timer])
def test_what_a_signature_names_can_be_imported(kind: type) -> None:
    named = {name for name in names_in_signatures(kind) if is_ours(name)} - INSIDE
    assert named <= set(greenroom.actors.__all__)


def test_signatures_are_really_read() -> None:
    assert "ChildFailed" in names_in_signatures(Actor)
    assert is_ours("ChildFailed")
    assert is_ours("StopFlag")
    assert not is_ours("Any")


def test_the_help_of_a_policy_says_what_each_figure_is() -> None:
    described = re.findall(r"^ +(\w+): \S", inspect.getdoc(Policy) or "", flags=re.MULTILINE)
    assert sorted(described) == sorted(Policy.names())
