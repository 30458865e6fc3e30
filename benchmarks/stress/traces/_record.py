"""Records a trace from a running server, as it happens, over its event stream.

    server ── GET /room/events?turns=1 ──> Recorder ──> TraceWriter ──> FILE.jsonl, or FILE.jsonl.gz

Every turn is in it, the warm ones, too: when it began, and in a later line how long it took. What has
come is handed to the system at once, so that the file is good whatever becomes of the recorder. Turns
that ran when the recording began are not in it. Nothing that was said is in it; sessions are called s1,
s2, … in the order in which they come, unless their own names are asked for.

When the connection is lost, because the server was started again or because this reader was too slow for
it, the trace says `gap`, and the recorder comes back as soon as it can.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greenroom.stress.traces._trace import Entry, TraceWriter

if TYPE_CHECKING:
    import httpx

__all__ = ["RecordError", "Recorded", "Recorder", "record"]

FIRST_PAUSE, MOST_PAUSE = 0.25, 5.0
"""Seconds between two attempts to come back."""

SILENCE = 60.0
"""Seconds without a word after which the connection counts as lost. A server says something every 15."""

STRAY = 60.0
"""Seconds by which the server's clock may go wrong before it counts as having been set."""


class RecordError(Exception):
    """The server cannot be recorded. The text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How far a recording is."""

    turns: int
    sessions: int
    gaps: int
    seconds: float
    connected: bool


class Recorder:
    """One recording. Everything on one event loop."""

    def __init__(
        self,
        url: str,
        path: str | Path,
        *,
        token: str | None = None,
        seconds: float | None = None,
        plain_keys: bool = False,
        watch: Callable[[Recorded], None] | None = None,
    ) -> None:
        """`watch` is called when something has come, and when the connection is lost or back."""
        self.url = url.rstrip("/").removesuffix("/v1")
        self.path = Path(path)
        self._token = token
        self._seconds = seconds
        self._plain_keys = plain_keys
        self._watch = watch
        self._writer: TraceWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._began = time.monotonic()
        self._base: float | None = None
        """The server's clock at the trace's beginning. `None`: its next word tells."""
        self._names: dict[str, str] = {}
        self._open: dict[str, str] = {}
        """Turns that run, and what their sessions are called."""
        self._turns = self._sessions = self._gaps = 0
        self._connected = False

    @property
    def so_far(self) -> Recorded:
        """How far it is."""
        return Recorded(
            turns=self._turns,
            sessions=self._sessions,
            gaps=self._gaps,
            seconds=self._elapsed(),
            connected=self._connected,
        )

    async def run(self) -> Recorded:
        """Record until `stop()`, until the time is over, or until cancelled. Raises `RecordError`."""
        if self.path.exists():
            msg = f"{self.path} is there already, and is not written over: name another file"
            raise RecordError(msg)
        task = self._task = asyncio.create_task(self._listen_on())
        try:
            await asyncio.wait([task], timeout=self._seconds)
        finally:
            task.cancel()
            await asyncio.wait([task])
            if self._writer is not None:
                self._writer.close()
        if not task.cancelled():
            task.result()
        return self.so_far

    def stop(self) -> None:
        """End the recording: `run()` returns."""
        if self._task is not None:
            self._task.cancel()

    # The connection.

    async def _listen_on(self) -> None:
        httpx = _httpx()
        headers = {} if self._token is None else {"authorization": f"Bearer {self._token}"}
        timeout = httpx.Timeout(10.0, read=SILENCE)
        pause = FIRST_PAUSE
        async with httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as client:
            while True:
                try:
                    async with client.stream(
                        "GET", f"{self.url}/room/events", params={"turns": "1"}
                    ) as response:
                        if await self._accepts(response):
                            pause = FIRST_PAUSE
                            await self._hear(response)
                except (httpx.TransportError, httpx.InvalidURL) as error:
                    if self._writer is None:
                        raise RecordError(_no_server(self.url, error)) from error
                self._lose()
                await asyncio.sleep(pause)
                pause = min(2 * pause, MOST_PAUSE)

    async def _accepts(self, response: httpx.Response) -> bool:
        """Whether the server lets us listen. What will not change by itself is an error."""
        kind = response.headers.get("content-type", "")
        if response.status_code == 200 and kind.startswith("text/event-stream"):
            return True
        await response.aread()
        if response.status_code >= 500 and self._writer is not None:
            return False
        raise RecordError(_refusal(self.url, response, self._token is not None))

    async def _hear(self, response: httpx.Response) -> None:
        first = True
        async for name, data in _events(response):
            if name == "room" and first:
                first = False
                self._begin()
            elif name == "room":
                self._note_gap()  # we were too slow, and get the newest state in the place of the rest
            elif name == "turns" and not first:
                self._take(json.loads(data))
            elif name == "bye":
                return
            self._tell()

    # The trace.

    def _begin(self) -> None:
        self._connected = True
        if self._writer is None:
            self._began = time.monotonic()
            started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            try:
                self._writer = TraceWriter(
                    self.path, started=started, note="recorded from a running server"
                )
            except OSError as error:
                msg = f"{self.path} cannot be written: {error.strerror or error}"
                raise RecordError(msg) from error
            self._writer.flush()

    def _take(self, items: list[dict[str, Any]]) -> None:
        assert self._writer is not None
        for item in items:
            key, moment = item["key"], self._time_of(item["at"])
            if "reason" in item:
                # One that has expired, or was closed with the server, may well go on: only what
                # somebody asked for is part of the load.
                name = self._names.pop(key, None)
                if name is not None and item["reason"] == "explicit":
                    self._writer.write(Entry(moment, name, "end"))
                elif name is not None:
                    self._names[key] = name
            elif "seconds" in item:
                name = self._open.pop(key, None)
                if name is not None:
                    self._writer.write(Entry(moment, name, "done", item["seconds"]))
            else:
                name = self._open[key] = self._name(key)
                self._turns += 1
                self._writer.write(Entry(moment, name, "turn"))
        self._writer.flush()

    def _name(self, key: str) -> str:
        name = self._names.get(key)
        if name is None:
            # After its end a session is another one, and is called so: the names of those that are
            # over need not be kept.
            self._sessions += 1
            name = self._names[key] = key if self._plain_keys else f"s{self._sessions}"
        return name

    def _time_of(self, at: float) -> float:
        """A moment of the server's clock, in the trace's time, which never goes back."""
        assert self._writer is not None
        elapsed = self._elapsed()
        if self._base is None or abs(at - self._base - elapsed) > STRAY:
            self._base = at - elapsed
        return max(self._writer.last, round(at - self._base, 3))

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _lose(self) -> None:
        if self._connected:
            self._connected = False
            self._note_gap()
            self._base = None
            self._tell()

    def _note_gap(self) -> None:
        assert self._writer is not None
        self._gaps += 1
        self._open.clear()
        self._writer.write(Entry(max(self._writer.last, round(self._elapsed(), 3)), "", "gap"))
        self._writer.flush()

    def _tell(self) -> None:
        if self._watch is not None:
            self._watch(self.so_far)


