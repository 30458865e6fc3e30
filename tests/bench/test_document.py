"""docs/benchmarks.md is what the generator makes of the published results, and nothing else."""

from __future__ import annotations

from pathlib import Path

from benchmarks import document
from benchmarks.peers import section
from benchmarks.peers.summary import summary
from benchmarks.results import read
from tests.bench import samples


def test_the_page_is_as_the_generator_makes_it() -> None:
    """Edited by hand, or a run was published without it: `python -m benchmarks.document`."""
    assert document.PAGE.read_text(encoding="utf-8") == document.document(document.RESULTS)


def test_the_readme_is_as_the_generator_makes_it() -> None:
    """As above. Without its markers, and without a run, the generator leaves it alone."""
    readme = document.README.read_text(encoding="utf-8")
    assert document.with_summary(readme, document.RESULTS) == readme


def published(folder: Path) -> Path:
    samples.results().write(folder / "peers.json", [])
    return folder


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    assert read(published(tmp_path) / "peers.json") == samples.results()


def test_sections_without_results_are_left_out(tmp_path: Path) -> None:
    assert document.document(tmp_path) == f"{document.INTRODUCTION}\n"
    assert "## Side by side" in document.document(published(tmp_path))


def test_where_greenroom_loses_comes_first() -> None:
    text = section.text(samples.results())
    losses, gains = text.index("Where greenroom loses"), text.index("Where it loses to nobody")
    assert losses < gains < text.index("| Warm turn")
    assert "turns a second: better are lock+dict 2.67× (2.0–4.0)." in text[losses:gains]
    assert "Sweep of 100,000 sessions, none idle: ms: lock+dict 20.0×." in text[gains:]


def test_a_cell_has_the_figure_and_the_ratio_or_a_reason() -> None:
    text = section.text(samples.results())
    assert "| Warm turn, 1 thread: turns a second | 100 | 300<br>0.38× (0.25–0.50) |  |" in text
    assert "| Sweep of 100,000 sessions, none idle: ms | 0.10 | 2.00<br>20.0× | –1 |" in text
    assert "- –1 LRUCache: an LRUCache knows no time." in text
    assert "- Left out: ray_actors cannot be imported: No module named 'ray'." in text


def test_what_was_lost_is_summed_up_over_the_repetitions() -> None:
    text = section.text(samples.results())
    assert "| greenroom | 0 of 100 | 0 of 180 | 0 of 100 | 0 of 180 | 1.50 s | 0 of 99 |" in text
    assert "| lock+dict |  |  |  |  | not in 3.00 s | 49 of 99 |" in text
    assert "| LRUCache | 0 of 100 | 14 of 180 | 6 of 100 | 0 of 180 |  |  |" in text


def test_the_readmes_part_is_filled_in_and_nothing_else_is_touched(tmp_path: Path) -> None:
    before = f"Above.\n{document.BEGIN}\nold\n{document.END}\nBelow.\n"
    after = document.with_summary(before, published(tmp_path))
    words = summary(samples.results())
    assert after == f"Above.\n{document.BEGIN}\n{words}\n{document.END}\nBelow.\n"
    assert document.with_summary(after, tmp_path) == after
    assert "these make more of them\n(lock+dict 2.67×)" in words
    assert "| **greenroom** | 10.0 µs |" in words


def test_a_readme_without_the_markers_stays_as_it_is(tmp_path: Path) -> None:
    assert document.with_summary("Above.\n", published(tmp_path)) == "Above.\n"
