"""Real forks: a call in a forked child of the test's process, and what came of it."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_a_fork"]

T = TypeVar("T")

PATIENCE = 20
"""A child that takes longer hangs, and is ended."""


def in_a_fork(call: Callable[[], T]) -> T:
    """Fork, call in the child, and return what that returned."""
    if not hasattr(os, "fork") or sys.platform == "darwin":
        pytest.skip("there is no fork here")
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # A program with a room has threads. From Python 3.12 on a fork warns of what these may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest's would only raise, if it is heard at all
        signal.alarm(PATIENCE)  # it has nobody else who would end it
        try:
            answer = pickle.dumps(call())
        except BaseException:
            answer = pickle.dumps(AssertionError(f"in the child: {traceback.format_exc()}"))
        os.write(writer, answer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, "the child hangs" if status == -signal.SIGALRM else f"the child ended: {status}"
    result: T = pickle.loads(answer)
    if isinstance(result, AssertionError):
        raise result
    return result
