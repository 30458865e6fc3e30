"""While a server serves, the garbage collector looks less often."""

from __future__ import annotations

import gc

import pytest

from greenroom.gateway.server._collector import YOUNG, calm_collector


def test_it_looks_less_often_and_not_at_what_was_there_before() -> None:
    frozen, before = gc.get_freeze_count(), gc.get_threshold()
    gc.unfreeze()
    try:
        with calm_collector():
            assert gc.isenabled()
            assert gc.get_threshold() == (YOUNG, *before[1:])
            assert gc.get_freeze_count() > 0

        assert gc.get_threshold() == before
        assert gc.get_freeze_count() == 0
    finally:
        if frozen:
            gc.freeze()


@pytest.mark.parametrize("young", [0, YOUNG + 1])
def test_it_leaves_what_the_program_has_set(young: int) -> None:
    before = gc.get_threshold()
    gc.freeze()
    frozen = gc.get_freeze_count()
    gc.set_threshold(young, *before[1:])
    try:
        with calm_collector():
            assert gc.get_threshold()[0] == young

        assert gc.get_threshold()[0] == young
        assert gc.get_freeze_count() == frozen
    finally:
        gc.set_threshold(*before)
