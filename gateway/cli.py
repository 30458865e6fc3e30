"""`greenroom serve`: reads the configuration, checks it, and serves.

Every setting is an option; none of them has a type but text, so that whatever is wrong with any of them,
and with the other sources, is told in one go. What is slow to import is imported when it is needed.

Exit codes: what the server ended with; 1 if it could not start, or if `--check` found an error; 2 if the
configuration makes no sense, or a package is missing.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from greenroom.gateway.config._config import BadConfig, Config, Problem
from greenroom.gateway.config._settings import SETTINGS, Setting, option_of
from greenroom.gateway.config._values import written

if TYPE_CHECKING:
    from greenroom.gateway._stage import Factory
    from greenroom.gateway.config._sources import Loaded

__all__ = ["serve"]

NEEDED = ("fastapi", "platformdirs", "prometheus_client", "sqlalchemy", "uvicorn")
"""What the extra `gateway` brings."""

WRONG = 2
"""The exit code for a command line, or a configuration, that makes no sense."""

logger = logging.getLogger("greenroom.gateway")


def serve(**options: Any) -> None:
    """Serve agents over HTTP, with an API that clients of OpenAI speak, and a page to look at.

    Without any option: an offline agent on 127.0.0.1, and a store in your data
    directory. Each option is also a variable (--idle-ttl: GREENROOM_IDLE_TTL)
    and a key of a TOML file. Options count most, then variables, then the file.
    Times are seconds, or such as 500ms, 30s, 10m, 1h and 7d; sizes are bytes,
    or such as 64KiB. What is in brackets is what holds if nothing is said.
    """
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise _failed(f"serving needs {' and '.join(missing)}: pip install 'greenroom[gateway]'")
    again = options.pop("reload")
    if options.pop("check"):
        raise typer.Exit(_check(options))
    raise typer.Exit(_serve_again(options) if again else _serve(options))


def _serve_again(options: Mapping[str, Any]) -> int:
    from greenroom.gateway.config._layers import CONFIG_VARIABLE
    from greenroom.gateway.server._reloader import Reloader
    from greenroom.gateway.watch._logs import configure_logging

    configure_logging("info", "text")
    command = [sys.executable, "-m", "greenroom", "serve"]
    for name, given in options.items():
        values: list[Any] = list(given or ()) if name == "agent_option" else [given]
        for value in values:
            command += [] if value is None else [option_of(name), str(value)]
    path = options.get("config") or os.environ.get(CONFIG_VARIABLE)
    files = [Path(path).expanduser()] if path else []
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    folders = [Path.cwd(), *(file.parent for file in files), *map(Path, named)]
    return Reloader(command, folders, files).run()


def _serve(options: Mapping[str, Any]) -> int:
    from greenroom.gateway.config._banner import show_ready
    from greenroom.gateway.config._factories import BadAgent, check_options, find_factory
    from greenroom.gateway.server import _server
    from greenroom.gateway.watch._logs import configure_logging, redacted

    loaded = _read(options)
    config = loaded.config
    try:
        factory = find_factory(config.agent, loaded.folders)
        check_options(factory, config.agent_options)
    except BadAgent as error:
        raise _failed(f"agent {config.agent}: {redacted(str(error), config.secrets())}") from None
    configure_logging(config.log_level, config.log_format, secrets=config.secrets())
    for warning in loaded.warnings:
        logger.warning("%s", warning)
    if loaded.store_by_default:
        _make_store_folder()
    return _server.run(
        config,
        factory,
        reload=_Reload(options, config, factory),
        ready=lambda url: show_ready(url, config),
    )


class _Reload:
    """Reads everything again, while it runs. Raises `BadConfig`, and then nothing has changed."""

    def __init__(self, options: Mapping[str, Any], first: Config, factory: Factory) -> None:
        self._options = options
        self._first = first
        self._factory = factory
        self._secrets = set(first.secrets())
        """Those that were, too: somebody may still have one of them in hand."""

    def __call__(self) -> Config:
        from greenroom.gateway.config._config import live_changes
        from greenroom.gateway.config._sources import read_config
        from greenroom.gateway.watch._logs import configure_logging

        loaded = read_config(self._options, os.environ)
        config = loaded.config
        live, _ = live_changes(self._first, config)
        self._check_agent(live)
        self._secrets.update(config.secrets())
        configure_logging(live.log_level, live.log_format, secrets=self._secrets)
        for warning in loaded.warnings:
            logger.warning("%s", warning)
        return config

    def _check_agent(self, config: Config) -> None:
        """With options that do not fit, not a single agent could be built any more."""
        from greenroom.gateway.config._factories import BadAgent, check_options
        from greenroom.gateway.watch._logs import redacted

        try:
            check_options(self._factory, config.agent_options)
        except BadAgent as error:
            text = redacted(str(error), config.secrets())
            problem = Problem("agent_options", text, f"agent {config.agent}")
            raise BadConfig([problem]) from None


def _check(options: Mapping[str, Any]) -> int:
    from greenroom.gateway.config._banner import show_findings
    from greenroom.gateway.config._check import Finding, check
    from greenroom.gateway.config._sources import read_config

    more = ""
    try:
        findings = check(read_config(options, os.environ))
    except BadConfig as bad:
        findings = iter([Finding("error", str(problem)) for problem in bad.problems])
        more = " Address, agent and store are looked at once there are none."
    errors = show_findings(findings)
    if errors:
        typer.echo(f"{errors} error{'s' if errors > 1 else ''}.{more}")
        return 1
    typer.echo("This can be served.")
    return 0


def _read(options: Mapping[str, Any]) -> Loaded:
    from greenroom.gateway.config._sources import read_config

    try:
        return read_config(options, os.environ)
    except BadConfig as bad:
        raise _failed(*map(str, bad.problems)) from None


def _make_store_folder() -> None:
    from greenroom.gateway.config._sources import default_store

    folder = default_store().parent
    try:
        # Transcripts are nobody else's business.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the folder {folder} for the store cannot be made ({error.strerror}): say --store URL"
        raise _failed(msg) from None


def _failed(*texts: str) -> typer.Exit:
    for text in texts:
        typer.secho(f"greenroom: {text}", err=True, fg="red")
    return typer.Exit(WRONG)


# The command line


def _parameters() -> Iterator[inspect.Parameter]:
    yield _parameter(
        "config", Path | None, "Server", "A TOML file. Also: GREENROOM_CONFIG.", metavar="FILE"
    )
    text = "Look at all of this, say what is wrong, and do not serve."
    yield _parameter("check", bool, "Server", text, default=False)
    text = "For development: start again when a Python file, or the configuration, changes."
    yield _parameter("reload", bool, "Server", text, default=False)
    for name, setting in SETTINGS.items():
        yield _of_setting(setting)
        if name == "agent":
            text = "An option of the agent, as TOML or plain text. May be given several times."
            yield _parameter("agent_option", list[str] | None, "Agent", text, metavar="NAME=VALUE")
        if name == "interrupt_grace":
            yield from _token_parameters()


def _token_parameters() -> Iterator[inspect.Parameter]:
    text = (
        "The operator's token. Others on this machine can see it in the list of processes: "
        "GREENROOM_TOKEN or --token-file is better."
    )
    yield _parameter("token", str | None, "Access and limits", text, metavar="SECRET")
    text = "A file with the operator's token in it."
    yield _parameter("token_file", str | None, "Access and limits", text, metavar="FILE")


def _of_setting(setting: Setting) -> inspect.Parameter:
    default = _shown_default(setting)
    text = f"{setting.help} ({default})" if default else setting.help
    return _parameter(setting.name, str | None, setting.panel, text, metavar=setting.metavar)


def _shown_default(setting: Setting) -> str:
    if setting.name == "store":
        return "in your data directory"
    if setting.default is None:
        return "none"
    return written(setting.kind, setting.default)


def _parameter(
    name: str, kind: Any, panel: str, help: str, *, metavar: str | None = None, default: Any = None
) -> inspect.Parameter:
    option = typer.Option(
        option_of(name), help=help, rich_help_panel=panel, metavar=metavar, show_default=False
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _declare(command: Callable[..., None]) -> None:
    """Give the command the parameters that Typer reads off it: one for each setting."""
    parameters = list(_parameters())
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # as inspect reads it
    command.__annotations__ = {one.name: one.annotation for one in parameters}


_declare(serve)
