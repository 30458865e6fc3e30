"""A Telegram bot: aiogram in front, a room behind, and a Telegram of its own to try it offline.

    python examples/telegram_bot.py                           # plays a short chat, without a network
    TELEGRAM_TOKEN=123:abc python examples/telegram_bot.py    # the same bot, by long polling

One chat is one key. A second message of a chat waits for its turn; `/new` commits what was said and
begins a new conversation; `/stop` interrupts the answer that is being written. SIGTERM lets answers end.
"""

# aiogram is in an environment of its own: where checkers run, they know nothing of its types.
# mypy: disallow-subclassing-any=False
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import os
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiogram import BaseMiddleware, Bot, Dispatcher, F, Router
from aiogram.client.session.base import BaseSession
from aiogram.exceptions import TelegramBadRequest, TelegramRetryAfter
from aiogram.filters import Command, ExceptionTypeFilter
from aiogram.methods import EditMessageText, GetMe, GetUpdates, SendMessage
from aiogram.types import Chat, ErrorEvent, Message, Update, User
from aiogram.utils.chat_action import ChatActionSender

from greenroom import AgentSpec, BuildContext, Greenroom, GreenroomError, Overloaded, Policy, RoomClosed

SPEC = AgentSpec("offline-1")
LONGEST = 4096
"""How many characters Telegram takes in one message."""

MEMORIES: defaultdict[str, list[str]] = defaultdict(list)
"""In the place of a memory provider: what each chat has told, once it was committed."""


# The agent: yours, in earnest.


class OfflineAgent:
    """Counts if it is asked to, else tells what it knows. An answer can be interrupted."""

    def __init__(self, context: BuildContext) -> None:
        self.key = context.key
        self.known = tuple(MEMORIES[context.key])
        self.heard: list[str] = []
        self.interrupted = False

    async def answer(self, text: str) -> AsyncIterator[str]:
        if text.startswith("count to "):
            for number in range(1, int(text.split()[-1]) + 1):
                if self.interrupted:
                    yield "(stopped)"
                    break
                yield f"{number} "
                await asyncio.sleep(0.02)
        else:
            known = "; ".join(self.known) or "nothing"
            yield f"Message {len(self.heard) + 1} of this session. From earlier ones I know: {known}."
        self.heard.append(text)

    def interrupt(self) -> None:
        self.interrupted = True

    async def commit_memory_session(self) -> None:
        MEMORIES[self.key] += self.heard
        self.heard.clear()


def prepare(agent: OfflineAgent, _: object) -> None:
    """Before every turn: an interrupt that came late for the last one is not for this one."""
    agent.interrupted = False


# The bot.


def key_of(message: Message) -> str:
    return f"telegram:{message.chat.id}"


async def new(message: Message, room: Greenroom) -> None:
    """Begin a new conversation, when all that was said before is answered; answer when the old one is
    committed, so that the next one begins with what it has learned."""
    key = key_of(message)
    async with room.turn(key, SPEC, ephemeral=True):
        await room.session(key).renew()  # takes effect when this turn is over
    await room.session(key).commit()
    await message.answer("A new session.")


async def stop(message: Message, room: Greenroom) -> None:
    """Interrupt the answer that is being written. What it has said so far stays."""
    if not room.interrupt(key_of(message)):
        await message.answer("There is nothing to stop.")


async def say(message: Message, bot: Bot, room: Greenroom, edit_every: float) -> None:
    """A turn: typing while the agent works, and its answer in a message that grows."""
    key, draft = key_of(message), Draft(message, edit_every)
    async with room.turn(key, SPEC) as turn, ChatActionSender.typing(bot=bot, chat_id=message.chat.id):
        async for piece in turn.agent.answer(message.text):
            await draft.add(piece)
        await draft.finish()


async def refused(event: ErrorEvent, message: Message) -> None:
    """The room has refused a turn."""
    texts = {
        Overloaded: "That is too much at once. Wait for my answers, please.",
        RoomClosed: "I am being restarted. Send that again in a moment, please.",
    }
    await message.answer(texts.get(type(event.exception), "That did not work. Try again, please."))


class Draft:
    """An answer that is written by editing a message. Not too often, or Telegram refuses; and when one
    message is full, with another one."""

    def __init__(self, question: Message, edit_every: float) -> None:
        self._question = question
        self._edit_every = edit_every
        self._shown: Message | None = None
        self._text = self._told = ""
        self._next_edit = 0.0

    async def add(self, piece: str) -> None:
        for start in range(0, len(piece), LONGEST):
            await self._add(piece[start : start + LONGEST])

    async def _add(self, piece: str) -> None:
        if len(self._text) + len(piece) > LONGEST:
            await self.finish()
            self._shown, self._text, self._told = None, "", ""
        self._text += piece
        if time.monotonic() >= self._next_edit:
            with contextlib.suppress(TelegramRetryAfter):  # the next one has more to show anyway
                await self._show()
            self._next_edit = time.monotonic() + self._edit_every

    async def finish(self) -> None:
        while self._text.strip() != self._told:
            try:
                await self._show()
            except TelegramRetryAfter as error:
                await asyncio.sleep(error.retry_after)

    async def _show(self) -> None:
        text = (
            self._text.strip()
        )  # as Telegram does: it refuses blank messages, and edits that change none
        if text == self._told:
            return
        if self._shown is None:
            self._shown = await self._question.answer(self._text)
        else:
            await self._shown.edit_text(self._text)
        self._told = text


