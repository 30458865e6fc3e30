"""Writes a report: a page to look at, and beside it the same figures as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from greenroom.stress._result import Result
from greenroom.stress.report._page import page

__all__ = ["data_path", "write_report"]


def data_path(path: Path) -> Path:
    """Where the JSON of a page goes. Raises `ValueError` if the page itself would be there."""
    beside = path.with_suffix(".json")
    if beside == path:
        raise ValueError(
            f"{str(path)!r} is where the report's JSON goes: name the page, for instance"
            f" {path.with_suffix('.html').name!r}"
        )
    return beside


def write_report(result: Result, path: Path) -> None:
    """Write the page to `path`, and the JSON beside it. Each is there whole, or as it was before.

    The JSON is first: whatever might go wrong with the page, the figures of a long run are safe.
    """
    beside = data_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = json.dumps(_finite(result.to_json()), indent=1, allow_nan=False, default=str)
    _replace(beside, f"{figures}\n")
    _replace(path, page(result, beside.name))


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _finite(value: object) -> object:
    """The same without NaN and infinity, which JSON has no words for: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in cast("Mapping[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in cast("Sequence[object]", value)]
    return value
