"""A server as what is driven: turns over HTTP, its levels from its metrics, and what can be seen of its
promises from outside."""

from greenroom.stress.server._target import NoServer, ServerTarget

__all__ = ["NoServer", "ServerTarget"]
