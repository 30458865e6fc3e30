"""Which databases there are, and how their URLs are shown: never with a secret."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from greenroom.store._errors import StoreUnavailable

__all__ = ["is_memory", "parse_url", "show_url"]

_ALLOWED = (
    "a store is sqlite:///relative/path, sqlite:////absolute/path, sqlite:// (in memory) "
    "or postgresql://user:password@host/database"
)
_SECRETS = frozenset({"password", "sslpassword", "passfile", "sslkey", "oauth_client_secret"})


def parse_url(text: str) -> URL:
    """The URL, ready for SQLAlchemy. `ValueError` for what we do not store in."""
    # No error of these names what was given: it may hold a password, and be wrong just because of it.
    if not isinstance(text, str):
        raise TypeError(f"{_ALLOWED}, not a {type(text).__name__}")
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError(f"this is no URL of a database: {_ALLOWED}") from None
    if url.drivername == "sqlite":
        return _sqlite(url)
    if url.drivername == "postgresql":
        if "@" in (url.host or ""):
            raise ValueError("the host of this URL has an @ in it: in a password, write it as %40")
        return url.set(drivername="postgresql+psycopg")
    raise ValueError(f"{_ALLOWED}, not {url.drivername!r}")


def _sqlite(url: URL) -> URL:
    if url.host or url.username or url.password or url.port:
        raise ValueError(f"an SQLite file has no host (three slashes, or four): {_ALLOWED}")
    if url.query or (url.database or "").startswith("file:"):
        raise ValueError(f"an SQLite file takes no parameters: {_ALLOWED}")
    if is_memory(url):
        return url.set(database=None)
    # Connections are opened at any time, so that the file must not depend on the working directory.
    path = Path(url.database or "").absolute()
    if not path.parent.is_dir():
        raise StoreUnavailable(f"the folder of {str(path)!r} does not exist: make it, or choose another")
    return url.set(database=str(path))


def is_memory(url: URL) -> bool:
    """Tell whether it is a database that lives in this process only."""
    return url.drivername == "sqlite" and url.database in (None, "", ":memory:")


def show_url(url: URL) -> str:
    """The URL as it may be shown to anyone."""
    hidden = {name: "***" for name in url.query if name in _SECRETS}
    shown = url.update_query_dict(hidden) if hidden else url
    if shown.drivername == "postgresql+psycopg":
        shown = shown.set(drivername="postgresql")
    return shown.render_as_string(hide_password=True)
