"""What of `greenroom.integrations.hermes` needs no Hermes: specs, and what is read of its database."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest

from greenroom import AgentSpec
from greenroom.integrations.hermes import HermesSpec, SessionDBStore, hermes_agents, hermes_spec

RUNTIME = {
    "api_key": "sk-secret-1234567890",
    "base_url": "https://model.invalid/v1",
    "provider": "custom",
    "api_mode": "chat_completions",
}


def make(model: str = "m", **changes: Any) -> HermesSpec:
    runtime = {**RUNTIME, **changes.pop("runtime", {})}
    changes.setdefault("enabled_toolsets", ["web"])
    return hermes_spec(model, runtime, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "m2"},
        {"runtime": {"api_key": "sk-secret-1234567891"}},
        {"runtime": {"base_url": "https://other.invalid/v1"}},
        {"runtime": {"provider": "openrouter"}},
        {"runtime": {"api_mode": "codex_responses"}},
        {"runtime": {"api_key": print}},
        {"enabled_toolsets": ["web", "terminal"]},
        {"enabled_toolsets": []},
        {"enabled_toolsets": None},
        {"ephemeral_prompt": "Be brief."},
        {"cache_keys": {"compression.threshold": 0.5}},
        {"user_id": "7"},
        {"user_id_alt": "7"},
    ],
)
def test_what_makes_another_agent_changes_the_signature(changes: dict[str, Any]) -> None:
    """I2"""
    assert make(**changes).signature != make().signature


@pytest.mark.parametrize(
    "changes",
    [
        {"reasoning_config": {"effort": "high"}},
        {"max_iterations": 7},
        {"stream_delta_callback": print},
        {"fallback_model": {"model": "backup"}},
        {"runtime": {"command": "acp", "args": ["x"], "credential_pool": object()}},
        {"ephemeral_prompt": None},
        {"cache_keys": {}},
        {"user_id": ""},
        {"enabled_toolsets": ("web", "web")},
    ],
)
def test_what_changes_from_turn_to_turn_does_not(changes: dict[str, Any]) -> None:
    """I1, I4"""
    assert make(**changes).signature == make().signature


def test_all_toolsets_and_none_are_not_the_same() -> None:
    """I2"""
    assert make(enabled_toolsets=None) != make(enabled_toolsets=[])


def test_the_rest_goes_to_the_agent_unseen() -> None:
    pool = object()
    spec = make(runtime={"credential_pool": pool}, platform="telegram")
    assert spec.arguments == {"credential_pool": pool, "platform": "telegram"}


def test_a_secret_is_not_shown() -> None:
    """I3"""
    spec = make(prefill_messages=["sk-another-secret"])
    for shown in (repr(spec), str(spec), spec.signature, repr(spec.runtime), repr(spec.extra)):
        assert "secret" not in shown


def test_a_spec_is_copied_and_pickled_like_any_other() -> None:
    """I1"""
    spec = make(status_callback=print)
    assert copy.deepcopy(spec) is spec
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert again.arguments == {}
    assert isinstance(again, AgentSpec)


class Database:
    """What is read of a `SessionDB`: rows, as dicts."""

    def __init__(self, **rows: dict[str, Any]) -> None:
        self.rows = rows

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        return self.rows.get(session_id)


def test_a_row_is_a_count_of_messages_and_whether_it_has_ended() -> None:
    """H1, H4"""
    store = SessionDBStore(
        Database(
            new={"message_count": None, "ended_at": None, "end_reason": None},
            open={"message_count": 4, "ended_at": None, "end_reason": None},
            over={"message_count": 4, "ended_at": 1.0, "end_reason": "session_reset"},
        )
    )
    assert store.session("new") == (0, False)
    assert store.session("open") == (4, False)
    assert store.session("over") == (4, True)


def test_a_session_that_has_no_row_is_not_made_up() -> None:
    """H5"""
    with pytest.raises(LookupError, match="no session 's9'"):
        SessionDBStore(Database()).session("s9")


def test_without_hermes_it_says_what_to_install() -> None:
    if "run_agent" in sys.modules:
        pytest.skip("Hermes is here")
    with pytest.raises(ImportError, match="pip install hermes-agent"):
        hermes_agents()


def test_importing_it_imports_no_hermes() -> None:
    line = (
        "import sys, greenroom.integrations.hermes; assert not {'run_agent', 'tools'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", line], check=True, timeout=50.0)
