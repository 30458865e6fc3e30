"""HTML and SVG from Python. What is not markup already is escaped: nothing has to be remembered."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Content", "Markup", "join", "markup", "tag"]


class Markup(str):
    """Text that is HTML. Only `tag`, `join` and `markup` make it; every other text is plain."""

    __slots__ = ()


Content: TypeAlias = "str | int | float | Iterable[Content] | None"
"""What can stand inside an element. `None` is nothing, a number its decimal text."""

VOID = frozenset({"br", "hr", "link", "meta"})
"""Elements of HTML that have no end."""

CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "\N{REPLACEMENT CHARACTER}")
"""Characters that HTML does not know. Error texts hold them: the colours of a terminal, for one."""


def markup(trusted: str) -> Markup:
    """Text of our own that is HTML already."""
    return Markup(trusted)


def join(*contents: Content) -> Markup:
    """Several things, one after the other."""
    return Markup("".join(_pieces(contents)))


def tag(name: str, /, *contents: Content, **attributes: str | float | None) -> Markup:
    """An element. `class_` stands for `class`, an underscore for a hyphen; `None` leaves one out."""
    opened = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_plain(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{join(*contents)}</{name}>")


def _pieces(contents: Iterable[Content]) -> Iterable[str]:
    for content in contents:
        if content is None:
            continue
        if isinstance(content, Markup):
            yield content
        elif isinstance(content, (str, int, float)):
            yield _plain(content)
        else:
            yield from _pieces(content)


def _plain(value: str | float) -> str:
    if isinstance(value, float):
        value = f"{value:.6g}"
    # A lone surrogate, as os.fsdecode makes them of a file's name, cannot be written as UTF-8.
    known = str(value).translate(CONTROLS).encode("utf-8", "replace").decode("utf-8")
    return html.escape(known)
