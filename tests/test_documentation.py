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

    printed = run("-c", lines).splitlines()
    assert printed[0] == "telegram:12345 heard 'hello'"
    assert printed[1] == "memories extracted, before the agent goes"
    assert printed[2].startswith("DrainReport(committed=('telegram:12345',), failed=(), abandoned=()")


def test_the_worked_example_of_the_simulation_prints_what_the_page_says() -> None:
    page = (ROOT / "docs/simulation.md").read_text()
    (example,) = python_blocks("docs/simulation.md")
    printed = re.findall(r"```text\n(seed.*?)```", page, flags=re.DOTALL)[0]

    assert run("-c", example).strip() == printed.strip()
    assert run("examples/find_a_bug.py").strip() == printed.strip()


def test_the_demonstrations_run() -> None:
    assert "10,000 actors started" in run("examples/first_actors.py")
    assert "400 of 400 turns are in the memory" in run("examples/threaded_gateway.py")
    assert "2000 of 2000 messages were answered" in run("examples/asyncio_gateway.py")
    assert "up to turn 5: message 1, message 2, message 3" in run("examples/two_lives.py")


def test_the_tests_of_the_testing_page_pass(tmp_path: Path) -> None:
    (page,) = python_blocks("docs/testing.md")
    (tmp_path / "test_page.py").write_text(page)

    assert "3 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))


@pytest.mark.parametrize("page", ["README.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text())

    missing = [link for link in links if not (path.parent / link).exists()]
    assert missing == []
