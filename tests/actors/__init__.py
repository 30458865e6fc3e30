"""Tests of `greenroom.actors`."""
