"""What records of the cluster's metadata add up to."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.datadir.cluster_metadata.metadata_image import MetadataImage, Resource
from tidelog.datadir.cluster_metadata.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RecordType,
    RemoveTopicRecord,
    TopicRecord,
    TransactionRecord,
)
from tidelog.errors import InvalidRecord

ONE, TWO = UUID(int=1), UUID(int=2)
FLIGHTS = Resource(2, "flights")


def image_of(*records: MetadataRecord) -> MetadataImage:
    """Apply records, each in a batch of its own."""
    image = MetadataImage()
    for offset, record in enumerate(records):
        image.apply(record, offset + 1)
    return image


def values(image: MetadataImage, resource: Resource = FLIGHTS) -> dict[str, str | None]:
    """Return the settings of a resource."""
    return {name: setting.value for name, setting in image.settings_of(resource).items()}


def test_later_records_replace_earlier_ones() -> None:
    """The last value of a setting counts; null takes it back, and is kept to hide no other."""
    image = image_of(
        TopicRecord("flights", ONE),
        PartitionRecord(ONE, 0),
        PartitionRecord(ONE, 1),
        ConfigRecord(2, "flights", "retention.ms", "1"),
        ConfigRecord(2, "flights", "retention.ms", "2"),
        ConfigRecord(2, "flights", "segment.ms", "9"),
        ConfigRecord(2, "flights", "segment.ms", None),
        FeatureLevelRecord("metadata.version", 29),
        FeatureLevelRecord("metadata.version", 30),
    )

    assert values(image) == {"retention.ms": "2", "segment.ms": None}
    assert image.topics[ONE].partitions == {0, 1}
    assert image.features == {"metadata.version": 30}


def test_a_deleted_topic_takes_its_settings_along() -> None:
    """A new topic of the same name does not inherit the settings of the deleted one."""
    image = image_of(
        TopicRecord("flights", ONE),
        ConfigRecord(2, "flights", "retention.ms", "1"),
        RemoveTopicRecord(ONE),
        TopicRecord("flights", TWO),
    )

    assert (image.name_of(ONE), image.name_of(TWO), values(image)) == (None, "flights", {})


def test_settings_of_other_resources_are_left_out() -> None:
    """Loggers, groups and client metrics have settings that do not concern logs."""
    image = image_of(
        *(ConfigRecord(kind, "flights", "retention.ms", "1") for kind in (0, 8, 16, 32, -1))
    )

    assert image.settings == {}


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("END_TRANSACTION", {"a": "1", "b": "2"}),
        ("ABORT_TRANSACTION", {"a": "1"}),
        (None, {"a": "1"}),
    ],
)
def test_a_metadata_transaction_holds_together(end: str | None, expected: dict[str, str]) -> None:
    """Its records count from its end on, and never if it is aborted or has no end."""
    records: list[MetadataRecord] = [
        ConfigRecord(2, "flights", "a", "1"),
        TransactionRecord(RecordType.BEGIN_TRANSACTION),
        ConfigRecord(2, "flights", "b", "2"),
    ]
    if end is not None:
        records.append(TransactionRecord(RecordType[end]))

    assert values(image_of(*records)) == expected


@pytest.mark.parametrize(
    "records",
    [
        (TopicRecord("flights", ONE), TopicRecord("flights", TWO)),
        (TopicRecord("flights", ONE), TopicRecord("trains", ONE)),
        (TransactionRecord(RecordType.END_TRANSACTION),),
        (
            TransactionRecord(RecordType.BEGIN_TRANSACTION),
            TransactionRecord(RecordType.BEGIN_TRANSACTION),
        ),
    ],
)
def test_records_that_contradict_each_other_are_refused(
    records: tuple[MetadataRecord, ...],
) -> None:
    """No controller writes two topics of a name or an id, or nested transactions."""
    with pytest.raises(InvalidRecord):
        image_of(*records)


def test_a_directory_proves_what_is_committed() -> None:
    """A topic with a directory was committed, and so is all that lies before it."""
    image = image_of(TopicRecord("flights", ONE), TopicRecord("trains", TWO))

    assert [image.proven_end(ids) for ids in ([], [ONE], [ONE, TWO], [UUID(int=3)])] == [0, 1, 2, 0]
