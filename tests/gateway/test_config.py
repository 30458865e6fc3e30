"""A configuration makes sense, or is refused with all that is wrong with it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from greenroom import Policy
from greenroom.gateway.config._config import (
    NEEDS_RESTART,
    BadConfig,
    Config,
    Token,
    changed_names,
    live_changes,
)

SECRET = "0123456789abcdef"
OTHER_SECRET = "fedcba9876543210"


def problem(**values: Any) -> str:
    """The one thing that is wrong with a configuration."""
    with pytest.raises(BadConfig) as raised:
        Config(**values)
    (only,) = raised.value.problems
    return only.text


def test_the_defaults_make_sense() -> None:
    config = Config()
    assert config.on_loopback
    assert config.policy.session_ttl == 86_400.0
    assert config.shown_store == "none"


@pytest.mark.parametrize(
    ("name", "value", "would_do"),
    [
        ("port", 65_536, "0 (any free one) to 65535"),
        ("port", -1, "0 (any free one) to 65535"),
        ("port", True, "a whole number"),
        ("host", "", "an address or a name"),
        ("host", "[::1]", "::1"),
        ("max_running", 0, "1 or more"),
        ("max_waiting_total", -1, "0 or more"),
        ("max_body", 0, "1 or more"),
        ("max_header", 10, "256 or more"),
        ("max_streams", 1.5, "a whole number"),
        ("max_sessions_per_token", 0, "1 or more"),
        ("wait_timeout", 0, "seconds"),
        ("wait_timeout", None, "seconds"),
        ("turn_timeout", -1.0, "or none to switch it off"),
        ("body_timeout", float("nan"), "seconds"),
        ("send_timeout", float("inf"), "seconds"),
        ("interrupt_grace", -0.1, "seconds"),
        ("drain_deadline", "10", "seconds"),
        ("busy", "later", "queue or reject or interrupt"),
        ("durability", "none", "full or normal or off"),
        ("log_level", "loud", "debug or info or warning or error"),
        ("log_format", "xml", "text or json"),
        ("agent", "", "printable characters"),
        ("model", "a\nb", "printable characters"),
        ("allowed_hosts", ("http://x",), "without http://"),
        ("allowed_hosts", "abc", "a tuple"),
        ("allowed_origins", ("*",), "https://chat.example.org"),
        ("allowed_origins", ("https://x/",), "without a path"),
        ("policy", None, "greenroom.Policy"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: Any, would_do: str) -> None:
    text = problem(**{name: value})
    assert text.startswith(name)
    assert would_do in text
    assert repr(value if not isinstance(value, tuple) else value[0]) in text


@pytest.mark.parametrize(
    "values",
    [
        {"port": 0},
        {"host": "::1"},
        {"turn_timeout": None},
        {"drain_deadline": 0, "interrupt_grace": 0},
        {"allowed_hosts": ("chat.example.org", "*.example.org", "chat:8000")},
        {"allowed_origins": ("https://chat.example.org", "http://localhost:3000")},
        {"store": "sqlite:///x.db"},
        {"store": "postgresql://me@db/chat"},
    ],
)
def test_what_makes_sense_is_taken(values: dict[str, Any]) -> None:
    config = Config(**values)
    assert {name: getattr(config, name) for name in values} == values


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadConfig) as raised:
        Config(port=-1, busy="later", max_running=0)
    assert [one.name for one in raised.value.problems] == ["port", "max_running", "busy"]
    assert str(raised.value).count("\n") == 2


# Loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LocalHost"])
def test_loopback_needs_no_token(host: str) -> None:
    assert Config(host=host).on_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", "localhost.evil.org"])
def test_other_addresses_need_one(host: str) -> None:
    text = problem(host=host)
    assert repr(host) in text
    assert "GREENROOM_TOKEN" in text
    assert not Config(host=host, tokens=(Token("alice", SECRET),)).on_loopback


# Tokens


@pytest.mark.parametrize("name", ["", "Alice", "a/b", "a" * 33, "-a", "ä"])
def test_a_token_is_called_as_a_tenant_may_be(name: str) -> None:
    assert "a token's name is" in problem(tokens=(Token(name, SECRET),))


@pytest.mark.parametrize(
    "secret", ["", "short", "has a space in it", "0123456789abcdé", "x" * 16 + "\n"]
)
def test_a_secret_is_long_and_fits_a_header_and_is_not_shown(secret: str) -> None:
    text = problem(tokens=(Token("alice", secret),))
    assert "'alice'" in text
    assert not secret or secret not in text


def test_two_tokens_differ_in_name_and_secret() -> None:
    same_name = problem(tokens=(Token("alice", SECRET), Token("alice", OTHER_SECRET)))
    same_secret = problem(tokens=(Token("alice", SECRET), Token("bob", SECRET)))
    assert "two tokens are called 'alice'" in same_name
    assert "'alice' and 'bob' have the same secret" in same_secret
    assert SECRET not in same_name + same_secret


# Secrets


def test_no_secret_is_shown() -> None:
    config = Config(
        tokens=(Token("alice", SECRET),),
        store="postgresql://me:hush%40@db/chat",
        agent_options={"api_key": "sk-secret", "max_tokens": 7, "model": "small"},
    )
    shown = repr(config) + config.shown_store + str(config.tokens)
    for secret in (SECRET, "hush", "sk-secret"):
        assert secret not in shown
    assert config.shown_store == "postgresql://me:***@db/chat"
    assert config.secrets() == (SECRET, "hush%40", "hush@", "sk-secret")


@pytest.mark.parametrize(
    "store",
    [
        "postgresql://me:hu/sh@db/chat",
        "postgresql://me:hu@sh@db/chat",
        "postgresql://db/chat?password=hush",
    ],
)
def test_a_password_that_should_have_been_quoted_is_not_shown_either(store: str) -> None:
    config = Config(store=store)
    assert "hu" not in config.shown_store
    assert "sh" not in config.shown_store
    assert any(secret.startswith("hu") and secret.endswith("sh") for secret in config.secrets())


def test_the_error_about_a_store_does_not_show_it() -> None:
    text = problem(store="mysql://me:hush@db/chat")
    assert "sqlite:///" in text
    assert "hush" not in text


# What may change while the server runs

OTHERS: dict[str, Any] = {
    "host": "::1",
    "port": 1,
    "store": "sqlite:///x.db",
    "durability": "full",
    "agent": "openai",
    "agent_options": {"a": 1},
    "model": "x",
    "policy": Policy(cap=3),
    "busy": "reject",
    "tokens": (Token("alice", SECRET),),
    "allowed_hosts": ("x",),
    "allowed_origins": ("https://x",),
    "log_level": "debug",
    "log_format": "json",
}


@pytest.mark.parametrize("name", [field.name for field in fields(Config)])
def test_each_value_is_live_or_needs_a_restart(name: str) -> None:
    old = Config()
    before = getattr(old, name)
    new = replace(old, **{name: OTHERS.get(name) or before + 1})
    live, restart = live_changes(old, new)
    assert restart == ((name,) if name in NEEDS_RESTART else ())
    assert live == (old if name in NEEDS_RESTART else new)


def test_what_needs_a_restart_is_what_a_server_is_built_on() -> None:
    assert {"host", "port", "store", "durability", "agent", "log_format"} == NEEDS_RESTART


def test_options_of_another_agent_wait_for_it() -> None:
    old = Config(agent="offline", agent_options={"word_seconds": 1})
    new = Config(agent="openai", agent_options={"model": "x"}, max_running=3)
    live, restart = live_changes(old, new)
    assert (live.agent, live.agent_options, live.max_running) == ("offline", {"word_seconds": 1}, 3)
    assert restart == ("agent", "agent_options")


def test_changes_are_named() -> None:
    new = Config(port=1, policy=Policy(cap=3, session_ttl=86_400.0))
    assert changed_names(Config(), new) == ("port", "policy.cap")
    assert changed_names(new, new) == ()


def test_a_server_that_others_reach_does_not_lose_its_last_token() -> None:
    old = Config(host="0.0.0.0", tokens=(Token("alice", SECRET),))
    with pytest.raises(BadConfig, match="there is no token"):
        live_changes(old, Config(host="127.0.0.1"))
