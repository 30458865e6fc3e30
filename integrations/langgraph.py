"""LangGraph in a room: an agent of a room is a conversation with a compiled graph.

    from greenroom.integrations.langgraph import conversations, follow

    room = Greenroom(conversations(graph), prepare=follow, store="sqlite:///greenroom.db")
    async with room.turn("telegram:12345") as turn:
        async for piece in turn.agent.stream("Hello"):
            print(piece, end="")

An answer is one run of the graph, on the thread that is called like the session id. What was said is in
the graph's checkpointer, and is read from there by every run: the agent remembers nothing.

A graph that is run again after a run that was cut goes on with what that has left: a question without an
answer, a call without its result. Here a run goes on from the last checkpoint that is *whole*: where the
graph had come to its end, or asked its user something by `interrupt()`, or was put by `update_state`.
What a cut run left stays in the checkpointer, on a branch that is not gone on with. `docs/langgraph.md`
has the rest.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START
from langgraph.types import Command, StateUpdate

from greenroom.integrations._conversation import Conversation, follow
from greenroom.integrations._made import make

if TYPE_CHECKING:
    from greenroom import BuildContext

__all__ = ["GraphConversation", "conversations", "follow"]

OURS = ("input", "stream_mode", "version")
"""Options of a run that are settled by what a conversation is."""

ASKED = "__interrupt__"
"""What LangGraph calls a question of the graph in an update."""


def _as_messages(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


def _text_of(part: Any) -> str:
    message, _ = part
    return str(message.text) if isinstance(message, AIMessage) else ""


def _as_question(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def conversations(
    graph: Any,
    *,
    to_input: Callable[[str], Any] = _as_messages,
    to_text: Callable[[Any], str] = _text_of,
    mode: str = "messages",
    to_question: Callable[[Any], str] = _as_question,
    to_resume: Callable[[str], Any] = str,
    config: Any = None,
    **options: Any,
) -> Callable[[BuildContext], Awaitable[GraphConversation]]:
    """Return what a room builds its agents with: `Greenroom(conversations(graph), prepare=follow)`.

    Args:
        graph: a graph that was compiled with a checkpointer, or a function of the room's `BuildContext`
            that makes one for a session. It may be async. If it yields its graph, the rest of it is run
            when the agent is released.
        to_input: makes a graph's input of what the user said. By default its state has `messages`.
        to_text: what the user is told of a part of the stream, `""` for nothing.
        mode: of which stream: `messages`, `custom`, `updates` or `values`, as LangGraph has them.
        to_question: what the user is told of the value that `interrupt()` was called with.
        to_resume: what `interrupt()` returns, of what the user said to that.
        config: of each run: `recursion_limit`, `callbacks`, `configurable`, … A mapping, or a function
            of the `BuildContext` that makes one.
        options: of each run, as `astream` takes them: `context`, `durability`, … A turn may change them,
            for itself and those after it, in `turn.agent.options`.
    """
    for name in OURS:
        if name in options:
            raise TypeError(f"{name} cannot be given: see to_input, to_text and mode")

    async def build(context: BuildContext) -> GraphConversation:
        conversation = GraphConversation(context, graph, config, options)
        conversation.to_input, conversation.to_text, conversation.mode = to_input, to_text, mode
        conversation.to_question, conversation.to_resume = to_question, to_resume
        await conversation.open(context)
        return conversation

    return build


class GraphConversation(Conversation):
    """A conversation with a compiled graph."""

    to_input: Callable[[str], Any]
    to_text: Callable[[Any], str]
    mode: str
    to_question: Callable[[Any], str]
    to_resume: Callable[[str], Any]

    def __init__(
        self, context: BuildContext, graph: Any, config: Any, options: Mapping[str, Any]
    ) -> None:
        super().__init__(context)
        self.graph = graph
        """The graph that answers."""
        self.config: Any = config
        """What each run is given beside its thread."""
        self.options: dict[str, Any] = {**options}
        """What else each run is given."""
        self.questions: tuple[Any, ...] = ()
        """What the last answer ended with, if the graph asks: LangGraph's `Interrupt`s. The next answer
        is given what the user says to the first of them."""
        self._asked = False
        self._made = AsyncExitStack()

    async def open(self, context: BuildContext) -> None:
        """Make what is needed. If that fails, what was made is let go."""
        try:
            self.graph = await make(self.graph, context, self._made)
            if not getattr(self.graph, "checkpointer", None):
                msg = f"conversations() needs a graph compiled with a checkpointer, not {self.graph!r}"
                raise TypeError(msg)
            self.config = await make(self.config, context, self._made) or {}
        except BaseException:
            await self.release_clients()
            raise

    async def state(self, session_id: str | None = None) -> Any:
        """How things stand in a conversation, in this one by default: LangGraph's `StateSnapshot` of the
        last checkpoint that is whole."""
        state, _ = await self._find(session_id or self.session_id)
        return state

    async def history(self, session_id: str | None = None) -> list[Any]:
        """What was said in a conversation, in this one by default: the `messages` of its state."""
        state = await self.state(session_id)
        return [*state.values.get("messages", ())] if isinstance(state.values, dict) else []

    async def release_clients(self) -> None:
        """Let go of what was made for this session. An answer that still runs, for it was left and not
        closed, is ended first."""
        await self._end_left()
        await self._made.aclose()

    async def close(self) -> None:
        """The session is over: the same. Its checkpoints stay."""
        await self.release_clients()

    async def _answer(self, text: str) -> AsyncGenerator[str, None]:
        self.questions = ()
        state, config = await self._find(self.session_id)
        self._asked = bool(state.interrupts)
        given: Any = self.to_input(text)
        if self._asked:
            given = Command(resume={state.interrupts[0].id: self.to_resume(text)})
        # With "exit" a run writes once, when it ends. The first run of a thread writes between its steps
        # as well, and first of all: so that there is a checkpoint to go back to, if it is cut.
        options = {"durability": "exit", **self.options}
        if options["durability"] == "exit" and not state.metadata:
            options["durability"] = "async"
        modes = [*dict.fromkeys((self.mode, "updates"))]
        said = False
        async with aclosing(self.graph.astream(given, config, stream_mode=modes, **options)) as parts:
            async for *graph, mode, part in parts:
                if mode == "updates" and ASKED in part:
                    if not any(graph):  # a subgraph's question is the whole graph's as well
                        self.questions += part[ASKED]
                elif mode == self.mode and (piece := self.to_text(part)):
                    said = True
                    yield piece
        if self.questions:
            yield ("\n\n" if said else "") + self.to_question(self.questions[0].value)

    async def _keep(self, text: str, said: str) -> None:
        self.questions = ()
        if self._asked or not said or self.to_input is not _as_messages:
            return  # a question still waits for its answer; what other states are like is not known
        _, config = await self._find(self.session_id)
        exchange = [HumanMessage(text), AIMessage(said)]
        ended = [[StateUpdate({"messages": exchange}, START)], [StateUpdate(None, END)]]
        await self.graph.abulk_update_state(config, ended)

    async def _find(self, session_id: str) -> tuple[Any, Any]:
        """Return the last state that is whole, and the config of a run that goes on from it."""
        configurable = {**self.config.get("configurable", {}), "thread_id": session_id}
        config = {**self.config, "configurable": configurable}
        state = last = await self.graph.aget_state(config)
        if _is_whole(last):
            return last, config
        async with aclosing(self.graph.aget_state_history(config)) as states:
            async for state in states:
                if _is_whole(state):
                    break
            else:
                if state.metadata.get("source") != "input" or state.parent_config:
                    return last, config  # another program's, without a beginning to go back to
        named: Any = state.config["configurable"]
        return state, {**config, "configurable": {**configurable, **named}}


def _is_whole(state: Any) -> bool:
    """Tell whether a run has come to its end here, or to a question, or somebody has put it so.

    At its end nothing is left to do. That `next` is empty does not say so: it is, too, when all nodes of
    a step have ended, and the step has not. A question whose answer made its node fail is none any more:
    LangGraph would give it that same answer again.
    """
    if not state.tasks or any(task.error for task in state.tasks):
        return not state.tasks
    return bool(state.interrupts) or state.metadata.get("source") in ("update", "fork")
