"""The current conversation of a key: its own name, until it is renewed."""

from __future__ import annotations

import pytest

from greenroom.store import Store, UnknownSession, open_store
from greenroom.store._engine import Engine
from greenroom.store._schema import upgrade_to


def renew(store: Store, key: str, session_id: str) -> str:
    with store.transaction() as ledger:
        return ledger.renew(key, session_id=session_id)


def test_a_key_that_was_never_renewed_names_its_conversation(store: Store) -> None:
    assert store.conversation("k") == "k"
    with store.transaction() as ledger:
        assert ledger.take("other", key="k", owner="room").conversation == "k"


def test_a_renewed_key_has_another_conversation_and_the_old_one_is_ended(store: Store) -> None:
    """H4"""
    store.create_session("k", key="k")
    store.create_session("bystander", key="k")

    assert renew(store, "k", "k#1") == "k"
    assert renew(store, "k", "k#2") == "k#1"  # which nobody ever used

    assert store.conversation("k") == "k#2"
    assert store.session("k").ended is not None
    assert store.session("bystander").ended is None
    assert store.conversation("k#2") == "k#2"
    with pytest.raises(UnknownSession):
        store.session("k#2")


def test_renewing_twice_is_renewing_once(store: Store) -> None:
    """M4: a transaction whose answer was lost may be written again."""
    renew(store, "k", "k#1")
    store.create_session("k#1", key="k")

    assert renew(store, "k", "k#1") == "k#1"

    assert store.conversation("k") == "k#1"
    assert store.session("k#1").ended is None


def test_whoever_takes_a_session_hears_which_conversation_is_current(store: Store) -> None:
    with store.transaction() as ledger:
        ledger.beat("one", ttl=60.0)
        ledger.take("k", key="k", owner="one")
    renew(store, "k", "k#1")

    with store.transaction() as ledger:
        ledger.beat("two", ttl=60.0)
        mine, another = (ledger.take("k", key="k", owner=owner) for owner in ("one", "two"))

    assert (mine.held, mine.ended, mine.conversation) == (True, True, "k#1")
    assert (another.held, another.conversation) == (False, "k#1")


def test_an_export_has_the_current_conversations(store: Store) -> None:
    store.create_session("k", key="k")
    renew(store, "k", "k#1")
    renew(store, "l", "l#1")
    records = list(store.export())

    with open_store("sqlite://") as other:
        renew(other, "l", "l#mine")
        assert other.import_(records) == (1, 0)
        assert (other.conversation("k"), other.conversation("l")) == ("k#1", "l#mine")


def test_a_store_of_version_2_is_upgraded(store_url: str) -> None:
    engine = Engine(store_url)
    engine.change(lambda connection: upgrade_to(connection, 2))
    engine.close()

    with open_store(store_url) as store:
        assert store.conversation("k") == "k"
        renew(store, "k", "k#1")
        assert store.conversation_soon("k").get() == "k#1"
