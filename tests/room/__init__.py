"""Tests of the room, from outside: what the design promises, through the public face only."""
