"""The factory of a room of Hermes agents, and the room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from greenroom import AgentHooks, BuildContext, Greenroom, Policy
from greenroom.integrations.hermes._hooks import HERMES_HOOKS
from greenroom.integrations.hermes._notes import Notes, Tasks
from greenroom.integrations.hermes._spec import arguments_from
from greenroom.integrations.hermes._store import SessionDBStore
from greenroom.integrations.hermes._turns import prepare as prepare_turn

if TYPE_CHECKING:
    from greenroom import Runtime, Turn

__all__ = ["hermes_agents", "hermes_room"]

AgentSettings = Mapping[str, Any] | Callable[[BuildContext], Mapping[str, Any]]
"""Arguments of `AIAgent(…)`, or a function of the build's context that returns them."""


def hermes_agents(
    settings: AgentSettings | None = None, *, session_db: Any = None
) -> Callable[[BuildContext], Any]:
    """Make the `build` of a room: it returns an `AIAgent` for the context that it is called with.

    Args:
        settings: arguments of `AIAgent(…)` for all of them. What the turn's spec says counts more; which
            conversation and which chat it is, the room says. A build without a spec has these only.
        session_db: the `SessionDB` that agents write their transcripts to. `None`: what the settings
            say, or they write none.
    """
    agent_type = _import_agent()
    database = getattr(session_db, "_db", session_db)

    def build(context: BuildContext) -> Any:
        given = settings(context) if callable(settings) else settings
        arguments = {"quiet_mode": True, **(given or {}), **arguments_from(context.spec)}
        arguments["session_id"] = context.session_id
        arguments["gateway_session_key"] = context.key
        if database is not None:
            arguments["session_db"] = database
        tasks = context.resources.get("hermes tasks", Tasks, close=Tasks.close)
        tasks.ids.add(context.session_id)
        agent = agent_type(**arguments)
        agent._greenroom = Notes(tasks)
        return agent

    return build


def hermes_room(
    settings: AgentSettings | None = None,
    *,
    session_db: Any = None,
    policy: Policy | None = None,
    hooks: AgentHooks = HERMES_HOOKS,
    prepare: Callable[[Any, Turn], Any] | None = None,
    runtime: Runtime | None = None,
) -> Greenroom:
    """Open a room of Hermes agents: 128 of them, an hour idle, unless the policy says otherwise.

    Args:
        settings: see `hermes_agents`.
        session_db: a `SessionDB`. Agents write to it, and the room looks there whether another process
            has written to their conversation.
        policy: the bounds.
        hooks: see `hermes_hooks`.
        prepare: called before every turn, after what a Hermes agent needs: for callbacks and whatever
            else changes from turn to turn.
        runtime: where the actors run.
    """

    def prepare_both(agent: Any, turn: Turn) -> Any:
        prepare_turn(agent, turn)
        return None if prepare is None else prepare(agent, turn)

    return Greenroom(
        hermes_agents(settings, session_db=session_db),
        policy=policy,
        store=None if session_db is None else SessionDBStore(session_db),
        durability="off",
        hooks=hooks,
        prepare=prepare_both,
        runtime=runtime,
    )


def _import_agent() -> Any:
    try:
        from run_agent import AIAgent
    except ImportError as error:
        msg = "a room of Hermes agents needs Hermes: pip install hermes-agent"
        raise ImportError(msg) from error
    return AIAgent
