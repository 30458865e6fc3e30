"""Strikes at random moments, by real signals and by injected exceptions: many tries in one process.

    python -m tests.strikes.at_random --tries 1000 --seed 7           # signals, on the main thread
    python -m tests.strikes.at_random --tries 1000 --by injection     # into another thread

A process of its own, because the timer that sends the signals is the one that pytest-timeout uses.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import math
import random
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from tests.strikes.points import Place
from tests.strikes.stage import OTHER, SPEC, Hung, Log, Stage
from tests.strikes.trials import EXCEPTIONS, INJECTED, Watchdog, not_its_own, run_on_a_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

KEYS = ("a", "b", "c", "d")


def work(stage: Stage, chance: random.Random, struck: Callable[[], object]) -> None:
    """What a gateway does, on and on, until it was struck: mostly warm turns."""
    room = stage.room
    while not struck():
        key = chance.choice(KEYS)
        match chance.randrange(20):
            case 0:
                room.end(key)
            case 1:
                room.evict(key)
            case 2:
                room.commit(key)
            case 3:
                stage.turn(key, OTHER)
            case 4:
                stage.turn(key, SPEC, timeout=10.0)
            case 5:
                room.stats()
            case 6:
                room.explain(key)
            case 7:
                stage.turn(key, SPEC, talks=True)
            case _:
                stage.turn(key, SPEC)


def when(chance: random.Random) -> float:
    """In how many seconds to strike: from 30 µs to 30 ms, short times as often as long ones."""
    return math.pow(10.0, chance.uniform(-4.5, -1.5))


def try_a_signal(seed: int, store: bool) -> list[str]:
    """Let a signal come at a random moment while the main thread works."""
    chance = random.Random(seed)
    error = list(EXCEPTIONS.values())[seed % 4](f"seed {seed}")
    places: list[Place] = []

    def strike(_signum: int, frame: FrameType | None) -> None:
        assert frame is not None
        places.append(Place.of(frame))
        raise error

    wrong: list[str] = []
    stage = Stage(store=store)
    stage.keys += KEYS
    signal.signal(signal.SIGALRM, strike)
    log = Log()
    with log.kept(), Watchdog():
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, when(chance))
                work(stage, chance, lambda: places)
                wrong.append(not_its_own(error, None, places[0], log))
            except Hung:
                raise
            except BaseException as raised:
                if raised is not error:
                    wrong.append(not_its_own(error, raised, places[0] if places else None, log))
                if seed // 4 % 2:
                    wrong += stage.finish(log)
                raised.__traceback__ = None
            if not stage.finished:
                wrong += stage.finish(log)
        except Hung as hung:
            wrong += [*stage.complaints, "it hangs:", *hung.args]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            stage.over.set()
            stage.clear()
    wrong = [line for line in wrong if line]
    return [f"seed {seed}: struck at {places[0] if places else None}", *wrong] if wrong else []


def try_an_injection(seed: int, store: bool) -> list[str]:
    """Inject an exception at a random moment into another thread while that works."""
    chance = random.Random(seed)
    kind = EXCEPTIONS[INJECTED[seed % 3]]
    wrong: list[str] = []
    stage = Stage(store=store)
    stage.keys += KEYS
    log = Log()
    working: list[int] = []
    injected = threading.Event()

    def run() -> None:
        try:
            working.append(threading.get_ident())
            work(stage, chance, injected.is_set)
            if kind not in map(type, log.reported):  # in a finaliser, which raises nothing
                wrong.append("the exception was swallowed")
        except BaseException as raised:
            if type(raised) is not kind:
                wrong.append(f"the caller got {raised!r} in the place of its own exception")
            if seed // 4 % 2:
                wrong.extend(stage.finish(log))
            raised.__traceback__ = None
        if not stage.finished:
            wrong.extend(stage.finish(log))

    def inject() -> None:
        while not working:
            time.sleep(0)
        time.sleep(when(random.Random(seed)))
        identity = ctypes.c_ulong(working[0])
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(kind))
        injected.set()

    with log.kept():
        injector = threading.Thread(target=inject)
        injector.start()
        try:
            run_on_a_thread(run)
        except Hung as hung:
            wrong += [*stage.complaints, "it hangs:", *hung.args]
        finally:
            injector.join()
            stage.over.set()
            stage.clear()
    return [f"seed {seed}: injected", *wrong] if wrong else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.strikes.at_random", description=__doc__)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first try")
    parser.add_argument("--by", choices=["signal", "injection"], default="signal")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--enough", type=int, default=10, help="failures after which it ends")
    given = parser.parse_args()
    logging.getLogger().addHandler(logging.NullHandler())
    attempt: Any = try_a_signal if given.by == "signal" else try_an_injection
    if given.by == "injection":
        sys.setswitchinterval(1e-5)  # or the injecting thread gets its turn only every 5 ms
    failed = tried = 0
    for seed in range(given.seed, given.seed + given.tries):
        wrong = attempt(seed, given.store)
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
