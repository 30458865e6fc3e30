"""What every test of the room gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.room.agents import Cast

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cast() -> Iterator[Cast]:
    """A cast of the test's own. Its rooms are closed after the test, whatever hangs in them."""
    cast = Cast()
    yield cast
    cast.finish()
