"""The directory: which actor a session has. It starts them, and forgets those that have ended."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pykka

from greenroom import Actor
from greenroom.integrations.hermes_webui._messages import FindSession, ForgetSession
from greenroom.integrations.hermes_webui._session import Session

__all__ = ["Directory", "Refs"]

Refs = dict[Hashable, pykka.ActorRef[Any]]


class Directory(Actor):
    """Writes the references of all sessions; anyone may read them, which is a single step of a dict."""

    def __init__(self, refs: Refs) -> None:
        super().__init__()
        self._refs = refs

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, FindSession):
            return self._find(message.session_id)
        if isinstance(message, ForgetSession) and self._refs.get(message.session_id) is message.ref:
            del self._refs[message.session_id]
        return None

    def _find(self, session_id: Hashable) -> pykka.ActorRef[Any]:
        ref = self._refs.get(session_id)
        # One that was discarded may still be there: it says so to us, and that is on its way.
        if ref is None or not ref.is_alive():
            ref = self._refs[session_id] = self.start_child(Session, session_id, self.actor_ref)
        return ref

    def on_child_failed(self, failure: Any) -> None:
        """Restart a session that has failed: it has turns to commit."""
        before: Session = failure.state
        self.restart_child(failure, before.session_id, self.actor_ref, before)
