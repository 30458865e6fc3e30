"""Conversations with Claude, in rooms. A package, lest the folder be taken for `anthropic`."""
