"""What the documentation shows is run, so that it stays true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def run(*arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_lines_of_the_readme_run() -> None:
    (lines,) = python_blocks("README.md")

    assert run("-c", lines) == "line 1: hello\nline 2: hello again\n"


def test_the_worked_example_of_the_simulation_prints_what_the_page_says() -> None:
    page = (ROOT / "docs/simulation.md").read_text()
    (example,) = python_blocks("docs/simulation.md")
    printed = re.findall(r"```text\n(seed.*?)```", page, flags=re.DOTALL)[0]

    assert run("-c", example).strip() == printed.strip()
    assert run("examples/find_a_bug.py").strip() == printed.strip()


def test_the_demonstration_runs() -> None:
    assert "10,000 actors started" in run("examples/first_actors.py")


@pytest.mark.parametrize("page", ["README.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text())

    missing = [link for link in links if not (path.parent / link).exists()]
    assert missing == []
