"""`greenroom.integrations.hermes_webui` beside what it replaces: a dict, one lock and one condition for
all sessions (`locked`).

Both are modules with the same functions (`lifecycle`), and are called as the web UI calls them. What is
measured is in `scenarios`, what is expected in `bars`.
"""

from __future__ import annotations

import importlib
from typing import cast

from benchmarks.contenders import LOCK, OURS
from benchmarks.webui.lifecycle import Lifecycle

MODULES = {OURS: "greenroom.integrations.hermes_webui", LOCK: "benchmarks.webui.locked"}
NAMES = tuple(MODULES)

NOTES = {
    LOCK: (
        "a dict of sessions, one condition for all of them that every change notifies, a drain that"
        " commits one session after another, each on a thread of its own: as the web UI does it today"
    ),
}

DISTRIBUTIONS = ("greenroom", "pykka")


def load(name: str) -> Lifecycle:
    """The module of that name. Raises ImportError where a library is missing."""
    return cast("Lifecycle", importlib.import_module(MODULES[name]))
