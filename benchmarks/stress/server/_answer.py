"""What a server answers: when its first byte came, and how it ended. Of what it says nothing is kept."""

from __future__ import annotations

import json
import time

__all__ = ["Answer"]


class Answer:
    """An answer as it comes."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.refused = False
        self.error: str | None = None
        self._tail = b""

    def take(self, piece: bytes) -> None:
        """Some of it has come."""
        if self.first is None:
            self.first = time.perf_counter()
        self._tail = (self._tail + piece)[-2000:]

    def over(self, stream: bool) -> None:
        """All has come. A stream that does not say so has failed on its way."""
        if not stream or self._tail.rstrip().endswith(b"data: [DONE]"):
            return
        last = self._tail.rstrip().rpartition(b"data: ")[2]
        self.error = f"the stream ended early ({_code(last)})"

    def refuse_or_fail(self, status: int, body: bytes) -> None:
        """It is another one than was asked for."""
        code = _code(body)
        self.refused = status in (429, 503) and code != "agent_unavailable"
        self.error = None if self.refused else f"status {status} ({code})"


def _code(body: bytes) -> str:
    """The code of an error. What it says besides may quote what was sent."""
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return "no code"
    return str(code)[:80]
