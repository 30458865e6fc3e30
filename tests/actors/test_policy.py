"""Every figure of a policy is checked where it enters, with an error that names it and shows it."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from greenroom.actors.runtime._calls import LONGEST
from greenroom.actors.session.policy import Policy

WHOLE = ["cap", "max_waiting", "memory_batch"]
SECONDS = [
    "idle_ttl",
    "sweep_every",
    "session_ttl",
    "commit_timeout",
    "build_timeout",
    "teardown_timeout",
]
ALWAYS_SECONDS = ["retry_first", "retry_most"]
TOO_LONG = math.nextafter(LONGEST, math.inf)


def made(**figures: Any) -> Policy:
    return Policy(**figures)


def test_the_defaults() -> None:
    """C1"""
    policy = Policy()
    assert policy.cap == 128
    assert policy.idle_ttl == 3600.0
    assert policy.session_ttl is None
    assert policy.memory_budget is None
    assert policy.max_waiting == 16


def test_a_policy_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Policy().cap = 3  # type: ignore[misc]  # that is the point


def test_names_are_those_of_all_figures() -> None:
    assert Policy.names() == tuple(field.name for field in fields(Policy))
    assert {*WHOLE, *SECONDS, *ALWAYS_SECONDS} < set(Policy.names())


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [-1, 1.0, True, "8", math.nan])
def test_a_number_that_is_not_whole_or_too_small_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number.*not {value!r}"):
        made(**{name: value})


def test_there_is_a_bound_to_how_many_are_recovered_at_once() -> None:
    assert made(recover_at_once=512).recover_at_once == 512
    for value in (0, 513, 1.0):
        with pytest.raises(
            ValueError, match=f"recover_at_once must be a whole number, 1 to 512, not {value}"
        ):
            made(recover_at_once=value)


@pytest.mark.parametrize(("name", "least"), [("cap", 1), ("max_waiting", 0), ("memory_batch", 1)])
def test_the_least_number_is_taken_and_one_less_is_not(name: str, least: int) -> None:
    assert getattr(made(**{name: least}), name) == least
    with pytest.raises(ValueError, match=f"{name} must be a whole number, {least} or more"):
        made(**{name: least - 1})


def test_only_the_cap_may_be_none() -> None:
    """C1"""
    assert made(cap=None).cap is None
    with pytest.raises(ValueError, match=r"cap must .*\(or None for no bound\)"):
        made(cap=0)
    for name in ("max_waiting", "memory_batch"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number, . or more, not None"):
            made(**{name: None})


@pytest.mark.parametrize("name", [*SECONDS, *ALWAYS_SECONDS])
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, TOO_LONG, True, "60"])
def test_a_time_that_is_none_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be more than 0 seconds.*not {value!r}"):
        made(**{name: value})


@pytest.mark.parametrize("name", [*SECONDS, *ALWAYS_SECONDS])
def test_a_time_beyond_all_floats_is_refused_with_the_same_error(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be more than 0 seconds, and not more than"):
        made(**{name: 10**400})


def test_the_longest_time_is_taken_and_is_as_long_as_it_is_said() -> None:
    assert LONGEST == 10**9
    for name in SECONDS:
        assert getattr(made(**{name: LONGEST}), name) == LONGEST
    assert made(retry_first=LONGEST, retry_most=LONGEST).retry_first == LONGEST


@pytest.mark.parametrize("name", SECONDS)
def test_these_times_can_be_switched_off(name: str) -> None:
    assert getattr(made(**{name: None}), name) is None
    with pytest.raises(ValueError, match=r"\(or None to switch it off\)"):
        made(**{name: 0})


@pytest.mark.parametrize("name", ALWAYS_SECONDS)
def test_the_pauses_between_tries_cannot_be_switched_off(name: str) -> None:
    """G9"""
    with pytest.raises(ValueError, match=rf"{name} must be .*, and not more than 1e\+09, not None"):
        made(**{name: None})


@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize("value", [1, 0.001, 10**9])
def test_a_time_is_taken_as_it_is(name: str, value: float) -> None:
    assert getattr(made(**{name: value}), name) == value


def test_the_pauses_grow() -> None:
    """G9"""
    assert made(retry_first=5.0, retry_most=5.0).retry_most == 5.0
    with pytest.raises(ValueError, match=r"retry_most must be retry_first \(5.0\) or more, not 4.0"):
        made(retry_first=5.0, retry_most=4.0)


@pytest.mark.parametrize("value", [0, 0.0, -0.5, 1.01, math.nan, True, None, "0.9"])
def test_a_relief_that_is_no_share_is_refused(value: object) -> None:
    """C10"""
    with pytest.raises(ValueError, match=f"memory_relief must be a share.*not {value!r}"):
        made(memory_relief=value)


@pytest.mark.parametrize("value", [0.001, 0.5, 1.0, 1])
def test_a_relief_is_a_share(value: float) -> None:
    """C10"""
    assert made(memory_relief=value).memory_relief == value


@pytest.mark.parametrize("value", [0, -1, 0.0, -0.5, 1.5, math.nan, math.inf, True, False, "1 GB"])
def test_a_budget_that_is_neither_bytes_nor_a_share_is_refused(value: object) -> None:
    """C10"""
    with pytest.raises(ValueError, match=f"memory_budget must be bytes.*share.*not {value!r}"):
        made(memory_budget=value)


@pytest.mark.parametrize(
    ("value", "hint"), [(1, "0.01 is 1 percent"), (65, "0.65 is 65 percent"), (512, "float, up to 1.0$")]
)
def test_a_budget_below_what_any_process_holds_is_refused_with_a_hint(value: int, hint: str) -> None:
    """C10"""
    with pytest.raises(
        ValueError, match=f"memory_budget .* 1048576 bytes or more.* not {value}.*{hint}"
    ):
        made(memory_budget=value)
    assert made(memory_budget=value, weigh=len).memory_budget == value, "in the units of weigh()"


@pytest.mark.parametrize("value", [None, 2**20, 2**33, 0.25, 1.0])
def test_a_budget_is_bytes_or_a_share(value: float | None) -> None:
    """C10"""
    assert made(memory_budget=value).memory_budget == value


def test_weigh_must_be_callable() -> None:
    """C10"""
    assert made(weigh=len).weigh is len
    with pytest.raises(TypeError, match=r"weigh must be a function of an agent .*, not 5"):
        made(weigh=5)


def test_pauses_double_up_to_the_longest() -> None:
    """G9"""
    policy = Policy(retry_first=1.0, retry_most=5.0)
    assert [policy.pause_after(tries) for tries in (1, 2, 3, 4, 10_000)] == [1.0, 2.0, 4.0, 5.0, 5.0]
