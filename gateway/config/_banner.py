"""What the command says on a terminal: where the server is, and what was found by `--check`.

All of it goes to stdout, and nothing of it holds a secret. Lines that are to be copied are never broken.
"""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from greenroom.gateway.config._check import Finding
    from greenroom.gateway.config._config import Config

__all__ = ["curl", "show_findings", "show_ready"]

_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}
_INDENT = 9


def curl(url: str, *, token: bool) -> list[str]:
    """A command that works as it stands, in lines that fit a narrow terminal."""
    body = json.dumps({"user": "me", "messages": [{"role": "user", "content": "Hello"}]})
    lines = [f"curl {shlex.quote(f'{url}/v1/chat/completions')}", "-H 'Content-Type: application/json'"]
    if token:
        lines.append('-H "Authorization: Bearer $GREENROOM_TOKEN"')
    lines.append(f"-d {shlex.quote(body)}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def show_ready(url: str, config: Config) -> None:
    """Say where the server is, once it listens. Raises `BrokenPipeError` if nobody reads that."""
    url = url.rstrip("/")
    first, *rest = curl(url, token=bool(config.tokens))
    hint = "Try it, with the secret of a token in GREENROOM_TOKEN:"
    lines = [
        f"The page   {url}/",
        f"The API    {url}/v1 (described at {url}/docs)",
        f"The agent  {config.agent}",
        f"The store  {config.shown_store}",
        "",
        hint if config.tokens else 'Try it (the same "user" goes on with the same session):',
        "",
        f"  {first}",
        *(f"    {line}" for line in rest),
        "",
    ]
    console = _console()
    try:
        for number, line in enumerate(lines):
            console.print(line, style="bold" if number == 0 else None, soft_wrap=True)
        sys.stdout.flush()
    except SystemExit:  # so Rich ends a command whose reader has gone: a server goes on
        msg = "nobody reads what it prints"
        raise BrokenPipeError(msg) from None


def show_findings(findings: Iterable[Finding]) -> int:
    """Show each as it is found; return how many errors there were."""
    console = _console()
    errors = 0
    for finding in findings:
        errors += finding.level == "error"
        lines = [finding.text]
        if sys.stdout.isatty():
            width = max(console.width - _INDENT, 20)
            lines = textwrap.wrap(finding.text, width, break_long_words=False, break_on_hyphens=False)
        console.print(f"{finding.level:<{_INDENT}}", style=_STYLES[finding.level], end="")
        console.print(f"\n{' ' * _INDENT}".join(lines), soft_wrap=True)
    return errors


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)
