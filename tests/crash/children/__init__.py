"""Programs that the tests run as processes of their own, with `python -m`.

Each gets its arguments as one JSON object, speaks JSON, a line at a time, and dies with its parent.
"""
