"""The hub: everybody who looks at the room, and one pair of eyes for all of them.

    nobody watches        the last events are kept, and that is all
    somebody watches      one task looks at the room, once a second, and tells everybody what has changed
    something happens     is told at once, a tenth of a second's worth at a time

What is sent (server-sent events, `GET /room/events`):

    room       the whole picture: first of all, and to a watcher who could not keep up
    change     what is different since: see `_picture.difference`
    happened   a list of what happened, oldest first, each with a number that grows
    turns      for who asks (`?turns=1`): a list, in order, of turns that began (`key`, `at`), turns that
               are over (and took `seconds`), and sessions that have ended (with the `reason`)
    beat       nothing, if there was nothing else for a while
    bye        the server ends

Counters are cheap and are taken at each look. Rows cost an answer from every session: see `_survey.py`.

Everything here belongs to the event loop. The room calls `_heard` on a thread of its own, which puts the
event into a deque, and wakes the loop if somebody watches. What blocks runs on threads of its own, and
not on those of the loop's executor: agents may use them all.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pykka

from greenroom.gateway._agent import BadRequest
from greenroom.gateway._aside import on_a_thread
from greenroom.gateway._errors import ApiError
from greenroom.gateway._performance import Interrupted
from greenroom.gateway.api._replies import ClientGone
from greenroom.gateway.watch._memory import memory_held
from greenroom.gateway.watch._picture import describe_room, difference, error_text, event_of
from greenroom.gateway.watch._streams import Stream, event_bytes, head
from greenroom.gateway.watch._survey import MOST_ROWS, Survey

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import Receive, Scope, Send

    from greenroom import Event
    from greenroom.gateway._performance import Performance
    from greenroom.gateway._stage import Stage

__all__ = ["Live"]

logger = logging.getLogger("greenroom.gateway")

MOST_EVENTS = 200
"""How many events are kept."""

EVERY = 1.0
SOON = 0.25
"""Seconds between two looks; and if something has happened since the last."""

BATCH = 0.1
"""For how many seconds events are collected before they are told."""

MEMORY_EVERY = 5.0
"""Seconds for which the figure of the memory, which never rests, is left as it is."""

AT_ONCE = 200
"""How many watchers are told something in one go."""

BEAT_AFTER = 15.0
BEAT = event_bytes("beat", {})


class Live:
    """Watches a stage for everybody who watches."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams: dict[Stream, None] = {}
        self._turn_streams: dict[Stream, None] = {}
        """Those of them that are told of turns."""
        self._turned: list[dict[str, Any]] = []
        self._looking: asyncio.Task[None] | None = None
        self._ended = False
        self._tokens = stage.config.tokens
        self._picture: dict[str, Any] | None = None
        self._whole: bytes | None = None
        self._survey: Survey | None = None
        self._touched: set[str] = set()
        self._turns: dict[str, float] = {}
        self._outbox: deque[tuple[list[Stream], bytes]] = deque()
        self._memory: tuple[float, int | None] = (-MEMORY_EVERY, None)
        self._heard_now: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self._telling = False
        self._happened: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self._run = secrets.token_hex(8)
        """Names this hub: another one, after the server was started again, counts from 1 again."""
        self._number = 0
        self._retained: set[str] = set()
        """Sessions of which was told that they are; for the room's thread alone."""
        stage.watchers.append(self)
        self._stop_listening = stage.events.listen(self._heard)

    # Who watches.

    @property
    def watching(self) -> int:
        """How many do."""
        return len(self._streams)

    async def __call__(self, scope: Scope, receive: Receive, send: Send, *, turns: bool = False) -> None:
        """Serve one watcher, as an ASGI application; with `turns`, one who is told of every turn."""
        config = self._stage.config
        if len(self._streams) >= config.max_streams or self._ended:
            raise _refusal(len(self._streams), self._ended)
        await send(head())
        stream = Stream(send, self.whole)
        self._streams[stream] = None
        if turns:
            self._turn_streams[stream] = None
        self._begin(stream)
        try:
            await stream.run(receive)
        finally:
            del self._streams[stream]
            self._turn_streams.pop(stream, None)

    def _begin(self, stream: Stream) -> None:
        if self._looking is None:
            self._loop = asyncio.get_running_loop()
            self._looking = self._loop.create_task(self._look_on())
        if self._picture is not None:
            stream.offer_whole()

    async def end(self) -> None:
        """Say goodbye to everybody. To be awaited when the room is drained, before the server waits for
        connections to end; afterwards nobody can watch any more."""
        if self._ended:
            return
        self._ended = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        last, turned = self._collect()
        told = event_bytes("happened", last) if last else b""
        turns = event_bytes("turns", turned) if turned else b""
        bye = told + event_bytes("bye", {"draining": self._stage.draining})
        streams = [(stream, stream in self._turn_streams) for stream in self._streams]
        await asyncio.gather(*(stream.end(turns + bye if also else bye) for stream, also in streams))
        self._stop_listening()

    # Looking.

    async def _look_on(self) -> None:
        survey = self._survey = Survey(self._stage.room)
        self._take_heard()
        try:
            while self._streams:
                await self._look_once(survey)
                self._look_after()
                await self._rest(survey.pause)
        finally:
            self._looking = self._picture = self._whole = self._survey = None
            self._touched.clear()

    async def _rest(self, least: float) -> None:
        """Until the next look: sooner, if something happens."""
        rested = 0.0
        while rested < least or (rested < EVERY and not self._touched):
            await asyncio.sleep(SOON)
            rested += SOON

    async def _look_once(self, survey: Survey) -> None:
        touched, self._touched = self._touched, set()
        try:
            picture = await self._look(survey, touched)
        except pykka.ActorDeadError:
            return  # the room is closed: whoever closed it is about to end this as well
        except Exception:
            logger.exception("The room could not be looked at: the page shows what was seen before")
            return
        before, self._picture = self._picture, picture
        if before is None:
            self._whole = None
            for stream in self._streams:
                stream.offer_whole()
            return
        changes = difference(before, picture)
        if changes:
            self._whole = None
            self._tell(event_bytes("change", changes))

    async def _look(self, survey: Survey, touched: Collection[str] = ()) -> dict[str, Any]:
        stage = self._stage
        stats = await stage.room.supervisor.stats()
        running, waiting = await stage.admission.figures()
        turns = dict(self._turns)
        await on_a_thread(lambda: survey.take(touched, turns))
        if time.monotonic() >= self._memory[0] + MEMORY_EVERY:
            self._memory = (time.monotonic(), memory_held())
        return {
            "run": self._run,
            **describe_room(stage, stats, running, waiting, self._memory[1]),
            "total": survey.total,
            "states": survey.states,
            "sessions": survey.best,
        }

    async def state(self, text: str = "", state: str = "", most: int = MOST_ROWS) -> dict[str, Any]:
        """The newest state, with the sessions that are asked for: some of their name, or in a state."""
        survey, picture = self._survey, self._picture
        if survey is None or picture is None:
            survey = Survey(self._stage.room)
            picture = await self._look(survey)
        self._take_heard()
        rows, found = await on_a_thread(lambda: survey.find(text, state, most))
        happened = list(self._happened)
        return {**picture, "sessions": rows, "found": found, "happened": happened, "now": time.time()}

    # Telling.

    def whole(self) -> bytes:
        """The newest state, as an event."""
        if self._whole is None:
            picture = self._picture or {}
            rows = list(picture.get("sessions", {}).values())
            whole = {**picture, "sessions": rows, "happened": list(self._happened), "now": time.time()}
            self._whole = event_bytes("room", whole)
        return self._whole

    def _tell(self, event: bytes) -> None:
        if self._picture is None:
            return  # nobody has had a whole one yet, which will have this in it
        self._tell_to(list(self._streams), event)

    def _tell_to(self, streams: list[Stream], event: bytes) -> None:
        self._outbox.append((streams, event))
        if len(self._outbox) == 1:
            self._pump()

    def _pump(self) -> None:
        """Offer what is to be told to some, and to the others when the loop has seen to everything else:
        ten thousand at once would keep it for half a second. One event after the other, so that each
        watcher gets them in order."""
        streams, event = self._outbox[0]
        for stream in streams[:AT_ONCE]:
            stream.offer(event)
        del streams[:AT_ONCE]
        if not streams:
            self._outbox.popleft()
        if self._outbox:
            asyncio.get_running_loop().call_soon(self._pump)

    def _look_after(self) -> None:
        """Let a quiet connection know that there is somebody, and let go of whoever reads nothing."""
        self._ask_who_they_are()
        now = asyncio.get_running_loop().time()
        stuck_since = now - self._stage.config.send_timeout
        for stream in [stream for stream in self._streams if stream.is_stuck(stuck_since)]:
            logger.info("A client of the event stream reads nothing: it is let go of")
            stream.drop()
        quiet = [stream for stream in self._streams if stream.last < now - BEAT_AFTER]
        self._tell_to(quiet, BEAT)

    def _ask_who_they_are(self) -> None:
        """When tokens have changed, end all streams: who may watch comes back, and shows a good one."""
        tokens, self._tokens = self._tokens, self._stage.config.tokens
        if tokens != self._tokens:
            self._stage.behind(_send_away(list(self._streams)))

    # What happens: on a thread of the room's.

    def _heard(self, event: Event) -> None:
        told = event_of(event)
        if told is None or (event.kind == "retain" and event.key in self._retained):
            return  # an agent that is kept is kept again after every try: once will do
        if event.kind == "retain":
            self._retained.add(event.key)
        elif event.kind != "failure":
            self._retained.discard(event.key)
        self._note(told)

    def _note(self, told: dict[str, Any]) -> None:
        told["at"] = time.time()
        self._heard_now.append(told)
        self._tell_soon()

    def _tell_soon(self) -> None:
        # Whether the loop has been woken is looked at after the event is in: if the loop is just about
        # to take what is there, it takes this one too.
        if self._looking is not None and not self._telling and self._loop is not None:
            self._telling = True
            try:
                self._loop.call_soon_threadsafe(self._loop.call_later, BATCH, self._take_heard)
            except RuntimeError:
                pass  # the loop is closed

    # What happens: on the loop.

    def _take_heard(self) -> None:
        self._telling = False
        new, turned = self._collect()
        if new:
            self._whole = None
            self._tell(event_bytes("happened", new))
        if turned and self._picture is not None:
            self._tell_to(list(self._turn_streams), event_bytes("turns", turned))

    def _collect(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Take what has happened since: for everybody, and for those who are told of turns."""
        new: list[dict[str, Any]] = []
        turned, self._turned = self._turned, []
        while True:
            # Not `while self._heard_now`: without a GIL, looking at the length takes no lock. popleft()
            # and append() do: a thread that appends after we found it empty sees that `_telling` is
            # false, and wakes us.
            try:
                told = self._heard_now.popleft()
            except IndexError:
                break
            if told["kind"] == "end" and self._turn_streams:
                turned.append({"key": told["key"], "at": told["at"], "reason": told["reason"]})
            self._number += 1
            told["number"] = self._number
            told["at"] = round(told["at"], 2)
            new.append(told)
            if self._looking is not None:
                self._touched.add(told["key"])
        self._happened.extend(new)
        return new, sorted(turned, key=lambda turn: turn["at"])

    def began(self, performance: Performance) -> None:
        """A turn has begun."""
        self._turns[performance.key] = round(time.time(), 1)
        if self._turn_streams:
            self._tell_of_turn({"key": performance.key, "at": time.time()})
        if self._looking is not None:
            self._touched.add(performance.key)

    def ended(self, performance: Performance, error: BaseException | None) -> None:
        """A turn is over, or never began."""
        if performance.began is None:
            return
        self._turns.pop(performance.key, None)
        if self._turn_streams:
            took = round(time.monotonic() - performance.began, 3)
            self._tell_of_turn({"key": performance.key, "at": time.time(), "seconds": took})
        if self._looking is not None:
            self._touched.add(performance.key)
        if error is not None and not isinstance(error, (BadRequest, asyncio.CancelledError)):
            self._note_turn(performance.key, error)

    def _tell_of_turn(self, turn: dict[str, Any]) -> None:
        self._turned.append(turn)
        self._tell_soon()

    def _note_turn(self, key: str, error: BaseException) -> None:
        if isinstance(error, Interrupted):
            self._note({"kind": "interrupt", "key": key})
        elif isinstance(error, ClientGone):
            self._note({"kind": "hangup", "key": key})
        else:
            self._note({"kind": "failure", "failed": "turn", "key": key, "error": error_text(error)})


async def _send_away(streams: list[Stream]) -> None:
    await asyncio.gather(*(stream.end(b"") for stream in streams))


def _refusal(watching: int, ended: bool) -> ApiError:
    text = "The server is shutting down." if ended else f"{watching} event streams are open already."
    return ApiError(
        503,
        f"{text} Try again in a moment.",
        type="server_error",
        code="draining" if ended else "too_many_streams",
        retry_after=5.0,
    )
