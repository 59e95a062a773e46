"""What appends and refusals are counted as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome
from tests.machinery.manager_home import ManagerHome, fill
from tests.machinery.old_batches import build_entry

from tidelog.codec.compression import Codec
from tidelog.errors import KafkaError
from tidelog.manager.metrics.counters import Counters
from tidelog.manager.partition import Partition
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tests.machinery.fields import SequenceFields


NOW_MS = 1_700_000_000_000
RECORD = (NOW_MS, b"k", b"v", ())


def counts(counters: Counters) -> dict[tuple[str, str], float]:
    """Return the counts that are not zero, by name and topic."""
    metrics = counters.metrics()
    return {(m.name, dict(m.tags).get("topic", "")): m.value for m in metrics if m.value}


def test_appends_count_for_their_topic_and_for_all() -> None:
    """Records and bytes."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        size_bytes = manager.partition("t", 0).log.size_bytes

        assert counts(manager.shared.registry.counters) == {
            ("MessagesInPerSec", ""): 3,
            ("MessagesInPerSec", "t"): 3,
            ("BytesInPerSec", ""): size_bytes,
            ("BytesInPerSec", "t"): size_bytes,
        }


def counting(**settings: int) -> tuple[Partition, Counters]:
    """Return a partition of topic t with an empty log, and what counts for it."""
    counters = Counters()
    return Partition("t", 0, LogHome(**settings).open(), counters=counters), counters


def damaged() -> bytes:
    """Make a batch with a wrong checksum."""
    data = bytearray(build_batch([RECORD]))
    data[-1] ^= 1
    return bytes(data)


LARGE = build_batch([(NOW_MS, b"k", b"v" * 300, ())])


@pytest.mark.parametrize(
    ("data", "settings", "name", "count"),
    [
        (LARGE, {"max_message_bytes": 200}, "BytesRejectedPerSec", len(LARGE)),
        (
            build_batch([(NOW_MS, b"k", b"v" * 300, ())], codec=Codec.GZIP),
            {"max_message_bytes": 200, "compression_type": "uncompressed"},
            "BytesRejectedPerSec",
            len(build_batch([(NOW_MS, b"k", b"v" * 300, ())], codec=Codec.GZIP)),
        ),
        (damaged(), {}, "InvalidMessageCrcRecordsPerSec", 1),
        (
            build_entry(1, 0, (NOW_MS, b"k", b"v")) + build_entry(0, 1, (NOW_MS, b"k", b"v")),
            {},
            "InvalidMagicNumberRecordsPerSec",
            1,
        ),
        (build_batch([RECORD], control=True), {}, "InvalidOffsetOrSequenceRecordsPerSec", 1),
        (
            build_batch([(NOW_MS, None, b"v", ()), RECORD, (NOW_MS, None, b"v", ())]),
            {"cleanup_policy": ("compact",)},
            "NoKeyCompactedTopicRecordsPerSec",
            2,
        ),
    ],
)
def test_rejected_batches_count_by_the_reason(
    data: bytes, settings: dict[str, int], name: str, count: int
) -> None:
    """Bytes of the whole append by topic and in all; records in all, as Kafka does."""
    partition, counters = counting(**settings)

    with pytest.raises(KafkaError):
        partition.append(data)

    expected = {(name, ""): count}
    if name == "BytesRejectedPerSec":
        expected[name, "t"] = count
    assert counts(counters) == expected


@pytest.mark.parametrize(
    ("key", "settings", "name", "count"),
    [
        (b"k", {"max_message_bytes": 200}, "BytesRejectedPerSec", len(LARGE)),
        (None, {"cleanup_policy": ("compact",)}, "NoKeyCompactedTopicRecordsPerSec", 1),
    ],
)
def test_rejected_records_count_by_the_reason(
    key: bytes | None, settings: dict[str, int], name: str, count: int
) -> None:
    """As the batch that they make."""
    partition, counters = counting(**settings)

    with pytest.raises(KafkaError):
        partition.append_records([(NOW_MS, key, b"v" * 300, ())])

    assert counts(counters)[name, ""] == count


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (build_batch([RECORD] * 100), {"internal_segment_bytes": 500}),
        (build_batch([RECORD], producer_id=7, producer_epoch=0, base_sequence=5), {}),
        (build_batch([(1, b"k", b"v", ())]), {"message_timestamp_before_max_ms": 1000}),
    ],
)
def test_what_kafka_does_not_count_is_not_counted(data: bytes, settings: dict[str, int]) -> None:
    """An append above the segment size, a sequence with a gap, a timestamp out of its limits."""
    partition, counters = counting(**settings)
    if not settings:
        fields: SequenceFields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        partition.append(build_batch([RECORD], **fields))
    before = counts(counters)

    with pytest.raises(KafkaError):
        partition.append(data)

    assert counts(counters) == before


def test_a_duplicate_is_neither_appended_nor_rejected() -> None:
    """It succeeds, and is in the log already."""
    partition, counters = counting()
    data = build_batch([RECORD], producer_id=7, producer_epoch=0, base_sequence=0)
    partition.append(data)
    before = counts(counters)

    partition.append(data)

    assert counts(counters) == before


def test_a_deleted_topic_leaves_only_what_counts_for_all() -> None:
    """Names do not pile up."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 1)
        manager.delete_topic("t")

        assert {topic for _, topic in counts(manager.shared.registry.counters)} == {""}
