"""`greenroom serve --check`: looks at everything that serving needs, and changes nothing.

Each finding is one of these:

    ok          as it should be
    warning     it will be served, and an operator should look
    error       it cannot be served like that; the text says what would do
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from greenroom.gateway.config._factories import BadAgent, check_options, find_factory
from greenroom.gateway.watch._logs import redacted

if TYPE_CHECKING:
    from sqlalchemy import URL

    from greenroom.gateway.config._config import Config
    from greenroom.gateway.config._sources import Loaded

__all__ = ["Finding", "check"]

SQLITE = b"SQLite format 3\0"
"""How every SQLite file begins."""

PATIENCE = 5
"""Seconds that a database may take to answer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was looked at."""

    level: Literal["ok", "warning", "error"]
    text: str


def check(loaded: Loaded) -> Iterator[Finding]:
    """Look at everything, one after the other."""
    config = loaded.config
    yield Finding("ok", _summary(loaded))
    for warning in loaded.warnings:
        yield Finding("warning", warning)
    for finding in (*_access(config), *_address(config), *_agent(loaded), *_store(loaded)):
        yield Finding(finding.level, redacted(finding.text, config.secrets()))


def _summary(loaded: Loaded) -> str:
    places = dict.fromkeys(where.partition(",")[0] for where in loaded.origins.values())
    return f"configuration: {', '.join(places)}" if places else "configuration: all defaults"


def _access(config: Config) -> Iterator[Finding]:
    if not config.tokens:
        yield Finding("ok", f"access: everybody on this machine, without a token ({config.host})")
        return
    names = (f"{token.name} (operator)" if token.operator else token.name for token in config.tokens)
    yield Finding("ok", f"access: by token, for {', '.join(names)}")


def _address(config: Config) -> Iterator[Finding]:
    from greenroom.gateway.server._sockets import bind, close

    where = f"{config.host}, port {config.port}" if config.port else f"{config.host}, any port that"
    try:
        close(bind(config.host, config.port))
    except OSError as error:
        yield Finding("error", f"address: {error.strerror or error}")
    else:
        yield Finding("ok", f"address: {where} is free")


def _agent(loaded: Loaded) -> Iterator[Finding]:
    config = loaded.config
    try:
        check_options(find_factory(config.agent, loaded.folders), config.agent_options)
    except BadAgent as error:
        yield Finding("error", f"agent {config.agent}: {error}")
    else:
        given = f", with {', '.join(config.agent_options)}" if config.agent_options else ""
        yield Finding("ok", f"agent: {config.agent}{given}")


def _store(loaded: Loaded) -> Iterator[Finding]:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    config = loaded.config
    if config.store is None:
        yield Finding("warning", "store: none. Transcripts and uncommitted turns end with the server")
        return
    try:
        url = make_url(config.store)
    except (ArgumentError, ValueError):
        yield Finding("error", "store: this is no URL of a database")
        return
    if url.drivername == "sqlite":
        yield _sqlite(url, by_default=loaded.store_by_default)
    else:
        yield _postgres(url, config.shown_store)


def _sqlite(url: URL, *, by_default: bool) -> Finding:
    if url.host or url.query:
        return Finding(
            "error", "store: an SQLite file has no host (three slashes, or four) and no parameters"
        )
    if url.database in (None, "", ":memory:"):
        return Finding("warning", "store: in memory. It ends with the server")
    path = Path(url.database or "").absolute()
    try:
        return _existing(path) if path.exists() else _missing(path, by_default=by_default)
    except OSError as error:
        return Finding("error", f"store: {path} cannot be read: {error.strerror}")


def _existing(path: Path) -> Finding:
    if not path.is_file():
        return Finding("error", f"store: {path} is no file")
    with path.open("rb") as file:  # not with sqlite3, which may leave files beside it
        begins = file.read(len(SQLITE))
    if begins not in (b"", SQLITE):
        return Finding("error", f"store: {path} is no SQLite database: name another file")
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        return Finding("error", f"store: {path} or its folder cannot be written by this user")
    return Finding("ok", f"store: {path} is there, and can be written")


def _missing(path: Path, *, by_default: bool) -> Finding:
    there = next(folder for folder in path.parents if folder.exists())
    if there != path.parent and not by_default:
        return Finding(
            "error", f"store: the folder {path.parent} does not exist: make it, or choose another"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            "error", f"store: {path} cannot be made, {there} is not yours to write: say --store URL"
        )
    what = "it" if there == path.parent else "its folder and it"
    return Finding("ok", f"store: {path} is not there yet, serving will make {what}")


def _postgres(url: URL, shown: str) -> Finding:
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError

    try:
        options = {"connect_timeout": PATIENCE}
        engine = create_engine(url.set(drivername="postgresql+psycopg"), connect_args=options)
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        engine.dispose()
    except ModuleNotFoundError as error:
        return Finding(
            "error", f"store: PostgreSQL needs {error.name}: pip install 'greenroom[postgres]'"
        )
    except SQLAlchemyError as error:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        return Finding("error", f"store: {shown} does not answer: {reason}")
    return Finding("ok", f"store: {shown} answers")
