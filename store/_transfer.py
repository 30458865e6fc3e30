"""A whole store as a stream of records, and back: to move it, to keep a copy, to read it elsewhere.

A record is a flat dict that JSON can hold. `{"kind": "session", …}` holds a session with its ledger, and
its messages follow as `{"kind": "message", …}`, in order. Behind all of them, `{"kind": "conversation",
…}` names the current conversation of a key that was renewed. Promised:

- `export` is one consistent snapshot, however long it takes and whoever writes meanwhile, ordered by
  session, in constant memory.
- What is exported and imported again is equal to what was there, but for leases: who owned a session
  is a fact about rooms that are not here.
- `import_` takes a session with all its messages or not at all. One that is there already is refused and
  left as it is; so is a record in which anything is missing, unknown or impossible. A key that has a
  current conversation already keeps it.

Content travels as it is stored, as text with its format: a message that nobody can read (a foreign
program wrote it) is exported like any other. `import_` refuses it.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from greenroom.store._content import ID_LENGTH, ROLE_LENGTH, is_storable
from greenroom.store._errors import SessionExists
from greenroom.store._ledger import RENEW_UNLESS_THERE
from greenroom.store._tables import conversations, messages, sessions

if TYPE_CHECKING:
    from greenroom.store._engine import Engine

__all__ = ["BadRecord", "Record", "Transfer", "transcripts"]

Record = dict[str, Any]

Progress = Callable[[int, int | None], None]
"""Called with the number of records that are done, and of how many if that is known."""

BATCH = 2_000
"""Records that are written in one transaction, or as many as one session has if that is more."""

PAGE = 200
"""Rows that are in memory at a time: a message may be large."""

Rule = tuple[Callable[[Any], bool], str]
"""Whether a value will do, and what would."""


class BadRecord(ValueError):
    """A record cannot be imported. Nothing of its session was written."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"record {number}: {problem}")
        self.number = number
        """Which one, counted from 1."""
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The records of one session, all of them and each in order."""

    number: int
    """Of the session's own record."""
    session: Record
    messages: list[Record] = field(default_factory=list[Record])


class Transfer:
    """The part of a `Store` that gives out all that is in it, and takes it in."""

    _engine: Engine

    def export(self, progress: Progress | None = None) -> Iterator[Record]:
        """The whole store as records: dicts that JSON can hold, each session before its messages.

        One snapshot, ordered by session, a few rows in memory at a time. Who owns a session is left out.
        The iterator keeps a connection until it ends or is closed: a database in memory has only one, so
        that nothing else can be done with that meanwhile. `progress` is called now and then with the
        number of records so far and in all.
        """
        with self._engine.reading(unhurried=True) as connection:
            whole = sum(
                connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                for table in (sessions, messages, conversations)
            )
            done = 0
            with closing(_merged(connection)) as records:
                for done, record in enumerate(records, 1):
                    yield record
                    if progress is not None and done % PAGE == 0:
                        progress(done, whole)
            if progress is not None:
                progress(done, whole)

    def import_(
        self, records: Iterable[Mapping[str, Any]], progress: Progress | None = None
    ) -> tuple[int, int]:
        """Take in what `export` gave; return the numbers of sessions and of messages.

        A session comes in with all its messages or not at all, in transactions of a few thousand
        records. `SessionExists` for one that is there already, `BadRecord` for a record that is wrong:
        nothing of that session was written then, while sessions before it may have been. `progress` is
        called after each transaction with the number of records so far.
        """
        written = added = 0
        renewed: list[Record] = []
        for batch in _batches(transcripts(records, renewed)):
            self._engine.change(partial(_insert, batch))
            written += len(batch)
            added += sum(len(transcript.messages) for transcript in batch)
            if progress is not None:
                progress(written + added, None)
        if renewed:
            statement = RENEW_UNLESS_THERE[self._engine.dialect.name]
            values = [{"a_key": record["key"], "sid": record["session_id"]} for record in renewed]
            self._engine.change(lambda connection: connection.execute(statement, values))
        return written, added


# Out


