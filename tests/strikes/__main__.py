"""Play scenarios from the command line: see `tests/strikes/__init__.py`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings

from tests.strikes import stage
from tests.strikes.points import WHERE
from tests.strikes.scenarios import SCENARIOS
from tests.strikes.trials import EXCEPTIONS, Trial, play, play_all, points


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.strikes", description=__doc__)
    add = parser.add_argument
    add("--scenario", action="append", help="name of one, with +store for one with a store")
    add("--all", action="store_true", help="each point, in the place of a sample")
    add("--most", type=int, default=60, help="how many points a sample has")
    add("--seed", type=int, default=0)
    add("--only", type=int, help="only this point")
    add("--exception", choices=[*EXCEPTIONS, "all"], help="default: they take turns")
    add("--held", action="store_true", help="judge while the exception is still being handled")
    add("--gone", action="store_true", help="judge when it is gone")
    add("--where", choices=WHERE, default="ours", help="whose points count: below, with libraries")
    add("--enough", type=int, default=10, help="failures after which a scenario is left")
    add("--patience", type=float, default=3.0, help="seconds in which a struck room has to close")
    add("--quiet", action="store_true", help="only the table")
    given = parser.parse_args()
    held = True if given.held else False if given.gone else None
    names = given.scenario or [*SCENARIOS, *(f"{name}+store" for name in SCENARIOS)]
    stage.SOON = given.patience
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that were struck before they began
    wrong = 0
    print(f"{'scenario':30} {'points':>7} {'struck':>7} {'failed':>7} {'ms each':>8}")
    for name in names:
        scenario, store = SCENARIOS[name.removesuffix("+store")], name.endswith("+store")

        def show(trial: Trial) -> None:
            if trial.wrong and not given.quiet:
                print(trial, flush=True)

        began = time.monotonic()
        if given.only is not None:
            points(scenario, store=store, where=given.where)
            exception = None if given.exception == "all" else given.exception
            trial = play(scenario, given.only, exception, store=store, held=held, where=given.where)
            print(trial)
            wrong += bool(trial.wrong)
            continue
        total, trials = play_all(
            scenario,
            store=store,
            most=None if given.all else given.most,
            seed=given.seed,
            exceptions=EXCEPTIONS if given.exception == "all" else (given.exception,),
            held=held,
            where=given.where,
            enough=given.enough,
            each=show,
        )
        failed = sum(bool(trial.wrong) for trial in trials)
        struck = sum(trial.place is not None for trial in trials)
        each = 1000 * (time.monotonic() - began) / (len(trials) + 2)
        print(f"{name:30} {total:7} {struck:7} {failed:7} {each:8.1f}", flush=True)
        wrong += failed
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
