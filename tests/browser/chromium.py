"""Finds a browser, and starts it so that it asks nobody for anything."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

from tests.required import missing

__all__ = ["browsing", "chromium_path", "need_chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome")

QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--no-first-run",
)


def chromium_path() -> str | None:
    """Where a browser is: what `GREENROOM_CHROMIUM` names, or the first in `PATH`."""
    named = os.environ.get("GREENROOM_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def need_chromium() -> None:
    """Skip a module, in one line, where there is no browser."""
    if chromium_path() is None:
        missing("browser", f"there is no {', '.join(NAMES)} in PATH, and no GREENROOM_CHROMIUM")


@contextlib.contextmanager
def browsing(path: str) -> Iterator[Browser]:
    """Run a headless browser while the block runs."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # whose processes the sandbox does not take
    with sync_playwright() as playwright:
        arguments = [*QUIET, *(["--no-sandbox"] if root else [])]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
