"""A trace can be written, read, and played, and what is wrong with one is said with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from greenroom.stress._target import Planned
from greenroom.stress.traces._names import open_trace
from greenroom.stress.traces._trace import (
    Entry,
    TraceError,
    TraceWriter,
    read_trace,
    turns_of,
    with_lengths,
)

ENTRIES = [
    Entry(0.0, "s1", "turn", 1.25),
    Entry(4.2, "säule 2", "turn"),
    Entry(4.2, "", "gap"),
    Entry(9.9, "säule 2", "done", 5.7),
    Entry(12.0, "s1", "end"),
]


def _write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    with TraceWriter(tmp_path / name, started="2026-11-16T09:00:00+00:00", note="a test") as writer:
        for entry in ENTRIES:
            writer.write(entry)
    assert list(read_trace(tmp_path / name)) == ENTRIES


def test_other_events_and_fields_and_empty_lines_are_left_out_of_account(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "t",
        '{"greenroom_trace": 1, "color": "green"}',
        '{"time": 3, "event": "lunch"}',
        "",
        '{"time": 1, "key": "a", "event": "turn", "mood": "good"}',
    )
    assert list(read_trace(path)) == [Entry(1.0, "a", "turn", None)]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("hello", "not JSON"),
        ("[1]", "not an object"),
        ('{"greenroom_trace": 1}', "first line"),
        ('{"time": 2, "key": "a"}', "event must be"),
        ('{"time": 2, "key": "a", "event": 7}', "not 7"),
        ('{"key": "a", "event": "turn"}', "time must be"),
        ('{"time": true, "key": "a", "event": "turn"}', "not True"),
        ('{"time": -1, "key": "a", "event": "turn"}', "not -1"),
        ('{"time": Infinity, "key": "a", "event": "turn"}', "not inf"),
        ('{"time": NaN, "key": "a", "event": "turn"}', "not nan"),
        ('{"time": 0.5, "key": "a", "event": "turn"}', "time 0.5 is less than 1"),
        ('{"time": 2, "event": "turn"}', "key must be"),
        ('{"time": 2, "key": 5, "event": "end"}', "not 5"),
        ('{"time": 2, "key": "a", "event": "turn", "seconds": "2"}', "seconds must be"),
        ('{"time": 2, "key": "a", "event": "turn", "seconds": -2}', "(or left out), not -2"),
        ('{"time": 2, "key": "a", "event": "done"}', "not None"),
    ],
)
def test_what_is_wrong_is_said_with_the_file_the_line_and_what_is_right(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = _write(tmp_path / "bad.jsonl", '{"time": 1, "key": "a", "event": "turn"}', line)
    with pytest.raises(TraceError) as caught:
        list(read_trace(path))
    text = str(caught.value)
    assert complaint in text
    assert f"{path}, line 2: " in text
    assert '"event": "turn", "seconds": 1.25}' in text


def test_a_header_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="only format 1"):
        list(read_trace(_write(tmp_path / "t", '{"greenroom_trace": 2}')))


def test_a_line_that_was_cut_off_at_the_end_costs_only_itself(tmp_path: Path) -> None:
    path = _write(tmp_path / "t", '{"time": 1, "key": "a", "event": "turn"}')
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert len(list(read_trace(path))) == 1
    path.write_bytes(whole + whole[:-1])  # only its end of line is missing
    assert len(list(read_trace(path))) == 2


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_what_was_flushed_can_be_read_though_the_file_was_never_ended(tmp_path: Path, name: str) -> None:
    path, copy = tmp_path / name, tmp_path / f"copy-{name}"
    with TraceWriter(path) as writer:
        for entry in ENTRIES:
            writer.write(entry)
        writer.flush()
        copy.write_bytes(path.read_bytes())  # what a kill would leave
    assert list(read_trace(copy)) == ENTRIES


def test_a_file_that_is_not_compressed_as_its_name_says_is_an_error(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.gz", '{"time": 1, "key": "a", "event": "turn"}')
    with pytest.raises(TraceError, match="cannot be read"):
        list(read_trace(path))


def test_the_same_trace_is_the_same_compressed_file(tmp_path: Path) -> None:
    for name in ("one.gz", "two.gz"):
        with TraceWriter(tmp_path / name) as writer:
            writer.write(ENTRIES[0])
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    assert (tmp_path / "one.gz").read_bytes()[4:8] == bytes(4)  # the time in its head
    assert gzip.decompress((tmp_path / "one.gz").read_bytes()).count(b"\n") == 2


def test_a_writer_refuses_times_that_go_back_and_files_that_are_there(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as writer:
        writer.write(Entry(2.0, "a", "turn"))
        with pytest.raises(ValueError, match="1 comes after 2"):
            writer.write(Entry(1.0, "a", "turn"))
    with pytest.raises(FileExistsError):
        TraceWriter(tmp_path / "t")
    assert list(read_trace(tmp_path / "t")) == [Entry(2.0, "a", "turn", None)]


def test_a_turn_gets_its_length_from_the_line_that_says_it_is_done() -> None:
    told = with_lengths(
        [
            Entry(0.0, "a", "turn"),
            Entry(1.0, "b", "turn"),
            Entry(2.0, "a", "done", 2.0),
            Entry(3.0, "b", "end"),
            Entry(4.0, "a", "turn", 7.0),
            Entry(5.0, "a", "done", 1.0),
            Entry(6.0, "c", "turn"),
            Entry(7.0, "", "gap"),
            Entry(8.0, "c", "done", 0.5),
        ]
    )
    assert told == [
        Entry(0.0, "a", "turn", 2.0),
        Entry(1.0, "b", "turn", None),
        Entry(3.0, "b", "end", None),
        Entry(4.0, "a", "turn", 7.0),
        Entry(6.0, "c", "turn", None),
    ]


def test_the_turns_of_a_trace_begin_at_once_and_as_fast_as_asked_for() -> None:
    entries = [
        Entry(10.0, "a", "turn", 3.0),
        Entry(20.0, "b", "turn"),
        Entry(30.0, "a", "turn"),
        Entry(31.0, "a", "end"),
        Entry(31.0, "c", "end"),
        Entry(40.0, "a", "turn", 1.0),
    ]
    lengths = iter([5.0, 6.0])
    assert list(turns_of(entries, speed=10.0, seconds=lambda: next(lengths))) == [
        Planned(at=0.0, number=0, key="a", seconds=3.0),
        Planned(at=1.0, number=1, key="b", seconds=5.0),
        Planned(at=2.0, number=2, key="a", seconds=6.0, ends=True),
        Planned(at=3.0, number=3, key="a", seconds=1.0),
    ]
    assert [turn.seconds for turn in turns_of(entries, seconds=2.5)] == [3.0, 2.5, 2.5, 1.0]
    assert list(turns_of([])) == []
    with pytest.raises(ValueError, match="speed must be more than 0"):
        list(turns_of(entries, speed=0.0))


def test_a_trace_is_asked_for_by_file_or_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "chat", '{"time": 1, "key": "mine", "event": "turn"}')
    assert next(open_trace("chat")).key.startswith("person-")
    assert next(open_trace("./chat")).key == "mine"
    assert next(open_trace(Path("chat"))).key == "mine"
    with pytest.raises(
        TraceError, match=r"no trace 'nowhere.jsonl': name a file .* or chat, cron, storm"
    ):
        open_trace("nowhere.jsonl")
