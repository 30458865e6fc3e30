"""What the documentation shows is run, so that it stays true."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import pythons

ROOT = Path(__file__).parents[1]


def python_blocks(page: str) -> list[str]:
    return blocks(page, "python")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


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
    assert printed[2:] == ["clients closed"]


@contextmanager
def served(home: Path) -> Iterator[str]:
    """The command itself, as somebody runs it who has just come. Yields where its page is."""
    environment = {name: value for name, value in os.environ.items() if "GREENROOM" not in name}
    environment |= {"HOME": str(home), "XDG_DATA_HOME": str(home / "data")}
    command = [sys.executable, "-m", "greenroom", "serve", "--port", "0"]
    with (
        (home / "log").open("w") as log,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            page = process.stdout.readline()
            assert page.startswith("The page   http://127.0.0.1:"), (home / "log").read_text()
            yield page.split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=50)
    assert process.returncode == 0, (home / "log").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_curl_lines_of_the_readme_work(tmp_path: Path) -> None:
    lines = [block for block in blocks("README.md", "sh") if "curl" in block]
    assert lines
    with served(tmp_path) as page:
        for turn in (1, 2):  # the same user goes on with the same session
            for line in lines:
                assert "http://127.0.0.1:8765/" in line
                here = line.replace("http://127.0.0.1:8765/", page)
                done = subprocess.run(
                    ["sh", "-c", here], capture_output=True, text=True, check=True, timeout=50
                )
                assert f"Turn {turn} of local/anna." in done.stdout
    assert (tmp_path / "data/greenroom/greenroom.db").exists()


def test_the_readme_begins_with_what_can_be_run() -> None:
    first_screen = (ROOT / "README.md").read_text().splitlines()[:25]
    assert any(line.startswith("make serve ") for line in first_screen)
    assert any(line.startswith("make test ") for line in first_screen)


def test_the_readme_leads_to_every_page() -> None:
    _, _, read_on = (ROOT / "README.md").read_text().partition("## Read on")
    linked = re.findall(r"\]\((docs/[^)]+)\)", read_on)
    assert sorted(linked) == sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))


def test_the_readme_names_every_extra() -> None:
    """Those that are for users: the others are for whoever works on it."""
    section = (ROOT / "setup.cfg").read_text().partition("[options.extras_require]")[2]
    extras = set(re.findall(r"^(\w+) =$", section, flags=re.MULTILINE)) - {
        "bench",
        "dev",
        "peers",
        "test",
    }
    _, _, table = (ROOT / "README.md").read_text().partition("Extras:")
    rows = " ".join(re.findall(r"^\| (.*?) \|", table, flags=re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == extras


def test_the_contributing_page_names_commands_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert named - targets == set()
    assert targets - named <= {"help", "clean", "browser", "postgres"}


def test_everything_speaks_of_the_same_pythons() -> None:
    setup = (ROOT / "setup.cfg").read_text()
    minors = [int(minor) for minor in re.findall(r":: Python :: 3\.([0-9]+)$", setup, re.MULTILINE)]
    oldest, newest = min(minors), max(minors)

    assert minors == list(range(oldest, newest + 1))
    assert (oldest, newest) == (pythons.OLDEST, pythons.NEWEST)
    assert f"python_requires = >=3.{oldest}\n" in setup
    assert f'target-version = "py3{oldest}"' in (ROOT / "pyproject.toml").read_text()
    for page in ("README.md", "CONTRIBUTING.md", "Makefile"):
        text = (ROOT / page).read_text()
        assert f"Python 3.{oldest} or later" in text, page
        assert f"3.{oldest} to 3.{newest}" in text, page


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
