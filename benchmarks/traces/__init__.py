"""Three made-up traces, as files. `python -m benchmarks.traces` writes them again.

`greenroom stress --replay chat` needs none of them: by their names they are made on the spot. They are
here for other programs, and so that a change of the generator shows.
"""
