"""Tokens as they are given: the secret itself, a file that holds it, or a variable that does.

A file is what systemd's credentials and the secrets of container platforms are. What stands around the
secret there (the newline that every editor leaves) is no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greenroom.gateway.config._config import Token

__all__ = ["TOKEN_KEYS", "GivenToken", "resolve"]

TOKEN_KEYS = ("name", "secret", "secret_file", "secret_env", "operator")

LARGEST = 4096
"""A file with more in it is not the one that was meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenToken:
    """A token, and where it stands."""

    where: str
    name: str
    secret: Any = None
    secret_file: Any = None
    secret_env: Any = None
    operator: Any = False
    """Who may see the whole room is said, and never assumed."""

    def __repr__(self) -> str:
        return f"<token {self.name!r} of {self.where}>"


def resolve(given: GivenToken, environ: Mapping[str, str]) -> tuple[Token, list[str]]:
    """The token, and what an operator should know about it. `ValueError`: it has no secret."""
    ways = [given.secret, given.secret_file, given.secret_env]
    if sum(way is not None for way in ways) != 1:
        msg = f"token {given.name!r} needs one of secret, secret_file and secret_env"
        raise ValueError(msg)
    warnings: list[str] = []
    if given.secret_file is not None:
        path = _path(given)
        secret = _read(path)
        if path.stat().st_mode & 0o004:
            warnings.append(f"everybody on this machine may read the token in {path}: chmod o-r {path}")
    elif given.secret_env is not None:
        secret = environ.get(str(given.secret_env), "")
        if not secret:
            msg = (
                f"token {given.name!r} is to come from the variable {given.secret_env}, which is not set"
            )
            raise ValueError(msg)
    else:
        secret = given.secret
    if not isinstance(secret, str) or not secret:
        msg = f"the secret of token {given.name!r} is {'no text' if secret else 'empty'}"
        raise ValueError(f"{msg}: `openssl rand -hex 32` makes one")
    return Token(given.name, secret, given.operator), warnings


def _path(given: GivenToken) -> Path:
    if not isinstance(given.secret_file, str) or not given.secret_file:
        msg = f"the file of token {given.name!r} must be a path, not {given.secret_file!r}"
        raise ValueError(msg)
    return Path(given.secret_file).expanduser()


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            msg = f"there is no file {path} to read the token from"
            raise ValueError(msg)
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        msg = f"the token in {path} cannot be read: {error.strerror}"
        raise ValueError(msg) from error
    if len(content) > LARGEST:
        msg = f"{path} is larger than {LARGEST} bytes: it holds more than a token"
        raise ValueError(msg)
    return content.decode("utf-8", "replace").strip()
