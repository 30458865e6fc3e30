"""What a report says, without a browser: the words, the arithmetic of the charts, the files."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html.parser
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from greenroom.stress._result import Check, Result, Slope
from greenroom.stress.report import _words
from greenroom.stress.report._charts import APART, HEIGHT, Line, chart, spread
from greenroom.stress.report._html import join, tag
from greenroom.stress.report._page import page
from greenroom.stress.report._part_process import grew
from greenroom.stress.report._part_settings import flat
from greenroom.stress.report._points import MOST, Points, peak
from greenroom.stress.report._report import data_path, write_report
from greenroom.stress.report._ticks import linear_axis, log_axis, time_axis
from greenroom.stress.report._verdict import verdict
from tests.stress.results import (
    UNTOLD,
    bare_result,
    failing_result,
    good_result,
    latency,
    second,
    server_result,
    totals,
)

RESULTS = {
    "good": good_result(),
    "failing": failing_result(),
    "server": server_result(),
    "bare": bare_result(),
    "one second": good_result(1),
    "nothing told": good_result(30, series=tuple(second(at + 1.0, **UNTOLD) for at in range(30))),
    "long": good_result(2000),
}


# The files


@pytest.mark.parametrize("name", ["good", "server", "bare", "long"])
def test_the_json_beside_the_page_is_the_whole_result(name: str, tmp_path: Path) -> None:
    result = RESULTS[name]
    write_report(result, tmp_path / "run.html")
    written = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert written == json.loads(json.dumps(result.to_json()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.html", "run.json"]


def test_what_json_has_no_words_for_is_null(tmp_path: Path) -> None:
    write_report(failing_result(), tmp_path / "run.html")
    text = (tmp_path / "run.json").read_text("utf-8")
    slope = json.loads(text, parse_constant=pytest.fail)["slopes"][1]
    assert (slope["an_hour"], slope["error"], slope["first"]) == (None, None, 21.0)


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    write_report(bare_result(), tmp_path / "new" / "folder" / "run.html")
    assert (tmp_path / "new" / "folder" / "run.html").exists()


def test_a_page_is_not_named_like_its_json() -> None:
    assert data_path(Path("runs/a.b.html")) == Path("runs/a.b.json")
    assert data_path(Path("run")) == Path("run.json")
    with pytest.raises(ValueError, match=r"'runs/run\.json' .* 'run\.html'"):
        data_path(Path("runs/run.json"))


def test_a_page_that_cannot_be_made_leaves_the_old_one_and_the_new_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.html"
    path.write_text("the old page", "utf-8")

    def fail(*_: object) -> str:
        raise RuntimeError("no page")

    monkeypatch.setattr("greenroom.stress.report._report.page", fail)
    with pytest.raises(RuntimeError, match="no page"):
        write_report(good_result(3), path)
    assert path.read_text("utf-8") == "the old page"
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["title"] == good_result().title


def test_a_file_that_cannot_be_written_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.html"
    path.write_text("the old page", "utf-8")
    monkeypatch.setattr("greenroom.stress.report._report.page", lambda *_: "\ud800 cannot be written")
    with pytest.raises(UnicodeEncodeError):
        write_report(good_result(3), path)
    assert path.read_text("utf-8") == "the old page"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.html", "run.json"]


# The page


class Reader(html.parser.HTMLParser):
    """Reads a page: its elements, which must be closed in order, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data)


