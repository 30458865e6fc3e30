"""The JSON schema of a function's parameters, from its annotations; and whether arguments fit it.

    str, int, float, bool, None, Any       list, list[T]       dict, dict[str, T]
    Literal["a", "b"]                      T | None, Optional[T], Union[T, U]

Anything else is refused when the tool is made, not when a model calls it. A parameter with a default
may be left out. One called `context` is no parameter of the tool: it is filled in by whoever calls it.
"""

from __future__ import annotations

import inspect
import types
import typing
from typing import TYPE_CHECKING, Any, Literal, Union

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CONTEXT", "Schema", "fit", "schema_of"]

CONTEXT = "context"
"""The parameter that a model does not see."""

Schema = dict[str, Any]

PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}


def schema_of(function: Callable[..., Any]) -> Schema:
    """The schema of what a function takes. `TypeError` if there is something that JSON cannot give."""
    hints = typing.get_type_hints(function)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == CONTEXT:
            continue
        where = f"parameter {name!r} of the tool {function.__name__!r}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where} cannot be given by name, and a model gives all by name")
        if name not in hints:
            raise TypeError(f"{where} has no annotation: a model must be told what to give")
        properties[name] = _of_type(hints[name], where)
        if parameter.default is parameter.empty:
            required.append(name)
        elif fit(parameter.default, properties[name], name)[1] is None:
            properties[name] = {**properties[name], "default": parameter.default}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _of_type(hint: Any, where: str) -> Schema:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of_type(argument, where) for argument in arguments]}
    if origin is list:
        return {"type": "array", "items": _of_type(arguments[0], where)}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": _of_type(arguments[1], where)}
    msg = (
        f"{where} is annotated with {hint!r}, for which there is no JSON: use str, int, float, bool, "
        "list, dict, Literal, or one of these or None"
    )
    raise TypeError(msg)


def fit(value: Any, schema: Schema, where: str) -> tuple[Any, str | None]:
    """Fit a value to a schema: what the function gets, and what is wrong with it, or None."""
    if "anyOf" in schema:
        return _fit_any(value, schema, where)
    if "enum" in schema:
        # 1 is no True here, whatever Python says.
        good = any(value == item and type(value) is type(item) for item in schema["enum"])
        listed = ", ".join(repr(item) for item in schema["enum"])
        return value, None if good else f"{where} must be one of {listed}, not {_short(value)}"
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        return value, f"{where} must be {_article(kind)}, not {_short(value)}"
    match kind:
        case "integer":
            return int(value), None
        case "number":
            return float(value), None
        case "array" if "items" in schema:
            pairs: list[tuple[Any, Any]] = [*enumerate(value)]
            return _fit_all(pairs, lambda _: schema["items"], where, list)
        case "object" if "properties" in schema:
            return _fit_arguments(value, schema, where)
        case "object" if "additionalProperties" in schema:
            pairs = [*value.items()]
            return _fit_all(pairs, lambda _: schema["additionalProperties"], where, None)
        case _:
            return value, None


def _fit_any(value: Any, schema: Schema, where: str) -> tuple[Any, str | None]:
    wrong: list[str] = []
    for choice in schema["anyOf"]:
        fitted, problem = fit(value, choice, where)
        if problem is None:
            return fitted, None
        wrong.append(problem)
    return value, "; or ".join(wrong)


def _fit_arguments(value: dict[str, Any], schema: Schema, where: str) -> tuple[Any, str | None]:
    properties: dict[str, Schema] = schema["properties"]
    unknown = sorted(set(value) - set(properties))
    missing = [name for name in schema.get("required", ()) if name not in value]
    if unknown:
        return value, f"{where} has no {', '.join(unknown)}: it has {', '.join(properties) or 'nothing'}"
    if missing:
        return value, f"{where} needs {', '.join(missing)}"
    return _fit_all(list(value.items()), properties.__getitem__, "", None)


def _fit_all(
    items: list[tuple[Any, Any]], schema_for: Callable[[Any], Schema], where: str, kind: type[Any] | None
) -> tuple[Any, str | None]:
    fitted: dict[Any, Any] = {}
    for name, item in items:
        place = f"{where}[{name!r}]" if where else str(name)
        fitted[name], problem = fit(item, schema_for(name), place)
        if problem is not None:
            return None, problem
    return (list(fitted.values()) if kind is list else fitted), None


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind == "number":
        return isinstance(value, (int, float))
    return any(kind == name and isinstance(value, plain) for plain, name in PLAIN.items())


def _article(kind: str) -> str:
    if kind == "null":
        return kind
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"
