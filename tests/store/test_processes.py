"""Several processes on one store."""

import subprocess
import sys

import pytest

from greenroom.store import Store, open_store
from tests.house import ROOT
from tests.postgres import PostgresServer
from tests.store.foreign import python

pytestmark = pytest.mark.long


@pytest.fixture(params=["sqlite-file", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Databases that others can reach."""
    if request.param == "sqlite-file":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_url()


def all_at_once(code: str, *arguments: str, processes: int = 3) -> list[str]:
    """Run some Python in several processes that are held at `input()` until all are there."""
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, str(number), *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=50) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert [error for _, error in answers] == [""] * processes
    return [answer.strip() for answer, _ in answers]


BEGIN = """
import sys
from greenroom.store import _connect, open_store
# Whoever waits for a lock goes on waiting, however long the process that has it is held up.
_connect.PATIENCE = _connect.LEDGER_PATIENCE = 40.0
number, url = sys.argv[1:3]
print("ready", flush=True)
input()
"""


def test_a_new_store_can_be_opened_by_many_at_once(store_url: str) -> None:
    code = BEGIN + (
        "with open_store(url) as store:\n"
        "    store.create_session('s', key='k')\n"
        "    print(store.append('s', role='user', content=number).position)\n"
    )
    assert sorted(all_at_once(code, store_url)) == ["1", "2", "3"]
    with open_store(store_url) as store:
        assert store.session("s").version == 3


def test_of_many_processes_that_take_a_session_one_gets_it(store: Store, store_url: str) -> None:
    code = BEGIN + (
        "with open_store(url) as store, store.transaction() as ledger:\n"
        "    ledger.beat(number, ttl=60.0)\n"
        "    lease = ledger.take('s', key='k', owner=number)\n"
        "    print(lease.held, lease.owner)\n"
    )
    answers = all_at_once(code, store_url)
    owner = store.session("s").owner
    assert sorted(answers) == [f"False {owner}"] * 2 + [f"True {owner}"]
    assert store.session("s").epoch == 1


def test_appends_of_many_processes_are_all_there(store: Store, store_url: str) -> None:
    store.create_session("s", key="k")
    code = BEGIN + (
        "with open_store(url, durability='normal') as store:\n"
        "    for turn in range(30):\n"
        "        store.append('s', role='user', content=[number, turn])\n"
    )
    all_at_once(code, store_url)
    assert [message.position for message in store.messages("s")] == list(range(1, 91))
    assert store.session("s").version == 90


FORK = """
import os, sys, warnings
from greenroom.store import open_store
with open_store(sys.argv[1]) as store:
    store.create_session("s", key="k")
    store.append_soon("s", role="user", content="parent").get(10)
    if store.can_peek:
        store.peek("s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the store has threads
        child = os.fork()
    if child == 0:
        # None of the parent's connections is left for us.
        assert not store._engine.writer._idle
        assert not store._engine.reader._idle
        assert not store._peeker._idle
        store.append("s", role="user", content="child")
        store.append_soon("s", role="user", content="child").get(10)
        if store.can_peek:
            assert store.peek("s") == (3, False)
        store.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    store.append("s", role="user", content="parent")
    store.append_soon("s", role="user", content="parent").get(10)
    print([message.content for message in store.messages("s")])
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork here")
def test_a_child_and_its_parent_go_on_with_connections_of_their_own(store_url: str) -> None:
    done = python(FORK, store_url)
    assert done.stderr == ""
    assert done.stdout.strip() == "['parent', 'child', 'child', 'parent', 'parent']"


def test_the_interpreter_exits_with_a_store_open(store_url: str) -> None:
    code = (
        "import sys\nfrom greenroom.store import open_store\n"
        "store = open_store(sys.argv[1], durability='normal')\n"
        "store.create_session('s', key='k')\n"
        "for number in range(20):\n"
        "    store.append_soon('s', role='user', content=number)\n"
    )
    done = python(code, store_url)
    assert done.returncode == 0
    with open_store(store_url) as store:
        assert store.session("s").version == 20  # what was asked for is done


def test_what_was_committed_survives_a_kill(store_url: str) -> None:
    """Invariant 4"""
    code = (
        "import os, signal, sys\nfrom greenroom.store import open_store\n"
        "store = open_store(sys.argv[1], durability='normal')\n"
        "with store.transaction() as ledger:\n"
        "    lease = ledger.take('s', key='k', owner='room')\n"
        "    ledger.complete('s', owner='room', epoch=lease.epoch, generation=1, linger=0.0)\n"
        "with store.transaction() as ledger:\n"
        "    ledger.complete('s', owner='room', epoch=lease.epoch, generation=2, linger=0.0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert python(code, store_url).returncode == -9
    with open_store(store_url) as store:
        row = store.session("s")
        assert (row.generation, row.committed) == (1, 0)
        with store.transaction() as ledger:
            assert [orphan.session_id for orphan in ledger.orphans(owner="other", limit=5)] == ["s"]
