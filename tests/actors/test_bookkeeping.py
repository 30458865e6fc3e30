"""How a room uses its store: what is asked of it, and what its agents get."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import LostOwnership
from greenroom.actors.ledger._bound_store import MOST_FENCES, BoundStore, Fence, Fences
from greenroom.actors.ledger.bookkeeping import Beat, Bookkeeping, check_durability, check_names
from greenroom.actors.ledger.coherence import TranscriptVersion
from greenroom.messages import CallLedger, CloseBooks, EnterStore, RecordTurn
from greenroom.store import Store, UnknownSession, open_store
from tests.actors.actors import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class OnlySessions:
    """The least that serves."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {"s": SimpleNamespace(version=3, ended=None)}

    def session(self, session_id: str) -> Any:
        return self.rows[session_id]


class Peeking(OnlySessions):
    """One that can be glanced at, and counts its own writes."""

    can_peek = True

    def __init__(self) -> None:
        super().__init__()
        self.trouble: Exception | None = None
        self.asked: list[str] = []

    def peek(self, session_id: str, expected: int) -> tuple[int, bool] | None:
        self.asked.append("peek")
        if self.trouble is not None:
            raise self.trouble
        row = self.rows.get(session_id)
        return None if row is None else (row.version, row.ended is not None)

    def own_writes(self, session_id: str) -> int:
        self.asked.append("begun")
        return 5

    def own_writes_done(self, session_id: str) -> int:
        self.asked.append("finished")
        return 4


