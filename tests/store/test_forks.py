"""A store in a process that was forked from another that uses the same database."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from greenroom.store import open_store
from tests.crash.databases import sqlite_url
from tests.store.foreign import python

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is no fork here"),
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path / "store.db")


def transcript(url: str) -> list[object]:
    with open_store(url) as store:
        return [message.content for message in store.messages("s")]


BEGIN = """
import os, signal, sys, threading, warnings
from greenroom.store import StoreUnavailable, open_store

def fork():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a program with a store has threads
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # nobody else would end it
    return child

def say(store, what):
    store.append("s", role="user", content=what)

url, how = sys.argv[1:]
store = open_store(url)
store.create_session("s", key="k")
say(store, "parent")
store.peek("s")
"""

PARENT_CLOSES_FIRST = """
written, closed = os.pipe(), os.pipe()
child = fork()
if child == 0:
    own = store if how == "inherited" else open_store(url)
    say(own, "child")
    own.peek("s")
    os.write(written[1], b"x")
    os.read(closed[0], 1)
    say(own, "child, alone")
    os._exit(0)
os.read(written[0], 1)
store.close()
os.write(closed[1], b"x")
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("how", ["inherited", "own"])
def test_what_a_forked_child_writes_when_its_parent_has_closed_the_file_is_there(
    url: str, how: str
) -> None:
    """K2: SQLite deletes the log when nobody has the file open, and must know that the child has."""
    done = python(BEGIN + PARENT_CLOSES_FIRST, url, how)

    assert done.stderr == ""
    assert transcript(url) == ["parent", "child", "child, alone"]


CHILD_EXITS = """
child = fork()
if child == 0:
    sys.exit(0)  # the interpreter collects everything
assert os.waitpid(child, 0)[1] == 0
assert os.path.exists(url.removeprefix("sqlite:///") + "-wal"), "the log was deleted"
say(store, "parent")
assert store.peek("s") == (2, False)
store.close()
"""


def test_a_forked_child_that_ends_leaves_the_file_to_its_parent(url: str) -> None:
    """K2"""
    done = python(BEGIN + CHILD_EXITS, url, "")

    assert done.stderr == ""
    assert transcript(url) == ["parent", "parent"]


WHILE_IN_USE = """
def write():
    with store.transaction() as ledger:
        ledger.take("t", key="k", owner="room")
        begun.set()
        assert forked.wait(20)

def look():
    taken = store._peeker._idle.pop()  # as a thread does that looks
    begun.set()
    assert forked.wait(20)
    store._peeker._idle.append(taken)

begun, forked = threading.Event(), threading.Event()
thread = threading.Thread(target=write if how == "writes" else look, daemon=True)
thread.start()
assert begun.wait(20)
child = fork()
if child == 0:
    for attempt in (
        lambda: open_store(url),
        lambda: open_store("sqlite://"),
        lambda: say(store, "child"),
        lambda: store.peek("s"),
    ):
        try:
            attempt()
        except StoreUnavailable as refused:
            assert "the parent process was in the middle" in str(refused), refused
        else:
            os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child could use it"
forked.set()
thread.join(20)
say(store, "parent")
store.close()
"""


@pytest.mark.parametrize("how", ["writes", "looks"])
def test_a_child_that_was_forked_in_a_transaction_of_its_parents_cannot_use_sqlite(
    url: str, how: str
) -> None:
    """K2: what SQLite knows of its locks is wrong there, for good."""
    done = python(BEGIN + WHILE_IN_USE, url, how)

    assert done.stderr == ""
    assert transcript(url) == ["parent", "parent"]


UNDER_LOAD = """
def write():
    while not enough.is_set():
        say(store, "parent")
        store.peek("s")

enough = threading.Event()
threads = [threading.Thread(target=write, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = fork()
    if child == 0:
        version = store.session("s").version
        os._exit(0 if store.peek("s")[0] >= version >= 1 else 3)
    assert os.waitpid(child, 0)[1] == 0, "the child could not use it"
enough.set()
for thread in threads:
    thread.join(20)
store.close()
"""


def test_a_fork_waits_until_no_thread_uses_sqlite(url: str) -> None:
    """K2: so that the child can use it, whatever the parent is at."""
    done = python(BEGIN + UNDER_LOAD, url, "")

    assert done.stderr == ""
    assert set(transcript(url)) == {"parent"}
