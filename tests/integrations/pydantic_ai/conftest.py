"""Agents without a network: models that are functions, an endpoint on loopback, other processes."""

from __future__ import annotations

import pytest
from frameworks_kit import ChatCompletions
from frameworks_kit import another_process as another_process
from frameworks_kit import no_thread_left as no_thread_left
from frameworks_kit import patience as patience
from frameworks_kit import pytest_collection_modifyitems as pytest_collection_modifyitems
from frameworks_kit import url as url


@pytest.fixture
def endpoint() -> type[ChatCompletions]:
    """An endpoint, for `async with endpoint(["Hel", "lo"]) as running`."""
    return ChatCompletions