class Ledger(OnlySessions):
    """One with a ledger, which notes what is written, and refuses what is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []

    transact: Any = None
    take_all: Any = None
    record: Any = None
    interrupt: Any = None
    patience: Any = None
    """Those of `Recording`."""

    @contextlib.contextmanager
    def transaction(self, *, durability: str) -> Iterator[Any]:
        self.log.append(("begin", durability))
        yield self
        self.log.append("end")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("can_peek", "own_writes", "own_writes_done", "sessions"):
            raise AttributeError(name)

        def write(*args: Any, **kwargs: Any) -> Any:
            self.log.append((name, *args, kwargs))
            if name == "take":
                return SimpleNamespace(session_id=args[0], held=True, version=8, ended=None)
            return 9 if name in ("complete", "leave") else [] if name == "orphans" else True

        return write


def call(verb: str, session_id: str = "", **values: Any) -> CallLedger[Any]:
    return CallLedger(verb=verb, session_id=session_id, values=values)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("sqlite://") as store:
        store.create_session("s", key="a")
        yield store


# What may be a store.


@pytest.mark.parametrize("thing", [object(), 3, {}, SimpleNamespace(session="s")])
def test_what_has_no_sessions_is_no_store(thing: Any) -> None:
    with pytest.raises(TypeError, match=re.escape(repr(thing))) as raised:
        Bookkeeping(thing)
    assert "session(session_id)" in str(raised.value)


@pytest.mark.parametrize("durability", ["FULL", "", None, 1, "safe"])
def test_an_unknown_durability_is_refused_with_those_there_are(durability: Any) -> None:
    for check in (check_durability, lambda d: Bookkeeping(OnlySessions(), durability=d)):
        with pytest.raises(ValueError, match="'full', 'normal', 'off'") as raised:
            check(durability)
        assert repr(durability) in str(raised.value)


@pytest.mark.parametrize("name", ["x" * 501, "a\0b", "\ud800"], ids=["long", "NUL", "surrogate"])
def test_a_name_that_no_store_can_hold_is_refused(name: str) -> None:
    """G10"""
    with pytest.raises(ValueError, match="500 characters without NUL"):
        check_names("fine", name)


def test_a_name_that_a_store_can_hold_is_fine() -> None:
    check_names("x" * 500, "telegram:12345", "日本語", " ")


def test_a_ledger_takes_a_transaction_and_a_durability() -> None:
    assert not Bookkeeping(OnlySessions()).ledger
    assert Bookkeeping(Ledger()).ledger
    assert Bookkeeping(Ledger(), durability="normal").ledger
    assert not Bookkeeping(Ledger(), durability="off").ledger


def test_each_room_has_a_name_of_its_own() -> None:
    owners = {Bookkeeping(OnlySessions()).owner for _ in range(50)}
    assert len(owners) == 50
    for owner in owners:
        _, pid, token = owner.rsplit(":", 2)
        assert pid == str(os.getpid())
        assert re.fullmatch("[0-9a-f]{8}", token)


# Looking.


def test_a_store_that_cannot_peek_tells_nothing_at_once() -> None:
    assert Bookkeeping(OnlySessions()).peek("s") is None


def test_a_store_that_cannot_peek_for_its_database_is_not_peeked_at() -> None:
    store = Peeking()
    store.can_peek = False
    assert Bookkeeping(store).peek("s") is None
    assert store.asked == []


def test_a_peek_shows_the_version_between_its_own_writes() -> None:
    """H1: what is finished is counted before the look, what is begun after it."""
    store = Peeking()
    assert Bookkeeping(store).peek("s") == TranscriptVersion(3, False, 4, 5)
    assert store.asked == ["finished", "peek", "begun"]
    store.rows["s"].ended = 12.5
    assert Bookkeeping(store).peek("s") == TranscriptVersion(3, True, 4, 5)


def test_a_peek_at_what_is_not_known_or_not_readable_tells_nothing() -> None:
    """H5"""
    store = Peeking()
    books = Bookkeeping(store)
    assert books.peek("unknown") is None
    store.trouble = OSError("no route")
    assert books.peek("s") is None


def test_a_look_raises_what_the_store_raises() -> None:
    """H5"""
    books = Bookkeeping(OnlySessions())
    assert books.read("s") == TranscriptVersion(3, False, 0, 0)
    with pytest.raises(KeyError):
        books.read("unknown")


def test_without_a_ledger_requests_are_answered_with_a_look() -> None:
    store = OnlySessions()
    store.rows["home"] = SimpleNamespace(version=1, ended=2.5)
    books = Bookkeeping(store)

    entered = books.answer(EnterStore(session_id="s", key="a", home="home"))
    assert (entered.lease, entered.seen) == (None, TranscriptVersion(3, False))
    assert entered.home == TranscriptVersion(1, True)
    assert books.answer(EnterStore(session_id="s", key="a")).home is None
    assert books.answer(
        RecordTurn(session_id="s", epoch=0, generation=None, linger=2.0)
    ) == TranscriptVersion(3, False)


def test_what_the_store_says_of_a_key_is_never_an_error(store: Store) -> None:
    assert [row.session_id for row in Bookkeeping(store).held_for("a")] == ["s"]
    assert Bookkeeping(store).held_for("b") == ()
    assert Bookkeeping(OnlySessions()).held_for("a") == ()
    store.close()
    assert Bookkeeping(store).held_for("a") == ()


class Recording(Ledger):
    """One that records the ends of turns in one statement, and can be interrupted."""

    def record(self, turns: list[Any], *, owner: str, durability: str) -> dict[str, int]:
        self.log.append(("record", turns, owner, durability))
        return {session_id: 1 for session_id, *_ in turns if session_id != "lost"}

    def take_all(self, turns: list[Any], *, owner: str) -> dict[str, Any]:
        self.log.append(("take all", turns, owner))
        return {
            session_id: SimpleNamespace(session_id=session_id, held=True, version=8, ended=False)
            for session_id, _ in turns
            if session_id != "not now"
        }

    def interrupt(self, owner: str) -> None:
        self.log.append(("interrupt", owner))


# Writing.


def test_everything_is_written_in_one_transaction_in_order_of_sessions() -> None:
    """Two processes that write the same sessions then never wait for each other crosswise."""
    store = Ledger()
    books = Bookkeeping(store, durability="normal")
    results = books.write(
        [
            RecordTurn(session_id="b", epoch=1, generation=4, linger=2.0),
            RecordTurn(session_id="a", epoch=2, generation=1, linger=2.0),
            call("intend", "b", epoch=1, generation=4),
            RecordTurn(session_id="a", epoch=2, generation=2, linger=2.0),
            call("pin", "b", epoch=1),
        ]
    )

    assert store.log[0] == ("begin", "normal")
    assert store.log[-1] == "end"
    assert [entry[:2] for entry in store.log[1:-1]] == [
        ("complete", "a"),
        ("complete", "a"),
        ("complete", "b"),
        ("intend", "b"),
        ("pin", "b"),
    ]
    assert [entry[-1]["generation"] for entry in store.log[1:3]] == [1, 2]
    assert results == [
        TranscriptVersion(9, False),
        TranscriptVersion(9, False),
        True,
        TranscriptVersion(9, False),
        True,
    ]


def test_each_request_is_what_the_ledger_is_told() -> None:
    store = Ledger()
    books = Bookkeeping(store)
    mine = {"owner": books.owner, "epoch": 3}
    requests: list[Any] = [
        Beat(12.0),
        call("orphans", limit=5),
        CloseBooks(),
        EnterStore(session_id="s", key="a"),
        call("pin", "s", epoch=3),
        RecordTurn(session_id="s", epoch=3, generation=None, linger=2.0),
        RecordTurn(session_id="s", epoch=3, generation=7, linger=2.0),
        call("intend", "s", epoch=3, generation=7),
        call("commit", "s", epoch=3, generation=7),
        call("fail", "s", epoch=3, problem="no", pause=2.0, most=10),
        call("hand_over", "s", epoch=3),
        call("disclaim", "s", key="a"),
    ]
    for request in requests:
        books.write([request])

    told = [entry for entry in store.log if entry != "end" and entry[0] != "begin"]
    host, pid, _ = books.owner.rsplit(":", 2)
    assert told == [
        ("beat", books.owner, {"ttl": 12.0, "host": host, "pid": int(pid)}),
        ("orphans", {"owner": books.owner, "limit": 5}),
        ("retire", books.owner, {}),
        ("take", "s", {"key": "a", "owner": books.owner}),
        ("pin", "s", mine),
        ("leave", "s", {**mine, "linger": 2.0}),
        ("complete", "s", {**mine, "generation": 7, "linger": 2.0}),
        ("intend", "s", {**mine, "generation": 7}),
        ("commit", "s", {**mine, "generation": 7}),
        ("fail", "s", {**mine, "problem": "no", "pause": 2.0, "most": 10}),
        ("hand_over", "s", mine),
        ("disclaim", "s", {"key": "a", "owner": books.owner}),
    ]


def end(session_id: str, generation: int | None = 1) -> RecordTurn:
    return RecordTurn(session_id=session_id, epoch=3, generation=generation, linger=2.0)


def test_the_ends_of_turns_of_different_sessions_are_one_statement() -> None:
    store = Recording()
    books = Bookkeeping(store, durability="normal")

    seen = books.write([end("b", 4), end("lost"), end("a", 7)])

    turns = [("b", 3, 4, 2.0), ("lost", 3, 1, 2.0), ("a", 3, 7, 2.0)]
    assert store.log == [("record", turns, books.owner, "normal")]
    assert seen == [TranscriptVersion(1, False), None, TranscriptVersion(1, False)]


@pytest.mark.parametrize(
    "requests",
    [
        [end("a", 1), end("a", 2)],
        [end("a", None), end("b")],
        [Beat(9.0), end("a")],
        [end("a"), EnterStore(session_id="b", key="b", home="c")],
        [end("a"), EnterStore(session_id="a", key="a")],
        [end("a"), call("pin", "b", epoch=1)],
    ],
    ids=[
        "one session twice",
        "not completed",
        "with a beat",
        "with a home",
        "one session in both",
        "with something else",
    ],
)
def test_what_else_there_is_takes_a_transaction(requests: list[Any]) -> None:
    store = Recording()
    Bookkeeping(store).write(requests)
    assert store.log[0] == ("begin", "full")
    assert not [entry for entry in store.log if entry[0] == "record"]


def test_turns_that_begin_and_turns_that_end_are_a_statement_each() -> None:
    store = Recording()
    books = Bookkeeping(store)

    entered, ended = books.write([EnterStore(session_id="a", key="k"), end("b", 4)])

    assert store.log == [
        ("take all", [("a", "k")], books.owner),
        ("record", [("b", 3, 4, 2.0)], books.owner, "full"),
    ]
    assert (entered.lease.session_id, entered.seen) == ("a", TranscriptVersion(8, False))
    assert ended == TranscriptVersion(1, False)


def test_a_session_that_cannot_be_had_at_once_is_asked_for_in_a_transaction() -> None:
    """It may be unknown, or somebody else's, who may be dead."""
    store = Recording()
    books = Bookkeeping(store)
    wanted = [EnterStore(session_id=session_id, key="k") for session_id in ("a", "not now")]

    entered = books.write([*wanted, end("b")])

    assert store.log[2:] == [
        ("begin", "full"),
        ("take", "not now", {"key": "k", "owner": books.owner}),
        "end",
    ]
    assert [answer.lease.session_id for answer in entered[:2]] == ["a", "not now"]


