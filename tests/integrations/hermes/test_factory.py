"""The factory: what an agent is built with, and from where."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import BuildFailed, Greenroom, Reason
from greenroom.integrations.hermes import hermes_agents, hermes_room, hermes_spec, prepare

QUIET = {"skip_context_files": True, "skip_memory": True}


def test_an_agent_is_built_from_the_spec_of_the_turn(open_room: Any, spec: Any, database: Any) -> None:
    """T1, S3"""
    room = open_room(session_db=database)
    its = spec(
        "some-model",
        enabled_toolsets=["terminal"],
        ephemeral_prompt="Be brief.",
        user_id="7654321",
        user_id_alt="@anna",
        platform="telegram",
        chat_id="42",
        max_iterations=7,
    )
    with room.turn("telegram:42", its, session_id="s1") as turn:
        agent = turn.agent
    assert (agent.model, agent.provider, agent.base_url) == (
        "some-model",
        "custom",
        "https://model.invalid/v1",
    )
    assert agent.api_key == "test"
    assert (agent.session_id, agent._gateway_session_key) == ("s1", "telegram:42")
    assert agent._session_db is database
    assert (agent._user_id, agent._user_id_alt, agent._chat_id) == ("7654321", "@anna", "42")
    assert agent.ephemeral_system_prompt == "Be brief."
    assert (agent.platform, agent.max_iterations, agent.quiet_mode) == ("telegram", 7, True)
    assert {"terminal", "process"} == set(agent.valid_tool_names)


def test_another_spec_releases_the_one_and_builds_the_other(open_room: Any, spec: Any) -> None:
    """T2"""
    room = open_room()
    with room.turn("a", spec("one"), session_id="s1") as turn:
        first = turn.agent
    with room.turn("a", spec("two"), session_id="s1") as turn:
        assert turn.rebuild_reason is Reason.SPEC
        assert (turn.agent.model, turn.agent.session_id) == ("two", "s1")
    room.settle(60.0)
    assert first.client is None


def test_settings_may_be_a_function_of_the_context(spec: Any) -> None:
    def settings(context: Any) -> dict[str, Any]:
        return {**QUIET, "chat_name": f"chat of {context.key}", "max_iterations": 3}

    with hermes_room(settings) as room, room.turn("a", spec(max_iterations=4)) as turn:
        assert turn.agent._chat_name == "chat of a"
        assert turn.agent.max_iterations == 4, "what the turn says counts more"


def test_a_turn_without_a_spec_has_the_settings_of_the_room() -> None:
    settings = {
        **QUIET,
        "model": "of-the-room",
        "api_key": "test",
        "base_url": "https://model.invalid/v1",
    }
    with hermes_room(settings) as room, room.turn("a") as turn:
        assert turn.agent.model == "of-the-room"


def test_a_mapping_will_do_as_a_spec() -> None:
    runtime = {"api_key": "test", "base_url": "https://model.invalid/v1", "provider": "custom"}
    with hermes_room(QUIET) as room:
        its = {"model": "of-a-mapping", "runtime": runtime, "toolsets": ["terminal"]}
        with room.turn("a", its) as turn:
            assert turn.agent.model == "of-a-mapping"
            assert "terminal" in turn.agent.valid_tool_names


def test_the_parts_serve_a_room_of_your_own(spec: Any) -> None:
    with Greenroom(hermes_agents(QUIET), prepare=prepare) as room, room.turn("a", spec()) as turn:
        assert turn.agent.session_id == "a"


def test_an_agent_that_cannot_be_built_is_said_to_be_so(open_room: Any, spec: Any) -> None:
    """T5"""
    room = open_room()
    with pytest.raises(BuildFailed) as raised, room.turn("a", spec(no_such_argument=1)):
        pass
    assert isinstance(raised.value.__cause__, TypeError)
    assert "a" not in room
    with room.turn("a", spec()) as turn:
        assert turn.agent.client is not None


def test_no_signature_differs_where_the_gateways_own_does_not(gateway_runner: Any) -> None:
    """I1, I2, I4: side by side with the gateway's own, over pairs that differ in one thing each."""
    base: dict[str, Any] = {
        "model": "m",
        "runtime": {"api_key": "eyJhbGci.a", "base_url": "u", "provider": "p", "api_mode": "c"},
        "enabled_toolsets": ["web", "terminal"],
        "ephemeral_prompt": "",
        "cache_keys": {"model.context_length": 1, "honcho.user_peer_aliases": [("1", "eri")]},
        "user_id": None,
        "user_id_alt": None,
    }
    runtime = base["runtime"]
    variants: list[dict[str, Any]] = [
        {"model": "m2"},
        {"runtime": {**runtime, "api_key": "eyJhbGci.b"}},
        {"runtime": {**runtime, "base_url": "u2"}},
        {"runtime": {**runtime, "provider": "p2"}},
        {"runtime": {**runtime, "api_mode": "c2"}},
        {"runtime": {**runtime, "command": "acp", "args": ["x"], "credential_pool": object()}},
        {"runtime": {**runtime, "requested_provider": "p2", "source": "env"}},
        {"runtime": dict(reversed(runtime.items()))},
        {"enabled_toolsets": ["terminal", "web"]},
        {"enabled_toolsets": ["terminal"]},
        {"ephemeral_prompt": "Be brief."},
        {"ephemeral_prompt": None},
        {"cache_keys": {"model.context_length": 2, "honcho.user_peer_aliases": [("1", "eri")]}},
        {"cache_keys": {"honcho.user_peer_aliases": [("1", "eri")], "model.context_length": 1}},
        {"cache_keys": gateway_runner._extract_cache_busting_config({"checkpoints": True})},
        {"user_id": "7"},
        {"user_id": ""},
        {"user_id_alt": "@anna"},
    ]
    theirs = gateway_runner._agent_config_signature(**base)
    ours = hermes_spec(**base).signature
    differs: list[tuple[bool, bool]] = []
    for variant in variants:
        changed = {**base, **variant}
        their_change = gateway_runner._agent_config_signature(**changed) != theirs
        differs.append((their_change, hermes_spec(**changed).signature != ours))
    assert all(their_change == our_change for their_change, our_change in differs), differs
    assert sum(their_change for their_change, _ in differs) == 11
