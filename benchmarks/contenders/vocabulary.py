"""A contender that speaks pykka: `start`, `ask`, `tell`, `proxy`, `stop`."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import pykka

from benchmarks.contender import Call, Contender, Population, Stage


class PykkaPopulation(Population):
    def __init__(self, idler: type[pykka.Actor]) -> None:
        super().__init__()
        self._idler = idler

    def start(self) -> pykka.ActorRef[Any]:
        return self._idler.start()

    def stop(self, member: pykka.ActorRef[Any]) -> None:
        member.stop()


class PykkaContender(Contender):
    keeper: ClassVar[type[pykka.Actor]]
    """Touches its entries: `on_receive(key)`, `touch(key)`."""

    @contextmanager
    def stage(self, kind: str, *, actors: int, threads: int) -> Iterator[Stage]:
        refs = [self.keeper.start() for _ in range(actors)]
        try:
            yield set_up(kind, refs)
        finally:
            for ref in refs:
                ref.stop()


def set_up(kind: str, refs: list[pykka.ActorRef[Any]]) -> Stage:
    if kind == "proxy":
        return Stage(calls=[proxy_call(ref) for ref in refs])
    if kind == "tell":
        return Stage(calls=[ref.tell for ref in refs], drain=refs[0].ask)
    if kind == "loop":
        return Stage(async_calls=[awaitable_ask(ref) for ref in refs])
    return Stage(calls=[ref.ask for ref in refs])


def proxy_call(ref: pykka.ActorRef[Any]) -> Call:
    proxy: Any = ref.proxy()

    def call(key: int) -> object:
        return proxy.touch(key).get()

    return call


def awaitable_ask(ref: pykka.ActorRef[Any]) -> Any:
    def call(key: int) -> Awaitable[object]:
        return cast("Awaitable[object]", ref.ask(key, block=False))

    return call
