"""Statements through a store's own connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa

    from greenroom.store._engine import Engine

__all__ = ["sql"]


def sql(engine: Engine, *statements: str, durability: str | None = None) -> Any:
    """Run statements in one transaction that writes. Returns the value that the last one asks for."""

    def run(connection: sa.Connection) -> Any:
        result = [connection.exec_driver_sql(statement) for statement in statements][-1]
        return result.scalar() if result.returns_rows else None

    return engine.change(run, durability)
