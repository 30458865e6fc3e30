"""Futures: pykka's, with callbacks."""

from __future__ import annotations

import itertools
import queue
import threading
from typing import TYPE_CHECKING, Any

import pykka
import pytest

from greenroom.actors import Future, Runtime
from tests.actors.actors import Recorder, all_at_once, in_thread, join_all
from tests.strikes.points import Striker
from tests.strikes.trials import Struck

if TYPE_CHECKING:
    from collections.abc import Iterable


def test_a_callback_left_before_is_called_by_the_setter() -> None:
    future: Future[int] = Future()
    called_on: list[tuple[int, int]] = []
    future.on_done(lambda done: called_on.append((done.get(), threading.get_ident())))

    setter = in_thread(lambda: future.set(7))
    join_all([setter])

    assert called_on == [(7, setter.ident)]


def test_a_strike_loses_no_callback() -> None:
    """K1: whoever finishes what was struck sets the outcome again."""
    striker = Striker()

    def strike(n: int) -> bool:
        future: Future[int] = Future()
        values: list[int] = []
        future.on_done(lambda done: values.append(done.get()))
        try:
            striker.call(lambda: future._resolve((7, None)), n, Struck())
        except Struck:
            future._resolve((7, None))
        assert values, f"struck at {striker.place}"
        return striker.place is not None

    strike(0)
    struck = list(itertools.takewhile(strike, itertools.count(1)))
    assert len(struck) >= 5


def test_a_callback_left_after_is_called_at_once() -> None:
    future: Future[int] = Future()
    future.set(7)
    values: list[int] = []

    future.on_done(lambda done: values.append(done.get()))

    assert values == [7]


def test_each_callback_is_called_once_however_setter_and_waiters_race() -> None:
    for _ in range(300):
        future: Future[int] = Future()
        calls: list[int] = []

        def subscribe(future: Future[int] = future, calls: list[int] = calls) -> None:
            for n in range(5):
                future.on_done(lambda _, n=n: calls.append(n))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

        all_at_once([subscribe, subscribe, lambda future=future: future.set(1)])  # type: ignore[misc]  # the same

        assert sorted(calls) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_of_many_setters_one_wins_and_the_others_are_told() -> None:
    for _ in range(200):
        future: Future[int] = Future()
        full: list[int] = []

        def attempt(n: int, future: Future[int] = future, full: list[int] = full) -> None:
            try:
                future.set(n)
            except queue.Full:
                full.append(n)

        all_at_once([lambda n=n: attempt(n) for n in range(4)])  # type: ignore[misc]  # mypy cannot infer a lambda with defaults

        assert sorted([*full, future.get()]) == [0, 1, 2, 3]


def test_a_callback_that_raises_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    future: Future[int] = Future()
    values: list[int] = []
    future.on_done(lambda _: 1 / 0)
    future.on_done(lambda done: values.append(done.get()))

    future.set(1)

    assert values == [1]
    assert "ZeroDivisionError" in caplog.text


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    future: Future[int] = Future()
    calls: list[Future[int]] = []
    future.on_done(calls.append)

    future.forget(calls.append)
    future.forget(calls.append)
    future.set(1)

    assert calls == []


def test_get_waits_for_another_thread_and_honours_its_timeout() -> None:
    future: Future[str] = Future()
    with pytest.raises(pykka.Timeout, match="0 seconds"):
        future.get(timeout=0)

    setter = in_thread(lambda: future.set("there"))

    assert future.get(timeout=20) == "there"
    join_all([setter])


def test_set_exception_takes_an_instance_a_triple_or_the_current_one() -> None:
    instance: Future[Any] = Future()
    instance.set_exception(KeyError("a"))
    triple: Future[Any] = Future()
    triple.set_exception((KeyError, KeyError("b"), None))
    current: Future[Any] = Future()
    try:
        raise KeyError("c")  # the point is the handler
    except KeyError:
        current.set_exception()

    for future, text in ((instance, "a"), (triple, "b"), (current, "c")):
        with pytest.raises(KeyError, match=text):
            future.get()


def test_a_derived_function_runs_once_however_many_want_the_value() -> None:
    source: Future[int] = Future()
    runs: list[int] = []

    def double(n: int) -> int:
        runs.append(n)
        return n * 2

    doubled = source.map(double)
    source.set(21)
    all_at_once([doubled.get] * 4)

    assert doubled.get() == 42
    assert runs == [21]


def test_derived_futures_call_back_when_their_sources_are_set() -> None:
    a: Future[int] = Future()
    b: Future[int] = Future()
    values: list[Any] = []
    a.join(b).map(sum).on_done(lambda done: values.append(done.get()))

    b.set(2)
    assert values == []
    a.set(1)

    assert values == [3]


def test_a_derived_future_raises_what_its_source_raises() -> None:
    source: Future[Iterable[int]] = Future()
    derived: list[Future[Any]] = [
        source.map(list),
        source.filter(bool),
        source.reduce(lambda x, y: x + y),
        source.join(),
    ]
    source.set_exception(KeyError("gone"))

    for future in derived:
        with pytest.raises(KeyError, match="gone"):
            future.get()


def test_a_derived_future_cannot_be_set() -> None:
    derived: Future[int] = Future[int]().map(lambda n: n)

    with pytest.raises(queue.Full):
        derived.set(1)
    with pytest.raises(queue.Full):
        derived.set_exception(KeyError())
    with pytest.raises(queue.Full):
        derived.set_get_hook(lambda _: 1)


def test_futures_of_pykka_and_ours_can_be_joined() -> None:
    ours: Future[int] = Future()
    theirs: pykka.ThreadingFuture[int] = pykka.ThreadingFuture()
    joined = ours.join(theirs)
    ours.set(1)

    with pytest.raises(pykka.Timeout):
        joined.get(timeout=0)
    theirs.set(2)

    assert joined.get(timeout=0) == [1, 2]


def test_a_future_with_a_get_hook_says_that_it_cannot_call_back() -> None:
    future: Future[int] = Future()
    future.set_get_hook(lambda _: 5)

    with pytest.raises(TypeError, match="get hook"):
        future.on_done(lambda _: None)
    assert future.get() == 5


def test_the_answer_of_an_idle_actor_is_there_at_once(runtime: Runtime) -> None:
    future = runtime.start(Recorder).ask("hello", block=False)

    assert future.done()
    assert repr(future) == "<Future done>"