class Underway(BaseMiddleware):
    """The updates that are being handled. aiogram does not wait for them when it stops polling."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, handler: Callable[..., Awaitable[Any]], event: Any, data: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await handler(event, data)

    async def wait_done(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)


def make_router() -> Router:
    router = Router()
    router.message.register(new, Command("new"))
    router.message.register(stop, Command("stop"))
    router.message.register(say, F.text)
    router.errors.register(refused, ExceptionTypeFilter(GreenroomError), F.update.message.as_("message"))
    return router


def open_room() -> Greenroom:
    return Greenroom(OfflineAgent, policy=Policy(cap=256), prepare=prepare)


async def serve(bot: Bot, room: Greenroom, *, edit_every: float = 1.0) -> None:
    """Answer until SIGTERM or SIGINT. Then no turn begins, running ones end, everything is committed.

    Only then is the connection to Telegram closed: answers need it to the last."""
    underway = Underway()
    dispatcher = Dispatcher(room=room, edit_every=edit_every)
    dispatcher.update.outer_middleware(underway)
    dispatcher.include_router(make_router())
    async with bot.session:
        async with room:
            await dispatcher.start_polling(bot, close_bot_session=False)
        await underway.wait_done()


# Telegram, offline.


class OfflineTelegram(BaseSession):
    """In the place of Telegram's servers: hands out updates, and keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any]] = []
        """What the bot asked for, in order: the name of the method, and its text, if it has one."""
        self.messages: dict[int, str] = {}
        """The bot's messages, as they look now."""
        self.closed = False
        self._updates: asyncio.Queue[Update] = asyncio.Queue()
        self._ids = itertools.count(1)
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def say(self, text: str, chat_id: int = 12345) -> None:
        """Have somebody write to the bot."""
        now, number = datetime.datetime.now(datetime.UTC), next(self._ids)
        user = User(id=chat_id, is_bot=False, first_name="Ada")
        chat = Chat(id=chat_id, type="private")
        message = Message(message_id=number, date=now, chat=chat, from_user=user, text=text)
        self._updates.put_nowait(Update(update_id=number, message=message))

    @property
    def last(self) -> str:
        """The bot's last message, as it looks now."""
        return self.messages[max(self.messages)] if self.messages else ""

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the bot's calls bring about."""
        if not condition():
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((condition, done))
            await done

    async def make_request(self, bot: Bot, method: Any, timeout: int | None = None) -> Any:  # noqa: ASYNC109
        if isinstance(method, GetUpdates):
            return [await self._updates.get()]
        answer = self._answer(bot, method)
        self.calls.append((type(method).__name__, getattr(method, "text", None)))
        for condition, done in self._waiting:
            if not done.done() and condition():
                done.set_result(None)
        return answer

    def _answer(self, bot: Bot, method: Any) -> Any:
        if isinstance(method, GetMe):
            return User(id=bot.id, is_bot=True, first_name="Offline", username="offline_bot")
        return self._write(bot, method) if isinstance(method, (SendMessage, EditMessageText)) else True

    def _write(self, bot: Bot, method: Any) -> Message:
        number = method.message_id if isinstance(method, EditMessageText) else next(self._ids)
        if method.text.strip() in ("", self.messages.get(number, "").strip()):
            raise TelegramBadRequest(method, "message text is empty, or message is not modified")
        if len(method.text) > LONGEST:
            raise TelegramBadRequest(method, "message is too long")
        self.messages[number] = method.text
        chat = Chat(id=method.chat_id, type="private")
        now = datetime.datetime.now(datetime.UTC)
        return Message(message_id=number, date=now, chat=chat, text=method.text).as_(bot)

    async def close(self) -> None:
        self.closed = True

    async def stream_content(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        yield b""  # nobody has sent a file


async def play(telegram: OfflineTelegram) -> None:
    """A chat, to be read by whoever runs this."""

    async def ask(text: str, *, until: str, edited: bool = False) -> None:
        before = len(telegram.messages) - edited
        print(f"Ada: {text}")
        telegram.say(text)
        await telegram.wait_until(lambda: len(telegram.messages) > before and until in telegram.last)

    def show() -> None:
        words = telegram.last.split()
        print("Bot:", *(words if words[0] != "1" else ["1 2 3 …", words[-1]]))

    await ask("My name is Ada", until="nothing")
    show()
    await ask("/new", until="new session")
    show()
    await ask("Do you know me?", until="Ada")
    show()
    await ask("count to 1000", until="1 2 3 ")
    await ask("/stop", until="(stopped)", edited=True)
    show()
    await ask("count to 50", until="1 2 3 ")
    print("SIGTERM")
    signal.raise_signal(signal.SIGTERM)
    await telegram.wait_until(lambda: telegram.last.endswith(" 50 "))
    show()


async def main() -> None:
    """Serve Telegram, or play."""
    token = os.environ.get("TELEGRAM_TOKEN")
    if token:
        await serve(Bot(token), open_room())
        return
    telegram = OfflineTelegram()
    playing = asyncio.create_task(play(telegram))
    await serve(Bot("1:offline", session=telegram), open_room(), edit_every=0.1)
    await playing
    print("Committed:", *MEMORIES["telegram:12345"], sep="\n  ")


if __name__ == "__main__":
    asyncio.run(main())
