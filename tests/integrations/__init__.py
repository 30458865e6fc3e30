"""Tests of `greenroom.integrations`.

What needs nothing that the other tests do not need is here, and runs with them. What needs a framework
is in a folder of its own, with that framework's pinned environment in `requirements.txt`.
`make test-NAME` makes the environment and runs the tests in it, `make test-integrations` does all.
"""
