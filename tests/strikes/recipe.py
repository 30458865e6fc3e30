"""The recipe for SIGTERM that people use, and a thousand SIGTERMs for it.

    python -m tests.strikes.recipe --tries 1000

Each try is a process, which takes short turns on its main thread until it is told to end. It is forked
from one that has imported everything and opened nothing. With `--fresh` it is started anew, and ends as
an interpreter does, which takes longer.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import os
import random
import select
import signal
import subprocess
import sys
import time
from typing import IO, Any

from tests.strikes.at_random import when, work
from tests.strikes.stage import Stage

PATIENCE = 20.0
"""Seconds in which a process that was told to end has ended."""


def follow(stage: Stage, seed: int, out: IO[str]) -> None:
    """What the documentation says about SIGTERM, and then the truth about the agents."""
    chance = random.Random(seed)
    logging.basicConfig(level=logging.ERROR)  # whose build or commit was struck may be warned of
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        try:
            print("ready", file=out, flush=True)
            work(stage, chance, lambda: False)
        finally:
            stage.room.close()
    finally:
        agents = [
            (agent.name, agent.torn_down, agent.done, agent.covered)
            for agent in stage.agents
            if agent.handed_over
        ]
        print(json.dumps({"agents": agents, "complaints": stage.complaints}), file=out, flush=True)


def in_a_fork(seed: int) -> tuple[int, int, int]:
    """Begin to follow it in a fork. Returns its number, and where its output and errors come from."""
    out, to_out = os.pipe()
    errors, to_errors = os.pipe()
    child = os.fork()
    if child:
        os.close(to_out)
        os.close(to_errors)
        return child, out, errors
    code: Any = 1
    try:
        os.dup2(to_errors, 2)
        faulthandler.enable()
        with os.fdopen(to_out, "w") as file:
            follow(Stage(), seed, file)
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def started_anew(seed: int) -> subprocess.Popen[bytes]:
    """Begin to follow it in a new process."""
    command = [sys.executable, "-X", "faulthandler", "-m", __spec__.name, "--follow", str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def attempt(seed: int, fresh: bool) -> list[str]:
    """Have a process follow the recipe, tell it to end at a random moment, and look how it has ended."""
    process = started_anew(seed) if fresh else None
    if process is not None:
        assert process.stdout is not None
        assert process.stderr is not None
        child, out, errors = process.pid, process.stdout.fileno(), process.stderr.fileno()
    else:
        child, out, errors = in_a_fork(seed)
    wrong: list[str] = []
    if _read(out, PATIENCE) is None:
        wrong.append("it did not begin")
    time.sleep(when(random.Random(seed)))
    os.kill(child, signal.SIGTERM)
    said = complained = b""
    until = time.monotonic() + PATIENCE
    while piece := _read(out, until - time.monotonic()):
        said += piece
    if piece is None:
        wrong.append(f"it did not end within {PATIENCE} s")
        os.kill(child, signal.SIGABRT)
    while piece := _read(errors, PATIENCE):
        complained += piece
    if process is not None:
        with process:
            code = process.wait()
    else:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(out)
        os.close(errors)
    if code != 0:
        wrong.append(f"it ended with {code}")
    if complained:
        wrong.append(f"it said: {complained.decode()}")
    wrong += _judged(said)
    return [f"seed {seed}", *wrong] if wrong else []


def _judged(said: bytes) -> list[str]:
    try:
        told = json.loads(said)
    except ValueError:
        return [f"it did not tell how its agents have ended, but {said!r}"]
    wrong: list[str] = told["complaints"]
    for name, torn_down, done, covered in told["agents"]:
        if torn_down != 1:
            wrong.append(f"{name} was torn down {torn_down} times")
        if done > covered:
            wrong.append(f"{name} completed {done} turns, {covered} are committed")
    return wrong


def _read(file: int, patience: float) -> bytes | None:
    """What comes next: nothing at the end, and `None` if nothing comes in time."""
    if not select.select([file], [], [], max(0.0, patience))[0]:
        return None
    return os.read(file, 65536)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.strikes.recipe", description=__doc__)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first try")
    parser.add_argument("--fresh", action="store_true", help="start each process anew")
    parser.add_argument("--enough", type=int, default=10, help="failures after which it ends")
    parser.add_argument("--follow", type=int, metavar="SEED", help="be one of these processes")
    given = parser.parse_args()
    if given.follow is not None:
        follow(Stage(), given.follow, sys.stdout)
    failed = tried = 0
    for seed in range(given.seed, given.seed + given.tries):
        wrong = attempt(seed, given.fresh)
        tried += 1
        if wrong:
            failed += 1
            print("\n    ".join(wrong), flush=True)
        if failed >= given.enough:
            break
    print(f"{tried} tries, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
