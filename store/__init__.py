"""Transcripts, their versions, and the ledger of generations: in SQLite or PostgreSQL.

    store = open_store("sqlite:///greenroom.db")
    store.create_session("20261115-a1", key="telegram:12345")
    store.append("20261115-a1", role="user", content="Hello")
    store.extend("20261115-a1", [("assistant", "Hi"), ("user", "Bye")])
    store.messages("20261115-a1")

**Who may write.** Anybody: any number of threads, processes and hosts, through this package or through
the tables alone. A transcript's version is kept by triggers in the database, so that no writer can
forget it. The ledger (which turns were completed, and which are committed) is changed by the room that
has the session's lease, and by nobody else.

**Promises**
  - A call that returned is in the database. `durability` says whether a power failure can undo it.
  - A call that raised `StoreUnavailable` may have been written if the connection broke in the commit;
    after any other error nothing was written.
  - Messages that are added with one `extend()` are all there, or none of them.
  - Each message has a position of its own, in the order of the commits, and the version of its session
    grows in the same transaction.
  - What comes out of a transcript equals what went in.
  - The ledger only grows: generation and committed never fall, and committed is never above generation.
  - Two rooms never have the same lease: epoch tells each time of ownership from every other.
  - Nothing waits longer than a few seconds for a database that does not answer.
  - Nothing that the database or its driver raise comes out, other than as a `StoreError`; and no
    password.

**Not promised.** Calls of a store within the block of its own `transaction()`, in the same thread: they
need a second connection, and in memory and for writing to SQLite there is one.

The modules: `_connect` connections, and `_engine` transactions and statements on them; `_schema` how the
tables come to be, and `_schema_statements` how PostgreSQL counts; `_tables` what they are; `_ledger`
the statements on leases and generations, `_messages` those on transcripts; `_alive` how a killed room is
known to be dead; `_transaction` and `_store` what is called; `_peek` the look that waits for nobody;
`_pending` the async twins; `_maintenance` and `_transfer` what operators do.
"""

from greenroom.store._errors import (
    CannotPeek,
    Fenced,
    SessionExists,
    SessionInUse,
    StoreClosed,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
    UnknownSession,
)
from greenroom.store._pending import Pending
from greenroom.store._rows import Burial, Fence, LeaseRow, Message, RoomRow, SessionRow, StoreInfo
from greenroom.store._store import Store, open_store
from greenroom.store._transaction import Transaction
from greenroom.store._transfer import BadRecord

__all__ = [
    "BadRecord",
    "Burial",
    "CannotPeek",
    "Fence",
    "Fenced",
    "LeaseRow",
    "Message",
    "Pending",
    "RoomRow",
    "SessionExists",
    "SessionInUse",
    "SessionRow",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreInfo",
    "StoreTooNew",
    "StoreUnavailable",
    "Transaction",
    "UnknownSession",
    "open_store",
]
