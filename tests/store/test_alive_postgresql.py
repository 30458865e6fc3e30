"""The lock that a room holds in PostgreSQL, and how it comes to lose it while it lives."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from greenroom.store import Store, StoreUnavailable, open_store
from greenroom.store import _alive_postgresql as servers
from greenroom.store import _ledger as sql
from greenroom.store._alive import PAUSE
from greenroom.store._transaction import Transaction
from tests.actors.actors import Gate
from tests.room.agents import until
from tests.store.foreign import execute, python
from tests.store.lookers import Looker
from tests.store.postgres_proxy import Proxy, as_a_pooler
from tests.store.urls import own_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres import OwnServer

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("own postgres")]

TTL = 600.0
LOCKS = "FROM pg_locks WHERE locktype = 'advisory'"


@pytest.fixture(scope="module")
def own_server() -> Iterator[OwnServer]:
    """A server that these tests stop and start, on a socket."""
    with own_postgres() as server:
        yield server


@pytest.fixture
def url(own_server: OwnServer) -> str:
    return own_server.fresh_url()


def beat(store: Store, room: str = "room") -> bool:
    """Say that a room lives."""
    with store.transaction() as ledger:
        return ledger.beat(room, ttl=TTL)


@pytest.fixture
def home(url: str) -> Iterator[Store]:
    """The store of a room that lives."""
    with open_store(url, durability="normal") as store:
        beat(store)
        yield store


@pytest.fixture
def looker(home: Store, url: str) -> Iterator[Looker]:
    assert home.holds("room")
    with Looker(url) as looker:
        yield looker


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch, home: Store) -> Iterator[Gate]:
    """Rooms that have lost their lock do not get another before this is opened."""
    assert home.holds("room")
    gate, take = Gate(), servers.ServerLock._take

    def late(lock: servers.ServerLock) -> None:
        if threading.current_thread().name.startswith("greenroom-store-lock"):
            gate.wait()
        take(lock)

    with monkeypatch.context() as patch:
        patch.setattr(servers.ServerLock, "_take", late)
        yield gate
        gate.open()
        home.close()


def terminate(url: str) -> None:
    """End the sessions that have advisory locks."""
    assert execute(url, f"SELECT pg_terminate_backend(pid) {LOCKS}")


def wait_until_free(looker: Looker) -> None:
    """The server tells a client that its session ends, and frees its lock then."""
    until(lambda: looker.look().again, "a lock that is free")


def wait_for_another_lock(looker: Looker, home: Store, before: str | None) -> None:
    until(lambda: looker.row().lock_name != before and home.holds("room"), "another lock")


def test_a_room_whose_connection_is_terminated_has_another_lock_before_it_is_buried(
    home: Store, looker: Looker, url: str, held_up: Gate
) -> None:
    """M3"""
    before = looker.row().lock_name

    terminate(url)
    held_up.wait_reached()
    wait_until_free(looker)
    held_up.open()
    wait_for_another_lock(looker, home, before)

    assert looker.look(PAUSE) == ((), False)
    assert looker.look_twice() == ()
    assert looker.row().alive
    assert looker.row().lock_name is not None
    assert beat(home)


def test_a_room_that_lost_its_lock_may_not_begin_before_its_row_says_so(
    home: Store, looker: Looker, url: str, held_up: Gate
) -> None:
    """M3: with its next beat the lease decides, and with another lock that one does."""
    terminate(url)
    held_up.wait_reached()
    assert not home.holds("room")

    assert beat(home)
    assert home.holds("room")
    assert looker.row().lock_name is None
    assert looker.look_twice() == ()

    held_up.open()
    until(lambda: looker.row().lock_name is not None, "another lock")
    assert home.holds("room")
    assert looker.look_twice() == ()


def test_a_room_that_was_buried_alive_enters_again(
    home: Store, looker: Looker, url: str, held_up: Gate
) -> None:
    """M3: it was too slow. Its epochs see to the rest."""
    with home.transaction() as ledger:
        lease = ledger.take("s", key="k", owner="room")
    terminate(url)
    held_up.wait_reached()
    wait_until_free(looker)
    assert looker.look(PAUSE).buried == ("room",)
    held_up.open()

    with looker.store.transaction() as ledger:
        assert ledger.take("s", key="k", owner="other").held
    with home.transaction() as ledger:
        late = ledger.complete("s", owner="room", epoch=lease.epoch, generation=1, linger=0.0)
        assert late is None
    assert beat(home) is False
    assert looker.row().alive
    until(lambda: looker.row().lock_name is not None, "another lock")
    assert beat(home)
    assert home.holds("room")


def test_nobody_is_buried_when_the_server_is_started_again(
    home: Store, looker: Looker, own_server: OwnServer
) -> None:
    """M3: its end freed the locks of rooms that live."""
    before = looker.row().lock_name

    own_server.stop()
    until(lambda: not home.holds("room"), "a lock that is lost")
    own_server.start()
    wait_for_another_lock(looker, home, before)

    assert looker.look_twice() == ()
    assert looker.row().alive
    assert beat(home)


def test_what_was_written_down_before_the_server_started_tells_nothing(
    home: Store, looker: Looker, own_server: OwnServer, held_up: Gate
) -> None:
    """M3: however long a living room takes to have another lock."""
    own_server.stop()
    held_up.wait_reached()
    own_server.start()

    assert looker.look() == looker.look(PAUSE) == ((), False)
    assert looker.row().alive
    held_up.open()
    until(lambda: home.holds("room"), "another lock")


def test_what_was_written_down_before_the_server_crashed_tells_nothing(
    home: Store, looker: Looker, url: str, held_up: Gate
) -> None:
    """M3: one of its processes is killed. It ends all others, and was started when it was."""
    execute(url, "CHECKPOINT")  # the row was written without waiting for the disk
    idle = f"application_name = 'greenroom' AND pid NOT IN (SELECT pid {LOCKS})"
    [(pid,), *_] = execute(url, f"SELECT pid FROM pg_stat_activity WHERE {idle}")
    os.kill(pid, signal.SIGKILL)
    held_up.wait_reached()

    def answers() -> bool:
        try:
            return looker.row().alive
        except StoreUnavailable:
            return False

    until(answers, "a server that answers")
    assert looker.look() == looker.look(PAUSE) == ((), False)
    assert looker.row().alive
    held_up.open()
    until(lambda: home.holds("room"), "another lock")


def test_a_room_does_not_bury_itself(home: Store, looker: Looker, url: str, held_up: Gate) -> None:
    """M3: it lives, for it looks."""
    terminate(url)
    held_up.wait_reached()
    wait_until_free(looker)

    assert home.bury() == ((), False)


def test_a_beat_does_not_name_a_lock_that_was_lost_meanwhile(
    home: Store, looker: Looker, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: 1. a beat begins  2. its lock is lost, the row names another  3. the beat names the first."""
    run, before = Transaction._run, looker.row().lock_name

    def late(ledger: Transaction, statement: Any, **values: Any) -> Any:
        if statement is sql.BEAT and looker.row().lock_name == before:
            terminate(url)
            wait_for_another_lock(looker, home, before)
        return run(ledger, statement, **values)

    monkeypatch.setattr(Transaction, "_run", late)
    assert beat(home)

    assert looker.row().lock_name not in (before, None)
    assert home.holds("room")
    assert looker.look_twice() == ()


