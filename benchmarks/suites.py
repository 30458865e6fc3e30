"""The sets of benchmarks, each with all that the command line needs of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks import bars, campaign, contenders, gateway, peers, picture, rooms, stores, tables, webui
from benchmarks.bars import Bar
from benchmarks.campaign import Say
from benchmarks.gateway import bars as gateway_bars
from benchmarks.gateway import campaign as gateway_campaign
from benchmarks.gateway import picture as gateway_picture
from benchmarks.gateway import tables as gateway_tables
from benchmarks.peers import campaign as peer_campaign
from benchmarks.peers import picture as peer_picture
from benchmarks.peers import tables as peer_tables
from benchmarks.results import Results
from benchmarks.rooms import bars as room_bars
from benchmarks.rooms import campaign as room_campaign
from benchmarks.rooms import picture as room_picture
from benchmarks.rooms import tables as room_tables
from benchmarks.stores import bars as store_bars
from benchmarks.stores import campaign as store_campaign
from benchmarks.stores import picture as store_picture
from benchmarks.stores import tables as store_tables
from benchmarks.webui import bars as webui_bars
from benchmarks.webui import campaign as webui_campaign
from benchmarks.webui import picture as webui_picture
from benchmarks.webui import tables as webui_tables


class Run(Protocol):
    def __call__(self, *, quick: bool, names: Sequence[str], say: Say) -> Results: ...


@dataclass(frozen=True, kw_only=True)
class Suite:
    name: str
    """Of its files in results/, too."""

    contenders: Sequence[str]
    run: Run
    judge: Callable[[Results], list[Bar]]
    report: Callable[[Results, Sequence[Bar]], str]
    draw: Callable[[Results, Path], None]
    by_name_only: bool = False
    """It is not run unless it is named: it needs libraries that are large."""


SUITES = (
    Suite(
        name="runtime",
        contenders=contenders.NAMES,
        run=campaign.run,
        judge=bars.judge,
        report=tables.report,
        draw=picture.draw,
    ),
    Suite(
        name="rooms",
        contenders=rooms.NAMES,
        run=room_campaign.run,
        judge=room_bars.judge,
        report=room_tables.report,
        draw=room_picture.draw,
    ),
    Suite(
        name="stores",
        contenders=stores.NAMES,
        run=store_campaign.run,
        judge=store_bars.judge,
        report=store_tables.report,
        draw=store_picture.draw,
    ),
    Suite(
        name="gateway",
        contenders=gateway.NAMES,
        run=gateway_campaign.run,
        judge=gateway_bars.judge,
        report=gateway_tables.report,
        draw=gateway_picture.draw,
    ),
    Suite(
        name="webui",
        contenders=webui.NAMES,
        run=webui_campaign.run,
        judge=webui_bars.judge,
        report=webui_tables.report,
        draw=webui_picture.draw,
    ),
    Suite(
        name="peers",
        contenders=peers.NAMES,
        run=peer_campaign.run,
        judge=peer_tables.judge,
        report=peer_tables.report,
        draw=peer_picture.draw,
        by_name_only=True,
    ),
)

CHOICES = tuple(dict.fromkeys(name for s in SUITES for name in (s.name, *s.contenders)))
"""What can be chosen: suites, and contenders, some of whom are in two."""


def chosen(only: Sequence[str]) -> list[tuple[Suite, Sequence[str]]]:
    """The suites that are named, or all but those that want to be; of their contenders those that
    are named, or all."""
    by_default = [suite for suite in SUITES if not suite.by_name_only]
    suites = [suite for suite in SUITES if suite.name in only] or by_default
    named = set(only) - {suite.name for suite in SUITES}
    parts = [
        (suite, [name for name in suite.contenders if not named or name in named]) for suite in suites
    ]
    return [(suite, names) for suite, names in parts if names]
