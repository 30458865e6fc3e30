"""One browser for all tests of the page, and pages that complain about nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chromium import browsing, chromium_path
from tests.gateway.agents_for_tests import Troupe

Open = Callable[..., Page]

PATIENCE = 20_000
"""Milliseconds after which a test that waits for a page fails. Never how long something takes."""

expect.set_options(timeout=PATIENCE)  # what is expected has a patience of its own, of five seconds


# Not for the session: while it runs there is an event loop on the main thread, where other tests want
# one of their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser: without one, nobody comes here."""
    path = chromium_path()
    assert path is not None
    with browsing(path) as browser:
        yield browser


@pytest.fixture
def troupe() -> Iterator[Troupe]:
    """Agents, whose doors are open in the end."""
    troupe = Troupe()
    yield troupe
    troupe.open_all()


class Complaints:
    """What a page has complained about, in its console or by an exception."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        # The server of a test ends before its pages do, which look for it again: when it is gone, while
        # it refuses everybody, and while it closes what it has not answered yet.
        self.expected: tuple[str, ...] = (
            "ERR_CONNECTION_REFUSED",
            "ERR_CONNECTION_RESET",
            "ERR_EMPTY_RESPONSE",
            "status of 503",
        )

    def listen(self, page: Page) -> None:
        """Hear what a page says."""
        page.on("pageerror", lambda error: self.heard.append(str(error)))
        page.on("dialog", lambda dialog: self.heard.append(f"a dialog of its own: {dialog.message}"))
        page.on("console", lambda message: self._say(message.type, message.text))

    def _say(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.heard.append(text)

    @property
    def left(self) -> list[str]:
        """Those that nobody expected."""
        return [text for text in self.heard if not any(part in text for part in self.expected)]


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Fails a test whose page complains."""
    complaints = Complaints()
    yield complaints
    assert not complaints.left


@pytest.fixture
def open_page(browser: Browser, complaints: Complaints) -> Iterator[Open]:
    """Opens pages, each in a context of its own. What violates the policy is logged: a complaint."""
    contexts: list[BrowserContext] = []

    def open_page(url: str, *, width: int = 1280, height: int = 800, **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", **options
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        complaints.listen(page)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
