"""What docs/agents.md shows is run, and what it lists is all there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from greenroom.gateway.agents import OfflineOptions, OpenAIOptions
from greenroom.gateway.agents.offline import COMMANDS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/agents.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_code_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks("python"))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert ended.returncode == 0, ended.stderr
    printed = [line.rstrip() for line in ended.stdout.splitlines()]
    assert printed == "".join(blocks("text")).splitlines()


def test_every_option_is_listed() -> None:
    for title, options in (("The offline agent", OfflineOptions), ("The openai agent", OpenAIOptions)):
        rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", section(title), flags=re.MULTILINE)
        listed = re.findall(r"`(\w+)`", " ".join(rows))
        assert sorted(listed) == sorted(field.name for field in fields(options))


def test_every_command_of_the_offline_agent_is_listed() -> None:
    listed = re.findall(r"^\| `(/\w+)", section("The offline agent"), flags=re.MULTILINE)
    assert sorted(listed) == sorted(["/help", *re.findall(r"/\w+", COMMANDS)])
