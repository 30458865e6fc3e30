"""What `greenroom serve --agent served:factory` serves."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai.agent import Agent
from pydantic_ai.models.function import FunctionModel

from greenroom.integrations.pydantic_ai import conversations


async def model(messages: list[Any], _: Any) -> AsyncIterator[str]:
    yield "Hello." if len(messages) == 1 else "Again?"


factory = conversations(Agent(FunctionModel(stream_function=model)))
