"""Lines of code: those with a token that is neither a comment nor a string which stands alone."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path

from benchmarks.workers import ROOT

HEART = ("actors", "messages", "supervisor", "greenroom", "store")
"""The others are linked into greenroom/, and `rglob` follows no link."""

LEDGER_ACTORS = ("store_writer.py", "recovery.py")
"""They work for sessions, wherever in the heart they lie."""

SILENT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def lines_of(source: str) -> int:
    """Lines without comments, docstrings and blank ones."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def count(root: Path = ROOT) -> dict[str, float]:
    """Lines of the heart, and of what is a session's of it."""
    files = [path for folder in HEART for path in (root / folder).rglob("*.py")]
    missing = set(LEDGER_ACTORS) - {path.name for path in files}
    if missing:
        raise FileNotFoundError(f"{', '.join(missing)}: say in LEDGER_ACTORS what it is called now")
    side = [path for path in files if of_session(path.relative_to(root))]
    return {"heart": sum_of(files), "session": sum_of(side)}


def of_session(path: Path) -> bool:
    if path.name in LEDGER_ACTORS:
        return True
    folder, *inner = path.parts
    # What is not the runtime's is a session's, so that a new file is not forgotten.
    return folder == "actors" and inner[0] not in ("__init__.py", "runtime", "simulation")


def sum_of(paths: Iterable[Path]) -> float:
    return float(sum(lines_of(path.read_text(encoding="utf-8")) for path in paths))