def test_a_store_that_can_be_interrupted_is() -> None:
    store = Recording()
    books = Bookkeeping(store)
    books.interrupt()
    assert store.log == [("interrupt", books.owner)]


def test_a_store_that_cannot_be_interrupted_is_left_alone() -> None:
    books = Bookkeeping(Ledger())
    assert books.patience is None
    books.interrupt()


def test_that_the_room_lives_is_written_first_and_that_it_has_nothing_any_more_last() -> None:
    """D3: what was asked before the end is written before everything is handed over."""
    store = Ledger()
    requests: list[Any] = [
        RecordTurn(session_id="s", epoch=1, generation=1, linger=2.0),
        CloseBooks(),
        call("orphans", limit=1),
        Beat(12.0),
    ]
    assert Bookkeeping(store).write(requests) == [TranscriptVersion(9, False), True, [], True]
    assert [entry[0] for entry in store.log[1:-1]] == ["beat", "orphans", "complete", "retire"]


def test_entering_looks_at_home_too_and_does_without_if_that_fails() -> None:
    """H4, H5"""
    store = Ledger()
    store.rows["home"] = SimpleNamespace(version=1, ended=2.5)
    books = Bookkeeping(store)

    [entered] = books.write([EnterStore(session_id="s", key="a", home="home")])
    assert (entered.lease.held, entered.seen, entered.home) == (
        True,
        TranscriptVersion(8, False),
        TranscriptVersion(1, True),
    )
    [entered] = books.write([EnterStore(session_id="s", key="a", home="unknown")])
    assert (entered.lease.held, entered.home) == (True, None)


