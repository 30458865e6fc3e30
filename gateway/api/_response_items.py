"""What clients of the Responses API send, in the words of the Chat Completions API, which agents know.

    input            text, or items: messages with text, images and files  ──> messages
    text.format      the form of the answer                                ──> response_format
    reasoning.effort, max_output_tokens, …                                 ──> options that mean the same

Items that stand for tools, reasoning or stored items are refused: there are none here, and to leave them
out would change what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from greenroom.gateway._errors import ApiError, bad_request

__all__ = ["messages_of", "options_of", "unsupported"]

ROLES = ("user", "assistant", "system", "developer")

Part = dict[str, Any]


def messages_of(given: str | list[dict[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The messages of an `input`."""
    if isinstance(given, str):
        return ({"role": "user", "content": given},)
    if not given:
        raise bad_request(
            "input: there is nothing in it. Give text, or at least one item.", param="input"
        )
    return tuple(_message(item, f"input.{at}") for at, item in enumerate(given))


def _message(item: dict[str, Any], where: str) -> Mapping[str, Any]:
    kind = item.get("type", "message")
    if kind != "message":
        msg = f"{where}: items of type {_shown(kind)} cannot be sent here, only messages."
        raise bad_request(msg, param=where, code="unsupported_parameter")
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        msg = f"{where}.role: {_shown(role)} is none of {', '.join(ROLES)}."
        raise bad_request(msg, param=f"{where}.role")
    return {"role": role, "content": _content(content, f"{where}.content")}


def _content(content: Any, where: str) -> str | list[Part]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise bad_request(f"{where}: give text, or a list of parts.", param=where)
    parts = [_part(part, f"{where}.{at}") for at, part in enumerate(cast("list[object]", content))]
    # As clients of the other API write it: an agent need not know of parts for a plain message.
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


def _part(part: Any, where: str) -> Part:
    known = _object(part)
    kind = known.get("type")
    make = _PARTS.get(kind) if isinstance(kind, str) else None
    if make is None:
        msg = f"{where}: parts of type {_shown(kind)} cannot be sent here: {', '.join(_PARTS)} can."
        raise bad_request(msg, param=where, code="unsupported_parameter")
    return make(known, where)


def _text(part: Part, where: str) -> Part:
    text = part.get("text")
    if not isinstance(text, str):
        raise bad_request(f"{where}.text: give text, not {_shown(text)}.", param=f"{where}.text")
    return {"type": "text", "text": text}


def _refusal(part: Part, where: str) -> Part:
    refusal = part.get("refusal")
    if not isinstance(refusal, str):
        raise bad_request(
            f"{where}.refusal: give text, not {_shown(refusal)}.", param=f"{where}.refusal"
        )
    return {"type": "refusal", "refusal": refusal}


def _image(part: Part, where: str) -> Part:
    address = part.get("image_url")
    if not isinstance(address, str):
        msg = f"{where}.image_url: give the address of an image, not {_shown(address)}."
        raise bad_request(msg, param=f"{where}.image_url")
    detail = part.get("detail")
    return {"type": "image_url", "image_url": {"url": address, **({"detail": detail} if detail else {})}}


def _file(part: Part, where: str) -> Part:
    file = {name: part[name] for name in ("file_data", "file_id", "filename") if part.get(name)}
    if not file.keys() & {"file_data", "file_id"}:
        raise bad_request(f"{where}: give file_data or file_id.", param=where)
    return {"type": "file", "file": file}


_PARTS: Mapping[str, Callable[[Part, str], Part]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": _file,
}


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request, by the names of the Chat Completions API."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        translate = _OPTIONS.get(name)
        options.update({name: value} if translate is None else translate(value))
    return options


def _text_options(value: Any) -> dict[str, Any]:
    text = _object(value)
    options = {"verbosity": text["verbosity"]} if text.get("verbosity") else {}
    if text.get("format") is None:
        return options
    form = _object(text["format"])
    kind = form.get("type")
    if kind == "json_schema":
        schema = {name: value for name, value in form.items() if name != "type"}
        return {**options, "response_format": {"type": kind, "json_schema": schema}}
    if kind == "json_object":
        return {**options, "response_format": {"type": kind}}
    if kind != "text":
        raise bad_request(
            f"text.format.type: {_shown(kind)} is none of text, json_object, json_schema.",
            param="text.format.type",
        )
    return options


def _reasoning_options(value: Any) -> dict[str, Any]:
    effort = _object(value).get("effort")
    return {"reasoning_effort": effort} if effort else {}


_OPTIONS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "max_output_tokens": lambda value: {"max_completion_tokens": value},
    "reasoning": _reasoning_options,
    "text": _text_options,
}


def _object(value: Any) -> dict[str, Any]:
    """A JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _shown(value: Any) -> str:
    """A value of a client's, short enough for an error."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"


def unsupported(name: str) -> ApiError:
    """What is said of a parameter that means nothing here."""
    msg = f"{name!r} cannot be sent here: the tools and the form of an answer are the agent's own."
    return bad_request(msg, param=name, code="unsupported_parameter")
