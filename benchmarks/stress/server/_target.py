"""A running server as what is stressed: a request a turn, over HTTP.

    open      is it there, and may we? what are its model and its bounds?
    turn      POST /v1/chat/completions, with the session in a header; its end: DELETE /v1/sessions/…
    look      GET /metrics, if the token is an operator's; and one session, whether its turns only grow
    close     all of our sessions are asked for once more, then ended and forgotten

Sessions are called `stress-<seed>-<number>`, and nothing else at the server is touched. `start` is the
first byte of an answer: with `stream`, when the turn has its agent and the answer begins; without,
the whole turn. Nothing that was said, and no token, is ever kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from greenroom.stress._result import Check
from greenroom.stress._target import Level, Outcome, Planned, Target
from greenroom.stress.server._answer import Answer
from greenroom.stress.server._checks import ServerWitness
from greenroom.stress.server._looks import Metrics, level_of, parse_metrics

if TYPE_CHECKING:
    import httpx

__all__ = ["NoServer", "ServerTarget"]

MESSAGE = "Hello, this is turn {number}."
CONNECTIONS = 512
"""At most. Turns beyond wait for one, and their latency counts."""

LOOK_WITHIN = 5.0
"""Seconds after which a look is given up."""

AGAIN = 0.05
"""After so many seconds the witness looks again at what may have been a passing moment."""

TIDY_AT_ONCE, TIDY_WITHIN = 16, 30.0
LONGEST = 3600.0
"""What an agent is told at most: a turn that never ends is no use at a server."""

PAGE = 1000


class NoServer(Exception):
    """There is no server, or it does not let us in. The text says what to do."""


class ServerTarget(Target):
    """A server of greenroom's at a URL."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        model: str | None = None,
        stream: bool = False,
        message: str = MESSAGE,
        timeout: float = 120.0,
        seed: int = 0,
    ) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            msg = f"a server is named as http://127.0.0.1:8765, not {url!r}"
            raise ValueError(msg)
        if parts.username or parts.password:
            raise ValueError("a URL with a password in it ends up in reports: use a token")
        try:
            parts.port  # noqa: B018  # it is read, and checked, when it is asked for
        except ValueError as error:
            msg = f"a server is named as http://127.0.0.1:8765, not {url!r}: {error}"
            raise ValueError(msg) from None
        if token and not (token.isascii() and token.isprintable()):
            raise ValueError("the token has characters in it that no header can carry: is it whole?")
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/').removesuffix('/v1')}"
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._model = model
        self._stream = stream
        self._message = message
        self._timeout = timeout
        self._prefix = f"stress-{seed}-"
        self._names: dict[str, str] = {}
        """Of our sessions, by the workload's keys."""
        self._order: list[str] = []
        self._asked_for = 0
        self._closed_metrics = False
        self._first: Metrics | None = None
        self._last: Metrics | None = None
        self._witness = ServerWitness()
        self._client: httpx.AsyncClient | None = None
        self._began = time.perf_counter()

    # Begin.

    async def open(self) -> Mapping[str, Any]:
        """See whether the server is there. Raises `NoServer`."""
        httpx = _httpx()
        try:
            self._client = httpx.AsyncClient(
                base_url=self.name,
                headers=self._headers,
                timeout=httpx.Timeout(self._timeout, pool=None),
                limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
                trust_env=False,
            )
        except httpx.InvalidURL as error:
            msg = f"{self.name!r} is no URL of a server: {error}"
            raise NoServer(msg) from None
        try:
            models = await self._get("/v1/models")
            try:
                self._model = self._model or models["data"][0]["id"]
            except (LookupError, TypeError):
                msg = f"what is at {self.name} is no server of greenroom's: /v1/models lists no model"
                raise NoServer(msg) from None
            return {"server": await self._settings()}
        except BaseException:
            await self._there.aclose()
            raise

    async def _get(self, path: str) -> Any:
        httpx = _httpx()
        try:
            response = await self._there.get(path, timeout=LOOK_WITHIN)
        except httpx.TimeoutException:
            msg = f"the server at {self.name} does not answer within {LOOK_WITHIN:g} s"
            raise NoServer(msg) from None
        except httpx.HTTPError as error:
            msg = f"there is no server at {self.name} ({type(error).__name__}): is it running?"
            raise NoServer(msg) from None
        if response.status_code in (401, 403):
            msg = f"the server at {self.name} wants a token: set GREENROOM_TOKEN, or say --token"
            raise NoServer(msg)
        try:
            if response.status_code != 200:
                raise ValueError
            return response.json()
        except ValueError:
            msg = (
                f"what is at {self.name} is no server of greenroom's: {path} gave {response.status_code}"
            )
            raise NoServer(msg) from None

    async def _settings(self) -> dict[str, Any]:
        """What the report shows. The room's bounds are the operator's to see."""
        shown: dict[str, Any] = {"model": self._model, "stream": self._stream}
        try:
            state = await self._get("/room/state?limit=1")
            self._witness.session_ttl = state["policy"]["session_ttl"]
            return {**shown, "agent": state["agent"], "policy": dict(state["policy"])}
        except (NoServer, KeyError, TypeError):
            return shown

    @property
    def _there(self) -> httpx.AsyncClient:
        assert self._client is not None, "open() first"
        return self._client

    # Turns.

    async def turn(self, planned: Planned, due: float) -> Outcome:
        """Ask once."""
        name = self._names.get(planned.key)
        if name is None:
            name = self._names[planned.key] = f"{self._prefix}{len(self._names) + 1}"
            self._order.append(name)
        asked = Answer()
        problem: str | None = None
        try:
            await self._ask(name, planned, asked)
        except _httpx().HTTPError as error:
            problem = _transport_problem(error, self._timeout)
        ended = time.perf_counter()
        self._witness.answered(name, self._elapsed(), problem)
        failed = problem or asked.error
        if failed is None and not asked.refused:
            self._witness.completed(name)
            if planned.ends:
                failed = await self._end(name)
        return Outcome(
            planned=planned,
            start=None if asked.first is None or asked.refused else asked.first - due,
            turn=ended - due,
            built=None,
            refused=asked.refused,
            error=failed,
        )

    async def _ask(self, name: str, planned: Planned, asked: Answer) -> None:
        seconds = f"{min(planned.seconds, LONGEST):.3f}"
        text = self._message.replace("{number}", str(planned.number)).replace("{seconds}", seconds)
        body = {
            "model": self._model,
            "stream": self._stream,
            "messages": [{"role": "user", "content": text}],
        }
        headers = {"x-greenroom-session": name}
        async with self._there.stream(
            "POST", "/v1/chat/completions", json=body, headers=headers
        ) as reply:
            if reply.status_code != 200:
                asked.refuse_or_fail(reply.status_code, await reply.aread())
                return
            async for piece in reply.aiter_bytes():
                asked.take(piece)
            asked.over(self._stream)

    async def _end(self, name: str) -> str | None:
        self._witness.ended(name)
        try:
            response = await self._there.delete(f"/v1/sessions/{name}")
        except _httpx().HTTPError as error:
            return f"ending the session: {_transport_problem(error, self._timeout)}"
        if response.status_code in (200, 404):
            return None
        return f"ending the session: status {response.status_code}"

    # Looks.

    async def look(self) -> Level:
        """Ask for the metrics, and for one of our sessions."""
        if self._there.is_closed:
            return Level()
        level, _ = await asyncio.gather(self._look_at_metrics(), self._look_at_a_session())
        return level

    async def _look_at_metrics(self) -> Level:
        metrics = await self._metrics()
        while metrics is not None and self._witness.metrics(metrics, self._elapsed()):
            await asyncio.sleep(AGAIN)
            metrics = await self._metrics()
        if metrics is None:
            return Level()
        first = metrics if self._first is None or self._last is None else self._first
        self._first = first.since_restart(self._last, metrics)
        self._last = metrics
        return level_of(metrics, self._first)

    async def _metrics(self) -> Metrics | None:
        if self._closed_metrics:
            return None
        try:
            response = await self._there.get("/metrics", timeout=LOOK_WITHIN)
        except _httpx().HTTPError:
            return None  # it has enough to do: the next one may tell
        if response.status_code != 200:
            self._closed_metrics = response.status_code < 500  # else it may come to itself
            self._witness.no_metrics(_no_metrics(response.status_code))
            return None
        return parse_metrics(response.text.splitlines())

    async def _look_at_a_session(self) -> None:
        """One after the other, round and round."""
        if not self._order:
            return
        name = self._order[self._asked_for % len(self._order)]
        self._asked_for += 1
        try:
            response = await self._there.get(f"/v1/sessions/{name}", timeout=LOOK_WITHIN)
            if response.status_code == 200:
                self._witness.session(name, response.json(), self._elapsed())
        except (_httpx().HTTPError, ValueError, KeyError, TypeError):
            return  # too busy to tell, or gone

    def _elapsed(self) -> float:
        return time.perf_counter() - self._began

    async def configure(self, changes: Mapping[str, Any]) -> None:
        """Not over HTTP."""
        names = ", ".join(changes)
        msg = (
            f"a server's {names} cannot be changed over HTTP: change its configuration, and send SIGHUP"
        )
        raise ValueError(msg)

    # End.

    async def close(self) -> float | None:
        """Ask for all of our sessions, then leave nothing of them behind. The server runs on."""
        if self._client is None:
            return None
        try:
            async with asyncio.timeout(TIDY_WITHIN):
                await self._ask_for_all()
        except TimeoutError:
            self._witness.not_told(f"The server did not list its sessions within {TIDY_WITHIN:g} s.")
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TIDY_WITHIN):
                    await self._forget_all()
        finally:
            await self._client.aclose()
        return None

    async def _ask_for_all(self) -> None:
        ours, after, at = (
            frozenset(self._names.values()),
            self._prefix,
            time.perf_counter() - self._began,
        )
        more = True
        while more:
            query = f"?limit={PAGE}&stored=true&after={quote(after)}"
            try:
                page = await self._get(f"/v1/sessions{query}")
                rows = [row for row in page["data"] if row["id"].startswith(self._prefix)]
                for row in rows:
                    if row["id"] in ours:
                        self._witness.last_session(row["id"], row, at)
                more = page["has_more"] and len(rows) == len(page["data"])
                after = page["last_id"]
            except (NoServer, KeyError, TypeError) as error:
                self._witness.not_told(f"The server did not list its sessions: {error}.")
                return
        self._witness.all_told(at)

    async def _forget_all(self) -> None:
        names = iter(self._order)

        async def forget_some() -> None:
            for name in names:
                try:
                    await self._there.delete(f"/v1/sessions/{name}?interrupt=true&forget=true")
                except _httpx().HTTPError:
                    return

        await asyncio.gather(*(forget_some() for _ in range(TIDY_AT_ONCE)))

    def checks(self) -> Sequence[Check]:
        """What can be seen from outside."""
        return self._witness.checks()

    def hook_seconds(self) -> Mapping[str, Sequence[float]]:
        """The server's hooks are its own affair."""
        return {}


def _no_metrics(status: int) -> str:
    if status in (401, 403):
        return "The server's metrics are for operators, and this token is not one's."
    return f"The server's metrics cannot be had: status {status}."


def _transport_problem(error: Exception, timeout: float) -> str:
    kind = type(error).__name__
    return (
        f"no answer within {timeout:g} s ({kind})"
        if "Timeout" in kind
        else f"the connection failed ({kind})"
    )


def _httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        msg = "stressing a server needs httpx: pip install 'greenroom[stress]'"
        raise NoServer(msg) from None
    return httpx
