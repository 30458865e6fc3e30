"""The gateway: mirrors its modules, and drives a real server."""
