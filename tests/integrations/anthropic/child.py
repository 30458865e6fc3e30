"""Another process on the same store: `child.py STORE ENDPOINT answer`, or `… hang`, to be killed."""

import asyncio
import sys

from anthropic import AsyncAnthropic  # pyright: ignore[reportAttributeAccessIssue]  # not from this folder

from greenroom import Greenroom, Policy
from greenroom.integrations.anthropic import conversations, follow


async def hang() -> str:
    """Never answer."""
    sys.stdout.write("in a tool\n")
    sys.stdout.flush()
    await asyncio.sleep(600)
    return "late"


async def main(url: str, endpoint: str, what: str) -> None:
    async with AsyncAnthropic(base_url=endpoint, api_key="none", max_retries=0, timeout=240) as client:
        build = conversations(client, model="claude", tools=[hang])
        policy = Policy(lease_ttl=1.0 if what == "hang" else 15.0)  # whom nobody waits for may be slow
        async with Greenroom(build, prepare=follow, store=url, policy=policy) as room:
            for text in ["From afar"] if what == "answer" else ["From afar", "Hang"]:
                async with room.turn("a") as turn:
                    await turn.agent.run(text)


asyncio.run(main(*sys.argv[1:]))
