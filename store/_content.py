"""What goes into a row and comes out of it: checked names, and content as text or JSON.

The rule for content: what comes back equals what went in. What JSON would change on the way (a tuple, a
key that is no string, NaN) is refused.
"""

from __future__ import annotations

import json

__all__ = ["ID_LENGTH", "ROLE_LENGTH", "check_name", "decode", "encode", "is_storable", "printable"]

ID_LENGTH = 500
"""How many characters a session id, key or owner may have."""

ROLE_LENGTH = 64


def check_name(what: str, value: str, longest: int = ID_LENGTH) -> str:
    """`ValueError` for a session id, key, owner or role that no database could hold."""
    if not isinstance(value, str) or not value or len(value) > longest or not is_storable(value):
        shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "…"
        raise ValueError(
            f"{what}={shown}: give a string of 1 to {longest} characters, without NUL or lone surrogates"
        )
    return value


def is_storable(text: str) -> bool:
    """Tell whether either database can hold this text."""
    if "\0" in text:  # PostgreSQL has none, and SQLite's own tools stop there
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode(content: object) -> tuple[str, str]:
    """The content as text, and its format: "text" or "json"."""
    if isinstance(content, str) and is_storable(content):
        return content, "text"
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        if not is_storable(text):
            text = json.dumps(content, allow_nan=False)
        same = json.loads(text) == content
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"content of type {type(content).__name__} is nothing JSON can hold: {error}"
        ) from error
    if not same:
        raise ValueError(
            f"content of type {type(content).__name__} does not come back from JSON as it is: "
            "use lists for tuples, strings for keys, and no surrogates in pairs"
        )
    return text, "json"


def decode(text: str, form: str) -> object:
    """The content again. What a foreign program left unreadable comes as it is: `check()` finds it."""
    if form != "json":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def printable(text: str, longest: int) -> str:
    """Any text, made fit for a column."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:longest]
