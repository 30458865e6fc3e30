"""What `/metrics` says, and a server that has had some of everything to say."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
from prometheus_client.parser import text_string_to_metric_families

from greenroom import BuildContext, Policy
from greenroom.gateway import ChatRequest
from tests.actors.actors import PATIENCE
from tests.gateway.serving import Serving, serving

Labels = dict[str, str]


class Figures:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [
            (sample.name, dict(sample.labels), sample.value)
            for family in self.families.values()
            for sample in family.samples
        ]

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name that have these labels."""
        found = [value for n, has, value in self.samples if n == name and labels.items() <= has.items()]
        assert found, f"no sample of {name} with {labels}"
        return sum(found)

    @property
    def names(self) -> set[str]:
        """The names of all samples."""
        return {name for name, _, _ in self.samples}


def fetch(server: Serving, accept: str = "text/plain") -> tuple[str, str]:
    """The body of a scrape, and its media type."""
    request = urllib.request.Request(f"{server.url}/metrics", headers={"accept": accept})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.read().decode(), answer.headers["content-type"]


def figures(server: Serving) -> Figures:
    """A scrape, when the room has nothing under way and its listeners have heard of everything."""
    room = server.stage.room
    room.settle(PATIENCE)
    room._ending.flush_events(PATIENCE)
    return Figures(fetch(server)[0])


def client(server: Serving) -> openai.OpenAI:
    """A client that tries once."""
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE)


def say(server: Serving, text: str = "hello", *, session: str = "a", **more: Any) -> str:
    """Take a turn, over HTTP."""
    with client(server) as speaking:
        answer: Any = speaking.chat.completions.create(
            model="m", messages=[{"role": "user", "content": text}], user=session, **more
        )
    return str(answer.choices[0].message.content)


class Player:
    """Fails if the message says so, else answers. Its hooks fail if its key says so."""

    def __init__(self, context: BuildContext) -> None:
        if "unbuildable" in context.key:
            raise RuntimeError("this one cannot be built")
        self.key = context.key
        self.session_id = context.session_id
        self.store = context.store

    async def answer(self, request: ChatRequest) -> AsyncIterator[str]:
        text = str(request.messages[-1]["content"])
        if text == "fail":
            raise RuntimeError("as it was told to")
        if self.store is not None:
            await self.store.append_soon(self.session_id, role="user", content=text)
        yield f"you said {text}"

    def commit_memory_session(self) -> None:
        if "uncommittable" in self.key:
            raise RuntimeError("this one cannot be committed")

    def release_clients(self) -> None:
        if "unreleasable" in self.key:
            raise RuntimeError("this one cannot be released")


def build(context: BuildContext, **_: Any) -> Player:
    return Player(context)


def after_some_traffic(folder: Path) -> Figures:
    """The figures of a server that has had turns, good and bad, evictions and failures, and a store."""
    policy = Policy(cap=2, memory_budget=2**40)
    with serving(build, policy=policy, store=f"sqlite:///{folder / 'greenroom.db'}") as server:
        for session in ("a", "a", "b", "unreleasable", "uncommittable", "c"):
            say(server, session=session)
        for text, session in (("fail", "a"), ("hello", "unbuildable")):
            with contextlib.suppress(openai.APIStatusError):
                say(server, text, session=session)
        return figures(server)
