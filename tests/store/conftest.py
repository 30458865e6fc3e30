"""Stores to test with."""

from tests.store.urls import postgres_url, store, store_url

__all__ = ["postgres_url", "store", "store_url"]
