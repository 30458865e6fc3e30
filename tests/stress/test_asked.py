"""What somebody has asked for: options, the file below them, and what cannot both be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from greenroom import Policy
from greenroom.stress._workload import Change, Length, Workload
from greenroom.stress.command._asked import Asked, read
from greenroom.stress.command._file import BadInput, policy_names
from greenroom.stress.command._options import OPTIONS, POLICY_KINDS
from greenroom.stress.command._values import KINDS


def ask(file: Path | None = None, environ: dict[str, str] | None = None, **options: Any) -> Asked:
    return read({"file": None if file is None else str(file), **options}, environ or {})


def problems(file: Path | None = None, **options: Any) -> list[str]:
    with pytest.raises(BadInput) as caught:
        ask(file, **options)
    return list(caught.value.problems)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def to_file(text: str) -> Path:
        path = tmp_path / "workload.toml"
        path.write_text(text)
        return path

    return to_file


# Values.


def test_nothing_at_all_is_a_room_with_the_default_workload() -> None:
    asked = ask()
    assert asked.mode == "room"
    assert asked.workload == Workload()


def test_every_field_of_a_workload_is_an_option() -> None:
    fields = set(Workload.__dataclass_fields__) - {"policy"}
    assert fields == {option.name for option in OPTIONS.values() if option.part == "workload"}


def test_every_bound_of_a_room_can_be_written_down() -> None:
    assert set(POLICY_KINDS) == set(policy_names()) == set(Policy.names()) - {"weigh"}


def test_options_are_read_as_people_write_them() -> None:
    workload = ask(
        sessions="2_000",
        duration="2m",
        rate="12.5",
        turn="200ms~0.8!0.001",
        fail_commit="2%",
        agent_bytes="64 KiB",
        at_once="none",
        cap="none",
        idle_ttl="500ms",
        memory_budget="50%",
    ).workload
    assert (workload.sessions, workload.duration, workload.rate) == (2000, 120.0, 12.5)
    assert workload.turn == Length(median=0.2, sigma=0.8, wedged=0.001)
    assert (workload.fail_commit, workload.agent_bytes, workload.at_once) == (0.02, 65_536, None)
    assert workload.policy == {"cap": None, "idle_ttl": 0.5, "memory_budget": 0.5}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("whole", "1.5"),
        ("whole", True),
        ("number", "x"),
        ("number", True),
        ("seconds", "3 weeks"),
        ("octets", "3 MM"),
        ("octets", float("inf")),
        ("octets", float("nan")),
        ("octets", "9" * 400),
        ("memory", "9" * 400),
        ("share", "5 s"),
        ("memory", "lots"),
        ("length", "soon"),
        ("length", True),
        ("text", ""),
        ("text", 3),
        ("switch", "yes"),
    ],
)
def test_what_cannot_be_read_is_shown(kind: str, given: Any) -> None:
    with pytest.raises(ValueError, match=str(given) or "''"):
        KINDS[kind](given)


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = problems(rate="x", sessions="1.5", turn="abc")
    assert len(found) == 3
    assert "--rate must be a number, not 'x'" in found
    assert any(text.startswith("--turn 'abc'") for text in found)


def test_a_figure_that_makes_no_sense_is_named() -> None:
    assert problems(sessions="0") == ["sessions must be a whole number, 1 or more, not 0"]
    assert "cap must be" in problems(cap="0")[0]


def test_a_number_with_too_many_digits_is_said_to_be_too_large() -> None:
    assert problems(seed="9" * 20) == [f"--seed must have at most 18 digits, not {'9' * 20!r}"]


def test_changes_of_bounds_are_read() -> None:
    asked = ask(duration="2m", reconfigure=["10s:cap=64,idle-ttl=30s", "1m:cap=none"])
    assert asked.workload.reconfigure == (
        Change(at=10.0, changes={"cap": 64, "idle_ttl": 30.0}),
        Change(at=60.0, changes={"cap": None}),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("10s", "10s:cap=64"),
        ("10s:capp=3", "Did you mean cap?"),
        ("10s:cap=x", "whole number"),
        ("x:cap=3", "'x'"),
    ],
)
def test_a_change_that_cannot_be_read_is_explained(text: str, told: str) -> None:
    (problem,) = problems(reconfigure=[text])
    assert problem.startswith("--reconfigure ")
    assert told in problem


# The file.


def test_a_file_says_all_that_options_do(write: Any) -> None:
    path = write(
        """
        sessions = 50
        duration = "5s"
        turn = 0.25
        build = "10ms~0.5"
        fail_turn = "1%"
        title = "mine"
        agent = "here:build"

        [policy]
        cap = 8
        idle_ttl = "1m"
        retry_first = 2

        [[reconfigure]]
        at = 3
        cap = 4

        [agent_options]
        depth = 2
        """
    )
    asked = ask(path)
    assert asked.workload == Workload(
        sessions=50,
        duration=5.0,
        turn=Length(median=0.25),
        build=Length(median=0.01, sigma=0.5),
        fail_turn=0.01,
        policy={"cap": 8, "idle_ttl": 60.0, "retry_first": 2.0},
        reconfigure=(Change(at=3.0, changes={"cap": 4}),),
    )
    assert asked.values == {"title": "mine", "agent": "here:build", "agent_option": {"depth": 2}}


def test_an_option_counts_more_than_the_file_and_the_file_more_than_nothing(write: Any) -> None:
    path = write("sessions = 50\nrate = 7\n[policy]\ncap = 8\n")
    workload = ask(path, sessions="60", cap="9").workload
    assert (workload.sessions, workload.rate, workload.policy["cap"]) == (60, 7.0, 9)
    assert workload.duration == Workload().duration


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sesions = 3", "there is no 'sesions'. Did you mean sessions?"),
        ("cap = 3", "cap belongs to the room: put it below [policy]"),
        ("[policy]\ncapp = 3", "the policy has no 'capp'. Did you mean cap?"),
        ("[policy]\nweigh = 3", "the policy has no 'weigh'"),
        ("policy = 3", "policy must be a table"),
        ("[[reconfigure]]\ncap = 3", "reconfigure number 1 does not say when"),
        ("[[reconfigure]]\nat = 3", "reconfigure number 1 does not say what"),
        ("[[reconfigure]]\nat = 3\ncup = 4", "has no 'cup'. Did you mean cap?"),
        ("[reconfigure]\nat = 3", "[[reconfigure]]"),
        ("token = 'secret'", "there is no 'token'"),
        ("sessions = ", "is no TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_name(write: Any, text: str, told: str) -> None:
    (problem,) = problems(write(text))
    assert "workload.toml" in problem
    assert told in problem


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path / "none.toml")
    assert "none.toml cannot be read" in problem


def test_a_trace_that_a_file_names_is_meant_from_where_that_file_is(write: Any) -> None:
    path = write("trace = 'mine.jsonl'")
    assert ask(path).values["trace"] == str(path.parent / "mine.jsonl")
    assert ask(write("trace = 'chat'")).values["trace"] == "chat"


# What goes together.


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"url": "http://x", "agent": "a:b"}, ("--agent", "--url")),
        ({"url": "http://x", "cap": "3"}, ("--cap", "--url")),
        ({"url": "http://x", "store": "sqlite://"}, ("--store", "--url")),
        ({"url": "http://x", "build": "3s"}, ("--build", "--url")),
        ({"url": "http://x", "turn": "3s"}, ("--turn", "--url")),
        ({"url": "http://x", "fail_turn": "0.1"}, ("--fail-turn", "--url")),
        ({"url": "http://x", "reconfigure": ["1s:cap=2"]}, ("--reconfigure", "--url")),
        ({"trace": "chat", "rate": "3"}, ("--rate", "--trace")),
        ({"trace": "chat", "url": "http://x", "sessions": "3"}, ("--sessions", "--trace")),
        ({"replay": "chat", "url": "http://x"}, ("--url", "--replay")),
        ({"replay": "chat", "trace": "chat"}, ("--trace", "--replay")),
        ({"replay": "chat", "report": "x.html"}, ("--report", "--replay")),
        ({"record": "x", "url": "http://x", "replay": "chat"}, ("--record", "--replay")),
        ({"record": "x", "url": "http://x", "rate": "3"}, ("--rate", "--record")),
        ({"synthesize": "chat", "rate": "3"}, ("--rate", "--synthesize")),
        ({"burst": "3"}, ("--burst", "--arrivals steady")),
        ({"wave_depth": "0.3", "arrivals": "bursty"}, ("--wave-depth", "--arrivals bursty")),
    ],
)
def test_two_options_that_contradict_each_other_are_both_named(
    options: dict[str, Any], names: tuple[str, str]
) -> None:
    assert any(
        f"{names[0]} and {names[1]} cannot both be meant: " in problem for problem in problems(**options)
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"speed": "2"}, "--speed needs --trace FILE"),
        ({"perform": "a:b"}, "--perform needs --agent"),
        ({"token": "secret"}, "--token needs --url URL"),
        ({"record": "x"}, "--record needs --url URL"),
        ({"plain_keys": True}, "--plain-keys needs --record FILE"),
        ({"build_seconds": "2"}, "--build-seconds needs --replay FILE"),
    ],
)
def test_an_option_that_means_nothing_alone_says_what_it_needs(
    options: dict[str, Any], told: str
) -> None:
    assert any(problem.startswith(told) for problem in problems(**options))


def test_a_planned_length_can_be_told_to_a_server() -> None:
    asked = ask(url="http://x", turn="3s", message="/slow {seconds}")
    assert asked.mode == "server"
    assert asked.workload.turn == Length(median=3.0)


def test_one_file_serves_a_room_and_a_server(write: Any) -> None:
    path = write("rate = 7\nbuild = '1s'\nagent = 'a:b'\n[policy]\ncap = 3\nretry_first = 3\n")
    asked = ask(path, url="http://x")
    assert asked.mode == "server"
    assert asked.workload == Workload(rate=7.0)
    assert "agent" not in asked.values
    assert len(asked.notes) == 4
    assert all("is left aside because of --url" in note for note in asked.notes)


def test_an_agent_on_the_command_line_goes_before_a_server_in_the_file(write: Any) -> None:
    asked = ask(write("url = 'http://x'\nmodel = 'm'"), agent="a:b")
    assert asked.mode == "room"
    assert "url" not in asked.values


def test_two_lines_of_a_file_that_contradict_each_other_are_a_mistake(write: Any) -> None:
    (problem,) = problems(write("url = 'http://x'\nagent = 'a:b'"))
    assert "agent in " in problem
    assert "url in " in problem


def test_changes_of_bounds_are_refused_for_a_server_wherever_they_stand(write: Any) -> None:
    (problem,) = problems(write("[[reconfigure]]\nat = 3\ncap = 4\n"), url="http://x")
    assert "changed in its configuration" in problem


def test_a_replay_compares_several_bounds() -> None:
    asked = ask(replay="chat", cap="16,64,none", idle_ttl="10m,1h", session_ttl="1d")
    assert asked.grid == {"cap": (16, 64, None), "idle_ttl": (600.0, 3600.0)}
    assert asked.workload.policy == {"session_ttl": 86_400.0}


def test_a_bound_that_is_named_twice_is_compared_once() -> None:
    assert read({"replay": "chat", "cap": "3,1,3"}, {}).grid == {"cap": (3, 1)}


def test_a_run_has_one_cap() -> None:
    assert "--cap must be a whole number, not '16,64'" in problems(cap="16,64")


def test_the_token_comes_from_an_option_or_from_the_environment() -> None:
    environ = {"GREENROOM_TOKEN": "of the environment"}
    assert ask(url="http://x", environ=environ).values["token"] == "of the environment"
    assert ask(url="http://x", token="given", environ=environ).values["token"] == "given"
    assert ask(url="http://x").values["token"] is None
    assert "token" not in ask(environ=environ).values
