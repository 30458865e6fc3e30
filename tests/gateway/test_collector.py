"""While a server serves, the garbage collector looks less often."""

from __future__ import annotations

import gc

from greenroom.gateway.server._collector import YOUNG, calm_collector


def test_it_looks_less_often_and_not_at_what_was_there_before() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with calm_collector():
        assert gc.isenabled()
        assert gc.get_threshold() == (YOUNG, *before[1:])
        assert gc.get_freeze_count() > frozen

    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
