"""Statements that are built once, compiled once for a database, and run on the driver's own connection.

SQLAlchemy builds and compiles them, and keeps the connections. Running them is left to the driver:
finding a compiled statement again and wrapping up its answer takes SQLAlchemy several times as long as
SQLite takes to run it, and those of the ledger are run with every turn. What is lost is the conversion
of results: a boolean may come as 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.pool import PoolProxiedConnection

__all__ = ["Answer", "PreparedStatements"]

_Prepared = tuple[str, list[str] | None, dict[str, Any]]


@dataclass(slots=True)
class Answer:
    """What a statement gave."""

    rows: list[tuple[Any, ...]]
    count: int
    """How many rows it changed."""

    def row(self) -> tuple[Any, ...] | None:
        """The only row, if there is one."""
        return self.rows[0] if self.rows else None

    def value(self) -> Any:
        """The only column of the only row, or `None` if there is no row."""
        return self.rows[0][0] if self.rows else None


class PreparedStatements:
    """The compiled statements of one database."""

    __slots__ = ("_dialect", "_error", "_prepared")

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self._error: type[Exception] = dialect.loaded_dbapi.Error
        self._prepared: dict[sa.ClauseElement, _Prepared] = {}

    def run(
        self, connection: PoolProxiedConnection, statement: sa.ClauseElement, values: dict[str, Any]
    ) -> Answer:
        """Run a statement. Values that it has no parameters for are left aside."""
        text, order, defaults = self._prepared.get(statement) or self._prepare(statement)
        bound = {**defaults, **values}
        raw: Any = connection.driver_connection
        try:
            cursor = raw.execute(text, bound if order is None else [bound[name] for name in order])
            rows: list[tuple[Any, ...]] = [] if cursor.description is None else cursor.fetchall()
        except self._error as error:
            if self._dialect.is_disconnect(error, raw, None):  # type: ignore[arg-type]  # drivers raise theirs
                connection.invalidate(error)  # the pool shall not give it to the next one
            raise
        return Answer(rows, cursor.rowcount)

    def _prepare(self, statement: sa.ClauseElement) -> _Prepared:
        # Two threads may do this at once. Either result is good.
        compiled: Any = statement.compile(dialect=self._dialect)
        order = list(compiled.positiontup) if compiled.positional else None
        prepared = (str(compiled), order, dict(compiled.params))
        self._prepared[statement] = prepared
        return prepared
