"""Programs and frameworks that exist, on greenroom.

A program:

- `greenroom.integrations.hermes_webui`: in the place of the Hermes web UI's `api/session_lifecycle.py`.
- `greenroom.integrations.hermes`: a room of Hermes agents, as its gateway keeps them.

Agents of a framework, in a room's turns:

- `greenroom.integrations.openai_agents`: OpenAI's Agents SDK.
- `greenroom.integrations.pydantic_ai`: Pydantic AI.
- `greenroom.integrations.langgraph`: compiled graphs of LangGraph.
- `greenroom.integrations.anthropic`: Anthropic's SDK, with a loop of its own for tools.

A web framework:

- `greenroom.integrations.asgi`: a room that opens and drains with a FastAPI or Starlette app.

Each imports what it is for, and nothing of the others; none is imported by greenroom itself. They use
its public face and no more, so that whatever they do, yours can do as well.
"""

__all__: list[str] = []
