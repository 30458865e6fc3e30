"""The report of a stress run, as somebody opens it from a disk, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from greenroom.stress._result import Result
from greenroom.stress.report import _words as words
from greenroom.stress.report._report import write_report
from tests.browser.chromium import need_chromium
from tests.browser.conftest import Complaints, Open
from tests.browser.contrast import too_faint
from tests.stress.results import (
    UNTOLD,
    bare_result,
    failing_result,
    good_result,
    second,
    server_result,
)

need_chromium()

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(120)]

Show = Callable[..., Page]

RESULTS = {
    "good": good_result(),
    "failing": failing_result(),
    "server": server_result(),
    "bare": bare_result(),
    "one second": good_result(1),
    "nothing told": good_result(30, series=tuple(second(at + 1.0, **UNTOLD) for at in range(30))),
    "long": good_result(2000),
}

PARTS = "Promises, How long turns took, Load, What failed, The room, The process, Settings and machine"


@pytest.fixture
def show(tmp_path: Path, open_page: Open) -> Show:
    """Writes a report and opens it, with the network off."""

    def show(result: Result, **options: Any) -> Page:
        path = tmp_path / "run.html"
        write_report(result, path)
        page = open_page("about:blank", offline=True, **options)
        page.goto(path.as_uri())
        return page

    return show


def ground(page: Page) -> str:
    """The colour of the page."""
    colour: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return colour


def figure(page: Page, name: str) -> str:
    """A key figure."""
    return (
        page.locator("#key > div", has=page.get_by_text(name, exact=True))
        .locator(".figure")
        .inner_text()
    )


@pytest.mark.parametrize("name", RESULTS)
def test_a_report_opens_from_a_disk_and_asks_nobody_for_anything(
    name: str, tmp_path: Path, open_page: Open
) -> None:
    path = tmp_path / "run.html"
    write_report(RESULTS[name], path)
    page = open_page("about:blank", offline=True)
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))
    page.goto(path.as_uri())
    assert [request.url for request in asked if not request.url.startswith("data:")] == [path.as_uri()]
    assert page.locator("h2").all_inner_texts() == PARTS.split(", ")
    expect(page.locator("#verdict")).to_be_visible()
    expect(page.get_by_role("main")).to_be_visible()


def test_the_verdict_and_the_figures_are_those_of_the_result(show: Show) -> None:
    result = good_result()
    page = show(result)
    expect(page.locator("#verdict .word")).to_have_text("✓ Held")
    expect(page.locator("#verdict .headline")).to_have_text(
        "All 7 promises, over 29,871 completed turns."
    )
    expect(page.locator("#target")).to_have_text(
        "On a room in this process. 5 min of turns, then drained in 840 ms."
    )
    assert figure(page, "Turns completed") == f"{result.totals.turns:,}"
    assert figure(page, "Turns a second") == "99.6/s"
    assert figure(page, "Start, median") == words.seconds(result.latencies["start"].p50)
    assert figure(page, "Hit rate") == "92.1 %"
    most = max(row.cached for row in result.series if row.cached is not None)
    assert figure(page, "Most agents in memory") == str(most)
    assert figure(page, "Evictions") == f"{sum(result.totals.evictions.values()):,}"
    assert figure(page, "Failed unplanned") == "0"
    rows = page.locator(".latencies tbody tr")
    assert rows.count() == len(result.latencies)
    for index, found in enumerate(result.latencies.values()):
        times = (found.mean, found.p50, found.p90, found.p99, found.p999, found.worst)
        expected = [f"{found.count:,}", *map(words.seconds, times)]
        assert rows.nth(index).locator("td").all_inner_texts() == expected
    evicted = dict(
        zip(
            page.locator(".evictions th[scope=row]").all_inner_texts(),
            page.locator(".evictions td:nth-child(2)").all_inner_texts(),
            strict=True,
        )
    )
    assert evicted["The room was over its cap"] == "1,874"
    assert evicted["In all"] == "2,328"
    assert page.locator(".slopes tbody tr").first.inner_text().split("\t") == [
        "Memory", "+2.1 MB", "3.4 MB", "97.2 MB", "97.4 MB", "240", "flat, within its error",
    ]  # fmt: skip
    for check, row in zip(result.checks, page.locator("#promises tbody tr").all(), strict=True):
        expect(row).to_contain_text(check.promise)
        assert row.locator("td").all_inner_texts() == ["✓ held", f"{check.seen:,}", "0"]


def test_a_line_is_where_its_values_are(show: Show) -> None:
    series = tuple(second(at + 1.0, cached=at * 2, cap=40) for at in range(30))
    page = show(good_result(30, series=series))
    box = page.locator("#chart-occupancy > svg").bounding_box()
    line = page.locator("#chart-occupancy .line.good").bounding_box()
    assert box is not None
    assert line is not None
    # From 0 to 58, on an axis that ends at 60; from the first second of thirty to the last.
    assert line["y"] + line["height"] == pytest.approx(box["y"] + box["height"], abs=3)
    assert line["y"] == pytest.approx(box["y"] + box["height"] * (1 - 58 / 60), abs=3)
    assert line["x"] == pytest.approx(box["x"] + box["width"] / 30, abs=3)
    assert line["x"] + line["width"] == pytest.approx(box["x"] + box["width"], abs=3)


def test_a_pointer_above_a_chart_reads_its_values(show: Show) -> None:
    series = tuple(second(at + 1.0, cached=at * 2, cap=40, in_turn=None) for at in range(30))
    page = show(good_result(30, series=series))
    box = page.locator("#chart-occupancy > svg").bounding_box()
    assert box is not None
    page.locator("#chart-occupancy").hover(position={"x": 5, "y": 5})
    expect(page.locator(".readout")).to_have_count(0)
    page.locator("#chart-occupancy > svg").hover(position={"x": box["width"] / 2, "y": 20})
    readout = page.locator("#chart-occupancy .readout")
    assert readout.inner_text().splitlines() == ["15.0 s", "agents 28", "cap 40"]
    page.locator("h1").hover()
    expect(page.locator(".readout")).to_have_count(0)


def test_a_report_is_whole_without_scripts(show: Show) -> None:
    page = show(good_result(), java_script_enabled=False)
    assert page.locator(".plot > svg").count() == 10
    assert figure(page, "Turns completed") == "29,871"
    expect(page.locator("#chart-memory .name")).to_be_visible()


def test_hostile_texts_stay_texts(show: Show) -> None:
    page = show(failing_result())  # a dialog of theirs would be a complaint
    expect(page.locator("h1")).to_have_text("A room that breaks <b>its</b> promises & 'more'")
    assert page.locator("script").count() == 1
    assert page.locator("img, h1 b").count() == 0
    broken = page.locator("#promises tr[data-state=broken]")
    assert broken.count() == 2
    expect(broken.first.locator("li").first).to_have_text(
        "At 17 s the agent of <script>alert(17)</script>stress-0-17 was released in its turn."
    )
    expect(broken.first.locator("li").last).to_have_text("and 9 others")
    expect(page.locator(".errors tbody th").first).to_contain_text("<script>alert('built')</script>")
    expect(page.locator("#settings")).to_contain_text("mine:<img src=x onerror=alert(1)>")


def test_a_script_that_got_in_would_not_run(
    tmp_path: Path, open_page: Open, complaints: Complaints
) -> None:
    complaints.expected = ("Content Security Policy",)
    path = tmp_path / "run.html"
    write_report(bare_result(), path)
    planted = "<script>document.title = 'ran'</script><img src=x onerror=\"document.title = 'ran'\">"
    path.write_text(path.read_text("utf-8").replace("</main>", f"{planted}</main>"), "utf-8")
    page = open_page("about:blank", offline=True)
    page.goto(path.as_uri())
    assert page.title() == "Nothing shown: Nothing at all – greenroom stress"
    assert any("inline script" in text for text in complaints.heard)


@pytest.mark.parametrize("name", ["good", "failing", "server", "bare"])
def test_every_text_can_be_read_in_light_and_in_dark(name: str, show: Show) -> None:
    page = show(RESULTS[name], color_scheme="light")
    for details in page.locator("details").all():
        details.evaluate("each => each.open = true")
    assert ground(page) == "rgb(244, 246, 244)"
    texts, faint = too_faint(page)
    assert texts > 50
    assert faint == []
    page.emulate_media(color_scheme="dark")
    assert ground(page) == "rgb(15, 20, 18)"
    assert too_faint(page) == (texts, [])


@pytest.mark.parametrize("name", ["good", "failing", "server", "long"])
def test_no_screen_scrolls_sideways(name: str, show: Show) -> None:
    page = show(RESULTS[name])
    for width in (320, 390, 768):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert sticking_out(page) == []
        # Nor is a table squeezed until its words stand letter below letter.
        widths = page.locator("tbody th:visible").evaluate_all(
            "all => all.map((each) => each.getBoundingClientRect().width)"
        )
        assert min(widths) > 60


def sticking_out(page: Page) -> list[str]:
    """Texts that are cut by the screen's edge."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main text, main td, main th, main p, main dd, main li")]
          .filter((each) => each.checkVisibility() && !each.closest("details")
            && each.getBoundingClientRect().width)
          .filter((each) => {
            const box = each.getBoundingClientRect();
            return box.left < -0.5 || box.right > innerWidth + 0.5;
          })
          .map((each) => each.textContent)"""
    )
    return found


def test_ticks_and_names_of_a_chart_do_not_cover_each_other(show: Show) -> None:
    page = show(good_result(3600), width=320)
    covered = page.evaluate(
        """() => [...document.querySelectorAll(".plot")].flatMap((plot) => {
          const boxes = [...plot.querySelectorAll("text")]
            .map((text) => [text.textContent, text.getBoundingClientRect()])
            .filter(([, box]) => box.width);
          return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
            .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
              && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2)
            .map(([other]) => `${plot.id}: ${one}, ${other}`));
        })"""
    )
    assert covered == []


# On paper


MARK = """
() => {
  const marked = [...document.querySelectorAll("figure, .verdict, .key > div, tbody tr")];
  marked.forEach((each, index) => {
    const holder = each.matches("tr") ? each.cells[0] : each;
    holder.style.position = "relative";
    for (const edge of ["top", "bottom"]) {
      const link = document.createElement("a");
      link.href = `https://mark.invalid/${edge}/${index}`;
      link.textContent = ".";
      Object.assign(link.style, { position: "absolute", left: 0, [edge]: 0, lineHeight: "6px" });
      holder.append(link);
    }
  });
  return marked.filter((each) => each.checkVisibility() && !each.closest("details")).length;
}
"""
"""Puts a link on the upper and the lower edge of what is to stay whole. A PDF tells where links are."""


def pages_of(pdf: bytes) -> list[dict[tuple[str, str], float]]:
    """For each page of a PDF, the links that `MARK` made which are on it, and how high they are."""
    objects = {
        int(number): content
        for number, content in re.findall(rb"(?m)^(\d+) 0 obj\n(.*?)endobj", pdf, re.DOTALL)
    }
    pages: list[dict[tuple[str, str], float]] = []
    for content in objects.values():
        if not re.match(rb"<<\s*/Type /Page\b", content):
            continue
        listed = re.search(rb"/Annots \[([^\]]*)\]", content)
        links = [objects[int(ref)] for ref in re.findall(rb"(\d+) 0 R", listed[1])] if listed else []
        found: dict[tuple[str, str], float] = {}
        for link in links:
            target = re.search(rb"mark\.invalid/(\w+)/(\d+)", link)
            box = re.search(rb"/Rect \[([^\]]*)\]", link)
            assert target is not None
            assert box is not None
            found[target[1].decode(), target[2].decode()] = float(box[1].split()[1])
        pages.append(found)
    return pages


@pytest.mark.parametrize("name", ["good", "failing", "server", "long"])
def test_on_paper_nothing_is_cut(name: str, show: Show) -> None:
    page = show(RESULTS[name], color_scheme="dark")
    marked = page.evaluate(MARK)
    pages = pages_of(page.pdf(prefer_css_page_size=True))
    where = {mark: number for number, found in enumerate(pages) for mark in found}
    tops = {index: number for (edge, index), number in where.items() if edge == "top"}
    bottoms = {index: number for (edge, index), number in where.items() if edge == "bottom"}
    assert len(tops) == len(bottoms) == marked
    assert {
        index: (tops[index], bottoms[index]) for index in tops if tops[index] != bottoms[index]
    } == {}
    assert 5 <= len(pages) <= 8  # 5 or 6 with the usual fonts; wider ones take more room


def test_on_paper_each_part_that_has_charts_begins_a_page(show: Show) -> None:
    page = show(good_result())
    page.emulate_media(media="print")
    breaks = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("section")]
          .map((each) => [each.id, getComputedStyle(each).breakBefore]))"""
    )
    assert [name for name, kind in breaks.items() if kind == "page"] == [
        "latency", "throughput", "room", "process", "settings",
    ]  # fmt: skip


def test_paper_is_white_also_where_the_screen_is_dark(show: Show) -> None:
    page = show(failing_result(), color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert (
        page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    _, faint = too_faint(page)
    assert faint == []
