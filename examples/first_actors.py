"""Ten thousand chats, each an actor, and not a thread among them. Run me: `make serve`."""

import asyncio
import threading
import time
from typing import Any

from greenroom.actors import Actor, Runtime


class Chat(Actor):
    """One chat. Turns arrive one at a time; a slow model is asked on a worker, not in here."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._transcript: list[str] = []

    def say(self, text: str) -> None:
        reply = self.defer_reply()  # answered when the model has, and meanwhile nobody is blocked
        self._transcript.append(text)
        thinking = self.runtime.submit(slow_model, text, timeout=10.0, name=f"model {self._name}")
        self.pipe_to_self(thinking, lambda answer: (answer, reply), lambda error: (error, reply))

    def on_receive(self, message: Any) -> None:
        answer, reply = message
        self._transcript.append(str(answer))
        reply.set(f"{self._name}: {answer} ({len(self._transcript)} lines so far)")


def slow_model(text: str) -> str:
    """Stand in for a model: think for a fifth of a second, without a network."""
    time.sleep(0.2)
    return text.upper()


async def on_an_event_loop(chats: list[Any]) -> list[str]:
    """Ask twenty chats at once, from asyncio."""

    async def ask(chat: Any) -> str:
        return str(await chat.say("good morning"))

    return list(await asyncio.gather(*(ask(chat) for chat in chats[:20])))


def main() -> None:
    with Runtime(workers=20) as runtime:
        began = time.perf_counter()
        refs = [runtime.start(Chat, f"chat {n}") for n in range(10_000)]
        took = time.perf_counter() - began
        print(f"{len(refs):,} actors started in {took:.2f} s; threads: {threading.active_count()}")

        chats = [ref.proxy() for ref in refs[:20]]
        print(f"From a thread:       {chats[7].say('hello').get(timeout=10)}")

        began = time.perf_counter()
        answers = asyncio.run(on_an_event_loop(chats))
        took = time.perf_counter() - began
        print(f"From an event loop:  {answers[7]}")
        print(f"Twenty answers of 0.2 s each took {took:.2f} s, on {runtime.stats().workers} workers")
    print(f"All closed; threads: {threading.active_count()}")


if __name__ == "__main__":
    main()
