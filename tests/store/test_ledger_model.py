"""The ledger against a model of it: any calls in any order, by two rooms, with the clock going on."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenroom.store import LeaseRow, open_store

OWNERS = st.sampled_from(["room-a", "room-b"])
SESSIONS = st.sampled_from(["s", "t"])
KEYS = st.sampled_from(["one", "two"])
GENERATIONS = st.integers(1, 6)
# Whole minutes: the real clock goes on as well, by so much less that it never decides.
MINUTES = st.integers(0, 3)


@dataclass
class Session:
    """What the model knows of a session. Times are minutes."""

    key: str
    owner: str | None = None
    epoch: int = 0
    free_at: int | None = None
    generation: int = 0
    committed: int = 0
    intended: int = 0
    tries: int = 0
    next_try: int | None = None
    dead: bool = False


class LedgerMachine(RuleBasedStateMachine):
    """Does the same to a store and to the model, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.store = open_store("sqlite://")
        self.now = 0
        self.sessions: dict[str, Session] = {}
        self.rooms: dict[str, int] = {}
        self.leases: list[tuple[str, str, int]] = []

    def teardown(self) -> None:
        self.store.close()

    def at(self, minutes: int) -> float:
        return minutes * 60.0

    def is_over(self, minute: int) -> bool:
        return minute <= self.now

    def is_alive(self, owner: str | None) -> bool:
        return owner in self.rooms and not self.is_over(self.rooms[owner])

    @rule(minutes=st.integers(1, 2))
    def time_goes_on(self, minutes: int) -> None:
        self.now += minutes
        self.store._engine.clock_shift = self.now * 60.0

    @rule(owner=OWNERS, ttl=st.integers(0, 3))
    def beat(self, owner: str, ttl: int) -> None:
        was_alive = self.is_alive(owner)
        with self.store.transaction() as ledger:
            assert ledger.beat(owner, ttl=self.at(ttl)) is was_alive
        self.rooms[owner] = self.now + ttl

    @rule(session_id=SESSIONS, key=KEYS, owner=OWNERS)
    def take(self, session_id: str, key: str, owner: str) -> None:
        with self.store.transaction() as ledger:
            lease = ledger.take(session_id, key=key, owner=owner)
        model = self.sessions.setdefault(session_id, Session(key=key))
        mine = model.owner == owner
        free = (
            model.owner is None
            or (model.free_at is not None and self.is_over(model.free_at))
            or (mine and model.key == key)
            or (not mine and not self.is_alive(model.owner))
        )
        assert lease.held is free
        if free:
            model.epoch += not (mine and model.key == key)
            model.owner, model.key, model.free_at = owner, key, None
            self.leases.append((session_id, owner, model.epoch))
            assert lease.wait is None
        else:
            self.compare_wait(model, lease, mine)
        assert (lease.owner, lease.epoch, lease.key) == (model.owner, model.epoch, model.key)
        assert (lease.generation, lease.committed, lease.intended) == (
            model.generation, model.committed, model.intended,
        )  # fmt: skip

    def compare_wait(self, model: Session, lease: LeaseRow, mine: bool) -> None:
        if mine:
            assert lease.wait is None
            return
        until = model.free_at if model.free_at is not None else self.rooms[str(model.owner)]
        assert lease.wait is not None
        assert abs(lease.wait - self.at(until - self.now)) < 30.0

    # Whoever had a lease goes on using it, whether it is still good or not.

    def model_of(self, lease: tuple[str, str, int]) -> Session | None:
        session_id, owner, epoch = lease
        model = self.sessions[session_id]
        return model if (model.owner, model.epoch) == (owner, epoch) else None

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), linger=MINUTES, generation=st.none() | GENERATIONS)
    def end_turn(self, data: st.DataObject, linger: int, generation: int | None) -> None:
        lease = session_id, owner, epoch = data.draw(st.sampled_from(self.leases))
        model = self.model_of(lease)
        with self.store.transaction() as ledger:
            if generation is None:
                version = ledger.leave(session_id, owner=owner, epoch=epoch, linger=self.at(linger))
            else:
                version = ledger.complete(
                    session_id, owner=owner, epoch=epoch, generation=generation, linger=self.at(linger)
                )
        assert version == (None if model is None else 0)
        if model is not None:
            model.free_at = self.now + linger
            model.generation = max(model.generation, generation or 0)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        lease = session_id, owner, epoch = data.draw(st.sampled_from(self.leases))
        model = self.model_of(lease)
        with self.store.transaction() as ledger:
            assert ledger.pin(session_id, owner=owner, epoch=epoch) is (model is not None)
        if model is not None:
            model.free_at = None

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def hand_over(self, data: st.DataObject) -> None:
        lease = session_id, owner, epoch = data.draw(st.sampled_from(self.leases))
        model = self.model_of(lease)
        with self.store.transaction() as ledger:
            assert ledger.hand_over(session_id, owner=owner, epoch=epoch) is (model is not None)
        if model is not None:
            model.owner = model.free_at = None

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), generation=GENERATIONS)
    def intend(self, data: st.DataObject, generation: int) -> None:
        lease = session_id, owner, epoch = data.draw(st.sampled_from(self.leases))
        model = self.model_of(lease)
        with self.store.transaction() as ledger:
            done = ledger.intend(session_id, owner=owner, epoch=epoch, generation=generation)
        assert done is (model is not None)
        if model is not None and generation > model.committed:
            model.intended = generation
        if model is not None:
            model.generation = max(model.generation, generation)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), generation=GENERATIONS)
    def commit(self, data: st.DataObject, generation: int) -> None:
        lease = session_id, owner, epoch = data.draw(st.sampled_from(self.leases))
        model = self.model_of(lease)
        with self.store.transaction() as ledger:
            done = ledger.commit(session_id, owner=owner, epoch=epoch, generation=generation)
        assert done is (model is not None)
        if model is not None:
            model.committed = max(model.committed, generation)
            model.generation = max(model.generation, generation)
            if model.intended <= model.committed:
                model.intended = 0
            model.tries, model.next_try, model.dead = 0, None, False

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), pause=MINUTES)
    def fail(self, data: st.DataObject, pause: int) -> None:
        lease = session_id, owner, epoch = data.draw(st.sampled_from(self.leases))
        model = self.model_of(lease)
        with self.store.transaction() as ledger:
            done = ledger.fail(
                session_id, owner=owner, epoch=epoch, problem="x", pause=self.at(pause), most=3
            )
        assert done is (model is not None)
        if model is not None:
            model.tries += 1
            model.next_try = self.now + pause
            model.dead = model.tries >= 3
            model.owner = model.free_at = None

    @rule(owner=OWNERS)
    def retire(self, owner: str) -> None:
        with self.store.transaction() as ledger:
            count = ledger.retire(owner)
        theirs = [model for model in self.sessions.values() if model.owner == owner]
        assert count == len(theirs)
        for model in theirs:
            model.owner = model.free_at = None
        self.rooms.pop(owner, None)

    @rule(owner=OWNERS)
    def look_for_orphans(self, owner: str) -> None:
        with self.store.transaction() as ledger:
            found = {row.session_id for row in ledger.orphans(owner=owner, limit=10)}
        assert found == {
            session_id
            for session_id, model in self.sessions.items()
            if model.generation > model.committed
            and not model.dead
            and (model.next_try is None or self.is_over(model.next_try))
            and (model.owner is None or (model.owner != owner and not self.is_alive(model.owner)))
        }

    @rule(minutes=MINUTES)
    def forget_rooms(self, minutes: int) -> None:
        with self.store.transaction() as ledger:
            count = ledger.forget_rooms(self.at(minutes))
        owners = {model.owner for model in self.sessions.values()}
        gone = [
            room
            for room, expires in self.rooms.items()
            if self.is_over(expires + minutes) and room not in owners
        ]
        assert count == len(gone)
        for room in gone:
            del self.rooms[room]

    @invariant()
    def both_say_the_same(self) -> None:
        rows = {row.session_id: row for row in self.store.sessions()}
        assert rows.keys() == self.sessions.keys()
        for session_id, model in self.sessions.items():
            row = rows[session_id]
            assert (row.key, row.owner, row.epoch) == (model.key, model.owner, model.epoch)
            assert (row.free_at is None) is (model.free_at is None)
            assert (row.generation, row.committed, row.intended) == (
                model.generation, model.committed, model.intended,
            )  # fmt: skip
            assert row.committed <= row.generation
            assert (row.tries, row.dead) == (model.tries, model.dead)
            assert (row.next_try is None) is (model.next_try is None)
        owed = {row.session_id for row in self.store.sessions(dirty=True)}
        assert owed == {name for name, row in rows.items() if row.generation > row.committed}


LedgerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLedgerModel = LedgerMachine.TestCase
