"""What holds for every test: it leaves no thread of ours behind, and no second copy of our classes."""

import functools
import gc
import os
import ssl
import sys
import threading
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from greenroom.actors import Runtime
from tests.actors.actors import PATIENCE
from tests.leftovers import SWITCH_INTERVAL, chosen_switch_interval, second_copies, threads_left
from tests.postgres import NONE_HERE
from tests.store.urls import postgres_server as postgres_server

# How long an example takes, or takes to be made, is the machine's affair.
settings.register_profile("greenroom", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("greenroom")


def pytest_configure() -> None:
    """Set the thread switch interval, if the environment names one."""
    interval = chosen_switch_interval(os.environ)
    if interval is not None:
        sys.setswitchinterval(interval)


LONGEST = (
    "tests/test_packaging.py",
    "tests/browser/",
    "tests/gateway/test_openapi.py",
    "tests/gateway/test_streams.py",
    "tests/gateway/test_leaks.py",
    "tests/crash/",
)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs PostgreSQL, and begin with what takes longest: no worker is to be left with it in
    the end, when the others have nothing to do any more."""
    for item in items:
        if "postgresql" in item.name or "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker("postgres")
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in one line for all tests, and not in one for each, that there is no PostgreSQL."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and NONE_HERE in report.longrepr[2]:
        report.longrepr = ("tests/postgres.py", 1, NONE_HERE)
    return report


def pytest_collection_finish() -> None:
    """Leave out of all collections of garbage what there is before the first test: modules and tests, a
    third of a million objects. Rooms collect when memory is short, and tests to see that agents are
    gone, hundreds of times, and each time looked at all of these."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str | None:
    """Say so, if the thread switch interval is not the usual one."""
    interval = chosen_switch_interval(os.environ)
    return None if interval is None else f"{SWITCH_INTERVAL}: {interval:g} s"


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """An HTTP client reads the certificates of the whole world when it is made, which takes 50 ms. None
    is used here: over a thousand clients share what the first one has read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def handlers_take_their_time() -> Iterator[None]:
    """How long a handler takes is the machine's affair: where none is slow, no test finds in its log, by
    chance, that one was. Those about slow handlers say what slow is."""
    defaults = Runtime.__init__.__kwdefaults__
    assert defaults is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "slow_handler", None)
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> Iterator[None]:
    """An HTTP client gives up after 5 seconds, unless it is told otherwise. On a busy machine a server
    may take longer to come to its turn; a test that is about time says so itself."""
    try:
        from httpx._config import DEFAULT_TIMEOUT_CONFIG
    except ModuleNotFoundError:  # the tests of the heart need no HTTP client
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for part in ("connect", "read", "write", "pool"):
            patch.setattr(DEFAULT_TIMEOUT_CONFIG, part, PATIENCE)
        yield


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a thread of ours running, or that loaded our code under a bare name."""
    before = frozenset(threading.enumerate())
    yield
    left = threads_left(before, grace=PATIENCE)
    copies = second_copies(sys.modules)
    assert not left, f"threads left behind: {sorted(thread.name for thread in left)}"
    assert not copies, f"imported by a bare name, import greenroom.* instead: {copies}"