@pytest.mark.parametrize("name", RESULTS)
def test_a_page_is_whole_and_has_no_outside_parts(name: str) -> None:
    text = page(RESULTS[name], "run.json")
    text.encode("utf-8")
    read = Reader(text)
    assert read.open == []
    names = [name for name, _ in read.elements]
    assert names.count("script") == names.count("style") == 1
    assert not {"img", "iframe", "object", "embed", "form", "b"} & set(names)
    for _, attributes in read.elements:
        links = [attributes[key] for key in ("href", "src", "xlink:href") if key in attributes]
        assert all(link is not None and link.startswith("data:") for link in links)
        assert not {"style", "onload", "onerror", "onclick"} & set(attributes)
    assert "url(" not in text
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_what_may_run_is_named_by_its_digest() -> None:
    text = page(good_result(5), "run.json")
    for kind in ("script", "style"):
        inside = re.search(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert f"{kind}-src &#x27;sha256-{digest}&#x27;" in text


def test_every_picture_says_what_it_shows() -> None:
    text = page(good_result(), "run.json")
    pictures = re.findall(r'<div class="plot".*?</div>', text, re.DOTALL)
    assert len(pictures) == 10
    for picture in pictures:
        assert re.search(r"<title [^>]*>[^<]{4,}</title><desc [^>]*>[^<]{30,}</desc>", picture)
        assert 'role="img"' in picture


def test_what_is_not_told_is_said_and_not_drawn() -> None:
    text = page(RESULTS["nothing told"], "run.json")
    for name in ("occupancy", "hits", "dirty", "memory", "threads", "files"):
        assert f'id="chart-{name}"' not in text
    assert "How many agents are in memory is not told by this target." in text
    assert "Not told here: waiting." in text


def test_a_thing_that_is_told_now_and_then_has_gaps() -> None:
    text = page(server_result(), "run.json")
    drawn = re.search(r'id="chart-occupancy".*?class="line good"', text, re.DOTALL)
    assert drawn is not None
    path = re.findall(r'd="([^"]*)"', drawn[0])[-1]
    assert path.count("M") == 3
    assert "Gaps: not known then." in text


def test_texts_of_others_are_escaped_wherever_they_stand() -> None:
    bad = "\"><script>alert(1)</script><b x='"
    check = Check(name=bad, promise=bad, held=False, seen=1, remark=bad, violations=(bad,), violated=1)
    result = good_result(
        3,
        title=bad,
        target=bad,
        started=bad,
        settings={bad: bad, "policy": {bad: [bad]}},
        machine={bad: bad},
        latencies={bad: latency(0.1)},
        totals=totals(failures=1, errors={bad: 1}, evictions={bad: 4}),
        checks=(check,),
        slopes=(Slope(name=bad, an_hour=1.0, error=0.1, first=0.0, last=1.0, samples=9),),
    )
    text = page(result, f"{bad}.json")
    assert text.count("<script") == 1
    assert "<b " not in text
    assert len([each for each in Reader(text).texts if "alert(1)" in each]) >= 14


def test_a_long_run_has_a_few_hundred_points_a_line_and_keeps_its_peaks() -> None:
    series = [second(at + 1.0, cached=900 if at == 777 else 5) for at in range(2000)]
    points = Points(series)
    assert len(points.at) == MOST
    assert points.at[-1] == 2000.0
    assert max(filter(None, points.values(lambda row: row.cached, peak))) == 900
    text = page(good_result(2000), "run.json")
    longest = max(path.count("L") + 1 for path in re.findall(r'd="(M[^"]*)"', text))
    assert 300 < longest <= MOST
    assert "stands for 5 rows of the series" in text


# Counts and shares


def test_the_last_moment_of_a_run_does_not_look_like_a_breakdown() -> None:
    series = [second(1.0, turns=100), second(2.0, turns=100), second(2.5, turns=50)]
    assert Points(series).rates(lambda row: row.turns) == [100.0, 100.0, 100.0]
    series[-1] = second(2.01, turns=3)
    assert Points(series).rates(lambda row: row.turns) == [100.0, 100.0, None]
    # Rows of a long run stand for several seconds.
    long = Points([second(4.0, turns=360), second(8.0, turns=320)])
    assert long.rates(lambda row: row.turns) == [90.0, 80.0]


def test_a_share_is_of_those_rows_in_which_both_are_known() -> None:
    series = [
        second(1.0, hits=9, builds=1),
        second(2.0, hits=0, builds=0),
        second(3.0, hits=5, builds=None),
    ]
    points = Points(series)
    assert points.shares(lambda row: row.hits, lambda row: row.builds) == [0.9, None, None]
    assert Points(series, 1).shares(lambda row: row.hits, lambda row: row.builds) == [0.9]


# The verdict


def judged(**changes: Any) -> tuple[str, str]:
    """The tone and the headline."""
    found = verdict(good_result(3, **changes))
    return found.tone, found.headline


def test_a_run_that_held_says_over_how_many_turns() -> None:
    assert judged() == ("good", "All 7 promises, over 29,871 completed turns.")


def test_a_run_says_what_it_could_not_see() -> None:
    found = verdict(server_result())
    assert found.tone == "good"
    assert (
        found.headline == "4 of 7 promises were put to the test and held, over 29,871 completed turns."
    )
    assert found.reasons == ("3 promises cannot be seen from here; the table says why.",)


def test_a_promise_that_never_came_up_is_not_counted_as_held() -> None:
    checks = tuple(dataclasses.replace(check, seen=0) for check in good_result(3).checks)
    found = verdict(good_result(3, checks=checks))
    assert (found.tone, found.reasons) == ("quiet", ("7 promises never came up in this run.",))


def test_a_broken_promise_and_failed_turns_are_told_first() -> None:
    found = verdict(failing_result())
    assert (found.tone, found.word) == ("wrong", "Not held")
    assert found.headline == "2 of 7 promises were broken, and 187 turns failed that should not have."
    assert found.reasons[0] == "“no teardown in a turn” was broken 12 times."
    assert found.reasons[1] == "“every turn answered” was broken once."
    assert found.reasons[2].startswith("The commonest error, 122 times: BuildFailed: <script>")
    assert found.reasons[-1] == "The run was ended early, after 2 min of 5 min."


def test_one_failed_turn_is_enough() -> None:
    assert judged(totals=totals(failures=1)) == ("wrong", "1 turn failed that should not have.")


def test_a_run_without_turns_has_shown_nothing() -> None:
    assert judged(totals=totals(arrived=0, turns=0)) == (
        "quiet",
        "Nothing was broken, but no turn arrived.",
    )
    assert judged(checks=()) == ("quiet", "Nothing was broken, but no promise could be looked at.")


@pytest.mark.parametrize(("lag", "told"), [(0.05, False), (0.7, True)])
def test_a_run_that_could_not_keep_up_says_so(lag: float, told: bool) -> None:
    result = good_result(3)
    result = dataclasses.replace(result, settings={**result.settings, "generator": {"lag_p99": lag}})
    assert any("could not keep up" in reason for reason in verdict(result).reasons) == told


@pytest.mark.parametrize("name", RESULTS)
def test_the_verdict_is_wrong_exactly_where_the_exit_status_is(name: str) -> None:
    result: Result = RESULTS[name]
    assert (verdict(result).tone == "wrong") == (not result.held)


# Slopes


@pytest.mark.parametrize(
    ("an_hour", "error", "said"),
    [
        (1.0, 0.6, "flat, within its error"),
        (-1.0, 0.6, "flat, within its error"),
        (1.0, 0.4, "grew"),
        (-1.0, 0.4, "shrank"),
        (0.0, 0.0, "flat, within its error"),
        (math.nan, 1.0, "too few samples to tell"),
        (1.0, math.inf, "too few samples to tell"),
    ],
)
def test_a_slope_within_twice_its_error_is_flat(an_hour: float, error: float, said: str) -> None:
    assert grew(Slope(name="files", an_hour=an_hour, error=error, first=0, last=0, samples=9)) == said


# Words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 ms"),
        (2.4e-6, "2.4 µs"),
        (0.0009996, "1 ms"),
        (0.0374, "37.4 ms"),
        (0.99961, "1 s"),
        (9.996, "10 s"),
        (119.0, "119 s"),
        (3725.0, "1 h 2 min"),
        (math.inf, "not known"),
    ],
)
def test_a_time_has_three_digits_and_the_unit_that_fits(value: float, text: str) -> None:
    assert _words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (999_600, "1 MB"), (97_412_000, "97.4 MB"), (None, "not known")],
)
def test_a_size_is_in_thousands(value: float | None, text: str) -> None:
    assert _words.size(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100 %"), (0.99999, "> 99.9 %"), (0.921, "92.1 %"), (0.00001, "< 0.1 %"), (0.0, "0 %")],
)
def test_only_all_is_a_hundred_percent(share: float, text: str) -> None:
    assert _words.percent(share) == text


