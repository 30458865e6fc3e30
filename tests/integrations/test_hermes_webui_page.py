"""What docs/hermes-webui.md shows is run, so that it stays true."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import greenroom.integrations.hermes_webui as lifecycle
from tests.house import ROOT

if TYPE_CHECKING:
    import pytest

PAGE = (ROOT / "docs/hermes-webui.md").read_text("utf-8")


def test_the_lines_of_the_page_print_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {}
    try:
        exec(lines, names)
    finally:
        lifecycle._reset_for_tests()
    assert capsys.readouterr().out == printed


def test_the_page_names_every_function() -> None:
    named = {name for name in lifecycle.__all__ if f"`{name}" in PAGE}
    shortened = {"_background_commit_threads_lock", "_unregister_background_commit_thread"}
    assert named | shortened == set(lifecycle.__all__)
