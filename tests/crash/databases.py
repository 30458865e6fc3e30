"""The files of SQLite databases, and their URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["sqlite_path", "sqlite_url"]


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite:///{path}"


def sqlite_path(url: str) -> str | None:
    """The file of a SQLite URL, or None if it is another database's."""
    return url.removeprefix("sqlite:///") if url.startswith("sqlite:///") else None
