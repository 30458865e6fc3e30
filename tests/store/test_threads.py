"""Many threads on one store."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from greenroom.store import Store, open_store
from greenroom.store._own_writes import OwnWrites

THREADS = 8
EACH = 20


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a lock goes on waiting, however long the thread that has it is held up."""
    for name in ("PATIENCE", "LEDGER_PATIENCE"):
        monkeypatch.setattr(f"greenroom.store._connect.{name}", 40.0)


def together(work: Callable[[int], object], threads: int = THREADS) -> None:
    """Run it in so many threads, which begin at once."""
    barrier = threading.Barrier(threads, timeout=20.0)

    def run(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(threads, thread_name_prefix="test") as pool:
        for future in [pool.submit(run, number) for number in range(threads)]:
            future.result(timeout=50.0)


def test_appends_of_many_threads_to_one_session_are_all_there(store: Store) -> None:
    store.create_session("s", key="k")

    def append(number: int) -> None:
        for turn in range(EACH):
            store.append("s", role="user", content=[number, turn])

    together(append)
    messages = store.messages("s")
    assert [message.position for message in messages] == list(range(1, THREADS * EACH + 1))
    for number in range(THREADS):
        own = [message.content for message in messages if message.content[0] == number]  # type: ignore[index]  # they are lists
        assert own == [[number, turn] for turn in range(EACH)]
    row = store.session("s")
    assert row.version == row.message_count == store.own_writes("s") == THREADS * EACH


def test_of_many_threads_that_take_a_session_one_gets_it(store: Store) -> None:
    rooms = [f"room-{number}" for number in range(THREADS)]
    with store.transaction() as ledger:
        for room in rooms:
            ledger.beat(room, ttl=60.0)
    won: list[str] = []

    def take(number: int) -> None:
        with store.transaction() as ledger:
            if ledger.take("s", key="k", owner=rooms[number]).held:
                won.append(rooms[number])

    together(take)
    row = store.session("s")
    assert won == [row.owner]
    assert row.epoch == 1


def test_many_threads_that_create_one_session_all_find_it(store: Store) -> None:
    together(lambda _: store.create_session("s", key="k", source="x"))
    assert len(store.sessions()) == 1


def test_transactions_of_many_threads_do_not_interleave(store: Store) -> None:
    """Each moves the generation of both sessions on by one, from what it finds."""

    def move(_: int) -> None:
        for _ in range(5):
            with store.transaction() as ledger:
                for session_id in ("a", "b"):
                    lease = ledger.take(session_id, key="k", owner="room")
                    ledger.complete(
                        session_id,
                        owner="room",
                        epoch=lease.epoch,
                        generation=lease.generation + 1,
                        linger=0.0,
                    )

    together(move)
    assert [row.generation for row in store.sessions()] == [THREADS * 5] * 2


def test_a_new_file_can_be_opened_by_many_threads_at_once(tmp_path: Path) -> None:
    def open_all(_: int) -> None:
        for number in range(5):
            open_store(f"sqlite:///{tmp_path}/{number}.db").close()

    together(open_all)
    with open_store(f"sqlite:///{tmp_path}/4.db") as store:
        assert store.sessions() == []


def test_own_writes_of_many_threads_are_all_counted() -> None:
    counts = OwnWrites()

    def count(_: int) -> None:
        for _ in range(2000):
            counts.add("s", 1)
            counts.add("s", 1)
            counts.add("s", -1)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        together(count)
    finally:
        sys.setswitchinterval(usual)
    assert counts.of("s") == THREADS * 2000


def test_own_writes_of_sessions_long_unused_are_forgotten() -> None:
    counts = OwnWrites(most=4)
    for session_id in "abcad":
        counts.add(session_id, 1)
    assert [counts.of(session_id) for session_id in "abcd"] == [2, 0, 1, 1]
    for number in range(1000):
        counts.add(f"s{number}", 1)
    assert sum(counts.of(f"s{number}") for number in range(1000)) in range(2, 5)
