"""Do turns of different sessions run side by side? `python -m benchmarks.cores`

Warm turns of one thread, and of one for each core, each on a session of its own: in a room, and in a
dict behind a lock. With a GIL more threads gain nothing. Without one (`python3.14t`) a room should gain,
and callers that share a lock cannot. This needs `pip install greenroom` and nothing else.
"""

from __future__ import annotations

from statistics import median

from benchmarks import rooms
from benchmarks.contenders import LOCK, OURS, TITLES
from benchmarks.machine import describe_machine
from benchmarks.rooms.scenarios import turns

REPETITIONS, SECONDS = 5, 0.5


def main() -> None:
    machine = describe_machine()
    cores = max(2, int(machine["cores"]))
    print(f"Python {machine['python']}, GIL {machine['gil']}, {machine['cores']} cores")
    for name in (OURS, LOCK):
        room = rooms.load(name)
        pairs = [
            [turns(room, threads, threads, SECONDS)["rate"] for threads in (1, cores)]
            for _ in range(REPETITIONS)
        ]
        one, many = (median(rates) for rates in zip(*pairs, strict=True))
        gain = median(rate[1] / rate[0] for rate in pairs)
        print(f"{TITLES[name]:12} 1 thread {one:9,.0f}/s   {cores} threads {many:9,.0f}/s   {gain:.2f}x")


if __name__ == "__main__":
    main()
