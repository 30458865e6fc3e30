"""`greenroom serve`, as somebody at a terminal meets it."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer

from greenroom._cli_plugins import GROUP, add_plugins
from greenroom.gateway.agents.offline import offline
from greenroom.gateway.config._banner import curl, show_ready
from greenroom.gateway.config._config import NEEDS_RESTART, BadConfig, Config, Token
from greenroom.gateway.config._settings import SETTINGS, option_of, variable_of
from greenroom.gateway.config._sources import read_config
from greenroom.gateway.config._values import written
from greenroom.gateway.server import _server
from greenroom.gateway.watch._logs import QUIET
from tests.actors.actors import PATIENCE
from tests.cli.running import Ended, Run, running
from tests.house import ROOT

SECRET = "0123456789abcdef"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test depends on whose terminal it runs in, or writes into anybody's home."""
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    changed = [root, *map(logging.getLogger, QUIET)]
    before = [(one, one.level, list(one.handlers)) for one in changed]
    yield
    for one, level, handlers in before:
        one.setLevel(level)
        one.handlers[:] = handlers


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process."""
    return running("serve", monkeypatch, capsys)


@dataclass
class Served:
    """What the server was asked to do."""

    config: Config
    factory: Any
    reload: Callable[[], Config]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Served]:
    """In place of a server: notes what it gets, says that it listens, and exits with 7."""
    calls: list[Served] = []

    def run(config: Config, factory: Any, *, reload: Any, ready: Any) -> int:
        calls.append(Served(config, factory, reload))
        ready("http://127.0.0.1:8765")
        return 7

    monkeypatch.setattr(_server, "run", run)
    return calls


# Help


def test_the_help_has_an_option_for_each_setting(serve: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    outcome = serve("--help")
    assert outcome.code == 0
    options = [
        *map(option_of, SETTINGS),
        "--config",
        "--check",
        "--reload",
        "--agent-option",
        "--token",
        "--token-file",
    ]
    assert [option for option in options if not re.search(rf"{option} ", outcome.out)] == []
    assert "GREENROOM_TOKEN or --token-file is better" in outcome.out


def test_an_unknown_option_is_a_matter_of_usage(serve: Run) -> None:
    assert serve("--frobnicate").code == 2


def test_the_page_about_configuration_names_everything() -> None:
    page = (ROOT / "docs/configuration.md").read_text("utf-8")
    table = page.partition("## All settings")[2]
    rows = re.findall(r"^\| `(\w+)` \|[ `]*([^`|]*?)[ `]*\| .*?( ↻)? \|$", table, flags=re.MULTILINE)
    assert [name for name, _, _ in rows] == list(SETTINGS)
    for name, default, restart in rows:
        setting = SETTINGS[name]
        if name != "store":
            assert default == written(setting.kind, setting.default)
        assert bool(restart) == (name in NEEDS_RESTART)
    for variable in (
        "GREENROOM_CONFIG",
        "GREENROOM_TOKEN",
        "GREENROOM_TOKEN_FILE",
        variable_of("idle_ttl"),
    ):
        assert variable in page


def test_the_file_on_the_page_about_configuration_makes_sense(tmp_path: Path) -> None:
    page = (ROOT / "docs/configuration.md").read_text("utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "greenroom.toml").write_text(example)
    environ = {"ALICE_TOKEN": "a" * 16, "BOB_TOKEN": "b" * 16}
    loaded = read_config({"config": tmp_path / "greenroom.toml"}, environ)
    assert loaded.warnings == ()
    assert loaded.config.policy.memory_budget == 0.6


def test_loading_the_command_loads_no_server() -> None:
    code = (
        "import sys, greenroom.gateway.cli\n"
        "slow = ('fastapi', 'uvicorn', 'sqlalchemy', 'openai')\n"
        "sys.exit(str([name for name in slow if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['greenroom', 'serve', '--port', '0']\n"
        "from greenroom.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "greenroom: serving needs fastapi: pip install 'greenroom[gateway]'\n"
    assert done.stdout == ""


# Serving


def test_it_serves_what_was_configured_and_exits_as_the_server_did(
    serve: Run, served: list[Served], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GREENROOM_CAP", "3")
    outcome = serve("--port", "0", "--agent-option", "word_seconds=0.5", "--log-level", "debug")
    assert outcome.code == 7
    (call,) = served
    assert (call.config.port, call.config.policy.cap) == (0, 3)
    assert call.config.agent_options == {"word_seconds": 0.5}
    assert call.factory is offline
    folder = tmp_path / "data" / "greenroom"
    assert call.config.store == f"sqlite:///{folder}/greenroom.db"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert logging.getLogger().level == logging.DEBUG


def test_the_first_lines_say_where_the_page_is_and_give_a_curl(serve: Run, served: list[Served]) -> None:
    outcome = serve("--store", "none")
    assert served
    assert outcome.out.startswith("The page   http://127.0.0.1:8765/\n")
    assert "\n  curl http://127.0.0.1:8765/v1/chat/completions \\\n" in outcome.out
    assert "Authorization" not in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_the_curl_has_the_token_by_its_variable_and_never_itself(
    serve: Run, served: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREENROOM_TOKEN", SECRET)
    outcome = serve("--host", "0.0.0.0", "--store", "none")
    assert served[0].config.tokens == (Token("operator", SECRET),)
    assert '-H "Authorization: Bearer $GREENROOM_TOKEN"' in outcome.out
    assert SECRET not in outcome.out + outcome.err


def test_a_password_of_the_store_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_ready("http://127.0.0.1:1", Config(store="postgresql://me:hush@db/chat"))
    assert "The store  postgresql://me:***@db/chat\n" in capsys.readouterr().out


def test_reading_again_reads_all_sources(serve: Run, served: list[Served], tmp_path: Path) -> None:
    file = tmp_path / "greenroom.toml"
    file.write_text("max_running = 1\nbusy = 'reject'")
    serve("--config", file, "--store", "none", "--busy", "queue")
    file.write_text("max_running = 2\nlog_level = 'error'\nlog_format = 'json'")
    config = served[0].reload()
    assert (config.max_running, config.busy) == (2, "queue")
    assert logging.getLogger().level == logging.ERROR
    file.write_text("max_running = 0")
    with pytest.raises(BadConfig, match=re.escape(f"{file}, key max_running: max_running must be")):
        served[0].reload()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"token = '{SECRET}'\n[agent]\nnonsense = 1", "agent offline: it takes no option 'nonsense'"),
        (f"token = '{SECRET}'\n[agent]\nword_seconds = 'many'", "agent offline: word_seconds must be"),
        ("host = '127.0.0.1'", "there is no token"),
    ],
)
def test_what_the_running_server_cannot_use_changes_nothing(
    serve: Run, served: list[Served], tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "greenroom.toml"
    file.write_text(f"store = 'none'\nhost = '0.0.0.0'\ntoken = '{SECRET}'\n[agent]\nname = 'offline'")
    serve("--config", file)
    file.write_text(f"store = 'none'\nlog_level = 'error'\n{text}")
    with pytest.raises(BadConfig, match=why):
        served[0].reload()
    assert logging.getLogger().level == logging.INFO


def test_options_for_another_agent_are_not_checked_with_this_one(
    serve: Run, served: list[Served], tmp_path: Path
) -> None:
    file = tmp_path / "greenroom.toml"
    file.write_text("store = 'none'\nagent = 'offline'")
    serve("--config", file)
    file.write_text("store = 'none'\n[agent]\nname = 'openai'\nmodel = 'x'")
    assert served[0].reload().agent == "openai"


def test_a_secret_of_any_time_stays_one(
    serve: Run, served: list[Served], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "greenroom.toml"
    secrets = [f"{number}{SECRET}" for number in "123"]
    file.write_text(f"store = 'none'\ntoken = '{secrets[0]}'")
    serve("--config", file)
    for secret in secrets[1:]:
        file.write_text(f"store = 'none'\ntoken = '{secret}'")
        served[0].reload()
    logging.getLogger("greenroom.gateway").warning("%s", " ".join(secrets))
    assert SECRET not in capsys.readouterr().err


def test_all_mistakes_are_told_before_anything_is_served(
    serve: Run, served: list[Served], tmp_path: Path
) -> None:
    outcome = serve("--port", "many", "--busy", "later")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        "greenroom: option --port: port must be a whole number, not 'many'",
        "greenroom: option --busy: busy must be queue or reject or interrupt, not 'later'",
    ]
    outcome = serve("--agent", "ofline")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert outcome.err.endswith("Did you mean offline?\n")
    assert served == []
    assert not (tmp_path / "data").exists()


def test_an_option_of_the_agent_that_is_wrong_does_not_show_a_key(
    serve: Run, served: list[Served]
) -> None:
    name = f"{__name__}:picky"
    sys.modules.setdefault(__name__, sys.modules[picky.__module__])
    outcome = serve("--agent", name, "--agent-option", "api_key=sk-very-secret")
    assert outcome.code == 2
    assert "this key is bad: ***" in outcome.err
    assert served == []


def picky(context: Any, **options: Any) -> None:
    """A factory that shows what it gets in its errors."""


def _show(api_key: str) -> None:
    raise ValueError(f"this key is bad: {api_key}")


picky.options = _show  # type: ignore[attr-defined]  # functions take any attribute


def test_a_data_directory_that_cannot_be_made_is_one_line(
    serve: Run, served: list[Served], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    outcome = serve()
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "say --store URL" in outcome.err
    assert served == []


def test_the_real_command_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "greenroom", "serve", "--port", "0", "--log-format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(10)]
            shown = "".join(lines[lines.index("\n", 5) + 1 :])
            assert re.match(r"The page   http://127\.0\.0\.1:\d+/\n", lines[0])
            assert shown.startswith("  curl http://127.0.0.1:")
            if shutil.which("curl") is not None:
                answer = subprocess.run(
                    ["sh", "-c", shown], capture_output=True, text=True, check=True, timeout=PATIENCE
                )
                assert "You said: Hello" in answer.stdout
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert (tmp_path / "data" / "greenroom" / "greenroom.db").exists()
    assert all(line.startswith("{") for line in err.splitlines())


def test_the_curl_quotes_what_a_shell_would_act_upon() -> None:
    assert curl("http://x;y", token=False)[0] == "curl 'http://x;y/v1/chat/completions' \\"


# --check


def levels(outcome: Ended) -> dict[str, str]:
    """What was found, by its subject."""
    found: dict[str, str] = {}
    for line in outcome.out.splitlines()[:-1]:
        level, _, text = line.partition(" ")
        found[text.strip().partition(":")[0]] = level
    return found


def test_a_check_looks_at_everything_and_changes_nothing(
    serve: Run, served: list[Served], tmp_path: Path
) -> None:
    outcome = serve("--check", "--port", "0")
    assert outcome.code == 0
    assert levels(outcome) == dict.fromkeys(
        ("configuration", "access", "address", "agent", "store"), "ok"
    )
    assert "serving will make its folder and it" in outcome.out
    assert outcome.out.endswith("This can be served.\n")
    assert served == []
    assert list(tmp_path.iterdir()) == []


def test_a_check_finds_an_agent_module_beside_the_configuration(serve: Run, tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "my_agent_beside_it.py").write_text("def build(context): return context")
    (etc / "greenroom.toml").write_text('agent = "my_agent_beside_it:build"\nstore = "none"\n')
    outcome = serve("--check", "--port", "0", "--config", str(etc / "greenroom.toml"))
    assert outcome.code == 0, outcome.out


def test_a_check_tells_all_that_is_wrong_with_the_configuration(serve: Run) -> None:
    outcome = serve("--check", "--port", "many", "--cap", "0", "--host", "0.0.0.0")
    assert outcome.code == 1
    assert [line.split()[:3] for line in outcome.out.splitlines()[:-1]] == [
        ["error", "option", "--port:"],
        ["error", "option", "--cap:"],
        ["error", "option", "--host:"],
    ]
    assert outcome.out.splitlines()[-1].startswith("3 errors.")


def test_a_check_finds_a_port_that_is_taken(serve: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        outcome = serve("--check", "--port", str(port), "--store", "none")
    assert outcome.code == 1
    assert levels(outcome)["address"] == "error"
    assert f"127.0.0.1:{port}" in outcome.out
    assert levels(outcome)["store"] == "warning"


def test_a_check_finds_an_agent_that_cannot_be_built(serve: Run) -> None:
    outcome = serve("--check", "--port", "0", "--agent", "offline", "--agent-option", "wrods=1")
    assert outcome.code == 1
    assert "error    agent offline: it takes no option 'wrods'" in outcome.out
    assert "1 error.\n" in outcome.out


@pytest.mark.parametrize(
    ("store", "level", "text"),
    [
        ("sqlite:///{0}/new.db", "ok", "is not there yet, serving will make it"),
        ("sqlite:///{0}/empty.db", "ok", "is there, and can be written"),
        ("sqlite:///{0}/text.db", "error", "is no SQLite database"),
        ("sqlite:///{0}/no/folder.db", "error", "does not exist: make it"),
        ("sqlite:///{0}", "error", "is no file"),
        ("sqlite://", "warning", "in memory"),
        ("sqlite://host/x.db", "error", "three slashes"),
        ("sqlite:///{0}/new.db?mode=ro", "error", "no parameters"),
        ("postgresql://me:hush@127.0.0.1:1/chat", "error", "does not answer"),
        ("postgresql://me:hush@db:port/chat", "error", "no URL"),
        ("none", "warning", "end with the server"),
    ],
)
def test_a_check_looks_at_the_store(
    serve: Run, tmp_path: Path, store: str, level: str, text: str
) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("Dear diary, today I was no database.")
    before = sorted(tmp_path.iterdir())
    outcome = serve("--check", "--port", "0", "--store", store.format(tmp_path))
    assert levels(outcome)["store"] == level
    assert text in outcome.out
    assert "hush" not in outcome.out
    assert outcome.code == (1 if level == "error" else 0)
    assert sorted(tmp_path.iterdir()) == before


def test_a_check_shows_warnings_and_who_may_call(serve: Run, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(SECRET)
    path.chmod(0o644)
    outcome = serve("--check", "--port", "0", "--store", "none", "--token-file", path)
    assert outcome.code == 0
    assert "warning  everybody on this machine may read the token" in outcome.out
    assert "access: by token, for operator (operator)" in outcome.out
    assert SECRET not in outcome.out


def test_a_check_as_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "greenroom", "serve", "--check", "--port", "0", "--agent", "ofline"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Did you mean offline?" in done.stdout
    assert done.stderr == ""


# Commands of other packages


def hello(name: str = "you") -> None:
    """Greet."""
    typer.echo(f"Hello, {name}")


group = typer.Typer(help="Several.")


@group.command()
def one() -> None:
    """The first."""
    typer.echo("One")


@group.command()
def two() -> None:
    """The second."""


def plugins(**values: str) -> list[EntryPoint]:
    return [EntryPoint(name, value, GROUP) for name, value in values.items()]


def invoke(installed: list[EntryPoint], *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    from greenroom import _cli

    monkeypatch.setattr("greenroom._cli_plugins.entry_points", lambda **_: installed)
    app = typer.Typer(no_args_is_help=True)
    app.add_typer(group, name="store")
    app.callback()(lambda: None)
    monkeypatch.setattr(_cli, "app", app)
    try:
        return _cli.run(arguments)
    except SystemExit as exit:
        return int(exit.code or 0)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    monkeypatch.setitem(sys.modules, "plugin_of_a_test", sys.modules[hello.__module__])
    return plugins(
        hello="plugin_of_a_test:hello",
        several="plugin_of_a_test:group",
        missing="nowhere_to_be_found:command",
        wrong="plugin_of_a_test:SECRET",
        store="plugin_of_a_test:hello",
    )


def test_a_function_and_an_app_become_commands(
    installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(installed, "hello", "--name", "Ann", monkeypatch=monkeypatch) == 0
    assert invoke(installed, "several", "one", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == "Hello, Ann\nOne\n"


def test_a_command_that_cannot_be_loaded_says_so_and_disturbs_no_other(
    installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, reason in (
        ("missing", "No module named 'nowhere_to_be_found'"),
        ("wrong", "not a command"),
    ):
        assert invoke(installed, name, "--any", "thing", monkeypatch=monkeypatch) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"greenroom: the command '{name}' cannot be loaded: ")
        assert reason in said
        assert said.count("\n") == 1
    assert invoke(installed, "--help", monkeypatch=monkeypatch) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("hello", "several", "missing", "wrong"))


def test_no_package_takes_the_place_of_a_command_of_ours(
    installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(installed, "store", "one", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == "One\n"
    app = typer.Typer()
    app.add_typer(group, name="store")
    add_plugins(app, ["--help"], installed)
    assert "store" not in [command.name for command in app.registered_commands]


def test_only_the_command_that_is_asked_for_is_loaded(installed: list[EntryPoint]) -> None:
    app = typer.Typer()
    add_plugins(app, ["hello", "several"], installed)
    add_plugins(app, ["hello"], installed)
    assert [command.name for command in app.registered_commands] == ["hello"]
    assert app.registered_groups == []
