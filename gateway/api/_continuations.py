"""Which response of a session was its last: the only one that can be continued.

The Responses API lets a client go on from any response. Here the memory of a conversation is the
agent's, and an agent has one: so a turn that names a response which was not the last is refused, rather
than answered from another conversation than the client has in mind.

This is looked at twice: when the request comes, and when its turn has begun and no other can any more.
Between the two another client may have continued the same response.

1. A and B both continue R1  2. A's turn runs, B's waits  3. A's is complete: R2 is the last
4. B's turn begins, finds R2, and is refused. Had A's failed, R1 would still be the last, and B's would
run.

What is known is known to this process, for as long as the session lives. Of a response of which nothing
is known (the server was restarted, say) its session's name is believed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self

from greenroom.gateway._errors import ApiError, bad_request
from greenroom.gateway._performance import Performance

if TYPE_CHECKING:
    from types import TracebackType

    from greenroom.gateway._endings import Endings

__all__ = ["Continuations", "ResponseTurn"]

MOST = 100_000
"""Of how many sessions the last response is remembered."""


class Continuations:
    """The last response of each session. Belongs to the event loop."""

    def __init__(self, endings: Endings, most: int = MOST) -> None:
        self.endings = endings
        self._most = most
        self._last: OrderedDict[str, str] = OrderedDict()
        self._listening = False

    def note(self, key: str, response_id: str) -> None:
        """This is the session's last response now."""
        if not self._listening:
            # Not before there is something to forget: whose clients use the other API pays nothing.
            self._listening = True
            self.endings.listen(self.forget)
        self._last[key] = response_id
        self._last.move_to_end(key)
        while len(self._last) > self._most:
            self._last.popitem(last=False)

    def forget(self, key: str) -> None:
        """The session has ended."""
        self._last.pop(key, None)

    def knows(self, key: str) -> bool:
        """Whether the last response of this session is known: it lives, then."""
        return key in self._last

    def check(self, key: str, previous: str | None) -> None:
        """Refuse what was not the last."""
        if previous is not None and self._last.get(key, previous) != previous:
            raise _not_last(previous)


def _not_last(previous: str) -> ApiError:
    msg = (
        f"The response {previous[:80]!r} is not the last one of its session: the agent remembers what "
        "was said since. Continue the last one, or begin a new conversation."
    )
    return bad_request(msg, param="previous_response_id", code="previous_response_not_last")


class ResponseTurn(Performance):
    """A turn that is answered with a response, and may continue one."""

    def __init__(
        self,
        continuations: Continuations,
        response_id: str,
        previous: str | None,
        *performance: Any,
        fresh: bool,
    ) -> None:
        """`fresh`: the session was made for this response, and is of no use without it."""
        super().__init__(*performance)
        self._continuations = continuations
        self._previous = previous
        self._fresh = fresh
        self.response_id = response_id

    async def __aenter__(self) -> Self:
        try:
            await super().__aenter__()
        except BaseException:
            self._end_fresh()
            raise
        try:
            self._continuations.check(self.key, self._previous)
        except ApiError as error:
            await super().__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await super().__aexit__(kind, error, traceback)
        except BaseException:
            self._end_fresh()
            raise
        # It is complete, and nothing was waited for since: no later turn has come this far.
        if not self.request.ephemeral:
            self._continuations.note(self.key, self.response_id)

    def _end_fresh(self) -> None:
        if self._fresh:
            self._leave_nothing()
