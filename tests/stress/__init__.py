"""Tests of `greenroom.stress`."""
