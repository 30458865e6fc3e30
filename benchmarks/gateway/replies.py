"""Reads replies of HTTP/1.1 as they come, with a length or in chunks. Knows no socket and no clock."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["ReplyReader"]

LINE = b"\r\n"


class State(Enum):
    """What comes next."""

    HEAD = auto()
    BODY = auto()
    SIZE = auto()
    CHUNK = auto()
    TRAILER = auto()
    OVER = auto()


class ReplyReader:
    """One reply after another, on a connection that stays open."""

    def __init__(self) -> None:
        self._rest = b""
        self.begin()

    def begin(self) -> None:
        """Be ready for the next reply."""
        self._state = State.HEAD
        self._size = 0
        self.status = 0
        self.parts: list[bytes] = []
        """The body: all of it, or each chunk that is there as a whole."""

    def feed(self, data: bytes) -> bool:
        """Take what has come. True when that is all of the reply."""
        self._rest = self._rest + data if self._rest else data
        while self._step():
            pass
        if self._state is not State.OVER:
            return False
        if self._rest:
            raise ValueError(f"nobody asked for what comes after the reply: {self._rest[:80]!r}")
        return True

    def _step(self) -> bool:
        """Read one thing. False if it is not all there, or if there is nothing more."""
        match self._state:
            case State.HEAD:
                return self._read_head()
            case State.BODY:
                return self._read_part(b"", State.OVER)
            case State.SIZE:
                return self._read_size()
            case State.CHUNK:
                return self._read_part(LINE, State.SIZE)
            case State.TRAILER:
                return self._read_trailer()
            case State.OVER:
                return False

    def _read_until(self, mark: bytes) -> bytes | None:
        found, mark, rest = self._rest.partition(mark)
        if not mark:
            return None
        self._rest = rest
        return found

    def _read_head(self) -> bool:
        head = self._read_until(LINE + LINE)
        if head is None:
            return False
        first, *lines = head.split(LINE)
        self.status = int(first.split(b" ", 2)[1])
        headers = {
            name.lower(): value.strip() for name, _, value in (li.partition(b":") for li in lines)
        }
        if headers.get(b"connection", b"").lower() == b"close":
            raise ValueError(f"the server closes the connection: {head!r}")
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            self._state = State.SIZE
        else:
            self._state, self._size = State.BODY, int(headers[b"content-length"])
        return True

    def _read_part(self, end: bytes, then: State) -> bool:
        size, rest = self._size, self._rest
        if len(rest) < size + len(end):
            return False
        if not rest.startswith(end, size):
            raise ValueError(f"a chunk of {size} bytes does not end there: {rest[size : size + 80]!r}")
        self.parts.append(rest[:size])
        self._rest, self._state = rest[size + len(end) :], then
        return True

    def _read_size(self) -> bool:
        line = self._read_until(LINE)
        if line is None:
            return False
        self._size = int(line.partition(b";")[0], 16)
        self._state = State.CHUNK if self._size else State.TRAILER
        return True

    def _read_trailer(self) -> bool:
        line = self._read_until(LINE)
        if line is None:
            return False
        if not line:
            self._state = State.OVER
        return True
