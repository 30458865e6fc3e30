"""What clients speak: Chat Completions, Responses, and the commands on sessions.

A route reads its body (`_bodies`), makes a performance of it, and answers with a reply (`_replies`),
which runs the performance while it is sent. Of a stream, what is ready at the same time goes together
(`_pieces`). How an answer is written down is a `Shape`: one for each API. Routes that take turns are
called without the framework's routing (`_direct`).
"""

__all__: list[str] = []