WITHOUT_FILES = """
import os, resource, sys, threading, warnings
from greenroom.store import open_store
from greenroom.store import _alive_postgresql as servers

def ask(pgconn, query, *values):
    try:
        while query == "SELECT 1":
            used.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    answer = real(pgconn, query, *values)
    answers.release()
    return answer

used, answers = [], threading.Semaphore(0)
real, servers._ask, servers.PING = servers._ask, ask, 0.01
store = open_store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
with store.transaction() as ledger:
    ledger.beat("room", ttl=600)
for _ in range(4):
    assert answers.acquire(timeout=10)
"""

LOOK = """
assert store.holds("room")
"""

FORK = """
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
for file in used:
    os.close(file)
if child == 0:
    with store.transaction() as ledger:
        ledger.beat("child", ttl=600)
    os._exit(0 if store.holds("child") else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.long
@pytest.mark.parametrize("then", [LOOK, FORK], ids=["looks", "forks"])
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is no fork here")
def test_a_process_without_files_to_open_keeps_its_lock(url: str, then: str) -> None:
    """M3 K2: for a moment, as a server with too many clients."""
    done = python(WITHOUT_FILES + then + "os._exit(0)", url)

    assert (done.returncode, done.stderr) == (0, "")


# What is in between.


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are tried often, and not for long."""
    monkeypatch.setattr(servers, "PING", 0.05)
    monkeypatch.setattr(servers, "PATIENCE", 0.5)


def test_a_connection_that_a_proxy_drops_is_replaced(looker: Looker, url: str) -> None:
    """M3"""
    with Proxy(url) as proxy, open_store(proxy.url) as store:
        beat(store, "behind")
        before = looker.row("behind").lock_name
        assert before is not None

        proxy.cut()

        until(lambda: looker.row("behind").lock_name != before, "another lock")
        until(lambda: store.holds("behind"), "a room that knows it")
        assert looker.look_twice() == ()
        assert beat(store, "behind")


