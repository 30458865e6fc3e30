"""Where the time goes in a warm turn, an insert and a drain, and what the floor is.

A workload runs in a process of its own (`workloads`) and py-spy looks at its stacks from outside
(`recorder`): a flame graph each (`flames`), and a table of the time by groups of functions (`groups`).
The floor (`floor`) is what the least costs that any cache must do, in one process with a warm turn.
"""

from __future__ import annotations

TITLES = {"warm": "Warm turn", "insert": "Insert, full room", "drain": "Drain"}
"""The workloads."""
