"""Giving way: how threads that ask without pause share the interpreter.

A thread that finds its actor idle never blocks, and so keeps the interpreter until the interpreter
takes it away, 5 ms later, often in the middle of a handler and with other people's messages in the
mailbox. With n threads that ask in a closed loop each of them then waits n times 5 ms, in no fair
order. That was the whole far tail of the first prototype.

So a thread gives way by itself, at a moment when it holds nothing: its answer is ready, it is about to
return from `get()`. It does so only if somebody else is in flight *and* it has asked without a pause
for a whole slice. A slice is counted in answers, not in time: one in `LONGEST` asks then pays for a
round of the others, on a fast machine as on a slow one, and the other 99 % pay nothing. With many
threads slices are shorter, or the round would take too long. Whoever gives way joins a line:

    1. threads that are in flight and not in line go first: they wait for the interpreter, and get it
       because we block;
    2. the last of them finds everybody else in line, and lets the first in line go;
    3. so each thread has one slice a round, first come first served.

Nobody depends on being let go. If the thread that should do it leaves to do something else, the one in
line goes on after `PATIENCE` and a round; and a thread that asks now and then never stands in line.

`benchmarks/` shows what this buys as p99.9 and maximum of 8 and 64 threads on one actor, and
`docs/runtime.md` what else was tried. Without a global interpreter lock nobody takes the
interpreter away from anybody, and all of this is switched off.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

from greenroom.actors.runtime._threads import in_flight

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.actors.runtime._threads import ThreadState

__all__ = ["give_way"]

LONGEST, SHORTEST = 120, 8
"""The longest and the shortest slice, in answers. One in `LONGEST` asks pays, so p99 does not."""

CROWD = 8
"""With more threads than this slices get shorter, by the square, to keep the round short."""

PATIENCE = 0.002
"""How many seconds one in line waits, beyond a round, for somebody to let it go."""

PACE = 0.00005
"""A thread whose answers came slower than this, in seconds, has let others run by itself."""

_line: deque[threading.Lock] = deque()

_has_gil: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)


def give_way(thread: ThreadState) -> None:
    """Let others run if this thread has asked without a pause, and begin a new slice.

    Called with nothing held, once a slice and not once an answer: it reads the clock.
    """
    if not _has_gil():
        thread.answers_left = LONGEST  # a module that cannot do without a GIL may switch it on later
        return
    others = in_flight()
    answers = max(SHORTEST, LONGEST * CROWD * CROWD // max(CROWD, others) ** 2)
    took = perf_counter() - thread.slice_began
    if others and took < answers * PACE:
        _stand_in_line(thread, PATIENCE + took * (others + 1))
    thread.answers_left = answers
    thread.slice_began = perf_counter()


def _stand_in_line(thread: ThreadState, patience: float) -> None:
    turn = threading.Lock()
    turn.acquire()
    thread.waking = True
    _line.append(turn)
    try:
        if in_flight() <= len(_line):
            # Everybody is in line. The first may well be ourselves: then we go on at once.
            _let_the_first_go()
        if not turn.acquire(timeout=patience):
            _leave(turn)
    finally:
        thread.waking = False


def _let_the_first_go() -> None:
    try:
        first = _line.popleft()
    except IndexError:
        return
    first.release()


def _leave(turn: threading.Lock) -> None:
    try:
        _line.remove(turn)
    except ValueError:
        # We were let go just as our patience ended. That turn at the interpreter is ours all the same.
        pass
