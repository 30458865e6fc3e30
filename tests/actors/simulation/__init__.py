"""Tests of `greenroom.actors.simulation`."""
