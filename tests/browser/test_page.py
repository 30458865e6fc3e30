"""The page, as somebody who runs a server sees it, in a real browser."""

from __future__ import annotations

import asyncio
import functools
import re
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import Locator, Page, expect

from greenroom import Policy
from greenroom.gateway import Token
from tests.actors.actors import PATIENCE
from tests.browser.chromium import need_chromium
from tests.browser.conftest import Complaints, Open
from tests.browser.contrast import too_faint
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.page_serving import page_serving
from tests.gateway.serving import Serving

need_chromium()

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(120)]

SECRET = "an-operators-own-token"
GUEST = "a-token-of-somebody-else"


def say(server: Serving, session: str, text: str = "hello", token: str | None = None) -> int:
    """Take a turn."""
    headers = {"x-greenroom-session": session}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    body = {"model": "greenroom", "messages": [{"role": "user", "content": text}]}
    url = f"{server.url}/v1/chat/completions"
    return httpx.post(url, json=body, headers=headers, timeout=PATIENCE).status_code


def later(server: Serving, session: str, text: str) -> threading.Thread:
    """Take a turn on a thread."""
    thread = threading.Thread(target=say, args=(server, session, text), daemon=True)
    thread.start()
    return thread


def row(page: Page, key: str) -> Locator:
    """A session's row."""
    return page.locator(f"#rows tr[data-key={key!r}]")


def state(page: Page, key: str) -> Locator:
    """Its state."""
    return row(page, key).locator("td.state .name")


def connected(page: Page) -> None:
    """Wait until the page is live."""
    expect(page.locator("#link")).to_have_attribute("data-state", "live")


# What is seen


def test_the_page_shows_how_the_room_is(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe, policy=Policy(cap=4, memory_budget=1 << 40), max_running=5) as server:
        for name in ("alice", "bob", "carol"):
            say(server, name)
        page = open_page(server.url)
        connected(page)
        expect(page.locator("#tile-agents .figure")).to_have_text("3 of 4")
        expect(page.locator("#tile-turns .figure")).to_have_text("0 of 5")
        expect(page.locator("#tile-memory .figure")).to_have_text(
            re.compile(r"^\d+(\.\d)? MB of 1\.1 TB$")
        )
        expect(page.locator("#tile-dirty .figure")).to_have_text("3 sessions")
        meter = page.get_by_role("meter", name="Agents in memory against the cap")
        expect(meter).to_have_attribute("aria-valuenow", "3")
        expect(meter).to_have_attribute("aria-valuemax", "4")
        expect(page.locator("#rows tr")).to_have_count(3)
        expect(row(page, "local/bob").locator("td.dirty")).to_have_text("1")
        expect(page.get_by_role("heading", name="Needs attention")).to_be_hidden()
        expect(page.get_by_role("main")).to_be_visible()


@needs_curl
def test_an_empty_room_gives_the_curl_that_makes_the_first_session(
    troupe: Troupe, open_page: Open
) -> None:
    with page_serving(troupe) as server:
        page = open_page(server.url)
        expect(page.get_by_role("heading", name="The room is empty")).to_be_visible()
        command = shlex.split(page.locator("#curl").inner_text().replace("\\\n", " "))
        subprocess.run([*command, "--silent", "--fail"], check=True, capture_output=True)
        expect(state(page, "local/alice")).to_have_text("Idle")
        expect(page.get_by_role("heading", name="The room is empty")).to_be_hidden()


def test_a_turn_is_seen_while_it_runs_and_what_happens_as_it_happens(
    troupe: Troupe, open_page: Open
) -> None:
    with page_serving(troupe) as server:
        page = open_page(server.url)
        connected(page)
        turn = later(server, "alice", "wait @door")
        expect(state(page, "local/alice")).to_have_text("In a turn")
        expect(page.locator("#tile-turns strong")).to_have_text("1")
        expect(page).to_have_title("(1) greenroom")
        expect(page.locator("#happened li").first).to_contain_text("Built local/alice")
        troupe.door("door").open()
        expect(state(page, "local/alice")).to_have_text("Idle")
        expect(row(page, "local/alice").locator("td.since")).to_have_text(re.compile(r"^\d+ s$"))
        turn.join(PATIENCE)


