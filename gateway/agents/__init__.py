"""Agents that come with the gateway, and what they are made of, for agents of your own.

    offline         answers without a network; every behaviour of a gateway can be seen with it
    openai_agent    asks a model, through the `openai` client, with tools
    Transcript      the messages of a session, in the room's store
    FactMemory      a memory provider that asks nobody
    ToolRegistry    functions that a model may call

An agent of the gateway is any object with `answer(request)`: see `greenroom.gateway`. What makes one
is a *factory*, a function of the room's context and of the operator's options, sync or async:

    def my_agent(context: BuildContext, *, greeting: str = "Hello") -> MyAgent: ...

    greenroom serve --agent my_module:my_agent --agent-option greeting=Hi
"""

from greenroom.gateway.agents._options import takes
from greenroom.gateway.agents._upstream import Misconfigured
from greenroom.gateway.agents.memory import FactMemory
from greenroom.gateway.agents.offline import OfflineAgent, OfflineOptions, offline
from greenroom.gateway.agents.openai import OpenAIAgent, OpenAIOptions, openai_agent
from greenroom.gateway.agents.tools import Tool, ToolRegistry, load_tools
from greenroom.gateway.agents.transcript import Transcript, text_of

__all__ = [
    "FactMemory",
    "Misconfigured",
    "OfflineAgent",
    "OfflineOptions",
    "OpenAIAgent",
    "OpenAIOptions",
    "Tool",
    "ToolRegistry",
    "Transcript",
    "load_tools",
    "offline",
    "openai_agent",
    "takes",
    "text_of",
]