# What agents get.


def bound(store: Any, epoch: int | None = None, owner: str = "here:1:ab") -> BoundStore:
    fences = Fences(owner)
    if epoch is not None:
        fences.set("s", epoch)
    return BoundStore(store, "a", fences)


def taken(store: Store, owner: str) -> int:
    with store.transaction() as ledger:
        return ledger.take("s", key="a", owner=owner).epoch


def test_fences_name_owner_and_epoch_of_what_is_held() -> None:
    fences = Fences("here:1:ab")
    assert fences.get("s") is None
    fences.set("s", 3)
    fences.set("s", 4)
    fence = fences.get("s")
    assert isinstance(fence, Fence)
    assert (fence.owner, fence.epoch) == ("here:1:ab", 4)
    assert fences.get("t") is None


def test_fences_do_not_grow_for_ever() -> None:
    """C9: the ones that were set last are kept."""
    fences = Fences("here:1:ab")
    for number in range(MOST_FENCES + 10):
        fences.set("first" if number == MOST_FENCES else f"s{number}", number)
    assert fences.get("s0") is None
    assert fences.get("first") is not None
    assert fences.get(f"s{MOST_FENCES + 9}") is not None
    kept = [n for n in range(MOST_FENCES + 10) if fences.get(f"s{n}") is not None]
    assert len(kept) == MOST_FENCES - 1


