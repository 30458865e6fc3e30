"""An agent that answers without a network, so that everything a gateway does can be seen.

What it says depends on the session and on nothing else: which turn of which session this is, what it
remembers, and what it heard. It keeps a transcript and has a memory provider. A message that begins with
one of these does something else:

    /help           lists the commands
    /facts          tells what the memory provider has found, in this conversation and in earlier ones
    /history        tells what was said in this conversation
    /slow 5         waits 5 seconds, then answers
    /long 2000      answers with 2000 words
    /fail           fails in the middle of the answer (the gateway's fault: status 500)
    /refuse         refuses to answer (the client's fault: status 400)

`interrupt()` ends the running answer early: what was said until then is the answer.

The options make it slow, for every turn:

    build_seconds   how long a build takes           commit_seconds    … a commit
    answer_seconds  … until the first word           release_seconds   … a release
    word_seconds    … from word to word              close_seconds     … a close
    fail_commits    how many commits of each agent fail, before one works
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from greenroom.gateway._agent import BadRequest, Finish, Usage
from greenroom.gateway.agents._interrupt import Interrupt, Interrupted
from greenroom.gateway.agents._options import check_count, check_seconds, takes
from greenroom.gateway.agents.memory import FactMemory
from greenroom.gateway.agents.transcript import Transcript, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from greenroom import BuildContext, Generation
    from greenroom.gateway._agent import ChatRequest, Piece

__all__ = ["OfflineAgent", "OfflineOptions", "offline"]

MOST_WORDS = 100_000
LONGEST_WAIT = 3600.0

COMMANDS = "/facts, /history, /slow SECONDS, /long WORDS, /fail, /refuse"
COMMAND = re.compile(r"/(?P<name>[a-z]+)(?:\s+(?P<argument>\S+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineOptions:
    """How slow an offline agent is, and how unreliable."""

    build_seconds: float = 0.0
    answer_seconds: float = 0.0
    word_seconds: float = 0.0
    commit_seconds: float = 0.0
    release_seconds: float = 0.0
    close_seconds: float = 0.0
    fail_commits: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            check = check_count if field.name == "fail_commits" else check_seconds
            check(field.name, getattr(self, field.name))


@takes(OfflineOptions)
async def offline(context: BuildContext, **options: Any) -> OfflineAgent:
    """Build an offline agent. The options are those of `OfflineOptions`."""
    chosen = OfflineOptions(**options)
    await asyncio.sleep(chosen.build_seconds)
    agent = OfflineAgent(context, chosen)
    await agent.load_soon()
    return agent


class OfflineAgent:
    """Answers by itself, word by word."""

    def __init__(self, context: BuildContext, options: OfflineOptions | None = None) -> None:
        self.session_id = context.session_id
        self.transcript = Transcript(context)
        self.memory = FactMemory(context)
        self._options = options or OfflineOptions()
        self._failures_left = self._options.fail_commits
        self._interrupt = Interrupt()

    async def load_soon(self) -> None:
        """Read the transcript, and what is known."""
        await self.transcript.load_soon()
        await self.memory.load_soon()

    # Turns

    async def answer(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        """Answer one request, word by word."""
        prompt, new = self.transcript.prompt(request), self.transcript.new(request)
        heard = text_of(new[-1])
        said: list[str] = []
        reason = "stop"
        with self._interrupt.listening():
            try:
                async with aclosing(self._speak(heard)) as words:
                    async for word in words:
                        if len(said) == _most_words(request):
                            reason = "length"
                            break
                        said.append(word)
                        yield word
            except Interrupted:
                pass
        text = "".join(said)
        if said:
            await self.transcript.add_soon(request, text)
            self.memory.hear(new)
        yield Usage(
            prompt_tokens=sum(len(text_of(message).split()) for message in prompt),
            completion_tokens=len(said),
        )
        yield Finish(reason)

    async def _speak(self, heard: str) -> AsyncGenerator[str, None]:
        """The words of the answer, as slowly as the options have it."""
        await self._pause(self._options.answer_seconds)
        command, argument = _command_in(heard)
        if command == "slow":
            await self._pause(_number(argument, 1.0, LONGEST_WAIT))
        elif command == "refuse":
            raise BadRequest("/refuse: the agent was told to refuse this message")
        elif command == "facts":
            # Others may have found some meanwhile: an earlier agent of the key, another process.
            await self.memory.load_soon()
        for number, word in enumerate(_words(self._reply(heard, command, argument))):
            if number:
                await self._pause(self._options.word_seconds)
            if command == "fail" and number == 3:
                raise RuntimeError("/fail: the agent was told to fail in the middle of its answer")
            yield word

    async def _pause(self, seconds: float) -> None:
        await self._interrupt.wait_for(asyncio.sleep(seconds))

    def _reply(self, heard: str, command: str, argument: str | None) -> str:
        match command:
            case "help":
                return f"Commands: {COMMANDS}. Tell me your name or what you like, and commit."
            case "facts":
                return _listed("I know", self.memory.facts) or "I know nothing about you yet."
            case "history":
                return self._history()
            case "long":
                count = int(_number(argument, 100, MOST_WORDS))
                return " ".join(f"word{number}" for number in range(1, count + 1))
            case _:
                return self._echo(heard)

    def _echo(self, heard: str) -> str:
        turn = sum(message["role"] == "assistant" for message in self.transcript.messages) + 1
        before = len(self.transcript)
        remembers = f"I remember {before} messages." if before else "We have just begun."
        knows = _listed("I know", self.memory.facts)
        parts = [f"Turn {turn} of {self.session_id}.", remembers, knows, f"You said: {heard}"]
        return " ".join(part for part in parts if part)

    def _history(self) -> str:
        said = [f"{message['role']}: {text_of(message)}" for message in self.transcript.messages]
        return "\n".join(said) or "Nothing was said yet."

    # The room's hooks

    async def commit_memory_session(self, generation: Generation) -> None:
        """Find facts in the turns since the last commit."""
        await asyncio.sleep(self._options.commit_seconds)
        if self._failures_left:
            self._failures_left -= 1
            left = f"{self._failures_left} more will" if self._failures_left else "the next one works"
            raise RuntimeError(f"this commit was told to fail (fail_commits): {left}")
        await self.memory.commit(generation)

    async def release_clients(self) -> None:
        """Let go what is in memory: the store has it."""
        await asyncio.sleep(self._options.release_seconds)
        self.transcript.forget()

    async def close(self) -> None:
        """The session is over."""
        await asyncio.sleep(self._options.close_seconds)
        self.transcript.forget()

    def interrupt(self) -> None:
        """End the running answer early."""
        self._interrupt()


def _command_in(heard: str) -> tuple[str, str | None]:
    found = COMMAND.match(heard.strip())
    return ("", None) if found is None else (found["name"], found["argument"])


def _number(argument: str | None, default: float, most: float) -> float:
    try:
        number = default if argument is None else float(argument)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        msg = f"{argument!r} is no number from 0 to {most:g}: try /slow 5 or /long 2000"
        raise BadRequest(msg)
    return number


def _most_words(request: ChatRequest) -> int | None:
    """How many words the client wants at most. Every word counts as a token here."""
    most: Any = request.options.get("max_completion_tokens") or request.options.get("max_tokens")
    return most if isinstance(most, int) else None


def _words(text: str) -> Iterator[str]:
    """The words of a text with the space behind each: together they are the text."""
    return (match.group() for match in re.finditer(r"\s*\S+\s*", text))


def _listed(before: str, facts: tuple[str, ...]) -> str:
    return f"{before} that {', and that '.join(facts)}." if facts else ""
