"""The included tools: useful, and nothing can be done with them that they are not for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from greenroom import Generation
from greenroom.gateway.agents import FactMemory
from greenroom.gateway.agents.included_tools import calculate, tools
from greenroom.store import open_store
from tests.gateway.agents.plays import Context, on_a_loop


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 + 2 * 3", "7"),
        ("(2 + 3) * sqrt(16) / 7", "2.857142857142857"),
        ("-2**10 // 3 % 5", "3"),
        ("2**-1", "0.5"),
        ("round(pi, 2)", "3.14"),
        ("max(1, 2, abs(-3))", "3"),
        (" 0.1 ", "0.1"),
        ("0**0", "1"),
    ],
)
def test_it_calculates(expression: str, result: str) -> None:
    assert calculate(expression) == result


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "().__class__",
        "[1][0]",
        "'a' * 3",
        "True + 1",
        "x",
        "lambda: 1",
        "f(1)",
        "max(*[1])",
        "round(1.5, ndigits=0)",
        "1 if 1 else 2",
        "1; 2",
        "",
        "(",
        "\0",
        "9**9**9",
        "10**101",
        "9" * 102,
        "(-8)**0.5",
        "(" * 500 + ")" * 500,
        "1+" * 600 + "1",
        "1j",
        "-" * 999 + "1",
    ],
)
def test_it_calculates_nothing_else(expression: str) -> None:
    with pytest.raises(ValueError, match=r"is no |digits|longer|real"):
        calculate(expression)


@on_a_loop
async def test_a_model_is_told_why_something_cannot_be_calculated() -> None:
    said = await tools.call("calculate", json.dumps({"expression": "1/0"}))
    assert said == "Error: the tool 'calculate' failed: ZeroDivisionError: division by zero"


@on_a_loop
async def test_it_tells_the_time() -> None:
    assert re.fullmatch(r"\w+day, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", await tools.call("clock", "{}"))
    for zone in ("Mars/Phobos", "../../etc/passwd", "", "/etc/localtime"):
        said = await tools.call("clock", json.dumps({"zone": zone}))
        assert f"there is no time zone {zone!r}" in said


@on_a_loop
async def test_it_looks_up_what_is_known_of_the_user(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", durability="off") as store:
        context = Context(store).it
        assert await tools.call("facts", "{}", context=context) == "Nothing is known."
        store.create_session("a", key="a")
        store.append("a", role="user", content="my name is Ada")
        await FactMemory(context).commit(Generation(1, "a"))
        assert await tools.call("facts", "{}", context=context) == '["your name is Ada"]'
    assert await tools.call("facts", "{}") == "Nothing is known."
