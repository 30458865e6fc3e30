"""Committing what an agent remembers, and hearing of it when that fails.

An agent's `commit_memory_session(messages)` has its memory manager tell each provider, and both swallow
what a provider raises: a commit that failed would count as done. So while it runs, a witness stands in
for the manager, asks the same providers, and keeps what they raise.
"""

from __future__ import annotations

from typing import Any

__all__ = ["extract", "extract_past"]


class Witness:
    """A memory manager that remembers which provider failed. Everything else is the manager's own."""

    def __init__(self, manager: Any) -> None:
        self.manager: Any = manager.manager if isinstance(manager, Witness) else manager
        self.failures: list[Exception] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.manager, name)

    def on_session_end(self, messages: list[Any]) -> None:
        """Tell every provider, whatever the others do."""
        for provider in self.manager.providers:
            try:
                provider.on_session_end(messages)
            except Exception as error:
                error.add_note(f"raised by the memory provider {provider.name!r}")
                self.failures.append(error)

    def report(self) -> None:
        """Raise what a provider raised."""
        if self.failures:
            raise self.failures[0]


def extract(agent: Any, messages: list[Any]) -> None:
    """Have memories extracted from the conversation that the agent is in. Raises if a provider does."""
    manager = getattr(agent, "_memory_manager", None)
    if manager is None:
        agent.commit_memory_session(messages)
        return
    agent._memory_manager = witness = Witness(manager)
    try:
        agent.commit_memory_session(messages)
    finally:
        agent._memory_manager = witness.manager
    witness.report()


def extract_past(agent: Any, session_id: str, messages: list[Any]) -> None:
    """The same for a conversation that it is not in any more. Providers keep theirs by session id, so
    they are taken back there meanwhile, and then to where the agent is by now."""
    manager = getattr(agent, "_memory_manager", None)
    if manager is None:
        return
    witness = Witness(manager)
    how: dict[str, Any] = {"reset": False, "reason": "resume"}
    manager.on_session_switch(session_id, parent_session_id=agent.session_id, **how)
    try:
        witness.on_session_end(messages)
    finally:
        manager.on_session_switch(agent.session_id, parent_session_id=session_id, **how)
    witness.report()
