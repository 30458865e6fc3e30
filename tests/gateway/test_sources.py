"""Where the configuration comes from, and what is said about what is wrong there."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from greenroom import Policy
from greenroom.gateway.config._config import BadConfig, Config, Token
from greenroom.gateway.config._settings import SETTINGS, variable_of
from greenroom.gateway.config._sources import Loaded, default_store, read_config
from greenroom.gateway.config._values import (
    amount,
    names,
    octets,
    seconds,
    share,
    toml_or_text,
    whole,
    written,
)

SECRET = "0123456789abcdef"


def read(environ: Mapping[str, str] | None = None, **options: Any) -> Loaded:
    return read_config(options, environ or {})


def config_of(environ: Mapping[str, str] | None = None, **options: Any) -> Config:
    return read(environ, **options).config


def problems(environ: Mapping[str, str] | None = None, **options: Any) -> list[str]:
    with pytest.raises(BadConfig) as raised:
        read(environ, **options)
    return [str(problem) for problem in raised.value.problems]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "greenroom.toml"
    path.touch(mode=0o600)
    return path


# The table of settings


def test_every_value_of_the_configuration_is_a_setting() -> None:
    elsewhere = {"policy", "tokens", "agent_options"}
    plain = {field.name for field in fields(Config)} - elsewhere
    figures = set(Policy.names()) - {"weigh"}
    assert plain.isdisjoint(figures)
    assert {name for name, setting in SETTINGS.items() if not setting.policy} == plain
    assert {name for name, setting in SETTINGS.items() if setting.policy} == figures


@pytest.mark.parametrize("name", SETTINGS)
def test_each_default_can_be_written_in_a_variable(name: str) -> None:
    setting = SETTINGS[name]
    environ = {variable_of(name): written(setting.kind, setting.default)}
    config = config_of(environ)
    assert getattr(config.policy if setting.policy else config, name) == setting.default


# Weight


def test_without_a_word_there_is_a_store_in_the_data_directory() -> None:
    loaded = read()
    assert loaded.store_by_default
    assert loaded.config.store == f"sqlite:///{default_store()}"
    assert default_store().name == "greenroom.db"
    assert loaded.warnings == ()
    assert loaded.origins == {}


def test_no_store_is_a_choice() -> None:
    loaded = read(store="none")
    assert loaded.config.store is None
    assert not loaded.store_by_default


def test_options_count_more_than_variables_and_these_more_than_the_file(file: Path) -> None:
    file.write_text("port = 1\nmodel = 'file'\nbusy = 'reject'\n[policy]\ncap = 1\nidle_ttl = 1\n")
    environ = {"GREENROOM_PORT": "2", "GREENROOM_MODEL": "variable", "GREENROOM_CAP": "2"}
    loaded = read(environ, config=str(file), port="3")
    config = loaded.config
    assert (config.port, config.model, config.busy) == (3, "variable", "reject")
    assert (config.policy.cap, config.policy.idle_ttl) == (2, 1.0)
    assert loaded.origins == {
        "port": "option --port",
        "model": "variable GREENROOM_MODEL",
        "busy": f"{file}, key busy",
        "cap": "variable GREENROOM_CAP",
        "idle_ttl": f"{file}, [policy] idle_ttl",
    }


def test_a_variable_names_the_file_and_an_option_another(file: Path, tmp_path: Path) -> None:
    file.write_text("port = 1")
    other = tmp_path / "other.toml"
    other.write_text("port = 2")
    environ = {"GREENROOM_CONFIG": str(file)}
    assert config_of(environ).port == 1
    assert config_of(environ, config=str(other)).port == 2


def test_an_empty_variable_says_nothing() -> None:
    assert config_of({"GREENROOM_PORT": "", "GREENROOM_CONFIG": ""}).port == 8765


def test_an_empty_variable_is_no_option_of_an_agent_either() -> None:
    assert read({"GREENROOM_AGENT_OPTION_DELAY": ""}).config.agent_options == {}


def test_what_is_overridden_is_not_looked_at() -> None:
    assert config_of({"GREENROOM_PORT": "many"}, port="5").port == 5


# Agents and their options


def test_options_of_an_agent_come_from_everywhere(file: Path) -> None:
    file.write_text('[agent]\nname = "openai"\nmodel = "small"\nbase-url = "http://x"\nretries = 1\n')
    environ = {"GREENROOM_AGENT_OPTION_RETRIES": "2", "GREENROOM_AGENT_OPTION_NAME": "me"}
    config = config_of(environ, config=str(file), agent_option=["model=large", 'stop=["a", "b"]'])
    assert config.agent == "openai"
    assert config.agent_options == {
        "model": "large",
        "base_url": "http://x",
        "retries": 2,
        "name": "me",
        "stop": ["a", "b"],
    }


def test_another_agent_gets_none_of_the_options_for_the_first(file: Path) -> None:
    file.write_text('[agent]\nname = "openai"\nmodel = "small"\n')
    config = config_of(config=str(file), agent="offline", agent_option=["fail_commits=1"])
    assert config.agent_options == {"fail_commits": 1}
    assert config_of(config=str(file), agent="openai").agent_options == {"model": "small"}


def test_an_agent_without_options_is_one_line(file: Path) -> None:
    file.write_text('agent = "mine:build"')
    assert config_of(config=str(file)).agent == "mine:build"


def test_an_option_of_an_agent_has_a_name_and_is_not_shown_without_one() -> None:
    (text,) = problems(agent_option=["sk-secret"])
    assert text.startswith("option --agent-option: ")
    assert "name=value" in text
    assert "sk-secret" not in text


# Tokens


def test_one_token_for_the_operator_comes_from_a_variable_an_option_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{SECRET}\n")
    expected = (Token("operator", SECRET, operator=True),)
    assert config_of({"GREENROOM_TOKEN": SECRET}).tokens == expected
    assert config_of({"GREENROOM_TOKEN_FILE": str(path)}).tokens == expected
    assert config_of({"GREENROOM_TOKEN": "x"}, token=SECRET).tokens == expected
    assert config_of({"GREENROOM_TOKEN": "x"}, token_file=str(path)).tokens == expected


def test_tokens_of_a_file(file: Path) -> None:
    secret_file = file.parent / "bob.token"
    secret_file.touch(mode=0o600)
    secret_file.write_text("b" * 16 + "\n")
    file.write_text(
        f"[[tokens]]\nname = 'alice'\nsecret = '{SECRET}'\noperator = true\n"
        "[[tokens]]\nname = 'bob'\nsecret_file = 'bob.token'\n"
        "[[tokens]]\nname = 'carol'\nsecret_env = 'CAROL'\n"
    )
    loaded = read({"CAROL": "c" * 16, "GREENROOM_TOKEN": "o" * 16}, config=str(file))
    assert loaded.config.tokens == (
        Token("alice", SECRET, operator=True),
        Token("bob", "b" * 16, operator=False),
        Token("carol", "c" * 16, operator=False),
        Token("operator", "o" * 16, operator=True),
    )
    assert loaded.warnings == ()
    assert loaded.origins["tokens.bob"] == f"{file}, [[tokens]] number 2"


def test_a_stronger_source_replaces_the_token_of_the_same_name(file: Path) -> None:
    file.write_text(f"[[tokens]]\nname = 'operator'\nsecret = '{SECRET}'\n")
    assert config_of({"GREENROOM_TOKEN": "o" * 16}, config=str(file)).tokens == (
        Token("operator", "o" * 16, operator=True),
    )


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("secret = 'x'", "a token needs a name"),
        ("name = ['a']\nsecret = 'x'", "a token needs a name"),
        ("name = 'alice'", "needs one of secret, secret_file and secret_env"),
        (f"name = 'alice'\nsecret = '{SECRET}'\nsecret_env = 'X'", "needs one of"),
        ("name = 'alice'\nsecret = 1234567890123456", "is no text"),
        ("name = 'alice'\nsecret = ''", "is empty"),
        ("name = 'alice'\nsecret_env = 'NOT_SET'", "NOT_SET, which is not set"),
        ("name = 'alice'\nsecret_file = 'nowhere'", "there is no file"),
        ("name = 'alice'\nsecret_file = 7", "must be a path, not 7"),
        ("name = 'alice'\nsecret_file = '.'", "there is no file"),
        ("name = 'alice'\nsecret = 'short'", "16 characters or more, not 5"),
        (f"name = 'alice'\nsecret = '{SECRET}'\noperator = 'yes'", "must be true or false"),
        (f"name = 'alice'\nsecret = '{SECRET}'\nadmin = true", "no key of a token 'admin'"),
        (f"name = 'A'\nsecret = '{SECRET}'", "a token's name is"),
    ],
)
def test_what_is_wrong_with_a_token_is_told_with_its_place(
    file: Path, table: str, complaint: str
) -> None:
    file.write_text(f"[[tokens]]\n{table}\n")
    (text,) = problems(config=str(file), host="0.0.0.0")
    assert text.startswith(f"{file}, [[tokens]] number 1: ")
    assert complaint in text
    assert SECRET not in text


def test_an_empty_token_is_a_mistake_and_not_none() -> None:
    assert "is empty" in problems({"GREENROOM_TOKEN": ""})[0]
    assert "is empty" in problems(token="")[0]


def test_one_way_to_give_a_token_is_enough() -> None:
    (text,) = problems({"GREENROOM_TOKEN": SECRET, "GREENROOM_TOKEN_FILE": "x"})
    assert text.startswith("variable GREENROOM_TOKEN: there is also variable GREENROOM_TOKEN_FILE")


def test_a_file_with_more_than_a_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_text("x" * 5000)
    assert "it holds more than a token" in problems(token_file=str(path))[0]


def test_a_secret_that_everybody_may_read_is_worth_a_warning(file: Path) -> None:
    path = file.parent / "token"
    path.write_text(SECRET)
    path.chmod(0o644)
    assert "chmod o-r" in read(token_file=str(path)).warnings[0]
    path.chmod(0o640)
    assert read(token_file=str(path)).warnings == ()
    file.write_text(f"token = '{SECRET}'")
    file.chmod(stat.S_IRUSR | stat.S_IROTH)
    assert f"chmod o-r {file}" in read(config=str(file)).warnings[0]


def test_a_list_without_an_operator_is_worth_a_warning(file: Path) -> None:
    file.write_text(f"[[tokens]]\nname = 'alice'\nsecret = '{SECRET}'\n")
    assert "nobody can open the page" in read(config=str(file)).warnings[0]


# Mistakes


def test_all_mistakes_are_told_with_their_places(file: Path) -> None:
    file.write_text("port = 'many'\nmax_runing = 3\n[policy]\ncap = 0\nidle_tll = 4\n")
    environ = {"GREENROOM_BUSY": "later", "GREENROOM_LOG_LEVLE": "info"}
    found = problems(environ, config=str(file), wait_timeout="soon")
    expected = {
        f"{file}, key max_runing": "there is no setting 'max_runing'. Did you mean max_running?",
        f"{file}, [policy] idle_tll": (
            "there is no figure of the policy 'idle_tll'. Did you mean idle_ttl?"
        ),
        "variable GREENROOM_LOG_LEVLE": (
            "there is no setting of this name. Did you mean GREENROOM_LOG_LEVEL?"
        ),
        f"{file}, key port": "port must be a whole number, not 'many'",
        "option --wait-timeout": (
            "wait_timeout must be seconds, or a duration such as 500ms, 30s, 10m, 1h or 7d, not 'soon'"
        ),
        f"{file}, [policy] cap": "cap must be a whole number, 1 or more (or none for no bound), not 0",
        "variable GREENROOM_BUSY": "busy must be queue or reject or interrupt, not 'later'",
    }
    assert sorted(found) == sorted(f"{where}: {text}" for where, text in expected.items())


def test_what_is_at_the_wrong_place_in_the_file_is_told_so(file: Path) -> None:
    file.write_text("cap = 3\npolicy = 4\n")
    assert "it belongs below the line [policy]" in problems(config=str(file))[0]
    assert "policy must be a table" in problems(config=str(file))[1]
    file.write_text("[policy]\nport = 3\n")
    assert "it belongs above the first line in brackets" in problems(config=str(file))[0]
    file.write_text("tokens = 'abc'\n")
    assert "tokens must be tables" in problems(config=str(file))[0]


def test_a_file_that_cannot_be_read_is_told(file: Path, tmp_path: Path) -> None:
    (text,) = problems(config=str(tmp_path / "nowhere.toml"))
    assert text == f"{tmp_path / 'nowhere.toml'}: cannot be read: No such file or directory"
    file.write_text("port = \n")
    assert f"{file}: is no TOML: " in problems(config=str(file))[0]
    file.write_bytes(b"\xff\xfe")
    assert f"{file}: is no TOML: " in problems(config=str(file))[0]


def test_a_file_without_measure_is_told_as_any_other(file: Path) -> None:
    file.write_text(f"a = {'[' * 100_000}")
    assert "is no TOML" in problems(config=file)[0]
    huge = "1" + "0" * 400
    file.write_text(
        f"port = {huge}\nmax_body = {huge}\nwait_timeout = {huge}\n[policy]\nidle_ttl = {huge}"
    )
    told = problems(config=file)
    assert [name for name in ("port", "wait_timeout", "idle_ttl") if name in " ".join(told)] == [
        "port",
        "wait_timeout",
        "idle_ttl",
    ]


def test_a_store_that_is_no_text_is_not_shown(file: Path) -> None:
    file.write_text('store = ["postgresql://me:hush-hush@db/chat"]')
    (told,) = problems(config=file)
    assert told.endswith("store must be a text")


def test_two_figures_that_do_not_fit_are_one_mistake() -> None:
    (text,) = problems(retry_first="10", retry_most="5")
    assert "retry_most must be retry_first (10.0) or more, not 5.0" in text
    assert config_of(retry_first="400", retry_most="500").policy.retry_first == 400.0


def test_a_variable_that_resembles_nothing_is_somebody_elses() -> None:
    loaded = read({"GREENROOM_SWITCH_INTERVAL": "1e-6"})
    assert loaded.warnings == (
        "variable GREENROOM_SWITCH_INTERVAL: there is no setting of this name, it is ignored",
    )


def test_what_kubernetes_sets_for_a_service_of_our_name_is_ignored() -> None:
    loaded = read(
        {
            "GREENROOM_PORT": "tcp://10.0.0.7:8765",
            "GREENROOM_PORT_8765_TCP_ADDR": "10.0.0.7",
            "GREENROOM_SERVICE_HOST": "10.0.0.7",
            "GREENROOM_SERVICE_PORT": "8765",
        }
    )
    assert loaded.config.port == 8765
    assert len(loaded.warnings) == 1
    assert "Kubernetes" in loaded.warnings[0]


# Values as they are written


def test_values_as_people_write_them() -> None:
    assert [seconds(text) for text in (3, "3", "250ms", "1.5 s", "10m", "2 min", "1h", "7d")] == [
        3.0,
        3.0,
        0.25,
        1.5,
        600.0,
        120.0,
        3600.0,
        604_800.0,
    ]
    assert [octets(text) for text in (5, "5", "64kB", "64 KiB", "1.5MiB", "1 GB")] == [
        5,
        5,
        64_000,
        65_536,
        1_572_864,
        10**9,
    ]
    assert [whole(text) for text in (5, 5.0, "5", " 1_000 ", "-1")] == [5, 5, 5, 1000, -1]
    assert [share(text) for text in (1, "0.9", "90%")] == [1.0, 0.9, 0.9]
    assert [amount(text) for text in (0.5, "50%", "0.5", 5, "5", "1 KiB")] == [0.5, 0.5, 0.5, 5, 5, 1024]
    assert names("a, b,,c") == names(["a", "b", "c"]) == ("a", "b", "c")
    assert [toml_or_text(text) for text in ("1", "true", "a b", "1\nx = 2", "'1'")] == [
        1,
        True,
        "a b",
        "1\nx = 2",
        "1",
    ]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("cap", "1.5"),
        ("cap", "9" * 30),
        ("cap", True),
        ("cap", float("inf")),
        ("idle_ttl", "1 fortnight"),
        ("idle_ttl", True),
        ("idle_ttl", "-5s"),
        ("max_body", "1 XB"),
        ("memory_budget", "much"),
        ("memory_relief", "90 percent"),
        ("model", 5),
        ("allowed_hosts", [1]),
        ("max_running", "none"),
    ],
)
def test_values_that_nobody_understands(name: str, given: Any) -> None:
    (text,) = problems(**{name: given})
    assert text.startswith(f"option --{name.replace('_', '-')}: {name} must be ")
    assert repr(given) in text


def test_none_switches_off_what_can_be() -> None:
    config = config_of(turn_timeout="none", cap="None", memory_budget="none")
    assert (config.turn_timeout, config.policy.cap, config.policy.memory_budget) == (None, None, None)
