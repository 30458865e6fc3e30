"""Opening a store without asking for its database library before somebody does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.store import Store

__all__ = ["open_store"]


def open_store(url: str, *, durability: str = "full") -> Store:
    """Open a store: see `greenroom.store.open_store`. It needs the extra `store`."""
    from greenroom.store import open_store as open_it  # SQLAlchemy is for those who have a store

    return open_it(url, durability=durability)
