"""What is published of a long run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import document, soak
from tests.stress.results import good_result


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(soak, "RESULTS", tmp_path)
    monkeypatch.setattr(document, "write", list[str])
    return tmp_path


def ran(folder: Path, **changes: Any) -> Path:
    result = replace(good_result(500), settings={"store": "sqlite:////home/me/soak.db"}, **changes)
    path = folder / "found.json"
    path.write_text(json.dumps(result.to_json()))
    return path


def test_an_hour_is_published_without_folders_and_with_all_that_was_counted(results: Path) -> None:
    found = ran(results, seconds=3600.0, interrupted=False)
    soak.publish(found)
    before, published = json.loads(found.read_text()), json.loads((results / "soak.json").read_text())
    assert "store" not in published["settings"]
    assert len(published["series"]) <= soak.ROWS + 1
    turns = [sum(row["turns"] for row in one["series"]) for one in (before, published)]
    assert turns[0] == turns[1] > 0


@pytest.mark.parametrize("changes", [{"seconds": 3599.0}, {"seconds": 3600.0, "interrupted": True}])
def test_a_trial_is_not_published(
    results: Path, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    soak.publish(ran(results, **changes))
    assert not (results / "soak.json").exists()
    assert "Not published" in capsys.readouterr().out
