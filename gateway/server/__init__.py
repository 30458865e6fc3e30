"""The life of the server: it listens, reloads, drains and ends, and tells its supervisor so.

run          from a configuration to an exit code            (_server)
life         signals, and what is done about each            (_life, _draining, _last_resort)
reloader     the server again and again, while you work on it (_reloader)
listener     uvicorn, with our signals                       (_listener, _sockets)
collector    looks for garbage less often, while it serves   (_collector)
supervisor   ready, stopping, alive: as long as it gets on   (_notify, _pulse, _health)
"""

__all__: list[str] = []
