"""What each source of the configuration says, as it says it: a file, the environment, the command line.

A layer is what one of them gives, with the place of each value, and with what is wrong with the source
itself: a name that nobody knows, a file that is no TOML. `_sources.py` puts them on top of each other.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard, cast

from greenroom.gateway.config._rules import Problem
from greenroom.gateway.config._settings import PREFIX, SETTINGS, option_of, variable_of
from greenroom.gateway.config._tokens import TOKEN_KEYS, GivenToken
from greenroom.gateway.config._values import toml_or_text

__all__ = ["CONFIG_VARIABLE", "Given", "Layer", "from_environment", "from_file", "from_options"]

CONFIG_VARIABLE = f"{PREFIX}CONFIG"
AGENT_OPTION = f"{PREFIX}AGENT_OPTION_"
OPERATOR = "operator"
"""The name of the one token that needs no file."""

_NOT_OURS = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT)|PORT_[0-9]+_).*")
"""What Kubernetes sets in every pod beside a service that is called greenroom."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value, and where it stands."""

    value: Any
    where: str


@dataclass(slots=True)
class Layer:
    """What one source says."""

    settings: dict[str, Given] = field(default_factory=dict[str, Given])
    agent_options: dict[str, Given] = field(default_factory=dict[str, Given])
    tokens: list[GivenToken] = field(default_factory=list[GivenToken])
    problems: list[Problem] = field(default_factory=list[Problem])
    warnings: list[str] = field(default_factory=list[str])

    def unknown(self, name: str, where: str, known: Iterable[str], what: str) -> None:
        """Note a name that nobody knows, with what may have been meant."""
        text = f"there is no {what} {name!r}{meant(name, known)}"
        self.problems.append(Problem(name, text, where))

    def operator_token(self, secret: Any, path: Any, where: str, path_where: str) -> None:
        """Take a token for the operator, from a value or from a file."""
        if secret is not None and path is not None:
            msg = f"there is also {path_where}: give one of them"
            self.problems.append(Problem(f"tokens.{OPERATOR}", msg, where))
        elif secret is not None:
            self.tokens.append(GivenToken(name=OPERATOR, where=where, secret=secret, operator=True))
        elif path is not None:
            token = GivenToken(name=OPERATOR, where=path_where, secret_file=path, operator=True)
            self.tokens.append(token)


def from_options(options: Mapping[str, Any]) -> Layer:
    """What the command line says: settings by their names, `token`, `token_file`, and `agent_option`, a
    sequence of `name=value`. `None` is what was not said."""
    layer = Layer()
    for name in SETTINGS:
        if options.get(name) is not None:
            layer.settings[name] = Given(options[name], f"option {option_of(name)}")
    for text in options.get("agent_option") or ():
        name, equals, value = text.partition("=")
        where = "option --agent-option"
        if not equals or not name.strip():
            # What was given is not shown: it may be a key, without the name that belongs before it.
            msg = "agent options are name=value, such as delay=0.5, and this one is not"
            layer.problems.append(Problem("agent_options", msg, where))
        else:
            layer.agent_options[_plain_name(name)] = Given(toml_or_text(value), f"{where} {name}")
    token, path = options.get("token"), options.get("token_file")
    layer.operator_token(token, path, "option --token", "option --token-file")
    return layer


def from_environment(environ: Mapping[str, str]) -> Layer:
    """What the variables say whose names begin with `GREENROOM_`. An empty one says nothing."""
    layer = Layer()
    rest = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    rest.pop(CONFIG_VARIABLE, None)
    for name in SETTINGS:
        variable = variable_of(name)
        value = rest.pop(variable, "")
        if name == "port" and value.startswith("tcp://"):
            msg = (
                f"variable {variable} is not ours but Kubernetes' (a service called greenroom): ignored"
            )
            layer.warnings.append(msg)
        elif value:
            layer.settings[name] = Given(value, f"variable {variable}")
    _token_variables(layer, rest)
    for variable in sorted(rest):
        if variable.startswith(AGENT_OPTION) and variable != AGENT_OPTION:
            name, value = variable.removeprefix(AGENT_OPTION).lower(), rest[variable]
            if value:
                layer.agent_options[name] = Given(toml_or_text(value), f"variable {variable}")
        elif not _NOT_OURS.fullmatch(variable):
            _unknown_variable(layer, variable)
    return layer


def _token_variables(layer: Layer, rest: dict[str, str]) -> None:
    token, path = variable_of("token"), variable_of("token_file")
    layer.operator_token(
        rest.pop(token, None), rest.pop(path, None), f"variable {token}", f"variable {path}"
    )


