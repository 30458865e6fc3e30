"""greenroom beside what a user would take instead, measured in one run: its actor runtime, its room,
its store, its gateway, its drop-in for the Hermes web UI.

    python -m benchmarks                  a full run: tables here, JSON and pictures in results/
    python -m benchmarks --quick          a minute or two a suite, leaves the published results alone
    python -m benchmarks --only rooms     one suite: `runtime`, `rooms`, `stores`, `gateway`, `webui`
    python -m benchmarks --only peers     side by side with what else people use; it must be named
    python -m benchmarks --only rooms greenroom lock      and of its contenders these

How it measures:

* Every contender lives in a process of its own (`worker`), so that threads, event loops and garbage
  of one do not disturb another. Only one of them works at a time.
* Measurements are interleaved (`campaign`): one short repetition of a scenario for each contender
  in turn, then the next scenario, then all over again. A noisy moment hits all alike. Ratios are
  taken between neighbours in time and given as median, lowest and highest.
* A repetition measures twice: calls a second without a clock in the loop, then the latency of every
  single call (`loads`).
* The work of every handler is the same and tiny: touch one of 100 entries of an ordered dict. In a
  room it is a turn in which nothing is done.

For the runtime, what is measured is in `scenarios`, who takes part in `contenders`, what is expected
in `bars`; for the others, in the modules of the same names of `rooms`, `stores`, `gateway`, `webui` and
`peers`. `suites` has all of them. What was found last is told by docs/benchmarks.md, which `document`
writes.
"""
