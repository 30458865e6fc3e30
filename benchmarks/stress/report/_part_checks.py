"""The report's parts about right and wrong: the promises, and what failed."""

from __future__ import annotations

from collections.abc import Sequence

from greenroom.stress._result import Check, Result
from greenroom.stress.report import _words as words
from greenroom.stress.report._frames import figures, section, table, unknown
from greenroom.stress.report._html import Content, Markup, tag
from greenroom.stress.report._verdict import standing

__all__ = ["failures", "promises"]

SIGNS = {"held": "✓ held", "broken": "✗ broken", "not seen": "– not seen", "not tried": "– not tried"}
CLASSES = {"held": "held", "broken": "broken", "not seen": "unseen", "not tried": "untried"}

KINDS = 20
"""So many kinds of errors are shown."""

LONGEST = 240
"""Characters of an error or a violation. The JSON has the rest."""


def promises(result: Result) -> Markup:
    """Each invariant, whether it held, and how often it was looked at."""
    if not result.checks:
        return section("promises", "Promises", unknown("No promise was checked in this run."))
    order = {"broken": 0, "held": 1, "not tried": 2, "not seen": 3}
    checks = sorted(result.checks, key=lambda check: order[standing(check)])
    rows = [_row(check) for check in checks]
    head = ["", "Promise", "Times seen", "Broken"]
    return section("promises", "Promises", table(head, rows, plain=2, class_="stack"))


def _row(check: Check) -> Markup:
    state = standing(check)
    known = check.held is not None
    seen = f"{check.seen:,}" if known else "–"
    return tag(
        "tr",
        tag("td", SIGNS[state], class_=f"state {CLASSES[state]}"),
        tag(
            "th",
            _capital(check.name),
            tag("span", check.promise, class_="sub"),
            tag("span", check.remark, class_="sub") if check.remark else None,
            _violations(check),
            scope="row",
            class_="whole",
        ),
        tag("td", seen, class_="number", data_head="seen" if known else None),
        tag(
            "td",
            f"{check.violated:,}" if known else "–",
            class_="number",
            data_head="broken" if known else None,
        ),
        data_state=state,
    )


def _violations(check: Check) -> Content:
    if not check.violations:
        return None
    left = check.violated - len(check.violations)
    return tag(
        "ul",
        [tag("li", tag("bdi", words.shortened(text, LONGEST))) for text in check.violations],
        tag("li", f"and {words.counted(left, 'other')}", class_="quiet") if left > 0 else None,
        class_="violations sub",
    )


def failures(result: Result) -> Markup:
    """What failed, planned or not."""
    totals = result.totals
    rows = [
        _counted("Turns that failed and should not have", totals.failures),
        _counted("Turns that were refused", totals.refused, "Too many were waiting for their session."),
        _counted(
            "Failures that the workload asked for",
            totals.planned_failures,
            "Turns, builds and hooks; they do not count against the run.",
        ),
        _counted("Commits that failed", totals.commit_failures, "Each is tried again until it works."),
        _counted("Workers given up", totals.workers_lost, "Threads stuck in a hook past its time."),
    ]
    return section(
        "failures", "What failed", figures(["", "Times"], rows, class_="failed"), _errors(result)
    )


def _counted(name: str, value: int | None, more: str | None = None) -> Sequence[Content]:
    return [[name, tag("span", more, class_="sub") if more else None], words.count(value)]


def _errors(result: Result) -> Content:
    errors = sorted(result.totals.errors.items(), key=lambda error: -error[1])
    if not errors:
        return tag("p", "No error but those that the workload asked for.", class_="quiet after")
    rows: list[Sequence[Content]] = [
        [tag("bdi", tag("code", words.shortened(text, LONGEST))), f"{times:,}"]
        for text, times in errors[:KINDS]
    ]
    if len(errors) > KINDS:
        rest = sum(times for _, times in errors[KINDS:])
        rows.append([f"{words.counted(len(errors) - KINDS, 'other kind')}, in the JSON", f"{rest:,}"])
    return tag("div", figures(["Error", "Times"], rows, class_="errors"), class_="after")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