def test_failures_are_prominent_with_their_reason_until_they_are_mended(
    troupe: Troupe, open_page: Open
) -> None:
    troupe.commit_error = OSError("the memory provider is away")
    with page_serving(troupe, policy=Policy(retry_first=300.0)) as server:
        say(server, "alice")
        say(server, "bob", "!boom")
        page = open_page(server.url)
        attention = page.get_by_role("region", name="Needs attention")
        expect(attention).to_contain_text("Turn failed")
        expect(attention).to_contain_text("RuntimeError: a secret of the agent's")
        row(page, "local/alice").get_by_role("button", name="Evict").click()
        expect(state(page, "local/alice")).to_have_text("Retained")
        expect(attention).to_contain_text("1 turn could not be committed")
        expect(attention).to_contain_text("the memory provider is away")
        expect(page.locator("#rows tr").first).to_have_attribute("data-key", "local/alice")
        attention.get_by_role("button", name="Dismiss").click()
        expect(attention).not_to_contain_text("Turn failed")
        troupe.commit_error = None
        page.mouse.move(0, 0)
        row(page, "local/alice").get_by_role("button", name="Commit").click()
        expect(attention).to_be_hidden()


def test_a_name_is_text_whatever_is_in_it(troupe: Troupe, open_page: Open) -> None:
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    with page_serving(troupe) as server:
        page = open_page(server.url)
        connected(page)
        say(server, name, "!boom")
        say(server, name)
        key = row(page, f"local/{name}").locator(".key")
        expect(key).to_have_text(f"local/{name}")
        expect(page.locator("#happened .key").first).to_have_text(f"local/{name}")
        expect(page.locator("#attention-list")).to_contain_text(name)
        key.click()
        expect(page.locator("#session-title")).to_have_text(f"local/{name}")
        expect(page.locator("#session-why li").first).to_be_visible()
        page.get_by_role("button", name="End session").click()
        expect(page.locator("#confirm-key")).to_have_text(f"local/{name}")
        assert page.locator("img[src=x]").count() == 0
        assert page.locator("body script").count() == 0


