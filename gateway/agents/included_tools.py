"""Three tools that harm nobody: the time, a calculator, and what is known of the user.

`tools="greenroom.gateway.agents.included_tools:tools"` is what the included agents take by default;
they offer none of it unless they are told `toolsets=["clock", "math", "memory"]`.
"""

from __future__ import annotations

import ast
import math
import operator
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from greenroom.gateway.agents.memory import FactMemory
from greenroom.gateway.agents.tools import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["calculate", "clock", "facts", "tools"]

tools = ToolRegistry(seconds=10.0)

LONGEST_EXPRESSION = 1000
LARGEST = 10**100
"""No number of more digits: 9**9**9 would keep a core busy for ever."""

OPERATORS: dict[type[Any], Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
    ast.Pow: lambda left, right: left**right,
}
SIGNS: dict[type[Any], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(math, name) for name in ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan")
} | {"abs": abs, "round": round, "min": min, "max": max}
CONSTANTS = {"pi": math.pi, "e": math.e}


@tools.tool(toolset="clock")
def clock(zone: str = "UTC") -> str:
    """Tell the date and the time in a time zone such as Europe/Berlin."""
    try:
        there = ZoneInfo(zone)
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {zone!r}") from error
    return datetime.now(there).strftime("%A, %Y-%m-%d %H:%M:%S %Z")


@tools.tool(toolset="math")
def calculate(expression: str) -> str:
    """Work out an arithmetic expression such as (2 + 3) * sqrt(16) / 7. Powers are written 2**10."""
    if len(expression) > LONGEST_EXPRESSION:
        raise ValueError(f"the expression is longer than {LONGEST_EXPRESSION} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{expression!r} is no expression") from error
    try:
        return str(_value(tree.body))
    except RecursionError as error:
        raise ValueError("the expression is nested too deeply, and is no use") from error


@tools.tool(toolset="memory")
async def facts(context: Any) -> list[str] | str:
    """Look up what is known about the user from earlier conversations."""
    if context is None:
        return "Nothing is known."
    memory = FactMemory(context)
    await memory.load_soon()
    return list(memory.facts) or "Nothing is known."


def _value(node: ast.expr) -> Any:
    """What a node of the syntax tree comes to. What is not named here cannot be written at all."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in SIGNS:
            return SIGNS[type(sign)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _operate(type(op), _value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return _bounded(FUNCTIONS[name](*map(_value, arguments)))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is no arithmetic")


def _operate(kind: type[ast.operator], left: Any, right: Any) -> Any:
    if kind is ast.Pow and abs(left) > 1 and abs(right) * math.log10(abs(left)) > math.log10(LARGEST):
        raise ValueError("the result has more than 100 digits")
    return _bounded(OPERATORS[kind](left, right))


def _bounded(number: Any) -> Any:
    if isinstance(number, complex):
        raise ValueError("the result is no real number")
    if isinstance(number, int) and abs(number) > LARGEST:
        raise ValueError("the result has more than 100 digits")
    return number
