"""What clients speak: Chat Completions, Responses, and the commands on sessions.

A route reads its body (`_bodies`), makes a performance of it, and answers with a reply (`_replies`),
which runs the performance while it is sent (`_pieces`: of a stream, what is ready at the same time goes
together). Routes that take turns are called without the framework's routing (`_direct`). How an answer is written down is a `Shape`: one for each
API.
"""

__all__: list[str] = []
