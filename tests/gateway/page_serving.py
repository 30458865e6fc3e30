"""A real server whose page somebody looks at, in a thread of the test's process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from greenroom.gateway.watch._live import Live
from tests.gateway.serving import Serving, serving


def live_of(server: Serving) -> Live:
    """The hub of a server."""
    return next(watcher for watcher in server.stage.watchers if isinstance(watcher, Live))


@contextlib.contextmanager
def page_serving(factory: Any, **config: Any) -> Iterator[Serving]:
    """Serve while the block runs. In the end streams are told goodbye: the server waits for them."""
    with serving(factory, **config) as server:
        try:
            yield server
        finally:
            server.call(live_of(server).end())