@pytest.mark.usefixtures("impatient")
def test_a_connection_that_a_proxy_keeps_silent_is_replaced(looker: Looker, url: str) -> None:
    """M3: whatever has become of it at its other end."""
    with Proxy(url) as proxy, open_store(proxy.url) as store:
        beat(store, "behind")
        before = looker.row("behind").lock_name

        proxy.stall()
        until(lambda: not store.holds("behind"), "a lock that is lost")
        assert looker.look_twice() == ()  # the server still has the connection
        proxy.flow()

        until(lambda: looker.row("behind").lock_name not in (before, None), "another lock")
        until(lambda: store.holds("behind"), "a room that knows it")


@pytest.mark.usefixtures("impatient")
def test_a_lock_that_a_proxy_has_lost_without_a_word_is_lost(looker: Looker, url: str) -> None:
    """M3: the client still has its connection, and the server has not."""
    with Proxy(url) as proxy, open_store(proxy.url) as store:
        beat(store, "behind")

        proxy.cut_server_side()

        until(lambda: not store.holds("behind"), "a lock that is lost")
        wait_until_free(looker)
        assert looker.look(PAUSE).buried == ("behind",)


@pytest.mark.usefixtures("impatient")
def test_a_silent_connection_keeps_its_lock_until_the_room_has_another(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: the server never missed it. To close it would free the lock."""
    gate, take = Gate(), servers.ServerLock._take

    def late(lock: servers.ServerLock) -> None:
        if threading.current_thread() is lock._thread:
            gate.wait()
        take(lock)

    monkeypatch.setattr(servers.ServerLock, "_take", late)
    with Proxy(url) as proxy, open_store(proxy.url) as store, Looker(url) as looker:
        beat(store)
        before = looker.row().lock_name
        assert looker.look_twice() == ()

        proxy.stall()
        gate.wait_reached()
        assert not store.holds("room")
        assert proxy.left() == 0
        proxy.flow()
        assert looker.look_twice() == ()
        gate.open()

        until(lambda: looker.row().lock_name not in (before, None), "another lock")
        until(lambda: proxy.left() >= 1, "the end of the silent one")
        until(lambda: execute(url, f"SELECT count(*) {LOCKS}") == [(1,)], "the end of its lock")
        assert looker.look_twice() == ()


def test_behind_a_pooler_the_lease_decides_and_it_is_said_once(
    looker: Looker, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """M3: advisory locks of sessions break where a transaction has any session."""
    with (
        Proxy(url, as_a_pooler) as proxy,
        open_store(proxy.url) as store,
        caplog.at_level(logging.WARNING, "greenroom.store"),
    ):
        assert not beat(store, "pooled")
        assert beat(store, "pooled")

        [warning] = caplog.messages
        assert "pooler" in warning
        assert "lease" in warning
        assert store.holds("pooled")
        assert looker.row("pooled").lock_name is None
        assert looker.look_twice() == ()
        until(lambda: execute(url, f"SELECT count(*) {LOCKS}") == [(1,)], "only that of `home`")


def test_a_server_without_these_locks_has_leases(
    looker: Looker, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """M3"""
    monkeypatch.setattr(servers, "_TAKE", servers._TAKE.replace("pg_try_advisory_lock", "no_such_lock"))
    with open_store(url) as store, caplog.at_level(logging.WARNING, "greenroom.store"):
        beat(store, "other")
        assert "no_such_lock" in caplog.messages[0]
        assert looker.row("other").lock_name is None
        assert store.holds("other")


def test_a_lock_that_no_thread_can_watch_is_not_held(
    home: Store, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """M3: nobody would learn that it is lost."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with open_store(url) as store, caplog.at_level(logging.WARNING, "greenroom.store"):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            beat(store, "other")
        assert "can't start new thread" in caplog.messages[0]
        assert store.holds("other")
        until(lambda: execute(url, f"SELECT count(*) {LOCKS}") == [(1,)], "only that of `home`")
        assert home.holds("room")


def test_a_store_that_is_closed_has_no_lock_and_no_thread(home: Store, url: str) -> None:
    assert execute(url, f"SELECT count(*) {LOCKS}") == [(1,)]
    home.close()
    until(lambda: execute(url, f"SELECT count(*) {LOCKS}") == [(0,)], "a server without locks")
    assert not [t for t in threading.enumerate() if t.name.startswith("greenroom-store-lock")]
