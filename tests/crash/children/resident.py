"""A process that lives in a store: it beats once for a room, has a child if it is to, and does nothing.

{"lives": pid, "offspring": pid}    the beat is in the store
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

from greenroom.store import open_store
from tests.crash.children.life import arguments, say

UNTIL_THE_TEST_ENDS = "import sys; sys.stdin.read()"


def offspring(how: str | None) -> int | None:
    """A child that outlives us: until the test closes our input, which it has, too."""
    if how == "fork":
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            sys.stdin.read()
            os._exit(0)
        return child
    if how == "exec":
        program = (sys.executable, "-c", UNTIL_THE_TEST_ENDS)
        return subprocess.Popen(program, close_fds=False).pid
    return None


def main() -> None:
    given: dict[str, Any] = arguments()
    store = open_store(given["url"])
    with store.transaction() as ledger:
        ledger.beat(given["room"], ttl=given["ttl"])
    say({"lives": os.getpid(), "offspring": offspring(given.get("offspring"))})
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
