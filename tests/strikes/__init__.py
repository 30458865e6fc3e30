"""Strikes: exceptions that belong to the caller's thread and hit it inside our code (K1).

`points` has CPython raise at the n-th point where it delivers signals, `scenarios` says what is done
meanwhile, `stage` has the room and says what has to hold afterwards, and `trials` puts them together.
`recursion` strikes by the recursion limit, `at_random` by real signals and injected exceptions, and
`recipe` sends SIGTERM to processes in short turns.

    python -m tests.strikes                          # a sample of every scenario, as a table
    python -m tests.strikes --scenario cold --all    # each point of one
    python -m tests.strikes --scenario cold+store --only 17 --exception exit --gone

A failure names what plays it again, and the file, line, function and instruction that was struck.
`--held` judges the room while the exception is still being handled (a `finally`), `--gone` when nothing
refers to it any more.
"""
