"""Looking up topics from several threads of a program that has joined another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tidelog.embedded.joined_reads import JoinedReads
from tidelog.errors import UnknownTopicOrPartition


class Vanishing(dict[str, Any]):
    """Topics, each of which another thread forgets right after it was looked up."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return a topic, and forget it."""
        return self.pop(key, default)


def test_two_readers_that_see_a_topic_replaced_both_hear_of_it() -> None:
    """The second one finds that it was forgotten already."""
    logs = JoinedReads.__new__(JoinedReads)
    logs._found = SimpleNamespace(forget=lambda: None)  # type: ignore[misc,assignment]  # as much as is used
    logs._listed = Vanishing(t=(0, SimpleNamespace(topic_id=UUID(int=1))))
    with pytest.raises(UnknownTopicOrPartition, match="another one now"):
        logs._check_id("t", UUID(int=2))
