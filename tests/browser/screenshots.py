"""Takes the pictures of `docs/page.md`: `python -m tests.browser.screenshots [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser

from greenroom import Policy
from greenroom.gateway import Token
from tests.browser.chromium import browsing, chromium_path
from tests.browser.demo import Cast, populate
from tests.gateway.page_serving import page_serving
from tests.gateway.serving import Serving
from tests.house import ROOT

SECRET = "a-secret-for-a-demonstration"

TOKENS = (
    Token("operator", SECRET),
    *(
        Token(name, f"{name}-{SECRET}", operator=False)
        for name in ("telegram", "web", "discord", "slack")
    ),
)

SIZES: dict[str, tuple[int, int, Literal["light", "dark"]]] = {
    "page-light": (1360, 860, "light"),
    "page-phone-dark": (390, 844, "dark"),
}


def main(folder: Path) -> None:
    """Fill a room, and take its pictures."""
    path = chromium_path()
    if path is None:
        sys.exit("There is no browser: install chromium, or name one in GREENROOM_CHROMIUM.")
    cast = Cast()
    policy = Policy(cap=16, memory_budget=400_000_000, idle_ttl=1800.0, retry_first=300.0)
    with page_serving(cast, tokens=TOKENS, policy=policy, max_running=8) as server:
        threads = populate(server, cast)
        try:
            with browsing(path) as browser:
                for name, size in SIZES.items():
                    take(browser, server, folder / f"{name}.png", *size)
        finally:
            cast.end()
            for thread in threads:
                thread.join()


def take(
    browser: Browser,
    server: Serving,
    path: Path,
    width: int,
    height: int,
    scheme: Literal["light", "dark"],
) -> None:
    """Sign in, and take one."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=2 if width < 600 else 1,
        color_scheme=scheme,
        reduced_motion="reduce",
        has_touch=width < 600,
    )
    page = context.new_page()
    page.goto(server.url)
    page.get_by_label("Token").fill(SECRET)
    page.get_by_role("button", name="Sign in").click()
    page.locator("#rows tr").first.wait_for()
    page.wait_for_timeout(1500)
    page.screenshot(path=path)
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
