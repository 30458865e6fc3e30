"""Traces: who came when. Read and written, made up, recorded from a server, and replayed in virtual time
against policies."""

from greenroom.stress.traces._names import open_trace
from greenroom.stress.traces._replay import Replayed, Trace, replay
from greenroom.stress.traces._synthetic import synthesize
from greenroom.stress.traces._trace import Entry, TraceError, TraceWriter, read_trace

__all__ = [
    "Entry",
    "Replayed",
    "Trace",
    "TraceError",
    "TraceWriter",
    "open_trace",
    "read_trace",
    "replay",
    "synthesize",
]
