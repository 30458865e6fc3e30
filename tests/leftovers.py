"""What a test may leave behind by mistake, and how `conftest.py` finds it."""

import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType

from tests.house import BARE_NAMES, ROOT

SWITCH_INTERVAL = "GREENROOM_SWITCH_INTERVAL"
"""The environment variable for `sys.setswitchinterval`, in seconds. `make test` sets it at first."""


def threads_left(before: Collection[threading.Thread], *, grace: float) -> list[threading.Thread]:
    """The threads of ours that are not in `before` and do not end within `grace` seconds in all.

    Ours are those whose name begins with "greenroom". A thread that is on its way out needs a moment to
    get there, which is what the grace is for.
    """
    deadline = time.monotonic() + grace
    while True:
        ours = [
            thread
            for thread in threading.enumerate()
            if thread.name.startswith("greenroom") and thread not in before
        ]
        remaining = deadline - time.monotonic()
        if not ours or remaining <= 0.0:
            return ours
        if ours[0].is_alive():
            ours[0].join(remaining)
        else:
            # Listed but not alive: another thread is starting it this very moment, and `join` would
            # refuse. Let that other thread go on.
            time.sleep(0)


def second_copies(modules: Mapping[str, ModuleType], root: Path = ROOT) -> list[str]:
    """The folders of ours that were imported by their bare names, as `import messages` does.

    Somebody else's package of the same name is none of our business.
    """
    return [
        name for name in sorted(BARE_NAMES) if name in modules and _is_ours(name, modules[name], root)
    ]


def _is_ours(name: str, module: ModuleType, root: Path) -> bool:
    if module.__file__ is None:
        return False
    return Path(module.__file__).resolve().parent == root.joinpath(*name.split(".")).resolve()


def chosen_switch_interval(environ: Mapping[str, str]) -> float | None:
    """The thread switch interval that the environment asks for, if any."""
    text = environ.get(SWITCH_INTERVAL)
    if not text:
        return None
    try:
        interval = float(text)
    except ValueError:
        interval = 0.0
    if not 0.0 < interval < 1.0:
        raise ValueError(f"{SWITCH_INTERVAL}={text!r}: give seconds between 0 and 1, for instance 1e-6")
    return interval
