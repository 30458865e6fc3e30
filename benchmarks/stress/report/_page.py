"""A report as one page of HTML that asks nobody for anything.

The page's own policy forbids it to load or to run anything but the style sheet and the script that are
in it, each named by its digest. A key or an error text that held a script could not run it even if it
were not escaped, which it is (`_html`).
"""

from __future__ import annotations

import base64
import hashlib
import urllib.parse
from collections.abc import Iterator

from greenroom.stress._result import Result, Slope
from greenroom.stress.report import _words as words
from greenroom.stress.report._frames import Times
from greenroom.stress.report._html import Content, Markup, markup, tag
from greenroom.stress.report._part_checks import failures, promises
from greenroom.stress.report._part_process import grew, process
from greenroom.stress.report._part_room import REASONS, room
from greenroom.stress.report._part_settings import settings
from greenroom.stress.report._part_turns import latency, throughput
from greenroom.stress.report._style import SCRIPT, STYLE
from greenroom.stress.report._verdict import verdict

__all__ = ["page"]

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8"'
    ' fill="#1f7a4d"/><path d="M9 26V9.5A2.5 2.5 0 0 1 11.5 7h9A2.5 2.5 0 0 1 23 9.5V26M6.5 26h19"'
    ' fill="none" stroke="#fff" stroke-width="2.5" stroke-linecap="round"/><circle cx="18.6" cy="17"'
    ' r="1.9" fill="#fff"/></svg>'
)


def page(result: Result, data: str) -> str:
    """The whole page. `data` is the name of the JSON beside it."""
    times = Times.of(result)
    body = tag(
        "body",
        _head(result),
        tag(
            "main",
            _verdict(result),
            _key_figures(result),
            promises(result),
            latency(result, times),
            throughput(result, times),
            failures(result),
            room(result, times),
            process(result, times),
            settings(result),
        ),
        _foot(times, data),
        tag("script", markup(SCRIPT)),
    )
    title = f"{verdict(result).word}: {result.title}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{words.shortened(title, 120)} – greenroom stress"),
        tag("link", rel="icon", href=f"data:image/svg+xml,{urllib.parse.quote(ICON)}"),
        tag("style", markup(STYLE)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _policy() -> str:
    return (
        f"default-src 'none'; img-src data:; style-src {_digest(STYLE)}; script-src {_digest(SCRIPT)};"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _head(result: Result) -> Markup:
    lasted = f"{words.duration(result.seconds)} of turns"
    if result.interrupted:
        lasted += ", ended early"
    if result.drain is not None:
        lasted += f", then drained in {words.seconds(result.drain)}"
    return tag(
        "header",
        tag("div", markup(ICON), "greenroom stress", class_="brand"),
        tag("h1", tag("bdi", words.shortened(result.title, 200)), id="title"),
        tag("p", "On ", tag("bdi", words.shortened(result.target, 200)), f". {lasted}.", id="target"),
        tag(
            "p", "Begun on ", tag("time", words.wall_clock(result.started), datetime=result.started), "."
        ),
    )


def _verdict(result: Result) -> Markup:
    found = verdict(result)
    sign = {"good": "✓ ", "wrong": "✗ ", "quiet": "– "}[found.tone]
    return tag(
        "div",
        tag("p", tag("span", sign, aria_hidden="true"), tag("span", found.word), class_="word"),
        tag("p", found.headline, class_="headline"),
        tag("ul", [tag("li", tag("bdi", reason)) for reason in found.reasons])
        if found.reasons
        else None,
        class_=f"verdict {found.tone}",
        id="verdict",
        role="status",
    )


def _key_figures(result: Result) -> Markup:
    return tag("dl", list(_figures(result)), class_="key", id="key", aria_label="Key figures")


def _figures(result: Result) -> Iterator[Content]:
    totals = result.totals
    yield _figure("Turns completed", f"{totals.turns:,}", f"of {totals.arrived:,} that arrived")
    a_second = totals.turns / result.seconds if result.seconds > 0.0 else 0.0
    yield _figure("Turns a second", words.rate(a_second), "completed, on average")
    start = result.latencies.get("start")
    if start is not None and start.count:
        more = f"99 % within {words.seconds(start.p99)}, slowest {words.seconds(start.worst)}"
        yield _figure("Start, median", words.seconds(start.p50), more)
    else:
        yield _figure("Start, median", None, "no turn got its agent")
    yield _hits(result)
    yield _most(result)
    yield _evicted(result)
    more = f"{words.count(totals.planned_failures)} planned, {words.count(totals.refused)} refused"
    yield _figure("Failed unplanned", f"{totals.failures:,}", more, wrong=bool(totals.failures))
    yield _memory(result)


def _hits(result: Result) -> Content:
    totals = result.totals
    if totals.hit_rate is None:
        return _figure("Hit rate", None, "not told by this target" if totals.hits is None else "no turn")
    again = "" if totals.rebuilds is None else f", {totals.rebuilds:,} of them again"
    return _figure("Hit rate", words.percent(totals.hit_rate), f"{totals.builds:,} agents built{again}")


def _most(result: Result) -> Content:
    known = [(row.cached, row.cap) for row in result.series if row.cached is not None]
    if not known:
        return _figure("Most agents in memory", None, "not told by this target")
    most, cap = max(known, key=lambda pair: pair[0])
    more = "no cap is told" if cap is None else f"with a cap of {cap:,}"
    return _figure("Most agents in memory", f"{most:,}", more)


def _evicted(result: Result) -> Content:
    evictions = result.totals.evictions
    if not evictions and result.totals.builds is None:
        return _figure("Evictions", None, "not told by this target")
    number = sum(evictions.values())
    if not number:
        return _figure("Evictions", "0", "no agent left memory")
    reason, most = max(evictions.items(), key=lambda item: item[1])
    said = REASONS.get(reason, words.shortened(reason, 40))
    return _figure("Evictions", f"{number:,}", f"{most:,}: {said[0].lower()}{said[1:]}" if said else "")


def _memory(result: Result) -> Content:
    known = [row.memory for row in result.series if row.memory is not None]
    if not known:
        return _figure("Memory at most", None, "not known for this target")
    slope = next((slope for slope in result.slopes if slope.name == "memory"), None)
    return _figure("Memory at most", words.size(max(known)), _growth(slope))


def _growth(slope: Slope | None) -> str:
    if slope is None:
        return "too short a run for its slope"
    said = grew(slope)
    return f"{said} {words.size(abs(slope.an_hour))} an hour" if said in ("grew", "shrank") else said


def _figure(name: str, text: str | None, more: str, *, wrong: bool = False) -> Content:
    shown = text if text is not None else "Not known"
    return tag(
        "div",
        tag("dt", name),
        tag("dd", shown, class_="figure" if text is not None else "figure words"),
        tag("dd", more, class_="note"),
        class_="wrong" if wrong else None,
    )


def _foot(times: Times, data: str) -> Markup:
    each = times.points.each
    merged = (
        f" A point of a line stands for {each} rows of the series: of counts the average, of levels the"
        " peak."
        if each > 1
        else ""
    )
    return tag(
        "footer",
        tag(
            "p",
            "Every figure of this page, and the whole series, is in ",
            tag("code", data),
            " beside it.",
            merged,
        ),
    )
