"""What every test of the runtime gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from greenroom.actors import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A runtime of the test's own, current on its thread and closed after it."""
    with Runtime() as runtime:
        yield runtime
