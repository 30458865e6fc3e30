"""An agent that is killed while it writes an exchange leaves all of it, or nothing."""

from __future__ import annotations

import itertools
import signal
from typing import TYPE_CHECKING

from greenroom.store import open_store

if TYPE_CHECKING:
    from tests.crash.process import Family

ROLES = ["user", "assistant", "tool", "assistant"]


def test_an_exchange_whose_agent_is_killed_in_the_middle_is_there_or_not(
    url: str, family: Family
) -> None:
    """The next agent would be refused by most models if it had a call of a tool without its result.

    Killed after the first statement of the exchange, after the second, … until there are no more."""
    with open_store(url) as store:
        for statements in itertools.count(1):
            session = f"killed after {statements}"
            child = family.child("exchange", url=url, session=session, statements=statements)
            said = child.hear()
            child.kill()
            roles = [message.role for message in store.messages(session)]
            if said is not None:
                assert roles == ROLES
                assert statements > 1, "nobody was killed"
                return
            assert child.process.returncode == -signal.SIGKILL, child.complaints()
            assert roles in ([], ROLES), session
