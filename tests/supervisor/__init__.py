"""Tests of `greenroom.supervisor`."""
