"""Two migrations that make what is written often cheaper.

**PostgreSQL counts the messages of a statement at once.** Before it the triggers counted row by row,
and each of these updates of a session had to find its way past all versions of the row that the ones
before it had left in the transaction, so that ten times as many messages took a hundred times as long,
to add and to delete: 30,000 more than a minute. What is counted stays the same: one in `message_count`
and `version` for each message.

They go through sessions in order, so that two programs that write to the same ones do not meet in a
deadlock. A join would update all of them at once, but PostgreSQL plans it once for however many there
are, and may go through the whole table for one.

SQLite has triggers for rows only, and needs no others: it changes a row where it is.

**The end of a turn changes no index.** The one that finds uncommitted sessions was over `updated`, where
they had more turns than committed ones, and every turn moved its session in it. Now it is over the time
since when a session is uncommitted, which triggers write when that changes.
"""

from __future__ import annotations

__all__ = ["COUNT_BY_STATEMENT", "OWED_SINCE"]

_POSTGRESQL = (
    "DROP TRIGGER greenroom_message_added ON greenroom_messages",
    """CREATE OR REPLACE FUNCTION greenroom_message_added() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    DECLARE come record;
    BEGIN
        FOR come IN
            SELECT session_id, count(*) AS number, max(position) AS last
            FROM added GROUP BY session_id ORDER BY session_id
        LOOP
            UPDATE greenroom_sessions
            SET message_count = message_count + come.number, version = version + come.number,
                updated = {clock}, last_position = greatest(last_position, come.last)
            WHERE session_id = come.session_id;
        END LOOP;
        RETURN NULL;
    END $$""",
    # What an INSERT … ON CONFLICT DO NOTHING leaves out is not among the added.
    """CREATE TRIGGER greenroom_message_added AFTER INSERT ON greenroom_messages
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION greenroom_message_added()""",
    "DROP TRIGGER greenroom_message_deleted ON greenroom_messages",
    """CREATE OR REPLACE FUNCTION greenroom_message_deleted() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    DECLARE gone record;
    BEGIN
        FOR gone IN
            SELECT session_id, count(*) AS number FROM deleted GROUP BY session_id ORDER BY session_id
        LOOP
            UPDATE greenroom_sessions
            SET message_count = message_count - gone.number, version = version + gone.number,
                updated = {clock}
            WHERE session_id = gone.session_id;
        END LOOP;
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER greenroom_message_deleted AFTER DELETE ON greenroom_messages
    REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION greenroom_message_deleted()""",
)

COUNT_BY_STATEMENT: dict[str, tuple[str, ...]] = {"sqlite": (), "postgresql": _POSTGRESQL}

_OWES = "(NEW.generation > NEW.committed) <> (NEW.owed_since IS NOT NULL)"
_SINCE = "CASE WHEN NEW.generation > NEW.committed THEN NEW.updated END"
_COLUMN = (
    "ALTER TABLE greenroom_sessions ADD COLUMN owed_since DOUBLE PRECISION",
    "UPDATE greenroom_sessions SET owed_since = updated WHERE generation > committed",
    "DROP INDEX greenroom_sessions_dirty",
    """CREATE INDEX greenroom_sessions_dirty ON greenroom_sessions (owed_since)
    WHERE owed_since IS NOT NULL""",
)

OWED_SINCE: dict[str, tuple[str, ...]] = {
    "sqlite": _COLUMN
    + tuple(
        f"""CREATE TRIGGER greenroom_session_owes_{name} AFTER {event} ON greenroom_sessions
        WHEN {_OWES}
        BEGIN
            UPDATE greenroom_sessions SET owed_since = {_SINCE} WHERE session_id = NEW.session_id;
        END"""
        for name, event in (("new", "INSERT"), ("now", "UPDATE OF generation, committed"))
    ),
    "postgresql": (
        *_COLUMN,
        f"""CREATE FUNCTION greenroom_session_owes() RETURNS trigger
        LANGUAGE plpgsql AS $$
        BEGIN
            NEW.owed_since := {_SINCE};
            RETURN NEW;
        END $$""",
        f"""CREATE TRIGGER greenroom_session_owes
        BEFORE INSERT OR UPDATE OF generation, committed ON greenroom_sessions
        FOR EACH ROW WHEN ({_OWES}) EXECUTE FUNCTION greenroom_session_owes()""",
    ),
}
