"""Stores to run the command line on."""

from tests.store.urls import postgres_server

__all__ = ["postgres_server"]
