"""What appends and refusals are counted as."""

from __future__ import annotations

import pytest

from tidelog.errors import CorruptMessage, KafkaError, MessageTooLarge
from tidelog.testing.manager_home import ManagerHome, fill


def counts(manager: object) -> dict[tuple[str, str], float]:
    """Return the counts that are not zero, by name and topic."""
    metrics = manager._counters.metrics()  # type: ignore[attr-defined]  # a LogManager
    return {(m.name, dict(m.tags).get("topic", "")): m.value for m in metrics if m.value}


def test_appends_count_for_their_topic_and_for_all() -> None:
    """Records and bytes."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        size_bytes = manager.partition("t", 0).log.size_bytes

        assert counts(manager) == {
            ("MessagesInPerSec", ""): 3,
            ("MessagesInPerSec", "t"): 3,
            ("BytesInPerSec", ""): size_bytes,
            ("BytesInPerSec", "t"): size_bytes,
        }


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (MessageTooLarge("a batch", 9, 5), "BytesRejectedPerSec"),
        (CorruptMessage("bad"), "InvalidMessageCrcRecordsPerSec"),
    ],
)
def test_refusals_count_by_their_reason(error: KafkaError, name: str) -> None:
    """Bytes where the size was the reason, else one."""
    home = ManagerHome()
    with home.open() as manager:
        manager._counters.refused("t", error, 9, is_compacted=False)

        assert counts(manager)[name, ""] == (9 if name.startswith("Bytes") else 1)


def test_a_record_without_key_counts_where_keys_are_needed() -> None:
    """Compacted topics refuse it."""
    home = ManagerHome(cleanup_policy=("compact",))
    with home.open() as manager:
        manager.create_topic("t")
        with pytest.raises(KafkaError):
            fill(manager, "t", 0, 1, key=None)

        assert counts(manager) == {("NoKeyCompactedTopicRecordsPerSec", ""): 1}


def test_a_deleted_topic_leaves_only_what_counts_for_all() -> None:
    """Names do not pile up."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 1)
        manager.delete_topic("t")

        assert {topic for _, topic in counts(manager)} == {""}