def test_a_date_reads_as_a_date() -> None:
    assert _words.wall_clock("2026-11-06T13:05:11+05:30") == "6 November 2026, 13:05:11 UTC+05:30"
    assert _words.wall_clock("once upon a time") == "once upon a time"


def test_nested_settings_are_lines() -> None:
    settings = {
        "policy": {"cap": 64, "idle_ttl": None},
        "reconfigure": [{"at": 1.5, "changes": {"cap": 8}}],
        "stream": False,
        "empty": {},
    }
    assert list(flat(settings)) == [
        ("policy.cap", "64"),
        ("policy.idle_ttl", "none"),
        ("reconfigure", "at 1.5, changes.cap 8"),
        ("stream", "no"),
        ("empty", "none"),
    ]


# Charts


def test_an_axis_of_counts_begins_at_nothing_and_ends_above_the_highest() -> None:
    axis = linear_axis([3.0, None, 61.0, math.nan], _words.count, whole=True)
    assert [text for _, text in axis.ticks] == ["0", "20", "40", "60", "80"]
    assert (axis.place(0.0), axis.place(40.0), axis.place(80.0)) == (0.0, 0.5, 1.0)
    assert [text for _, text in linear_axis([], _words.count, whole=True).ticks] == ["0", "1"]


def test_an_axis_of_times_is_logarithmic_and_holds_every_value() -> None:
    axis = log_axis([0.0004, 0.3, 0.0, None], _words.seconds)
    assert [text for _, text in axis.ticks] == ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]
    assert axis.place(0.0) == 0.0
    short = log_axis([0.02, 0.09], _words.seconds)
    assert [text for _, text in short.ticks] == ["10 ms", "20 ms", "50 ms", "100 ms", "200 ms"]
    alike = log_axis([0.05], _words.seconds)
    assert 0.2 < alike.place(0.05) < 0.8


