"""What `conftest.py` relies on to fail a test that leaves something behind."""

import threading
from pathlib import Path
from types import ModuleType

import pytest

from tests.leftovers import chosen_switch_interval, second_copies, threads_left


def test_a_thread_of_ours_that_goes_on_is_found() -> None:
    gate = threading.Event()
    before = frozenset(threading.enumerate())
    thread = threading.Thread(target=gate.wait, args=(30,), name="greenroom-wedged", daemon=True)
    thread.start()
    try:
        assert threads_left(before, grace=0.0) == [thread]
    finally:
        gate.set()
        thread.join(30)
    assert threads_left(before, grace=0.0) == []


def test_a_thread_on_its_way_out_is_waited_for() -> None:
    before = frozenset(threading.enumerate())
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, args=(30,), name="greenroom-leaving", daemon=True)
    thread.start()
    opener = threading.Timer(0.05, gate.set)
    opener.start()
    assert threads_left(before, grace=30.0) == []
    opener.join(30)


def test_a_thread_that_is_being_started_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`enumerate` lists such a thread already, and `join` refuses it."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, args=(30,), name="greenroom-arriving", daemon=True)
    listed = iter([[thread], [thread], []])
    monkeypatch.setattr(threading, "enumerate", lambda: next(listed))
    assert threads_left((), grace=30.0) == []


def test_threads_of_others_and_from_before_are_nobody_s_business() -> None:
    before = frozenset(threading.enumerate())
    gate = threading.Event()
    threads = [
        threading.Thread(target=gate.wait, args=(30,), name=name, daemon=True)
        for name in ("greenroom-earlier", "somebody-else")
    ]
    for thread in threads:
        thread.start()
    try:
        assert threads_left({*before, threads[0]}, grace=0.0) == []
    finally:
        gate.set()
        for thread in threads:
            thread.join(30)


def test_a_bare_import_of_our_folder_is_found() -> None:
    root = Path("/checkout")
    ours, theirs = ModuleType("messages"), ModuleType("supervisor")
    ours.__file__ = "/checkout/messages/__init__.py"
    theirs.__file__ = "/checkout/.venv/lib/supervisor/__init__.py"
    assert second_copies({"messages": ours, "supervisor": theirs}, root) == ["messages"]


def test_the_switch_interval_is_read_from_the_environment() -> None:
    assert chosen_switch_interval({}) is None
    assert chosen_switch_interval({"GREENROOM_SWITCH_INTERVAL": ""}) is None
    assert chosen_switch_interval({"GREENROOM_SWITCH_INTERVAL": "1e-6"}) == 1e-6


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "5"])
def test_a_switch_interval_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="for instance 1e-6"):
        chosen_switch_interval({"GREENROOM_SWITCH_INTERVAL": text})
