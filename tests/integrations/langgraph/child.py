"""Another process on the same thread: `child.py STORE THREADS TEXT …`. A run of "hang"
hangs, and is to be killed."""

import asyncio
import sys
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from greenroom import Greenroom, Policy
from greenroom.integrations.langgraph import conversations, follow


async def agent(state: MessagesState) -> Any:
    said = state["messages"][-1].content
    if said == "ask":
        said = interrupt("Really?")
    if said == "hang":
        sys.stdout.write("in a node\n")
        sys.stdout.flush()
        await asyncio.sleep(600)
    return {"messages": [AIMessage(f"Heard {said}.")]}


async def main(url: str, threads: str, *texts: str) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node(agent)
    builder.add_edge(START, "agent")
    async with AsyncSqliteSaver.from_conn_string(threads) as saver:
        graph = builder.compile(checkpointer=saver)
        policy = Policy(lease_ttl=1.0 if "hang" in texts else 15.0)  # whom nobody waits for may be slow
        async with Greenroom(conversations(graph), prepare=follow, store=url, policy=policy) as room:
            for text in texts:
                async with room.turn("a") as turn:
                    await turn.agent.run(text)


asyncio.run(main(*sys.argv[1:]))
