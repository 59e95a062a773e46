"""What a repartition reads and writes is fixed, or refused, before Spark works."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.machinery.hidden_damage import damage_before_the_last_index_entry

import tidelog
from tidelog.config.deletion_settings import NEVER_DELETED
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    InvalidTopic,
    KafkaStorageError,
    PartitionsElsewhere,
    UnknownTopicOrPartition,
)
from tidelog.log.topic_id import PARTITION_METADATA_FILE, write_partition_metadata
from tidelog.readonly.read_only_topic import ReadOnlyTopic
from tidelog.records.isolation import Isolation
from tidelog.spark.jobs.repartition_plan import (
    RepartitionPlan,
    RepartitionRequest,
    config_of_copy,
    plan_repartition,
)
from tidelog.staging.staged_file import check_txn

if TYPE_CHECKING:
    from tidelog.records.record import Header


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Return a directory with the topic t of two partitions, three and two records long.

    Beside it is nothing of other tests: of many entries only the first are asked what they are.
    """
    with tidelog.open(tmp_path / "data") as logs:
        logs.create_topic("t", 2, {"retention.ms": "1000000000000", "segment.bytes": "1048576"})
        for number, count in ((0, 3), (1, 2)):
            records: list[tuple[int, bytes, bytes, list[Header]]] = [
                (1_700_000_000_000, b"k", b"v", [])
            ] * count
            logs.partition("t", number).append_records(records)
    return str(tmp_path / "data")


def planned(data: str, config: dict[str, str] | None = None, **others: Any) -> RepartitionPlan:
    given: dict[str, Any] = {"paths": (data,), "topic": "t", "to": "u", "partitions": 5}
    given |= {"to_path": data} | others
    return plan_repartition(RepartitionRequest(**given), config or {})


def test_offsets_and_settings_are_fixed_at_the_start(data: str) -> None:
    """The new topic has the settings of the source, except those that the user gives."""
    plan = planned(data, {"segment.bytes": "2097152"})

    assert (plan.starts, plan.ends, plan.offsets) == ({0: 0, 1: 0}, {0: 3, 1: 2}, 5)
    assert plan.config == {"retention.ms": "1000000000000", "segment.bytes": "2097152"}
    assert plan.size_bytes > 0
    assert plan.committed is None


def test_settings_that_cannot_be_read_do_not_pass_for_unknown_ones(
    data: str, tmp_path: Path
) -> None:
    """The new topic would never get the settings of its source."""
    (Path(data) / "tidelog.topics.json").write_text("{")

    with pytest.raises(KafkaStorageError, match=r"tidelog\.topics\.json"):
        planned(data, to_path=str(tmp_path / "elsewhere"))


def test_damage_that_hides_what_is_committed_is_an_error_before_anything_is_copied(
    tmp_path: Path,
) -> None:
    """No task would come to it: what is known to be committed ends there."""
    damage_before_the_last_index_entry(tmp_path)

    with pytest.raises(CorruptMessage, match="the CRC of a batch is wrong"):
        planned(str(tmp_path))


def test_the_new_topic_is_born_as_its_source_was(tmp_path: Path) -> None:
    """What decides about deletion and compaction is not what the job brings that makes it."""
    with tidelog.open(tmp_path, retention_ms=5, cleanup_policy="compact") as logs:
        birth = logs.create_topic("t").birth

    assert planned(str(tmp_path)).birth == birth
    assert birth is not None
    assert (birth["retention.ms"], birth["cleanup.policy"]) == ("5", "compact")


@pytest.mark.parametrize(
    ("partitions", "own", "expected"),
    [
        (5, "1001", "1001"),
        (2, "1001", "1001"),
        (1, "1001", "2002"),
        (1, "-1", "-1"),
        (1, str(2**63 - 1), str(2**63 - 1)),
        (1, str(2**62), str(2**63 - 1)),
        (1, "many", "many"),
    ],
)
def test_fewer_partitions_together_keep_as_many_bytes(
    partitions: int, own: str, expected: str
) -> None:
    """The setting is one partition's, so retention would delete what has just been written."""
    own_config = {"retention.bytes": own}
    topic = ReadOnlyTopic("t", None, (0, 1), (), own_config, is_listed=True, is_adopted=False)

    assert config_of_copy(topic, {}, partitions) == {"retention.bytes": expected}
    assert config_of_copy(topic, {"retention.bytes": "7"}, 1) == {"retention.bytes": "7"}