def _merged(connection: sa.Connection) -> Generator[Record]:
    """Walk through both tables at once, in the same order: each session, then its messages."""
    by_session = sa.select(*(sessions.c[name] for name in SESSION)).order_by(sessions.c.session_id)
    # One that belongs to no session at all is left out.
    belongs = sa.exists().where(sessions.c.session_id == messages.c.session_id)
    in_order = (
        sa.select(*(messages.c[name] for name in MESSAGE))
        .where(belongs)
        .order_by(messages.c.session_id, messages.c.position)
    )
    page = {"yield_per": PAGE}
    with (
        connection.execute(by_session, execution_options=page) as outer,
        connection.execute(in_order, execution_options=page) as inner,
    ):
        yield from heapq.merge(
            ({"kind": "session", **row} for row in outer.mappings()),
            (_message(row) for row in inner.mappings()),
            key=itemgetter("session_id"),  # where it is the same, the session comes first
        )
    by_key = sa.select(conversations).order_by(conversations.c.key)
    with connection.execute(by_key, execution_options=page) as renewed:
        yield from ({"kind": "conversation", **row} for row in renewed.mappings())


def _message(row: sa.RowMapping) -> Record:
    content = row["content"]
    if isinstance(content, bytes):  # a foreign program may leave them in an SQLite file
        content = content.decode("utf-8", "replace")
    return {"kind": "message", **row, "content": content}


# In


def _batches(read: Iterator[Transcript]) -> Iterator[list[Transcript]]:
    """Gather whole sessions, before a transaction begins: others can write while we read."""
    batch: list[Transcript] = []
    gathered = 0
    for transcript in read:
        batch.append(transcript)
        gathered += 1 + len(transcript.messages)
        if gathered >= BATCH:
            yield batch
            batch, gathered = [], 0
    if batch:
        yield batch


def _insert(batch: list[Transcript], connection: sa.Connection) -> None:
    ids = [transcript.session["session_id"] for transcript in batch]
    there = sa.select(sessions.c.session_id).where(sessions.c.session_id.in_(ids))
    taken = set(connection.execute(there).scalars())
    for session_id in ids:
        if session_id in taken:
            raise SessionExists(session_id)
        taken.add(session_id)  # the file may name it twice
    # Counts and versions are the triggers' while messages come in, and set to what they were then.
    nothing = {"message_count": 0, "last_position": 0, "version": 0, "epoch": 0}
    connection.execute(sa.insert(sessions), [{**item.session, **nothing} for item in batch])
    if added := list(chain.from_iterable(item.messages for item in batch)):
        insert = sa.insert(messages)
        if connection.dialect.name == "postgresql":
            # What returns something is sent a thousand rows a statement, which a session counts at once.
            insert = insert.returning(messages.c.id)
        connection.execute(insert, added)
    counted = ("last_position", "version", "updated")
    connection.execute(
        sa.update(sessions)
        .where(sessions.c.session_id == sa.bindparam("this"))
        .values({name: sa.bindparam(f"new_{name}") for name in counted}),
        [
            {"this": item.session["session_id"]}
            | {f"new_{name}": item.session[name] for name in counted}
            for item in batch
        ],
    )


# What a record must look like


def _whole(least: int, most: int) -> Rule:
    return (
        lambda value: type(value) is int and least <= value <= most,
        f"a whole number from {least} to {most}",
    )


def _named(most: int) -> Rule:
    return lambda value: _text(value) and 0 < len(value) <= most, f"text of 1 to {most} characters"


def _text(value: Any) -> bool:
    return isinstance(value, str) and is_storable(value)


_BY_TYPE: dict[type[Any], Rule] = {
    sa.Text: (_text, "text without NUL and lone surrogates"),
    sa.Integer: _whole(0, 2**31 - 1),
    sa.BigInteger: _whole(0, 2**63 - 1),
    sa.Double: (
        lambda value: type(value) in (int, float) and math.isfinite(value),
        "seconds since 1970",
    ),
    sa.Boolean: (lambda value: isinstance(value, bool), "true or false"),
}
_BY_NAME: dict[str, Rule] = {
    "session_id": _named(ID_LENGTH),
    "key": _named(ID_LENGTH),
    "position": _whole(1, 2**31 - 1),
    "role": _named(ROLE_LENGTH),
    "format": (lambda value: value in ("text", "json"), '"text" or "json"'),
}


