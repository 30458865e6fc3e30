"""A memory provider that asks nobody: it finds facts in what users say, by a few patterns.

    memory = FactMemory(context)
    await memory.load_soon()                   # when the agent is built: memory.facts
    memory.hear(messages)                      # what is new in a turn, once that is whole
    await memory.commit(generation)            # the hook: what was said since the last commit

Facts belong to the key, not to one conversation: whoever is built later for the same key knows them,
in the next process too, and after the conversation was begun anew.

**In the store** they have a session of their own, `memory of <key>`. No turn ever runs there, so that
no room owns it, nothing written to it is fenced, and no agent's coherence depends on it. A commit is
one row:

    {"token": "<session id>/<generation>", "session": "<session id>", "through": 12, "facts": [...]}

**At least once is once.** A commit that was cut off after its row was written is tried again under the
same token, by this process or by the next one, and finds its row. One that was cut off before has
written nothing. `through` is the position up to which the transcript was read, and where the next
commit goes on: what was said is read once, whatever the numbers of the commits are. (Without a ledger
these begin at 1 again in every process, so they are not compared then.)

Without a store, facts are kept with the session's resources: a release keeps them, an end does not.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from greenroom.gateway.agents.transcript import as_dict, is_unknown_session, store_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from greenroom import BuildContext, Generation

__all__ = ["FactMemory", "facts_in", "memory_of"]

LONGEST_ID = 500
"""Characters of a session id in a store."""

LONGEST_FACT = 500

SENTENCE = re.compile(r"[^.!?;\n]+")
PATTERNS = (
    (re.compile(r"\bremember(?: that|:)? (.+)", re.IGNORECASE), "{}"),
    (re.compile(r"\bmy ([\w' -]{1,40}?) is (?!that\b|to\b)(.+)", re.IGNORECASE), "your {} is {}"),
    (re.compile(r"\bI (?:really )?(like|love|hate|prefer) (.+)", re.IGNORECASE), "you {} {}"),
)


class FactMemory:
    """What is known of whoever talks to one key."""

    def __init__(self, context: BuildContext) -> None:
        self._store = store_of(context)
        self._session_id = context.session_id
        self._place = memory_of(context.key)
        self._position = 0
        self._tokens: set[str] = set()
        self._through: dict[str, int] = {}
        # In the order they were found, each once.
        self._facts: dict[str, None] = {}
        self._heard: list[str] = []
        if self._store is None:
            self._facts = context.resources.get("facts", dict[str, None])

    @property
    def facts(self) -> tuple[str, ...]:
        """What is known, oldest first."""
        return tuple(self._facts.copy())  # copied in one step: a commit may add to it

    def load(self) -> None:
        """Read what was found since this was last asked. In a thread: it blocks."""
        if self._store is not None:
            try:
                rows = self._store.messages(self._place, after=self._position)
            except Exception as error:
                rows = self._nothing(error, self._place)
            self._read(rows)

    async def load_soon(self) -> None:
        """Read what was found since this was last asked, on an event loop."""
        if self._store is not None:
            self._read(await self._rows_soon(self._place, self._position))

    def hear(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Note what users said, once the turn is whole. With a store, the transcript has it."""
        if self._store is None:
            self._heard += [text_of(message) for message in messages if message["role"] == "user"]

    async def commit(self, generation: Generation) -> tuple[str, ...]:
        """Find facts in what was said since the last commit, and keep them. Returns the new ones."""
        if self._store is None:
            heard, self._heard = self._heard, []
            return self._learn(facts_in(heard))
        await self.load_soon()
        session_id = generation.session_id or self._session_id
        token = None if generation.session_id is None else f"{session_id}/{int(generation)}"
        if token in self._tokens:
            return ()
        rows = await self._rows_soon(session_id, self._through.get(session_id, 0))
        said = (text_of({"content": _content(row.content)}) for row in rows if row.role == "user")
        found = [fact for fact in facts_in(said) if fact not in self._facts]
        if found:
            through = rows[-1].position
            entry = {"token": token, "session": session_id, "through": through, "facts": found}
            if not self._position:  # with a row read there is a session
                await self._store.create_session_soon(self._place, key=self._place, source="memory")
            await self._store.append_soon(self._place, role="memory", content=entry)
            await self.load_soon()
        elif rows:
            self._through[session_id] = rows[-1].position  # nothing to keep: not worth a row
        return tuple(found)

    async def _rows_soon(self, session_id: str, after: int) -> list[Any]:
        try:
            rows: list[Any] = await self._store.messages_soon(session_id, after=after)
        except Exception as error:
            rows = self._nothing(error, session_id)
        return rows

    def _nothing(self, error: Exception, session_id: str) -> list[Any]:
        if not is_unknown_session(error, session_id):
            raise error
        if session_id == self._place:
            self._position = 0  # none was kept yet, or somebody deleted them
        return []

    def _read(self, rows: list[Any]) -> None:
        for row in rows:
            self._position = row.position
            entry = as_dict(row.content)
            token = entry.get("token")
            if token in self._tokens:
                continue  # a room that was thought dead wrote the same once more
            if token is not None:
                self._tokens.add(token)
            session_id, through = entry.get("session", ""), entry.get("through", 0)
            self._through[session_id] = max(through, self._through.get(session_id, 0))
            self._learn(entry.get("facts", ()))

    def _learn(self, facts: Iterable[str]) -> tuple[str, ...]:
        new = tuple(fact for fact in dict.fromkeys(facts) if fact not in self._facts)
        self._facts.update(dict.fromkeys(new))
        return new


def memory_of(key: str) -> str:
    """The session id under which the store has the facts of a key."""
    place = f"memory of {key}"
    return place if len(place) <= LONGEST_ID else f"memory of {hashlib.sha256(key.encode()).hexdigest()}"


def facts_in(texts: Iterable[str]) -> list[str]:
    """The facts that somebody tells of themselves, in the order they tell them, each once."""
    found: dict[str, None] = {}
    for text in texts:
        for sentence in SENTENCE.findall(text):
            plain = " ".join(sentence.split())
            for pattern, form in PATTERNS:
                match = pattern.search(plain)
                if match is not None:
                    found[form.format(*match.groups())[:LONGEST_FACT]] = None
                    break
    return list(found)


def _content(content: Any) -> Any:
    return as_dict(content).get("content", content)