@pytest.mark.parametrize(
    ("end", "texts"),
    [
        (1.0, ["0", "0.5", "1 s"]),
        (30.0, ["0", "5", "10", "15", "20", "25", "30 s"]),
        (300.0, ["0", "1", "2", "3", "4", "5 min"]),
        (3600.0, ["0", "10", "20", "30", "40", "50", "60 min"]),
        (86400.0, ["0", "4", "8", "12", "16", "20", "24 h"]),
    ],
)
def test_time_is_counted_as_people_do(end: float, texts: list[str]) -> None:
    assert [text for _, text in time_axis(end).ticks] == texts
    assert time_axis(0.0).highest > 0.0


def test_names_of_lines_do_not_cover_each_other() -> None:
    for places in ([10.0, 12.0, 13.0], [0.0, 0.0], [HEIGHT, HEIGHT, HEIGHT], [5.0, 100.0, 187.0, 190.0]):
        moved = spread(sorted(places))
        assert all(b - a >= APART for a, b in itertools.pairwise(moved))
        assert moved[0] >= 0.0
        assert moved[-1] <= HEIGHT
    assert spread([20.0, 90.0]) == [20.0, 90.0]


def test_a_value_that_stands_alone_is_a_dot() -> None:
    values = [1.0] * 40
    drawn = chart(
        "c",
        title="t",
        about="a",
        lines=[Line(name="n", values=[*values, None, 2.0, None, *values], tone="good")],
        across=time_axis(83.0),
        up=linear_axis([2.0], _words.count),
        at=[float(at) for at in range(83)],
        moments=[str(at) for at in range(83)],
        say=_words.count,
    )
    assert drawn.count("<circle") == 1


# HTML


def test_only_markup_is_not_escaped() -> None:
    inner = tag("i", "a < b", title='"')
    assert tag("p", inner, None, 3, ["&", inner], class_="c", data_x=None) == (
        '<p class="c"><i title="&quot;">a &lt; b</i>3&amp;<i title="&quot;">a &lt; b</i></p>'
    )
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert join("\x1b[31m", "\ud800") == "\ufffd[31m?"
