"""Another process on the same store: `child.py URL answer`, or `child.py URL hang`, to be killed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai.agent import Agent
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from greenroom import Greenroom, Policy
from greenroom.integrations.pydantic_ai import conversations, follow


async def model(messages: list[Any], _: Any) -> AsyncIterator[Any]:
    if messages[-1].parts[-1].content == "Hang":
        yield "One moment."
        yield {1: DeltaToolCall(name="hang", json_args="{}", tool_call_id="call-1")}
    else:
        yield "Said elsewhere."


async def hang() -> str:
    """Never answer."""
    sys.stdout.write("in a tool\n")
    sys.stdout.flush()
    await asyncio.sleep(600)
    return "late"


async def main(url: str, what: str) -> None:
    agent = Agent(FunctionModel(stream_function=model), tools=[hang])
    # Who is killed is waited for. Who is not must not be taken for dead because the machine is slow.
    policy = Policy(lease_ttl=1.0) if what == "hang" else Policy()
    room = Greenroom(conversations(agent), prepare=follow, store=url, policy=policy)
    async with room:
        for text in ["From afar"] if what == "answer" else ["From afar", "Hang"]:
            async with room.turn("a") as turn:
                await turn.agent.run(text)


asyncio.run(main(*sys.argv[1:]))
