"""The whole room in the simulated runtime, all invariants checked after every step."""
