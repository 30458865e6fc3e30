"""A room of Hermes agents, in the place of the cache that its gateway keeps.

    from hermes_state import SessionDB
    from greenroom.integrations.hermes import converse, hermes_room, hermes_spec

    room = hermes_room({"max_iterations": 90}, session_db=SessionDB())
    spec = hermes_spec(model, runtime, enabled_toolsets=toolsets, user_id=user_id)

    with room.turn(session_key, spec, session_id=session_id) as turn:
        result = converse(turn, text, conversation_history=history)

`hermes_room` puts the parts together, each of which serves a `Greenroom` of your own as well:

- `hermes_spec`: what its gateway puts into a signature, as a spec.
- `hermes_agents`: the factory.
- `HERMES_HOOKS`, `hermes_hooks`: what a commit, a release and a close do to an `AIAgent`.
- `prepare`: what is reset before a turn. `converse`, `converse_soon`: a turn from beginning to end.
  `conclude`: what is looked at after it, for whoever runs it otherwise.
- `SessionDBStore`: its database, for coherence between processes.

The room needs no activity of an agent: how long one is idle is counted from the end of its last turn.
"""

from greenroom.integrations.hermes._agents import hermes_agents, hermes_room
from greenroom.integrations.hermes._hooks import HERMES_HOOKS, hermes_hooks
from greenroom.integrations.hermes._spec import HermesSpec, hermes_spec
from greenroom.integrations.hermes._store import SessionDBStore
from greenroom.integrations.hermes._turns import (
    conclude,
    converse,
    converse_soon,
    prepare,
)

__all__ = [
    "HERMES_HOOKS",
    "HermesSpec",
    "SessionDBStore",
    "conclude",
    "converse",
    "converse_soon",
    "hermes_agents",
    "hermes_hooks",
    "hermes_room",
    "hermes_spec",
    "prepare",
]