def test_sessions_are_found_by_name_and_by_state(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        for name in ("alice", "alina", "bob"):
            say(server, name)
        server.stage.room.commit("local/alice")
        page = open_page(server.url)
        page.get_by_label("Find sessions by name").fill("ALI")
        expect(page.locator("#rows tr")).to_have_count(2)
        page.get_by_role("button", name="Uncommitted").click()
        expect(page.locator("#rows tr .key")).to_have_text(["local/alina"])
        page.get_by_label("Find sessions by name").fill("nobody")
        expect(page.get_by_text("No session is like that.")).to_be_visible()


# Commands


def test_a_click_explains_and_escape_goes_back_to_where_one_was(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        say(server, "alice")
        page = open_page(server.url)
        key = row(page, "local/alice").locator(".key")
        key.click()
        dialog = page.get_by_role("dialog", name="local/alice")
        expect(dialog).to_contain_text("1 of its 1 completed turns are not committed")
        expect(dialog).to_contain_text("It is number 1 of 1 in the order of use")
        dialog.get_by_role("button", name="Commit").click()
        expect(dialog.get_by_role("status")).to_have_text("Committed 1 turn of local/alice.")
        expect(dialog).not_to_contain_text("not committed")
        expect(dialog.get_by_role("button", name="Commit")).to_be_disabled()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(key).to_be_focused()
        assert troupe.committed == [("local/alice", 1)]


def test_a_session_is_committed_and_evicted_with_one_click_each(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        say(server, "alice")
        page = open_page(server.url)
        row(page, "local/alice").get_by_role("button", name="Commit local/alice").click()
        expect(page.locator(".toast")).to_have_text("Committed 1 turn of local/alice.")
        expect(row(page, "local/alice").locator("td.dirty")).to_have_text("–")
        expect(page.locator("#happened li").first).to_contain_text("Committed local/alice")
        row(page, "local/alice").get_by_role("button", name="Evict local/alice").click()
        expect(state(page, "local/alice")).to_have_text("No agent")
        expect(row(page, "local/alice").locator(".note")).to_have_text("released: on request")
        expect(page.locator("#happened li").first).to_contain_text("Released local/alice")
        expect(row(page, "local/alice").get_by_role("button", name="Evict")).to_be_hidden()


def test_the_end_of_a_session_is_asked_about_first(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        say(server, "alice")
        page = open_page(server.url)
        end = row(page, "local/alice").get_by_role("button", name="End local/alice")
        end.click()
        confirm = page.get_by_role("dialog", name="End this session?")
        expect(confirm).to_contain_text("1 turn that is uncommitted will be committed first")
        expect(confirm).to_contain_text("Its transcript stays, and its next turn goes on with it")
        expect(confirm.get_by_role("button", name="Keep it")).to_be_focused()
        page.keyboard.press("Escape")
        expect(confirm).to_be_hidden()
        assert server.stage.room.snapshot()
        end.click()
        confirm.get_by_role("button", name="End it").click()
        expect(row(page, "local/alice")).to_have_count(0)
        expect(page.locator("#happened")).to_contain_text("Ended local/alice")
        assert troupe.closed == ["local/alice"]


def test_a_turn_can_be_interrupted_while_it_runs(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        page = open_page(server.url)
        connected(page)
        turn = later(server, "alice", "wait @door")
        row(page, "local/alice").get_by_role("button", name="Interrupt local/alice").click()
        expect(page.locator("#happened")).to_contain_text("Interrupted local/alice")
        expect(state(page, "local/alice")).to_have_text("Idle")
        turn.join(PATIENCE)


def test_everything_can_be_done_with_the_keyboard(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        for name in ("one", "two", "three"):
            say(server, name)
        page = open_page(server.url)
        expect(page.locator("#rows tr")).to_have_count(3)
        page.keyboard.press("/")
        expect(page.get_by_label("Find sessions by name")).to_be_focused()
        tab_to(page, row(page, "local/three").locator(".key"))
        page.keyboard.press("ArrowDown")
        second = row(page, "local/two").locator(".key")
        expect(second).to_be_focused()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="local/two")
        expect(dialog.locator("#session-why li").first).to_be_visible()
        page.keyboard.press("Escape")
        expect(second).to_be_focused()
        page.keyboard.press("c")
        expect(row(page, "local/two").locator("td.dirty")).to_have_text("–")
        page.keyboard.press("e")
        expect(state(page, "local/two")).to_have_text("No agent")
        page.keyboard.press("x")
        expect(page.get_by_role("button", name="Keep it")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(row(page, "local/two")).to_have_count(0)
        expect(page.locator("#rows .key:focus")).to_have_count(1)  # the focus is not lost with the row


def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until something has the focus."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    pytest.fail(f"Tab does not lead to {wanted}")


def test_rows_do_not_move_from_under_the_pointer(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        say(server, "first")
        say(server, "second")
        page = open_page(server.url)
        expect(page.locator("#rows .key")).to_have_text(["local/second", "local/first"])
        row(page, "local/second").hover()
        say(server, "first")
        expect(row(page, "local/first").locator("td.dirty")).to_have_text("2")
        expect(page.locator("#rows .key")).to_have_text(["local/second", "local/first"])
        page.mouse.move(0, 0)
        say(server, "first")
        expect(page.locator("#rows .key")).to_have_text(["local/first", "local/second"])


# The connection


@pytest.fixture
def kept_port() -> Iterator[int]:
    """A port that nobody else is given, whether a server of ours listens there or has just left it."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so that a server may have it, too
        keeper.bind(("127.0.0.1", 0))
        yield keeper.getsockname()[1]


def test_a_lost_connection_is_shown_and_found_again(
    troupe: Troupe, open_page: Open, kept_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn, "Config", functools.partial(_on_port, kept_port, uvicorn.Config))
    with page_serving(troupe) as server:
        say(server, "before")
        page = open_page(server.url)
        connected(page)
    expect(page.locator("#link")).to_have_attribute("data-state", "lost")
    expect(page.get_by_role("alert").first).to_be_visible()
    expect(row(page, "local/before")).to_be_visible()  # what was last known
    with page_serving(Troupe()) as again:
        say(again, "after")
        connected(page)
        expect(row(page, "local/after")).to_be_visible()
        expect(row(page, "local/before")).to_have_count(0)
        expect(page.locator("#notice")).to_be_hidden()
        expect(page.locator("#happened li").first).to_contain_text("local/after")


def _on_port(number: int, make: Any, *arguments: Any, **options: Any) -> Any:
    return make(*arguments, **{**options, "port": number})


def test_a_server_that_drains_says_so(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        page = open_page(server.url)
        connected(page)
        turn = later(server, "alice", "wait @door")
        troupe.door("door").wait_reached()
        drain = asyncio.run_coroutine_threadsafe(server.stage.drain(PATIENCE), server.loop)
        expect(page.locator("#link-text")).to_have_text("Draining")
        expect(page.get_by_role("alert").first).to_contain_text("no turn begins any more")
        troupe.door("door").open()
        assert drain.result(PATIENCE)
        turn.join(PATIENCE)


def test_ten_thousand_sessions_can_be_looked_at(open_page: Open) -> None:
    with page_serving(lambda _: object(), policy=Policy(cap=None)) as server:
        room = server.stage.room
        for number in range(10_000):
            room.adopt(f"local/s{number}", object())
        page = open_page(server.url)
        expect(page.locator("#sessions-count")).to_have_text("10,000")
        expect(page.locator("#rows tr")).to_have_count(200)
        expect(page.locator("#shown")).to_have_text("The first 200 of 10,000. Find others by name.")
        page.get_by_label("Find sessions by name").fill("s77")
        expect(page.locator("#rows tr")).to_have_count(111)
        expect(page.locator("#shown")).to_be_empty()
        page.get_by_label("Find sessions by name").fill("s777")
        expect(page.locator("#rows tr")).to_have_count(11)
        page.get_by_label("Find sessions by name").fill("")
        with room.turn("local/newest", ephemeral=True):
            expect(state(page, "local/newest")).to_have_text("In a turn")
        row(page, "local/newest").locator(".key").click()
        expect(page.get_by_role("dialog")).to_contain_text("number 10001 of 10001 in the order of use")


# Who may look

TOKENS = (Token("boss", SECRET), Token("guest", GUEST, operator=False))


def test_a_token_lets_an_operator_in_and_nobody_else(
    troupe: Troupe, open_page: Open, complaints: Complaints
) -> None:
    complaints.expected += ("status of 401",)
    with page_serving(troupe, tokens=TOKENS) as server:
        say(server, "alice", token=GUEST)
        page = open_page(server.url)
        token = page.get_by_label("Token")
        expect(token).to_be_focused()
        token.fill("a-wrong-token-altogether")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert").filter(has_text="This token is not known.")).to_be_visible()
        token.fill(GUEST)
        page.keyboard.press("Enter")
        expect(page.locator("#login-wrong")).to_contain_text("guest is not an operator's")
        token.fill(SECRET)
        page.keyboard.press("Enter")
        expect(state(page, "guest/alice")).to_have_text("Idle")
        row(page, "guest/alice").get_by_role("button", name="Commit").click()
        expect(page.locator(".toast")).to_have_text("Committed 1 turn of guest/alice.")
        page.reload()
        expect(state(page, "guest/alice")).to_have_text("Idle")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_focused()
        expect(page.locator("#main")).to_be_hidden()


# Everybody can read it


def populated(server: Serving) -> None:
    """Something of everything."""
    say(server, "dirty")
    say(server, "broken", "!boom")
    say(server, "released")
    say(server, "x" * 200)
    server.stage.room.commit("local/released")
    server.stage.room.evict("local/released")
    server.stage.room.settle()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(
    troupe: Troupe, open_page: Open, scheme: str
) -> None:
    """WCAG 2.2, 1.4.3: contrast of 4.5, or 3 for large text."""
    with page_serving(troupe) as server:
        populated(server)
        turn = later(server, "running", "wait @door")
        page = open_page(server.url, color_scheme=scheme)
        expect(state(page, "local/running")).to_have_text("In a turn")
        expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
        counted, faint = too_faint(page)
        assert counted > 60
        assert faint == []
        row(page, "local/dirty").hover()
        assert too_faint(page)[1] == []
        row(page, "local/dirty").locator(".key").click()
        expect(page.locator("#session-why li").first).to_be_visible()
        assert too_faint(page)[1] == []
        page.goto(f"{server.url}/docs")
        expect(page.locator(".operation").first).to_be_visible()
        assert too_faint(page)[1] == []
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (int(re.findall(r"\d+", ground)[0]) < 128) == (scheme == "dark")
        troupe.door("door").open()
        turn.join(PATIENCE)


def test_on_a_phone_nothing_is_cut_off(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        populated(server)
        page = open_page(server.url, width=360, height=640, has_touch=True)
        expect(page.locator("#rows tr")).to_have_count(4)
        assert overflow(page) == []
        row(page, "local/dirty").tap()
        dialog = page.get_by_role("dialog", name="local/dirty")
        expect(dialog.locator("#session-why li").first).to_be_visible()
        assert overflow(page) == []
        dialog.get_by_role("button", name="Commit").tap()
        expect(dialog.get_by_role("status")).to_have_text("Committed 1 turn of local/dirty.")
        page.goto(f"{server.url}/docs")
        expect(page.locator(".operation").first).to_be_visible()
        assert overflow(page) == []


def overflow(page: Page) -> list[str]:
    """What reaches beyond the screen, and is not in something that scrolls."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter((element) => !element.closest(".unseen, .skip, .chips") && element.checkVisibility())
          .filter((element) => element.getBoundingClientRect().right > innerWidth + 0.5)
          .map((element) => `${element.tagName}.${element.className}`)
          .concat(document.documentElement.scrollWidth > innerWidth ? ["it scrolls sideways"] : [])"""
    )
    return found


def test_everything_has_a_name_and_a_place(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        populated(server)
        page = open_page(server.url)
        expect(page.locator("#rows tr")).to_have_count(4)
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, input, a, section, nav, [role=meter]")]
              .filter((e) => e.checkVisibility() && !e.textContent.trim() && !e.ariaLabel)
              .filter((e) => !e.labels?.length && !e.hasAttribute("aria-labelledby"))
              .map((e) => e.outerHTML)"""
        )
        assert nameless == []
        for role in ("banner", "main", "navigation", "table"):
            expect(page.get_by_role(role)).to_have_count(1)
        expect(page.get_by_role("region", name="Sessions")).to_be_visible()
        expect(page.get_by_role("region", name="As it happens")).to_be_visible()
        assert page.locator("#said").get_attribute("aria-live") == "polite"
        assert page.locator("#rows [tabindex='0']").count() <= 5  # one row can be reached with Tab


# The page about the API


@needs_curl
def test_the_api_is_described_with_a_curl_that_works(troupe: Troupe, open_page: Open) -> None:
    with page_serving(troupe) as server:
        page = open_page(f"{server.url}/docs")
        models = page.get_by_role("region", name="GET /v1/models", exact=True)
        expect(models).to_contain_text("The models that this server has")
        command = shlex.split(models.locator("pre").inner_text().replace("\\\n", " "))
        done = subprocess.run([*command, "--silent", "--fail"], check=True, capture_output=True)
        assert b"greenroom" in done.stdout
        commit = page.get_by_role("region", name="POST /room/sessions/commit")
        expect(commit).to_contain_text("key")
        expect(commit).to_contain_text("required")
        page.get_by_role("navigation", name="Operations").get_by_text("/room/state").click()
        expect(page.get_by_role("region", name="GET /room/state")).to_be_in_viewport()
