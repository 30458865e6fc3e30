"""Conversations with graphs, in rooms. A package, lest the folder be taken for `langgraph`."""
