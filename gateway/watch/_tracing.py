"""OpenTelemetry, where its API package is installed. Where it is not, nothing is imported or done.

    tracing = tracing_of(stage)     # None: not installed
    tracing.attach()                # spans from now on
    app.add_middleware(tracing.middleware)

Where the spans go is the operator's choice: the SDK that they configure in the process, as for any other
library. Without one the API does nothing, and a turn costs a microsecond or two more.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.gateway._stage import Stage
    from greenroom.gateway.watch._spans import Tracing

__all__ = ["tracing_of"]


def tracing_of(stage: Stage) -> Tracing | None:
    """What traces a stage. `None` if OpenTelemetry is not installed."""
    try:
        if find_spec("opentelemetry.propagate") is None:
            return None
    except ModuleNotFoundError:  # not even the namespace
        return None
    from greenroom.gateway.watch._spans import Tracing

    return Tracing(stage)
