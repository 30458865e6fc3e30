"""The bot of `examples/telegram_bot.py`: aiogram's own dispatcher and polling, an offline Telegram."""

# pyright: reportAttributeAccessIssue=false
# Without aiogram, this very folder answers to its name.

from __future__ import annotations

import asyncio
import re
import runpy
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramRetryAfter
from aiogram.methods import EditMessageText, SendMessage
from aiogram.types import Chat, Message

from greenroom import Greenroom

ROOT = Path(__file__).parents[3]
PATIENCE = 40.0
"""Seconds after which a test that waits for something fails. Never how long something takes."""

ADA, BOB = 1, 2

Script = Callable[[Any, Greenroom], Awaitable[None]]


def serve(example: SimpleNamespace, script: Script, telegram: Any = None) -> Any:
    """Let the bot serve while a script runs, and then send SIGTERM. Returns the Telegram."""
    room = example.open_room()

    async def run() -> Any:
        served = telegram or example.OfflineTelegram()
        bot = Bot("1:offline", session=served)
        async with asyncio.timeout(PATIENCE):
            serving = asyncio.create_task(example.serve(bot, room, edit_every=0.0))
            await served.wait_until(lambda: served.calls != [])  # now it handles signals
            await script(served, room)
            signal.raise_signal(signal.SIGTERM)
            await serving
        assert served.closed
        return served

    return asyncio.run(run())