async def record(
    url: str,
    path: str | Path,
    *,
    token: str | None = None,
    seconds: float | None = None,
    plain_keys: bool = False,
    watch: Callable[[Recorded], None] | None = None,
) -> int:
    """Record a server's turns to a file, and return how many there were. See `Recorder`."""
    recorder = Recorder(url, path, token=token, seconds=seconds, plain_keys=plain_keys, watch=watch)
    return (await recorder.run()).turns


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        msg = "recording a server needs httpx: pip install 'greenroom[stress]'"
        raise RecordError(msg) from error
    return httpx


async def _events(response: httpx.Response) -> AsyncIterator[tuple[str, bytes]]:
    """Name and data of each event. By bytes: httpx ends lines where JSON does not."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *events, rest = (rest + chunk).split(b"\n\n")
        for event in events:
            fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
            yield fields.get(b"event", b"").decode(), fields.get(b"data", b"")


def _no_server(url: str, error: Exception) -> str:
    return (
        f"there is no server at {url} ({type(error).__name__}: {error}). Is it running, and is this its "
        f"address, such as http://127.0.0.1:8765?"
    )


def _refusal(url: str, response: httpx.Response, with_token: bool) -> str:
    status = response.status_code
    if status == 401:
        what = "does not know this token" if with_token else "wants a token"
        return f"the server at {url} {what} (401): give it an operator's"
    if status == 403:
        return f"the token is not an operator's, and only these may watch the server at {url} (403)"
    if status == 404 or status == 200:
        return f"what answers at {url} is no greenroom server: it has no /room/events ({status})"
    try:
        said = response.json()["error"]["message"]
    except (ValueError, LookupError, TypeError):
        said = response.text[:200] or "nothing else"
    return f"the server at {url} answers {status}: {said}"
