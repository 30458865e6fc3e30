"""Who may send what: hosts, origins, tokens, sizes and times, before any route is asked.

`_protocol` watches over connections, `_guard` over requests, `_login` over who is logged in on the page.
"""

__all__: list[str] = []
