"""Which test shows which behaviour of the design, and whether it does: a plugin for pytest.

    make behaviours

runs every test whose docstring begins with numbers of behaviours ("G3", "G3, G8", "G3. Because …") and
prints the numbers, each with its tests and what came of them. It fails if a number has no test, if one
of its tests does not pass, or if a test names a number that the design does not have.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

LAST = {"I": 4, "T": 8, "C": 10, "S": 6, "G": 10, "D": 5, "H": 5, "K": 4}
"""How many behaviours there are of each kind."""

LATER = frozenset("X")
"""Kinds that are in the design and not in the code yet."""

NUMBERS = tuple(f"{kind}{number}" for kind, last in LAST.items() for number in range(1, last + 1))

_NUMBER = r"[A-Z]\d{1,2}\b"
_BEGINNING = re.compile(rf"\s*({_NUMBER}(?:,? (?:and )?{_NUMBER})*)")

PROPERTY = "behaviours"


def numbers_in(docstring: str | None) -> tuple[str, ...]:
    """The numbers that a docstring begins with."""
    beginning = _BEGINNING.match(docstring or "")
    return () if beginning is None else tuple(re.findall(_NUMBER, beginning[1]))


def problems(outcomes: dict[str, dict[str, bool]]) -> list[str]:
    """What is wrong with this: for each number, its tests, and whether each passed."""
    missing = [f"{number}: no test" for number in NUMBERS if not outcomes.get(number)]
    unknown = [f"{n}: no such behaviour" for n in outcomes if n not in NUMBERS and n[0] not in LATER]
    failed = [
        f"{number}: {test} does not pass"
        for number in NUMBERS
        for test, passed in outcomes.get(number, {}).items()
        if not passed
    ]
    return missing + sorted(unknown) + failed


def table(outcomes: dict[str, dict[str, bool]]) -> Iterable[str]:
    """Each number, then its tests."""
    for number in NUMBERS:
        tests = outcomes.get(number, {})
        passed = sum(tests.values())
        yield f"{number:4}{'pass' if tests and passed == len(tests) else 'FAIL'}  {passed}/{len(tests)}"
        for test, ok in sorted(tests.items()):
            yield f"    {'pass' if ok else 'FAIL'}  {test}"


class Behaviours:
    """Selects the tests with numbers, and keeps the books."""

    def __init__(self) -> None:
        self.outcomes: defaultdict[str, dict[str, bool]] = defaultdict(dict)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has no number. Numbers go with the reports, from whichever process."""
        chosen: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            numbers = numbers_in(getattr(getattr(item, "function", None), "__doc__", None))
            item.user_properties.append((PROPERTY, " ".join(numbers)))
            (chosen if numbers else others).append(item)
        items[:] = chosen
        config.hook.pytest_deselected(items=others)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a step of a test. It passes if its call does and nothing around it fails."""
        ok = report.passed if report.when == "call" else not report.failed and not report.skipped
        test = report.nodeid.partition("[")[0]
        for number in str(dict(report.user_properties).get(PROPERTY, "")).split():
            tests = self.outcomes[number]
            tests[test] = tests.get(test, True) and ok

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail if anything is wrong."""
        if not _is_worker(session.config) and problems(self.outcomes):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, and what is wrong."""
        terminalreporter.section("behaviours")
        for line in table(self.outcomes):
            terminalreporter.write_line(line)
        wrong = problems(self.outcomes)
        terminalreporter.section(f"{len(wrong)} problems" if wrong else "every behaviour has its tests")
        for line in wrong:
            terminalreporter.write_line(line)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    """Take part."""
    config.pluginmanager.register(Behaviours(), "behaviours")