def test_agents_append_and_end_while_the_session_is_theirs(store: Store) -> None:
    agents = bound(store, taken(store, "here:1:ab"))
    assert agents.append("s", role="user", content="Hello").position == 1
    assert agents.extend("s", [("assistant", "Hi")])[0].position == 2
    assert agents.end_session("s").ended is not None
    assert [message.content for message in agents.messages("s")] == ["Hello", "Hi"]


def test_agents_write_to_sessions_that_were_never_held(store: Store) -> None:
    store.create_session("other", key="b")
    assert bound(store).append("other", role="user", content="Hello").position == 1


def overtaken(store: Store) -> BoundStore:
    agents = bound(store, taken(store, "here:1:ab"))
    taken(store, "there:2:cd")  # nobody ever said that the first one lives
    return agents


def test_agents_that_were_overtaken_cannot_write(store: Store) -> None:
    agents = overtaken(store)
    writes: list[Callable[[], Any]] = [
        lambda: agents.append("s", role="user", content="late"),
        lambda: agents.extend("s", [("user", "late")]),
        lambda: agents.end_session("s"),
    ]
    for write in writes:
        with pytest.raises(LostOwnership, match="'s'") as raised:
            write()
        assert raised.value.key == "a"
        assert getattr(raised.value.__cause__, "fenced", False)
    assert store.messages("s") == []
    assert store.session("s").ended is None


def test_agents_on_an_event_loop_write_while_the_session_is_theirs(store: Store) -> None:
    agents = bound(store, taken(store, "here:1:ab"))

    async def main() -> None:
        assert (await agents.append_soon("s", role="user", content="Hello")).position == 1
        assert (await agents.extend_soon("s", [("assistant", "Hi")]))[0].position == 2
        assert (await agents.end_session_soon("s")).ended is not None

    asyncio.run(main())
    assert agents.append_soon("s", role="user", content="Again").get(timeout=PATIENCE).position == 3


def test_agents_on_an_event_loop_that_were_overtaken_cannot_write(store: Store) -> None:
    agents = overtaken(store)

    async def main() -> None:
        with pytest.raises(LostOwnership):
            await agents.append_soon("s", role="user", content="late")
        with pytest.raises(LostOwnership):
            await agents.extend_soon("s", [("user", "late")])
        with pytest.raises(LostOwnership):
            await agents.end_session_soon("s")

    asyncio.run(main())
    with pytest.raises(LostOwnership):
        agents.append_soon("s", role="user", content="late").get(timeout=PATIENCE)
    assert store.messages("s") == []


def test_only_what_was_fenced_is_translated(store: Store) -> None:
    agents = bound(store)
    with pytest.raises(UnknownSession):
        agents.append("unknown", role="user", content="Hello")
    with pytest.raises(UnknownSession):
        agents.append_soon("unknown", role="user", content="Hello").get(timeout=PATIENCE)
    with pytest.raises(ValueError, match="role"):
        agents.append("s", role="", content="Hello")


def test_everything_else_is_the_stores(store: Store) -> None:
    agents = bound(store)
    assert agents.session("s") == store.session("s")
    assert agents.url == store.url
    agents.create_session("t", key="a")
    assert [row.session_id for row in agents.sessions(key="a")] == ["s", "t"]
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = agents.no_such_thing


def test_a_repr_names_the_key_and_no_secret() -> None:
    """I3"""

    class Secretive:
        def __init__(self) -> None:
            self.password = "hunter2"

        def __repr__(self) -> str:
            return "<Store postgresql://user:***@host/chats>"

    text = repr(bound(Secretive(), 3))
    assert "'a'" in text
    assert "<Store postgresql://user:***@host/chats>" in text
    assert "hunter2" not in text
