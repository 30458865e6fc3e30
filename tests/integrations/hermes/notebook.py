"""A memory provider for the tests, as a plugin of Hermes's: it writes down what it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.memory_provider import MemoryProvider

told: list[tuple[str, str, tuple[str, ...]]] = []
"""What was called, for which session, and with the texts of which messages."""

plan: dict[str, Callable[[], object]] = {}
"""What to do in a call, by its name: raise, or wait."""


def reset() -> None:
    """Forget it all."""
    told.clear()
    plan.clear()


class Notebook(MemoryProvider):
    session_id = ""

    @property
    def name(self) -> str:
        return "notebook"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self.session_id = session_id

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self.session_id = new_session_id
        plan.get("switch", bool)()

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        texts = tuple(str(message["content"]) for message in messages)
        told.append(("end", self.session_id, texts))
        plan.get("end", bool)()

    def shutdown(self) -> None:
        told.append(("shutdown", self.session_id, ()))
        plan.get("shutdown", bool)()


def register(context: Any) -> None:
    """What Hermes calls."""
    context.register_memory_provider(Notebook())
