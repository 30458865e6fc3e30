"""How the tables come to be: every version of them, and the way from each to the next.

A version that has shipped is never edited. `MIGRATIONS[n]` leads from version n to n + 1, in the words
of either database; a new store walks the whole way, in one transaction.

The transcript's version is kept by triggers, so that a program that knows nothing of greenroom but these
tables counts as well:

    INSERT INTO greenroom_messages (session_id, role, content) VALUES ('20261115-a1', 'user', 'Hello')

Each message gets the next position, and its session one more in `version`. So does a change or deletion
of a message, and ending a session or taking that back. A message of an unknown session is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from greenroom.store._errors import StoreTooNew
from greenroom.store._schema_statements import COUNT_BY_STATEMENT, OWED_SINCE
from greenroom.store._tables import CLOCK, schema

if TYPE_CHECKING:
    from greenroom.store._engine import Engine

__all__ = ["LATEST", "MIGRATIONS", "upgrade", "upgrade_to", "version_of"]

_ADVISORY_LOCK = 0x677265656E  # any number that nobody else takes: "green"

_TABLES_1 = (
    """CREATE TABLE greenroom_sessions (
        session_id {ordered_text} NOT NULL PRIMARY KEY,
        key TEXT NOT NULL,
        source TEXT,
        message_count INTEGER NOT NULL DEFAULT 0,
        last_position INTEGER NOT NULL DEFAULT 0,
        version BIGINT NOT NULL DEFAULT 0,
        created DOUBLE PRECISION NOT NULL DEFAULT {clock},
        updated DOUBLE PRECISION NOT NULL DEFAULT {clock},
        ended DOUBLE PRECISION
    )""",
    "CREATE INDEX greenroom_sessions_by_key ON greenroom_sessions (key)",
    """CREATE TABLE greenroom_messages (
        id {serial},
        session_id {ordered_text} NOT NULL REFERENCES greenroom_sessions (session_id),
        position INTEGER CHECK (position > 0),
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        format TEXT NOT NULL DEFAULT 'text',
        created DOUBLE PRECISION NOT NULL DEFAULT {clock}
    )""",
    "CREATE UNIQUE INDEX greenroom_messages_in_order ON greenroom_messages (session_id, position)",
)

_TRIGGERS_1_SQLITE = (
    # Foreign keys are off in a foreign program, unless it asks for them.
    """CREATE TRIGGER greenroom_message_refused BEFORE INSERT ON greenroom_messages
    WHEN NOT EXISTS (SELECT 1 FROM greenroom_sessions WHERE session_id = NEW.session_id)
    BEGIN
        SELECT RAISE(ABORT, 'greenroom: no such session');
    END""",
    """CREATE TRIGGER greenroom_message_added AFTER INSERT ON greenroom_messages
    BEGIN
        UPDATE greenroom_messages
        SET position = (
            SELECT last_position + 1 FROM greenroom_sessions WHERE session_id = NEW.session_id
        )
        WHERE id = NEW.id AND NEW.position IS NULL;
        UPDATE greenroom_sessions
        SET message_count = message_count + 1, version = version + 1, updated = {clock},
            last_position = max(last_position, coalesce(NEW.position, last_position + 1))
        WHERE session_id = NEW.session_id;
    END""",
    """CREATE TRIGGER greenroom_message_moved BEFORE UPDATE OF session_id ON greenroom_messages
    WHEN NEW.session_id IS NOT OLD.session_id
    BEGIN
        SELECT RAISE(ABORT, 'greenroom: a message stays in its session');
    END""",
    # Not for the position that the first of these triggers fills in.
    """CREATE TRIGGER greenroom_message_changed AFTER UPDATE ON greenroom_messages
    WHEN OLD.position IS NOT NULL
    BEGIN
        UPDATE greenroom_sessions
        SET version = version + 1, updated = {clock},
            last_position = max(last_position, coalesce(NEW.position, 0))
        WHERE session_id = NEW.session_id;
    END""",
    """CREATE TRIGGER greenroom_message_deleted AFTER DELETE ON greenroom_messages
    BEGIN
        UPDATE greenroom_sessions
        SET message_count = message_count - 1, version = version + 1, updated = {clock}
        WHERE session_id = OLD.session_id;
    END""",
    """CREATE TRIGGER greenroom_session_ended AFTER UPDATE OF ended ON greenroom_sessions
    WHEN NEW.ended IS NOT OLD.ended
    BEGIN
        UPDATE greenroom_sessions SET version = version + 1, updated = {clock}
        WHERE session_id = NEW.session_id;
    END""",
)

# The functions find the tables in the schema that they were made in, whatever the search path of the
# program that inserts.
_TRIGGERS_1_POSTGRESQL = (
    # Before: the lines of one INSERT all come here before the first of them gets to the next trigger.
    """CREATE FUNCTION greenroom_message_comes() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        UPDATE greenroom_sessions SET last_position = last_position + 1
        WHERE session_id = NEW.session_id RETURNING last_position INTO NEW.position;
        IF NOT FOUND THEN
            RAISE foreign_key_violation USING MESSAGE = 'greenroom: no such session';
        END IF;
        RETURN NEW;
    END $$""",
    """CREATE TRIGGER greenroom_message_comes BEFORE INSERT ON greenroom_messages
    FOR EACH ROW WHEN (NEW.position IS NULL) EXECUTE FUNCTION greenroom_message_comes()""",
    # After: an INSERT … ON CONFLICT DO NOTHING that does nothing never gets here.
    """CREATE FUNCTION greenroom_message_added() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        UPDATE greenroom_sessions
        SET message_count = message_count + 1, version = version + 1, updated = {clock},
            last_position = greatest(last_position, NEW.position)
        WHERE session_id = NEW.session_id;
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER greenroom_message_added AFTER INSERT ON greenroom_messages
    FOR EACH ROW EXECUTE FUNCTION greenroom_message_added()""",
    """CREATE FUNCTION greenroom_message_changed() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        IF NEW.session_id <> OLD.session_id THEN
            RAISE foreign_key_violation USING MESSAGE = 'greenroom: a message stays in its session';
        END IF;
        UPDATE greenroom_sessions
        SET version = version + 1, updated = {clock},
            last_position = greatest(last_position, NEW.position)
        WHERE session_id = NEW.session_id;
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER greenroom_message_changed AFTER UPDATE ON greenroom_messages
    FOR EACH ROW EXECUTE FUNCTION greenroom_message_changed()""",
    """CREATE FUNCTION greenroom_message_deleted() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        UPDATE greenroom_sessions
        SET message_count = message_count - 1, version = version + 1, updated = {clock}
        WHERE session_id = OLD.session_id;
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER greenroom_message_deleted AFTER DELETE ON greenroom_messages
    FOR EACH ROW EXECUTE FUNCTION greenroom_message_deleted()""",
    """CREATE FUNCTION greenroom_session_ended() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        NEW.version := NEW.version + 1;
        NEW.updated := {clock};
        RETURN NEW;
    END $$""",
    """CREATE TRIGGER greenroom_session_ended BEFORE UPDATE OF ended ON greenroom_sessions
    FOR EACH ROW WHEN (NEW.ended IS DISTINCT FROM OLD.ended)
    EXECUTE FUNCTION greenroom_session_ended()""",
)

_LEDGER_2 = (
    "ALTER TABLE greenroom_sessions ADD COLUMN generation BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE greenroom_sessions ADD COLUMN committed BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE greenroom_sessions ADD COLUMN intended BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE greenroom_sessions ADD COLUMN owner TEXT",
    "ALTER TABLE greenroom_sessions ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE greenroom_sessions ADD COLUMN free_at DOUBLE PRECISION",
    "ALTER TABLE greenroom_sessions ADD COLUMN tries INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE greenroom_sessions ADD COLUMN next_try DOUBLE PRECISION",
    "ALTER TABLE greenroom_sessions ADD COLUMN problem TEXT",
    "ALTER TABLE greenroom_sessions ADD COLUMN dead BOOLEAN NOT NULL DEFAULT FALSE",
    "CREATE INDEX greenroom_sessions_dirty ON greenroom_sessions (updated) WHERE generation > committed",
    "CREATE INDEX greenroom_sessions_owned ON greenroom_sessions (owner) WHERE owner IS NOT NULL",
    """CREATE TABLE greenroom_rooms (
        room TEXT NOT NULL PRIMARY KEY,
        expires DOUBLE PRECISION NOT NULL,
        started DOUBLE PRECISION NOT NULL DEFAULT {clock},
        host TEXT NOT NULL DEFAULT '',
        pid INTEGER NOT NULL DEFAULT 0
    )""",
)

_CONVERSATIONS_3 = (
    """CREATE TABLE greenroom_conversations (
        key {ordered_text} NOT NULL PRIMARY KEY,
        session_id TEXT NOT NULL
    )""",
)

_LOCKS_5 = ("ALTER TABLE greenroom_rooms ADD COLUMN lock_name TEXT",)

MIGRATIONS: tuple[dict[str, tuple[str, ...]], ...] = (
    {"sqlite": _TABLES_1 + _TRIGGERS_1_SQLITE, "postgresql": _TABLES_1 + _TRIGGERS_1_POSTGRESQL},
    {"sqlite": _LEDGER_2, "postgresql": _LEDGER_2},
    {"sqlite": _CONVERSATIONS_3, "postgresql": _CONVERSATIONS_3},
    COUNT_BY_STATEMENT,
    {"sqlite": _LOCKS_5, "postgresql": _LOCKS_5},
    OWED_SINCE,
)
"""By the version that they start from, the statements for each database."""

LATEST = len(MIGRATIONS)
"""The version that this code works with."""

_WORDS = {
    "sqlite": {
        "clock": CLOCK["sqlite"],
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "ordered_text": "TEXT",
    },
    "postgresql": {
        "clock": CLOCK["postgresql"],
        "serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        # The order of code points, as SQLite and Python have it, and not one of a language.
        "ordered_text": 'TEXT COLLATE "C"',
    },
}


def version_of(connection: sa.Connection) -> int:
    """The version of the tables. 0: there are none."""
    if not sa.inspect(connection).has_table(schema.name):
        return 0
    found = connection.execute(sa.select(schema.c.version)).scalar()
    return 0 if found is None else found


def upgrade(engine: Engine) -> None:
    """Bring the tables to the latest version. Any number of processes may do so at once."""
    found = engine.read(version_of)
    if found < LATEST:
        engine.change(lambda connection: upgrade_to(connection, LATEST), "full")
    elif found > LATEST:
        raise StoreTooNew(found, LATEST)


def upgrade_to(connection: sa.Connection, version: int) -> None:
    """Walk up to a version, within the caller's transaction."""
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
    # Whoever had the lock before us may have been here for the same reason.
    found = version_of(connection)
    if found > LATEST:
        raise StoreTooNew(found, LATEST)
    if found == 0:
        connection.exec_driver_sql("CREATE TABLE greenroom_schema (version INTEGER NOT NULL)")
        connection.execute(sa.insert(schema).values(version=0))
    for migration in MIGRATIONS[found:version]:
        for statement in migration[dialect]:
            connection.exec_driver_sql(statement.format(**_WORDS[dialect]))
    if found < version:
        connection.execute(sa.update(schema).values(version=version))
