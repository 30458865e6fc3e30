"""What a run came to, on the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from greenroom.stress.command._summary import show_summary
from tests.stress.results import bare_result, good_result


def test_a_run_that_could_not_keep_up_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    result = good_result(3)
    show_summary(result, None)
    assert "late" not in capsys.readouterr().out
    show_summary(replace(result, settings={"generator": {"lag_p99": 0.7}}), None)
    assert "begun 700 ms late" in capsys.readouterr().out


def test_a_run_without_turns_has_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    show_summary(bare_result(), None)
    assert "0/s" in capsys.readouterr().out