def _rule(column: sa.Column[Any]) -> Rule:
    """What a column takes."""
    fits, wanted = _BY_TYPE[type(column.type)]
    if column.nullable:
        return lambda value: value is None or fits(value), f"{wanted}, or null"
    return fits, wanted


def _rules(table: sa.Table, *without: str) -> dict[str, Rule]:
    columns = [column for column in table.c if column.name not in without]
    return {column.name: _BY_NAME.get(column.name) or _rule(column) for column in columns}


SESSION = _rules(sessions, "owner", "epoch", "free_at", "owed_since")
MESSAGE = _rules(messages, "id")
KINDS = {"session": SESSION, "message": MESSAGE, "conversation": _rules(conversations)}


def transcripts(
    records: Iterable[Mapping[str, Any]], renewed: list[Record] | None = None
) -> Iterator[Transcript]:
    """Check records one by one and gather those of each session. `BadRecord` at the first wrong one.
    What is current of the keys that were renewed goes into `renewed`.

    >>> list(transcripts([{"kind": "x"}]))
    Traceback (most recent call last):
    greenroom.store._transfer.BadRecord: record 1: its kind is 'x', not session, message or conversation
    """
    current: Transcript | None = None
    for number, record in enumerate(records, 1):
        kind, values = _checked(number, record)
        if kind == "session":
            if current is not None:
                yield _whole_transcript(current)
            current = Transcript(number=number, session=values)
        elif kind == "conversation":
            if renewed is not None:
                renewed.append(values)
        else:
            _add(current, number, values)
    if current is not None:
        yield _whole_transcript(current)


def _checked(number: int, record: Any) -> tuple[str, Record]:
    if not isinstance(record, Mapping):
        raise BadRecord(number, f"it is of type {type(record).__name__}, not an object")
    values: Record = dict(record)  # pyright: ignore[reportUnknownArgumentType]  # looked at below
    kind = values.pop("kind", None)
    rules = KINDS.get(kind) if isinstance(kind, str) else None
    if rules is None:
        raise BadRecord(number, f"its kind is {_shown(kind)}, not session, message or conversation")
    if missing := [name for name in rules if name not in values]:
        raise BadRecord(number, f"this {kind} has no {missing[0]}")
    if unknown := sorted(set(values) - set(rules)):
        msg = f"{_shown(unknown[0])} is no field of a {kind}: it may come from a newer greenroom"
        raise BadRecord(number, msg)
    for name, (fits, wanted) in rules.items():
        if not fits(values[name]):
            raise BadRecord(number, f"{name} of this {kind} is {_shown(values[name])}, not {wanted}")
    if kind == "session" and values["committed"] > values["generation"]:
        raise BadRecord(number, "more turns of this session are committed than were completed")
    return kind, values


def _add(current: Transcript | None, number: int, message: Record) -> None:
    if current is None or message["session_id"] != current.session["session_id"]:
        msg = f"this message is of {_shown(message['session_id'])}, which is not the session before it"
        raise BadRecord(number, msg)
    before = current.messages[-1]["position"] if current.messages else 0
    last = current.session["last_position"]
    if not before < message["position"] <= last:
        msg = f"its position is {message['position']}, after {before} and with {last} as the last"
        raise BadRecord(number, msg)
    if message["format"] == "json":
        try:
            json.loads(message["content"])
        except (ValueError, RecursionError) as error:
            raise BadRecord(number, f"its content is no JSON: {error}") from error
    current.messages.append(message)


def _whole_transcript(read: Transcript) -> Transcript:
    """Find out that a file was cut short while nothing of the session is written."""
    wanted, came = read.session["message_count"], len(read.messages)
    if wanted != came:
        msg = f"session {_shown(read.session['session_id'])} has {wanted} messages, but {came} follow it"
        raise BadRecord(read.number, msg)
    return read


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
