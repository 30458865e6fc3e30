"""What `greenroom serve --agent served:factory` serves."""

from agents import Agent, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message

from greenroom.integrations.openai_agents import conversations

set_tracing_disabled(True)

factory = conversations(
    Agent(
        name="host", model=ScriptedModel([[assistant_message("Hello.")], [assistant_message("Again?")]])
    )
)
