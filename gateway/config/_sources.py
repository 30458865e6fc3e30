"""Where the configuration comes from. The first that says something about a value is believed:

    options                 greenroom serve --port 9000
    the environment         GREENROOM_PORT=9000
    a TOML file             port = 9000, in the file that --config or GREENROOM_CONFIG names
    defaults                127.0.0.1, an offline agent, and a store in the user's data directory

Whoever names another agent than a weaker source does gets none of the options meant for that one.
A token is known by its name: a stronger source replaces the one of that name, and adds others.

All that is wrong is told at once, each with its place. What is overridden is not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from greenroom import Policy
from greenroom.gateway.config._config import (
    BadConfig,
    Config,
    Problem,
    Token,
    changed_names,
    live_changes,
)
from greenroom.gateway.config._layers import (
    CONFIG_VARIABLE,
    Given,
    Layer,
    from_environment,
    from_file,
    from_options,
)
from greenroom.gateway.config._settings import SETTINGS
from greenroom.gateway.config._tokens import GivenToken, resolve
from greenroom.gateway.config._values import KINDS

__all__ = ["Loaded", "changed_names", "default_store", "live_changes", "read_config"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and how it came to be."""

    config: Config
    warnings: tuple[str, ...]
    """What an operator should know, and what keeps nobody from serving."""
    origins: Mapping[str, str]
    """Where each setting that is no default came from. Tokens are `tokens.alice`."""
    folders: tuple[str, ...] = ()
    """Where to look for the agent's module first: beside the file that names it."""

    @property
    def store_by_default(self) -> bool:
        """Whether nobody has said which store: it is in the user's data directory, which may be made."""
        return "store" not in self.origins


def default_store() -> Path:
    """The file of the store if nobody names another."""
    import platformdirs  # of the extra `gateway`: this module can be imported without it

    return Path(platformdirs.user_data_dir("greenroom", appauthor=False)) / "greenroom.db"


def read_config(options: Mapping[str, Any], environ: Mapping[str, str]) -> Loaded:
    """Read all sources. Raises `BadConfig` with everything that is wrong.

    `options` is what the command line says, by the names of the settings, and `config`, `token`,
    `token_file`, `agent_option`; `None` is what it does not say.
    """
    path = options.get("config") or environ.get(CONFIG_VARIABLE)
    layers = [from_environment(environ), from_options(options)]
    here = os.getcwd()
    if not path:
        return _Reading(layers, environ).result((here,))
    file = from_file(Path(path).expanduser())
    beside = str(Path(path).expanduser().resolve().parent)
    named_there = not any("agent" in layer.settings for layer in layers)
    return _Reading([file, *layers], environ).result((beside, here) if named_there else (here, beside))


class _Reading:
    """Puts layers, the weakest first, on top of each other."""

    def __init__(self, layers: Sequence[Layer], environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._problems = [problem for layer in layers for problem in layer.problems]
        self._warnings = [warning for layer in layers for warning in layer.warnings]
        self._settings: dict[str, Given] = {}
        self._agent_options: dict[str, Given] = {}
        self._tokens: list[GivenToken] = []
        for layer in layers:
            self._put(layer)

    def _put(self, layer: Layer) -> None:
        before, now = self._settings.get("agent"), layer.settings.get("agent")
        if before is not None and now is not None and before.value != now.value:
            self._agent_options.clear()
        self._settings.update(layer.settings)
        self._agent_options.update(layer.agent_options)
        names = {token.name for token in layer.tokens}
        self._tokens = [token for token in self._tokens if token.name not in names] + layer.tokens

    def result(self, folders: tuple[str, ...]) -> Loaded:
        figures: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for name, given in self._settings.items():
            try:
                (figures if SETTINGS[name].policy else values)[name] = _parse(name, given.value)
            except ValueError as error:
                # What was given for a store is not shown: there may be a password in it.
                wrong = "must be a text" if name == "store" else str(error)
                self._problem(name, f"{name} {wrong}")
        if "store" not in self._settings:
            values["store"] = f"sqlite:///{default_store()}"
        values["policy"] = self._policy(figures)
        values["agent_options"] = {name: given.value for name, given in self._agent_options.items()}
        values["tokens"] = self._read_tokens()
        config = self._make(values)
        if self._problems or config is None:
            raise BadConfig(self._problems)
        if config.tokens and not any(token.operator for token in config.tokens):
            msg = "no token is an operator's: nobody can open the page. Say operator = true for one"
            self._warnings.append(msg)
        origins = {name: given.where for name, given in self._settings.items()}
        origins |= {f"tokens.{token.name}": token.where for token in self._tokens}
        return Loaded(config, tuple(self._warnings), origins, folders)

    def _make(self, values: dict[str, Any]) -> Config | None:
        told = {problem.name.partition(".")[0] for problem in self._problems}
        try:
            return Config(**values)
        except BadConfig as bad:
            for problem in bad.problems:
                # That there is no token follows from what is wrong with the one that there is.
                if problem.name != "host" or "tokens" not in told:
                    self._problem(problem.name, problem.text)
            return None

    def _policy(self, figures: dict[str, Any]) -> Policy:
        default = Config().policy
        try:
            return replace(default, **figures)
        except ValueError:
            pauses = {
                name: value for name, value in figures.items() if name in ("retry_first", "retry_most")
            }
            texts: set[str] = set()
            for name, value in figures.items():
                try:
                    replace(default, **(pauses if name in pauses else {name: value}))
                except ValueError as error:
                    if str(error) not in texts:
                        self._problem(name, str(error).replace("None", "none"), f"policy.{name}")
                    texts.add(str(error))
            return default

    def _read_tokens(self) -> tuple[Token, ...]:
        tokens: list[Token] = []
        for given in self._tokens:
            try:
                token, warnings = resolve(given, self._environ)
            except ValueError as error:
                self._problems.append(Problem(f"tokens.{given.name}", str(error), given.where))
            else:
                tokens.append(token)
                self._warnings += warnings
        return tuple(tokens)

    def _problem(self, name: str, text: str, full_name: str | None = None) -> None:
        self._problems.append(Problem(full_name or name, text, self._where(name)))

    def _where(self, name: str) -> str:
        for token in self._tokens:
            if name == f"tokens.{token.name}":
                return token.where
        given = self._settings.get(name)
        return "" if given is None else given.where


def _parse(name: str, given: Any) -> Any:
    setting = SETTINGS[name]
    if setting.may_be_none and isinstance(given, str) and given.strip().lower() == "none":
        return None
    return KINDS[setting.kind](given)
