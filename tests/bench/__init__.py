"""The benchmarks' own logic: what they make of a run, and what they publish. Nothing is timed here."""
