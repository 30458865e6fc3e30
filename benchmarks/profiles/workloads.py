"""The process that is looked at: says "ready", then does one thing over and over until it is ended."""

from __future__ import annotations

import itertools
import logging
import sys

from benchmarks.rooms.ours import SPEC, Contestant
from benchmarks.rooms.room import Agency
from benchmarks.rooms.scenarios import CAP, IDLE_TTL, fill, names
from greenroom import Greenroom, Policy

DRAINED = 2_000


def warm() -> None:
    """Turns of sessions that have their agent."""
    room = Contestant(Agency().build, cap=CAP, idle_ttl=IDLE_TTL)
    keys = fill(room, 100)
    ready()
    for key in itertools.cycle(keys):
        room.begin_end(key)


def insert() -> None:
    """New sessions, each of which pushes the oldest out: a build, a commit and a release for each."""
    room = Contestant(Agency().build, cap=CAP, idle_ttl=IDLE_TTL)
    fill(room, 2 * CAP)
    ready()
    for number in itertools.count():
        room.begin_end(f"new:{number}")
        if number % 1_000 == 0:
            room.settle()


def drain() -> None:
    """Drain rooms in which every session has a turn that is not committed. Filling them is seen too;
    whoever reads the stacks leaves that out."""
    agency = Agency()
    ready()
    while True:
        room = Greenroom(agency.build, policy=Policy(cap=None, sweep_every=None))
        move_in(room, agency)
        room.close()


def move_in(room: Greenroom, agency: Agency) -> None:
    """Agents that come ready made: no worker builds them."""
    for key in names(DRAINED):
        room.adopt(key, agency.build(None), SPEC)
        with room.turn(key, SPEC):
            pass


def ready() -> None:
    print("ready", flush=True)


WORKLOADS = {"warm": warm, "insert": insert, "drain": drain}

if __name__ == "__main__":
    logging.disable(logging.ERROR)
    WORKLOADS[sys.argv[1]]()
