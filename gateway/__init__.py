"""The gateway: an HTTP server around a room, with an API that clients of OpenAI speak already.

    greenroom serve                           the server, on embedded defaults
    from greenroom.gateway import ChatRequest what an agent of one's own gets
    greenroom.gateway.app.create_app(stage)   the app, for a server of one's own

It embeds greenroom as anybody would: through `Greenroom`, its turns and its actor proxies. How a request
flows:

    guard        may this caller send this at all? Host, token, sizes              (_guard, _login)
    route        what is asked, in which form is it answered?                      (_chat, _responses)
    admission    one turn a session, a limit on all, fair: an actor                (_admission)
    performance  a turn of the room, for one request, from the queue to its end    (_performance, _stage)
    answer       the agent's own function, async or on a thread                    (_answers, _agent)
    reply        in one piece or as a stream; a client that hangs up ends it       (_replies)

Who owns what: the room's actors own agents and generations; the admission owns who waits and who runs;
the event loop owns connections. No state is shared between them, and nothing on the loop waits for
anything that is slow.

What if a client hangs up: its performance is stopped where it waits, the turn is not completed, the
agent goes back. What if the server is told to end: the admission lets nobody in, the room drains, the
rest is closed. What if it is killed: a turn that a client has seen the end of is in the ledger, and the
next server commits it.
"""

from greenroom.gateway._agent import BadRequest, ChatRequest, Finish, Piece, Unavailable, Usage
from greenroom.gateway._stage import Stage
from greenroom.gateway.config._config import Config, Token

__all__ = [
    "BadRequest",
    "ChatRequest",
    "Config",
    "Finish",
    "Piece",
    "Stage",
    "Token",
    "Unavailable",
    "Usage",
]
