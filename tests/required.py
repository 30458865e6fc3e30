"""What some tests need and not every machine has: a browser, a PostgreSQL."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

__all__ = ["missing"]


def missing(what: str, why: str) -> NoReturn:
    """Skip a test or a module, and say why. If `GREENROOM_REQUIRED` names what is missing, fail."""
    if what in os.environ.get("GREENROOM_REQUIRED", "").split():
        pytest.fail(why, pytrace=False)
    pytest.skip(why, allow_module_level=True)
