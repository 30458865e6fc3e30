"""Decides which sessions keep an agent in memory, and brings back those that fail.

The supervisor holds order and bounds. It never takes an agent away: it asks the session to release it,
and a session in a turn says no. A session that fails is restarted with what it held, a bounded number
of times in a bounded time. Its policy for restarts is pure and lives in `greenroom.actors`.
"""

__all__: list[str] = []
