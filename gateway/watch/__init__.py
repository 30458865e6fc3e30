"""What can be seen of a running server: the page, metrics, traces, logs.

All of it is told by the room's events and by the stage's watchers, and none of it is waited for by a
turn.
"""

__all__: list[str] = []
