"""Logs: lines of text for people, or JSON lines for programs, all on stderr.

    2026-11-16 10:16:11.204 INFO    greenroom.gateway: Draining … [request=r-5f session=alice/chat-1]
    {"time": "2026-11-16T10:16:11.204+00:00", "level": "info", "logger": "greenroom.gateway", …}

Which request and which session a line is about comes from two context variables, which whoever handles a
request sets. A record may bring more for JSON: `logger.info(…, extra={"fields": {"status": 200}})`.

**Promises**
  - A record is one line of text: what a client sent cannot break it in two, nor reach a terminal as
    commands. Only a traceback takes more lines, each indented.
  - No secret that is configured comes out, whoever logs it, nor what follows `Bearer` or is a password
    in a URL.
  - No transcript comes out: libraries that log what they send and receive are heard from `warning` on.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

__all__ = ["configure_logging", "redacted", "request_id", "session_key"]

request_id: ContextVar[str] = ContextVar("greenroom_request_id", default="")
"""Names the request that is handled, in logs."""

session_key: ContextVar[str] = ContextVar("greenroom_session_key", default="")
"""The room's key of the session whose turn is under way."""

QUIET = (
    "asyncio",
    "httpcore",
    "httpx",
    "openai",
    "sqlalchemy",
    "uvicorn",
    "watchfiles",
)
"""Loggers that tell of every chunk, statement or request, with what is in it."""

ROOM = ("greenroom.actors", "greenroom.supervisor", "greenroom.store")
"""Loggers of what serves all sessions. Their lines name the one that they are about."""

SHORTEST_SECRET = 6
"""What is shorter would be found in ordinary words."""

_IN_PASSING = re.compile(r"((?:bearer|basic)\s+)[!-~]{8,}|(://[^/@\s:]*:)[^/@\s]+(?=@)", re.IGNORECASE)


def configure_logging(level: str, format: str = "text", *, secrets: Iterable[str] = ()) -> None:
    """Have everything that is logged in this process come out here. Of several calls the last counts."""
    formatter = _Json(secrets) if format == "json" else _Text(secrets)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(_add_context)
    root = logging.getLogger()
    before = [old for old in root.handlers if isinstance(old.formatter, _Text)]
    # The new one first: without a handler, what other threads log comes out with its secrets.
    root.addHandler(handler)
    for old in before:
        root.removeHandler(old)
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without secrets.

    >>> redacted("GET with Bearer abcdefgh12345678 failed")
    'GET with Bearer *** failed'
    """
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return _IN_PASSING.sub(lambda found: f"{found[1] or found[2]}***", text)


def _add_context(record: logging.LogRecord) -> bool:
    # Where the record is made: a formatter may run in another context.
    request, session = request_id.get(), session_key.get()
    if session and record.name.startswith(ROOM) and session not in record.getMessage():
        # The room works in the context of whoever sent it the last message, and is at something else.
        request = session = ""
    record.request_id = getattr(record, "request_id", None) or request
    record.session = getattr(record, "session", None) or session
    return True


class _Text(logging.Formatter):
    """Lines for people."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        # The longest first: one secret may be part of another.
        self._secrets = sorted(set(secrets), key=len, reverse=True)

    def clean(self, text: str) -> str:
        """A text without secrets, and without what a terminal would act upon."""
        text = redacted(text, self._secrets)
        return text if text.isprintable() else "".join(map(_visible, text))

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it."""
        at = datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        about = (
            ("request", record.__dict__.get("request_id")),
            ("session", record.__dict__.get("session")),
        )
        marks = " ".join(f"{name}={value}" for name, value in about if value)
        message = self.clean(record.getMessage())
        line = f"{at} {record.levelname:<7} {record.name}: {message}"
        lines = [f"{line} [{self.clean(marks)}]" if marks else line]
        lines += [f"    {self.clean(row)}" for row in self.trace(record).splitlines()]
        return "\n".join(lines)

    def trace(self, record: logging.LogRecord) -> str:
        """The traceback, if there is one."""
        parts: list[str] = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return "\n".join(parts)


class _Json(_Text):
    """Lines for programs."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage(), self._secrets),
        }
        for name in ("request_id", "session"):
            if record.__dict__.get(name):
                line[name] = redacted(str(record.__dict__[name]), self._secrets)
        for name, value in record.__dict__.get("fields", {}).items():
            plain = isinstance(value, (int, float, bool)) or value is None
            line.setdefault(name, value if plain else redacted(str(value), self._secrets))
        trace = self.trace(record)
        if trace:
            line["exception"] = redacted(trace, self._secrets)
        return json.dumps(line, ensure_ascii=True)


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
