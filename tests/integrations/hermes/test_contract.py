"""What greenroom relies on inside Hermes."""

from __future__ import annotations

from run_agent import AIAgent


def test_an_agent_has_the_private_names_that_greenroom_uses() -> None:
    """Setting a name that Hermes has renamed would do nothing, silently."""
    agent = AIAgent(
        model="test-model",
        api_key="test",
        base_url="https://model.invalid/v1",
        quiet_mode=True,
        skip_context_files=True,
        skip_memory=True,
    )
    names = set(vars(agent))
    agent.close()  # which sets some of them
    assert {
        "_api_call_count",
        "_end_session_on_close",
        "_execution_thread_id",
        "_fallback_activated",
        "_last_activity_desc",
        "_last_activity_ts",
        "_last_flushed_db_idx",
        "_memory_manager",
        "_session_db_created",
        "_session_messages",
        "_todo_store",
    } <= names
    assert callable(AIAgent._invalidate_system_prompt)