def test_the_plan_says_that_partitions_keep_more_bytes(tmp_path: Path) -> None:
    """Three partitions of 1,000 bytes become two of 1,500."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 3, {"retention.bytes": "1000"})
    data = str(tmp_path)

    fewer, more = planned(data, partitions=2), planned(data, partitions=4)
    given = planned(data, {"retention.bytes": "5"}, partitions=2)

    assert [each.retention_bytes for each in (fewer, more, given)] == [1500, None, None]
    kept = [each.config["retention.bytes"] for each in (fewer, more, given)]
    assert kept == ["1500", "1000", "5"]


def test_the_derived_transaction_is_that_of_a_repeat(data: str) -> None:
    """Whatever was appended since; another source, target or number makes another one."""
    first = planned(data)
    with tidelog.open(data) as logs:
        logs.partition("t", 0).append_records([(-1, None, b"more", [])])
    txns = [
        plan.txn_id for plan in (first, planned(data), planned(data, to="w"),
                                 planned(data, partitions=6), planned(data, txn_id="mine"))
    ]  # fmt: skip

    assert txns[0] == txns[1]
    assert len(set(txns[1:])) == 4
    assert txns[-1] == "mine"


def test_a_derived_id_is_no_longer_than_ids_may_be(data: str) -> None:
    """However long the names of the topics are; an id that the user gives is refused."""
    long, other = (planned(data, to=name * 249).txn_id for name in "ab")

    check_txn(long)
    assert long != other
    with pytest.raises(InvalidArgument, match="is not a transaction id"):
        planned(data, txn_id="x" * 256)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"to": "t"}, "topic t cannot be written to itself"),
        ({"partitions": 0}, "the number of partitions is 0, below 1"),
        ({"keyless": "away"}, "keyless is 'away', not one of spread, source"),
        ({"isolation": Isolation.LOG_END}, "above the high watermark are not repartitioned"),
        ({"topic": "__cluster_metadata"}, "__cluster_metadata has one partition"),
    ],
)
def test_what_cannot_be_meant_is_refused(data: str, others: dict[str, Any], words: str) -> None:
    """With words that name it."""
    with pytest.raises(InvalidArgument, match=words):
        planned(data, **others)


def test_topics_that_do_not_fit_are_refused(data: str) -> None:
    """A target with other partitions, or with records, which older ones would follow."""
    with tidelog.open(data) as logs:
        logs.create_topic("three", 3)
        logs.create_topic("full", 5)
        logs.partition("full", 4).append_records([(-1, None, b"v", [])])
        logs.create_topic("empty", 5)

    with pytest.raises(InvalidArgument, match="topic three exists with 3 partitions, not 5"):
        planned(data, to="three")
    with pytest.raises(InvalidArgument, match=r"full has records already \(full-4 ends at offset"):
        planned(data, to="full")
    with pytest.raises(InvalidTopic):
        planned(data, to="a b")
    with pytest.raises(UnknownTopicOrPartition, match="no topic none"):
        planned(data, topic="none")
    assert planned(data, to="empty").config == {}


def test_a_partition_in_another_directory_is_refused(data: str) -> None:
    """Its records would be left out silently; with both directories all are repartitioned."""
    other = f"{data}-other"
    with tidelog.open(data, other) as logs:
        logs.move_partition("t", 1, other)

    assert planned(data, paths=(other, data)).ends == {0: 3, 1: 2}
    with pytest.raises(PartitionsElsewhere, match=f"t-1 is in {other}"):
        planned(data)


def test_what_was_committed_is_found(data: str) -> None:
    """Also if the topic was deleted since, which is an error: a repeat would write nothing."""
    with tidelog.open(data) as logs:
        with logs.transaction("mine") as txn:
            txn.create_topic("u", 5)
            txn.append("u", b"v")
        committed = planned(data, txn_id="mine").committed
        logs.delete_topic("u")

    assert committed is not None
    assert dict(committed.records) == {"u": 1}
    with pytest.raises(InvalidArgument, match="topic u was deleted since"):
        planned(data, txn_id="mine")


def test_unknown_settings_about_deletion_delete_nothing(tmp_path: Path) -> None:
    """Kafka left a topic without settings: Kafka's defaults would delete the copy by age."""
    (tmp_path / "t-0").mkdir()
    metadata = str(tmp_path / "t-0" / PARTITION_METADATA_FILE)
    write_partition_metadata(SYSTEM_FILES, metadata, UUID(int=1))

    assert planned(str(tmp_path)).config == NEVER_DELETED
    assert planned(str(tmp_path), {"retention.ms": "5"}).config["retention.ms"] == "5"


def test_the_time_of_appending_is_not_copied() -> None:
    """Records of a topic with LogAppendTime keep their timestamps in the new one."""
    config = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
    topic = ReadOnlyTopic("t", None, (0,), (), config, is_listed=True, is_adopted=False)

    assert config_of_copy(topic, {}, 1) == {"cleanup.policy": "compact"}
    assert config_of_copy(replace(topic, config={}), config, 1) == config
