"""The example, as a module: it is a script, and in no package."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples/telegram_bot.py"


@pytest.fixture
def example() -> SimpleNamespace:
    """What the example defines, with memories of the test's own."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLE), run_name="telegram_bot"))
