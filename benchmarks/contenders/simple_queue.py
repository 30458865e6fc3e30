"""Hand-over between threads by `queue.SimpleQueue`: the least that a thread per actor can cost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from benchmarks.contender import Call, Contender, NotOffered, Stage
from benchmarks.work import new_entries

Answers = SimpleQueue[int]


class Keeper:
    """A thread that answers what comes in by its queue. `None` ends it."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[tuple[int, Answers | None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        entries = new_entries()
        while (request := self.inbox.get()) is not None:
            key, answers = request
            entries.move_to_end(key)
            answer = entries[key]
            if answers is not None:
                answers.put(answer)

    def asker(self) -> Call:
        """A call for any thread; each thread has a queue of its own for the answers."""
        inbox = self.inbox
        own = threading.local()

        def ask(key: int) -> int:
            try:
                answers: Answers = own.answers
            except AttributeError:
                answers = own.answers = SimpleQueue()
            inbox.put((key, answers))
            return answers.get()

        return ask

    def tell(self, key: int) -> None:
        self.inbox.put((key, None))

    def stop(self) -> None:
        self.inbox.put(None)
        self._thread.join()


class Contestant(Contender):
    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        if kind == "proxy":
            raise NotOffered("a queue has no proxy")
        if kind == "loop":
            raise NotOffered("a queue cannot be awaited")
        keepers = [Keeper() for _ in range(actors)]
        try:
            if kind == "tell":
                yield Stage(calls=[k.tell for k in keepers], drain=keepers[0].asker())
            else:
                yield Stage(calls=[k.asker() for k in keepers])
        finally:
            for keeper in keepers:
                keeper.stop()