def sent(telegram: Any) -> list[str]:
    """The bot's messages, as they look in the end, in order."""
    return [telegram.messages[number] for number in sorted(telegram.messages)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so. It is a wait for a state, not for an order of things."""
    while not condition():  # noqa: ASYNC110  # what it waits for has no event
        await asyncio.sleep(0.001)


def hold_counts(example: SimpleNamespace, let_go: Callable[[Any], bool]) -> None:
    """Have agents that are asked to count stop at 2, and go on when this is so of the agent."""
    answer = example.OfflineAgent.answer

    async def held(agent: Any, text: str) -> AsyncIterator[str]:
        if text.startswith("count"):
            yield "1 2 "
            await until(lambda: let_go(agent))
        async for piece in answer(agent, text):
            yield piece

    example.OfflineAgent.answer = held


def waiting(room: Greenroom) -> int:
    return sum(row.waiting for row in room.snapshot())


def test_an_answer_is_written_by_editing_one_message(example: SimpleNamespace) -> None:
    async def script(telegram: Any, _: Greenroom) -> None:
        telegram.say("count to 3", ADA)
        await telegram.wait_until(lambda: telegram.last == "1 2 3 ")

    telegram = serve(example, script)
    assert [call for call in telegram.calls if call[1]] == [
        ("SendMessage", "1 "),
        ("EditMessageText", "1 2 "),
        ("EditMessageText", "1 2 3 "),
    ]


def test_a_chat_is_shown_that_the_agent_is_typing(example: SimpleNamespace) -> None:
    hold_counts(example, lambda agent: agent.interrupted)

    async def script(telegram: Any, _: Greenroom) -> None:
        telegram.say("count to 3", ADA)
        await telegram.wait_until(lambda: ("SendChatAction", None) in telegram.calls)
        await telegram.wait_until(lambda: "1 2 " in telegram.last)
        telegram.say("/stop", ADA)
        await telegram.wait_until(lambda: "stopped" in telegram.last)

    serve(example, script)


def test_a_second_message_of_a_chat_waits_and_another_chat_does_not(example: SimpleNamespace) -> None:
    """T3"""
    hold_counts(example, lambda agent: agent.interrupted)

    async def script(telegram: Any, room: Greenroom) -> None:
        telegram.say("count to 3", ADA)
        await telegram.wait_until(lambda: "1 2 " in telegram.last)
        telegram.say("Hello", ADA)
        await until(lambda: waiting(room) == 1)
        telegram.say("I am Bob", BOB)
        await telegram.wait_until(lambda: "Message 1" in telegram.last)
        assert waiting(room) == 1
        telegram.say("/stop", ADA)
        await telegram.wait_until(lambda: "Message 2" in telegram.last)

    texts = sent(serve(example, script))
    assert len(texts) == 3
    assert texts[0].endswith("(stopped)")
    assert [text[:9] for text in texts[1:]] == ["Message 1", "Message 2"]


def test_a_new_session_knows_what_the_last_one_has_learned(example: SimpleNamespace) -> None:
    """G1, S2: it is committed at that boundary."""

    async def script(telegram: Any, room: Greenroom) -> None:
        telegram.say("My name is Ada", ADA)
        await telegram.wait_until(lambda: "nothing" in telegram.last)
        assert example.MEMORIES["telegram:1"] == []
        telegram.say("/new", ADA)
        await telegram.wait_until(lambda: telegram.last == "A new session.")
        assert example.MEMORIES["telegram:1"] == ["My name is Ada"]
        telegram.say("Do you know me?", ADA)
        await telegram.wait_until(lambda: "Message 1 of this session" in telegram.last)
        assert "My name is Ada" in telegram.last
        assert room.stats().builds == 2

    serve(example, script)
    assert example.MEMORIES["telegram:1"] == ["My name is Ada", "Do you know me?"]


def test_a_new_session_during_an_answer_begins_when_that_is_whole(example: SimpleNamespace) -> None:
    """T7"""

    async def script(telegram: Any, _: Greenroom) -> None:
        telegram.say("count to 20", ADA)
        await telegram.wait_until(lambda: "1 2 " in telegram.last)
        telegram.say("/new", ADA)
        await telegram.wait_until(lambda: telegram.last == "A new session.")
        assert example.MEMORIES["telegram:1"] == ["count to 20"]

    assert sent(serve(example, script))[0].endswith(" 20 ")


def test_a_new_session_is_told_of_when_the_last_one_is_committed(example: SimpleNamespace) -> None:
    async def script(telegram: Any, _: Greenroom) -> None:
        commit = example.OfflineAgent.commit_memory_session
        begun, gate = (asyncio.get_running_loop().create_future() for _number in range(2))

        async def late(agent: Any) -> None:
            begun.set_result(None)
            await gate
            await commit(agent)

        example.OfflineAgent.commit_memory_session = late
        telegram.say("My name is Ada", ADA)
        await telegram.wait_until(lambda: "nothing" in telegram.last)
        telegram.say("/new", ADA)
        await begun
        example.OfflineAgent.commit_memory_session = commit
        telegram.say("Hello", BOB)
        await telegram.wait_until(lambda: len(telegram.messages) == 2)
        assert "Message 1" in telegram.last
        gate.set_result(None)
        await telegram.wait_until(lambda: telegram.last == "A new session.")
        assert example.MEMORIES["telegram:1"] == ["My name is Ada"]

    serve(example, script)


def test_a_new_session_of_a_chat_that_never_spoke_is_fine(example: SimpleNamespace) -> None:
    async def script(telegram: Any, _: Greenroom) -> None:
        for _number in range(2):
            before = len(telegram.messages)
            telegram.say("/new", ADA)
            await telegram.wait_until(lambda before=before: len(telegram.messages) > before)

    assert sent(serve(example, script)) == ["A new session.", "A new session."]


def test_there_may_be_nothing_to_stop(example: SimpleNamespace) -> None:
    async def script(telegram: Any, _: Greenroom) -> None:
        telegram.say("/stop", ADA)
        await telegram.wait_until(lambda: telegram.messages != {})

    assert sent(serve(example, script)) == ["There is nothing to stop."]


def test_an_interrupt_that_comes_too_late_does_not_stop_the_next_answer(
    example: SimpleNamespace,
) -> None:
    async def script(telegram: Any, room: Greenroom) -> None:
        telegram.say("Hello", ADA)
        await telegram.wait_until(lambda: "Message 1" in telegram.last)
        async with room.turn("telegram:1", ephemeral=True) as turn:
            agent = turn.agent
        agent.interrupt()
        telegram.say("count to 3", ADA)
        await telegram.wait_until(lambda: "1 2" in telegram.last)
        await telegram.wait_until(lambda: telegram.last in ("1 2 3 ", "1 2 (stopped)"))

    assert sent(serve(example, script))[1] == "1 2 3 "


def test_sigterm_lets_an_answer_end_and_refuses_the_message_that_waits(example: SimpleNamespace) -> None:
    """D1"""

    class Open(example.OfflineTelegram):  # type: ignore[name-defined]  # of a namespace
        async def make_request(self, *args: Any, **kwargs: Any) -> Any:
            assert not self.closed, "something was sent when the connection was closed"
            return await super().make_request(*args, **kwargs)

    async def script(telegram: Any, room: Greenroom) -> None:
        hold_counts(example, lambda _: room.stats().draining)
        telegram.say("count to 3", ADA)
        await telegram.wait_until(lambda: "1 2 " in telegram.last)
        telegram.say("Hello", ADA)
        await until(lambda: waiting(room) == 1)

    texts = sent(serve(example, script, Open()))
    assert texts[0].endswith(" 3 ")
    assert texts[1:] == ["I am being restarted. Send that again in a moment, please."]
    assert example.MEMORIES["telegram:1"] == ["count to 3"]


class Busy:
    """A Telegram that refuses the first edits."""

    refusals = 2

    async def make_request(self, bot: Bot, method: Any, timeout: int | None = None) -> Any:  # noqa: ASYNC109
        if isinstance(method, EditMessageText) and self.refusals:
            self.refusals -= 1
            raise TelegramRetryAfter(method, "Too Many Requests", retry_after=0)
        return await super().make_request(bot, method, timeout)  # type: ignore[misc]  # a mixin


@pytest.mark.parametrize("refusals", [1, 2, 3])
def test_an_answer_is_whole_although_telegram_refused_edits(
    refusals: int, example: SimpleNamespace
) -> None:
    telegram = type("BusyTelegram", (Busy, example.OfflineTelegram), {"refusals": refusals})()

    async def script(telegram: Any, _: Greenroom) -> None:
        telegram.say("count to 3", ADA)
        await telegram.wait_until(lambda: telegram.last == "1 2 3 ")

    assert sent(serve(example, script, telegram)) == ["1 2 3 "]


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        (
            [letter * 1000 for letter in "abcde"],
            ["".join(letter * 1000 for letter in "abcd"), "e" * 1000],
        ),
        (["a" * 5000], ["a" * 4096, "a" * 904]),
        (["", "\n", "Hello", " ", "", "\n"], ["\nHello"]),
        ([" "], []),
    ],
    ids=["in another message", "a piece that is too long", "blanks at the ends", "nothing but blanks"],
)
def test_an_answer_is_written_as_telegram_takes_it(
    pieces: list[str], texts: list[str], example: SimpleNamespace
) -> None:
    async def run() -> Any:
        telegram = example.OfflineTelegram()
        bot = Bot("1:offline", session=telegram)
        asked = await bot(SendMessage(chat_id=ADA, text="Hello"))
        assert isinstance(asked, Message)
        assert asked.chat == Chat(id=ADA, type="private")
        draft = example.Draft(asked, 0.0)
        for piece in pieces:
            await draft.add(piece)
        await draft.finish()
        return telegram

    assert sent(asyncio.run(run())) == ["Hello", *texts]


def test_the_example_plays_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/telegram.md").read_text()
    (shown,) = re.findall(r"```text\n(Ada: .*?)```", page, flags=re.DOTALL)
    monkeypatch.delenv("TELEGRAM_TOKEN", raising=False)
    runpy.run_path(str(ROOT / "examples/telegram_bot.py"), run_name="__main__")
    assert capsys.readouterr().out == shown


def test_the_page_quotes_the_example() -> None:
    page = (ROOT / "docs/telegram.md").read_text()
    example = (ROOT / "examples/telegram_bot.py").read_text()
    quotes = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert quotes
    for quote in quotes:
        for part in quote.strip().split("\n\n\n"):
            assert part in example