def _unknown_variable(layer: Layer, variable: str) -> None:
    # The environment is shared: what resembles nothing of ours may be for somebody else.
    known = [variable_of(name) for name in (*SETTINGS, "token", "token_file", "config")]
    hint = meant(variable, known, cutoff=0.85)
    if hint:
        msg = f"there is no setting of this name{hint}"
        layer.problems.append(Problem(variable, msg, f"variable {variable}"))
    else:
        layer.warnings.append(f"variable {variable}: there is no setting of this name, it is ignored")


def from_file(path: Path) -> Layer:
    """What a TOML file says."""
    layer = Layer()
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        layer.problems.append(Problem("config", f"cannot be read: {error.strerror}", str(path)))
        return layer
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        layer.problems.append(Problem("config", f"is no TOML: {error}", str(path)))
        return layer
    _top_level(layer, content, path)
    _agent_table(layer, content.get("agent"), path)
    _policy_table(layer, content.get("policy", {}), path)
    _token_tables(layer, content.get("tokens", []), path)
    top = f"{path}, key"
    layer.operator_token(
        content.get("token"),
        _beside(path, content.get("token_file")),
        f"{top} token",
        f"{top} token_file",
    )
    if layer.tokens and any(token.secret is not None for token in layer.tokens):
        layer.warnings += _too_open(path)
    return layer


def _top_level(layer: Layer, content: dict[str, Any], path: Path) -> None:
    others = ("agent", "policy", "tokens", "token", "token_file")
    known = [name for name, setting in SETTINGS.items() if not setting.policy]
    for key, value in content.items():
        where = f"{path}, key {key}"
        if key in others:
            continue
        if key in known:
            layer.settings[key] = Given(value, where)
        elif key in SETTINGS:
            msg = f"{key} is a figure of the policy: it belongs below the line [policy]"
            layer.problems.append(Problem(key, msg, where))
        else:
            layer.unknown(key, where, (*known, *others), "setting")


def _agent_table(layer: Layer, agent: Any, path: Path) -> None:
    where = f"{path}, [agent]"
    if _is_table(agent):
        for name, value in agent.items():
            if name != "name":
                layer.agent_options[_plain_name(name)] = Given(value, f"{where} {name}")
        if "name" in agent:
            layer.settings["agent"] = Given(agent["name"], f"{where} name")
    elif agent is not None:
        layer.settings["agent"] = Given(agent, f"{path}, key agent")


def _policy_table(layer: Layer, policy: Any, path: Path) -> None:
    if not _is_table(policy):
        msg = f"policy must be a table: [policy], and below it cap = 128 and so on, not {policy!r}"
        layer.problems.append(Problem("policy", msg, str(path)))
        return
    for key, value in policy.items():
        where = f"{path}, [policy] {key}"
        if key in SETTINGS and SETTINGS[key].policy:
            layer.settings[key] = Given(value, where)
        elif key in SETTINGS or key in ("token", "token_file"):
            msg = f"{key} is no figure of the policy: it belongs above the first line in brackets"
            layer.problems.append(Problem(key, msg, where))
        else:
            figures = [name for name, setting in SETTINGS.items() if setting.policy]
            layer.unknown(key, where, figures, "figure of the policy")


def _token_tables(layer: Layer, tokens: Any, path: Path) -> None:
    if not _are_tables(tokens):
        msg = "tokens must be tables: [[tokens]], and below it name = … and secret_file = …"
        layer.problems.append(Problem("tokens", msg, str(path)))
        return
    for number, table in enumerate(tokens, 1):
        where = f"{path}, [[tokens]] number {number}"
        known = {key: value for key, value in table.items() if key in TOKEN_KEYS}
        for key in table.keys() - known.keys():
            layer.unknown(key, where, TOKEN_KEYS, "key of a token")
        known["secret_file"] = _beside(path, known.get("secret_file"))
        if isinstance(known.get("name"), str):
            layer.tokens.append(GivenToken(where=where, **known))
        else:
            layer.problems.append(
                Problem("tokens", 'a token needs a name, such as name = "alice"', where)
            )


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _are_tables(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(map(_is_table, cast("list[object]", value)))


def _beside(path: Path, name: Any) -> Any:
    """A path in a file is meant from where that file is."""
    return str(path.parent / Path(name).expanduser()) if isinstance(name, str) and name else name


def _too_open(path: Path) -> list[str]:
    if path.stat().st_mode & 0o004:
        return [
            f"{path} has a secret in it, and everybody on this machine may read it: chmod o-r {path}"
        ]
    return []


def _plain_name(name: str) -> str:
    return name.strip().replace("-", "_")


def meant(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Say what may have been meant, as the end of a sentence. Empty if nothing comes close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f". Did you mean {close[0]}?" if close else ""
