"""A workload is checked where it enters, and says what is wrong with it."""

from __future__ import annotations

import json
import math
import random
import statistics
from typing import Any

import pytest

from greenroom.stress._length import WEDGED, seconds_of
from greenroom.stress._workload import Change, Length, Workload


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0", Length()),
        ("0.2", Length(median=0.2)),
        ("200ms", Length(median=0.2)),
        ("3s", Length(median=3.0)),
        ("1.5min", Length(median=90.0)),
        (" 200ms~0.8 ", Length(median=0.2, sigma=0.8)),
        ("200ms~0.8!0.001", Length(median=0.2, sigma=0.8, wedged=0.001)),
        ("200ms!0.5", Length(median=0.2, wedged=0.5)),
    ],
)
def test_a_length_is_read_as_it_is_written(text: str, length: Length) -> None:
    assert Length.parse(text) == length
    assert Length.parse(str(length)) == length


@pytest.mark.parametrize(
    "text", ["", "fast", "-1", "1 2", "200ms~", "200ms~x", "200ms~99", "200ms!2", "200ms!", "nan", "inf"]
)
def test_a_length_that_makes_no_sense_is_shown_and_the_right_form_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"200ms~0\.8") as caught:
        Length.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"), [("median", -0.1), ("median", math.inf), ("sigma", 11.0), ("wedged", 1.5)]
)
def test_a_length_names_the_field_that_is_wrong(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{field} must be .*, not {value}"):
        Length(**{field: value})


def test_a_time_without_a_unit_is_seconds() -> None:
    assert seconds_of("2") == seconds_of("2s") == seconds_of("2000ms") == 2.0
    with pytest.raises(ValueError, match="not '5 apples'"):
        seconds_of("5 apples")


def test_a_constant_length_is_drawn_as_it_is() -> None:
    assert {Length(median=0.25).draw(random.Random(1)) for _ in range(50)} == {0.25}


def test_a_spread_keeps_the_median_and_its_logarithms_have_that_spread() -> None:
    chance, length = random.Random(7), Length(median=0.2, sigma=0.8)
    drawn = [length.draw(chance) for _ in range(20_000)]
    assert statistics.median(drawn) == pytest.approx(0.2, rel=0.05)
    assert statistics.stdev(map(math.log, drawn)) == pytest.approx(0.8, rel=0.05)


def test_the_wedged_share_never_ends() -> None:
    chance, length = random.Random(7), Length(median=0.2, wedged=0.1)
    drawn = [length.draw(chance) for _ in range(10_000)]
    assert drawn.count(WEDGED) == pytest.approx(1000, rel=0.2)
    assert set(drawn) == {0.2, WEDGED}


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        ("sessions", 0, "1 or more"),
        ("sessions", 2.5, "whole number"),
        ("sessions", True, "whole number"),
        ("duration", 0, "more than 0"),
        ("duration", math.inf, "more than 0"),
        ("rate", -1.0, "more than 0"),
        ("rate", "many", "more than 0"),
        ("arrivals", "sometimes", "steady, bursty, wave"),
        ("burst", 0, "1 or more"),
        ("wave_period", 0.0, "more than 0"),
        ("wave_depth", 1.1, "0 to 1"),
        ("popularity", -0.5, "0 or more"),
        ("turn", 0.2, "Length.parse"),
        ("fail_turn", 2.0, "0 to 1"),
        ("fail_build", -0.1, "0 to 1"),
        ("fail_commit", "x", "0 to 1"),
        ("fail_teardown", None, "0 to 1"),
        ("end", 3, "0 to 1"),
        ("agent_bytes", -1, "0 or more"),
        ("at_once", 0, "None for no bound"),
        ("seed", "lucky", "whole number"),
        ("reconfigure", ({"at": 1},), "Change"),
    ],
)
def test_a_figure_that_makes_no_sense_is_named_shown_and_put_right(
    field: str, value: Any, right: str
) -> None:
    with pytest.raises(ValueError, match=field) as caught:
        Workload(**{field: value})
    shown = value[0] if isinstance(value, tuple) else value
    assert repr(shown) in str(caught.value)
    assert right in str(caught.value)


def test_a_policy_is_checked_by_the_room_s_own_rules() -> None:
    assert Workload(policy={"cap": 7}).make_policy().cap == 7
    with pytest.raises(ValueError, match="cap must be"):
        Workload(policy={"cap": 0})
    with pytest.raises(ValueError, match=r"'size' is no field of .*; these are: cap, idle_ttl"):
        Workload(policy={"size": 3})


def test_a_reconfiguration_is_checked_before_the_run() -> None:
    with pytest.raises(ValueError, match="cap must be"):
        Workload(reconfigure=(Change(at=1.0, changes={"cap": -1}),))
    with pytest.raises(ValueError, match="'size' is no field"):
        Change(at=1.0, changes={"size": 1})
    with pytest.raises(ValueError, match="reconfiguration must be 0 or more, not -1"):
        Change(at=-1.0, changes={"cap": 1})


def test_reconfigurations_are_checked_in_the_order_of_their_times() -> None:
    late = Change(at=2.0, changes={"retry_first": 400.0})
    Workload(reconfigure=(late, Change(at=1.0, changes={"retry_most": 500.0})))
    with pytest.raises(ValueError, match="retry_most must be retry_first"):
        Workload(reconfigure=(late, Change(at=3.0, changes={"retry_most": 500.0})))


def test_a_workload_is_written_by_the_names_of_its_file() -> None:
    workload = Workload(
        turn=Length.parse("1s~0.5"),
        policy={"cap": 5, "weigh": len},
        reconfigure=(Change(at=2.0, changes={"cap": 9}),),
    )
    written = workload.to_json()
    assert written["turn"] == "1s~0.5"
    assert written["teardown"] == "5ms"
    assert written["policy"] == {"cap": 5, "weigh": "len"}
    assert written["reconfigure"] == [{"at": 2.0, "cap": 9}]
    assert json.loads(json.dumps(written)) == written
