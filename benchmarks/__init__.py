"""greenroom's actor runtime beside what a user would take instead, measured in one run.

    python -m benchmarks            a full run: tables here, JSON and a picture in results/
    python -m benchmarks --quick    well under a minute, leaves the published results alone

How it measures:

* Every contender lives in a process of its own (`worker`), so that threads, event loops and garbage
  of one do not disturb another. Only one of them works at a time.
* Measurements are interleaved (`campaign`): one short repetition of a scenario for each contender
  in turn, then the next scenario, then all over again. A noisy moment hits all alike. Ratios are
  taken between neighbours in time and given as median, lowest and highest.
* A repetition measures twice: calls a second without a clock in the loop, then the latency of every
  single call (`loads`).
* The work of every handler is the same and tiny: touch one of 100 entries of an ordered dict.

What is measured is in `scenarios`, who takes part in `contenders`, what is expected in `bars`.
"""
