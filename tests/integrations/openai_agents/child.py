"""Another process on the same store: `child.py URL answer`, or `child.py URL hang`, to be killed."""

import asyncio
import sys

from agents import Agent, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from greenroom import Greenroom, Policy
from greenroom.integrations.openai_agents import conversations, follow

set_tracing_disabled(True)


async def hang() -> str:
    """Never answer."""
    sys.stdout.write("in a tool\n")
    sys.stdout.flush()
    await asyncio.sleep(600)
    return "late"


async def main(url: str, what: str) -> None:
    answer = [assistant_message("Said elsewhere.")]
    calls = [assistant_message("One moment."), function_call("hang", {}, call_id="call-1")]
    agent = Agent(name="child", model=ScriptedModel([answer, calls]), tools=[function_tool(hang)])
    # Who is killed is waited for. Who is not must not be taken for dead because the machine is slow.
    policy = Policy(lease_ttl=1.0) if what == "hang" else Policy()
    room = Greenroom(conversations(agent), prepare=follow, store=url, policy=policy)
    async with room:
        for text in ["From afar"] if what == "answer" else ["From afar", "Hang"]:
            async with room.turn("a") as turn:
                await turn.agent.run(text)


asyncio.run(main(*sys.argv[1:]))
