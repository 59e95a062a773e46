"""Topics by their ids, while several threads ask."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import tidelog
from tidelog.broker.topics.topic_names import TopicNames
from tidelog.testing import CrashFileSystem, ManualClock


def test_threads_that_ask_at_once_get_the_names() -> None:
    """Each looks at all topics, and what one has found replaces what another is looking in."""
    with tidelog.open("/data", files=CrashFileSystem(), clock=ManualClock()) as logs:
        logs.create_topic("t")
        names = TopicNames(logs.manager)

        class Asked(UUID):
            """An id, before each look at which another thread has begun."""

            def __hash__(self) -> int:
                names._names = {}
                return super().__hash__()

        wanted: Any = Asked(int=logs.manager.topic("t").topic_id.int)
        assert names.of_ids([wanted]) == {wanted: "t"}
