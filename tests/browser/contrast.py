"""How well the text on a page can be read: every text that is seen, against what is really behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

__all__ = ["too_faint"]

SCRIPT = Path(__file__).with_suffix(".js").read_text("utf-8")


def too_faint(page: Page) -> tuple[int, list[dict[str, Any]]]:
    """How many texts there are, and those with less than WCAG's AA asks for: 4.5, or 3 if large."""
    found: list[dict[str, Any]] = page.evaluate(SCRIPT)
    return len(found), [text for text in found if text["ratio"] < (3.0 if text["large"] else 4.5)]
