"""Looks at the stacks of other threads: nothing runs meanwhile that could change them."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from operator import call
from typing import Any

import pytest

from greenroom.actors.runtime._stillness import stand_still
from tests.actors.actors import PATIENCE

AT_WORK = """
    import faulthandler, gc, sys, threading, time, weakref
    from greenroom.actors.session.holding import was_left

    faulthandler.enable()
    faulthandler.dump_traceback_later({patience}, exit=True)
    gc.callbacks.append(lambda phase, _: [len(phase) for _ in range(300)])
    gc.freeze()
    gc.set_threshold(3)
    sys.setswitchinterval(1e-6)

    class Turn:
        pass

    def fail(depth=20):
        try:
            raise ValueError
        except ValueError:
            if depth:
                fail(depth - 1)

    def begin_threads():
        while time.monotonic() < end:
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()

    def look():
        try:
            while time.monotonic() < end:
                was_left(name, search=True)
        except BaseException as error:
            errors.append(error)

    turn, errors = Turn(), []
    name, end = (None, None, weakref.ref(turn)), time.monotonic() + {seconds}
    threads = [threading.Thread(target=one) for one in [begin_threads] * 3 + [look] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    print("done")
"""


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """The beginnings of collections. Every allocation begins one, as far as that may be."""
    seen: list[str] = []

    def note(phase: str, _: object) -> None:
        if phase == "start":
            seen.append(phase)

    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        yield seen
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)


def test_no_collection_begins_while_threads_are_looked_at(collections: list[str]) -> None:
    count = collections.__len__
    steps: list[Callable[[], Any]] = [count, sys._current_frames, sys._current_exceptions, count]

    found: list[Any] = stand_still(partial(list, map(call, steps)))

    assert found[0] == found[-1]


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="no collection begins in a call from Python 3.12 on"
)
@pytest.mark.parametrize("enabled", [True, False])
def test_collections_go_on_as_before(enabled: bool) -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise LookupError

    try:
        if not enabled:
            gc.disable()
        assert stand_still(gc.isenabled) is False
        assert gc.isenabled() is enabled
        with pytest.raises(LookupError):
            stand_still(fail)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_threads_begin_and_end_while_others_look_who_has_left_a_turn() -> None:
    """K1. Without standing still, this deadlocks or crashes the interpreter on Python 3.11. Two threads
    that look at the same function do not disturb each other."""
    code = textwrap.dedent(AT_WORK).format(patience=PATIENCE, seconds=2.0)
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout) == (0, "done\n"), child.stderr
