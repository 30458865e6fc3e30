"""How `greenroom store` shows what it found: rows for programs, tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from greenroom._cli_terminal import console, count, duration, plain

if TYPE_CHECKING:
    from greenroom.store import RoomRow, SessionRow, StoreInfo

__all__ = ["dirty_row", "show_dirty", "show_info"]

GOOD, BAD, FAINT = "green", "red", "dim"


def show_info(url: str, info: StoreInfo, rooms: Sequence[RoomRow], *, now: float) -> None:
    """Show the counts of a store, and its rooms."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    alive = sum(room.alive for room in rooms)
    for name, value in (
        ("store", plain(url)),
        ("schema", f"version {info.schema_version}"),
        ("size", decimal(info.size)),
        ("sessions", f"{info.sessions:,}" + (f", {info.ended:,} of them ended" if info.ended else "")),
        ("messages", f"{info.messages:,}"),
        ("uncommitted", _uncommitted(info)),
        ("rooms", f"{len(rooms):,}, {alive:,} of them alive" if rooms else "none"),
    ):
        facts.add_row(name, Text(value))
    screen = console()
    screen.print(facts)
    if rooms:
        screen.print()
        screen.print(_room_table(rooms, now=now))


def _uncommitted(info: StoreInfo) -> str:
    if not info.dirty:
        return "nothing"
    said = f"{count(info.uncommitted, 'turn')} of {count(info.dirty, 'session')}"
    return f"{said}, {count(info.dead, 'dead letter')}" if info.dead else said


def _room_table(rooms: Sequence[RoomRow], *, now: float) -> Table:
    table = _table("room", "host", "pid", "up for", "state")
    for room in rooms:
        last = f"expired {duration(now - room.expires)} ago"
        table.add_row(
            Text(plain(room.room)),
            Text(plain(room.host)),
            str(room.pid or ""),
            duration(now - room.started) if room.alive else "",
            Text("alive", style=GOOD) if room.alive else Text(last, style=BAD),
        )
    return table


def dirty_row(row: SessionRow, rooms: Sequence[RoomRow], *, now: float) -> dict[str, Any]:
    """Tell all about a session with uncommitted turns: its row, and what follows from it."""
    alive = any(room.room == row.owner and room.alive for room in rooms)
    waits = row.next_try is not None and not row.dead
    return {
        **asdict(row),
        "owner_alive": alive if row.owner else None,
        "due_in": max(0.0, (row.next_try or 0.0) - now) if waits else None,
    }


def show_dirty(rows: Sequence[dict[str, Any]]) -> None:
    """Show sessions with uncommitted turns, as `dirty_row` tells them."""
    table = _table("session", "key", "uncommitted", "state")
    for row in rows:
        turns = f"{row['generation'] - row['committed']} of {row['generation']}"
        state = _state(row)
        if row["problem"]:
            state.append(f"\n{plain(row['problem'])}", style=FAINT)
        key = Text("(same)", style=FAINT) if row["key"] == row["session_id"] else Text(plain(row["key"]))
        table.add_row(Text(plain(row["session_id"])), key, turns, state)
    console().print(table)


def _state(row: dict[str, Any]) -> Text:
    """Say who is to commit it, and when."""
    if row["dead"]:
        return Text(f"dead letter after {count(row['tries'], 'try', 'tries')}", style=BAD)
    if row["owner_alive"]:
        return Text.assemble("held by ", plain(row["owner"]), (" (alive)", GOOD))
    if row["due_in"]:
        failed = count(row["tries"], "failed try", "failed tries")
        return Text(f"{failed}, next in {duration(row['due_in'])}")
    if row["owner"]:
        return Text.assemble("left by ", plain(row["owner"]), (" (gone)", BAD), ", due now")
    return Text("due now")


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        # What does not fit is folded and not cut off: half an id is of no use.
        table.add_column(name, overflow="fold")
    return table
