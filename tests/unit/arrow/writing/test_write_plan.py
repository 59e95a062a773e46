"""What is refused before the tasks of a write work, and what tasks get to know."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa
import pytest
from tests.machinery import metadata_log as made

import tidelog
from tidelog.arrow.writing import write_plan
from tidelog.arrow.writing.stage_rows import stage_rows
from tidelog.arrow.writing.staged_commit import abort_write, delete_attempts
from tidelog.arrow.writing.write_plan import WritePlan, check_not_busy, known_topics, make_plan
from tidelog.codec.compression import Codec
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    DirectoryLocked,
    DirectoryNotShared,
    InvalidArgument,
    InvalidConfig,
    InvalidTopic,
    KafkaStorageError,
    PolicyViolation,
    TransactionMismatch,
)
from tidelog.log.topic_id import PARTITION_METADATA_FILE, write_partition_metadata
from tidelog.spark.options.source_options import SinkOptions
from tidelog.staging.staged_file import is_staged_name, list_staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUE = {"value": 0}


def options(path: Path, **others: str) -> SinkOptions:
    given = {"path": str(path), "topic": "t"} | others
    return SinkOptions.parse({name: value for name, value in given.items() if value})


def plan_of(path: Path, **others: str) -> WritePlan:
    """Plan a write of one column."""
    return make_plan(options(path, **others), VALUE, "txn")


def test_a_write_to_a_directory_of_a_broker_fails_before_its_tasks_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the user asks to wait; a service of ours commits for others."""
    check_not_busy(options(tmp_path))
    with tidelog.open(tmp_path):
        check_not_busy(options(tmp_path))
        monkeypatch.setattr(write_plan, "program_of", lambda _: "java")
        with pytest.raises(DirectoryLocked):
            check_not_busy(options(tmp_path))
        check_not_busy(options(tmp_path, commitTimeoutMs="1000"))


def test_a_path_that_leads_to_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    """KafkaStorageError, as for a disk that fails."""
    (tmp_path / "file").touch()

    for path in (tmp_path / "file", tmp_path / "file" / "data"):
        with pytest.raises(KafkaStorageError, match=r"file.*: Not a directory"):
            plan_of(path)


@pytest.mark.parametrize("topic", ["t", ""])
def test_too_many_partitions_are_refused_before_tasks_make_room_for_them(
    tmp_path: Path, topic: str
) -> None:
    """Each task keeps an offset for each of them; an existing topic has what it has."""
    with pytest.raises(PolicyViolation, match="a topic of 1,000,000,000 partitions"):
        plan_of(tmp_path, topic=topic, numPartitions="1000000000")
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == []


@pytest.mark.parametrize(
    ("topic", "count", "error"),
    [
        ("t", "10001", PolicyViolation),
        ("", "10001", PolicyViolation),
        ("__cluster_metadata", "1", InvalidTopic),
    ],
)
def test_a_topic_that_cannot_be_made_leaves_no_directory(
    tmp_path: Path, topic: str, count: str, error: type[Exception]
) -> None:
    """Nothing is made that a write which is refused would leave there, empty."""
    with pytest.raises(error):
        plan_of(tmp_path / "new", topic=topic, numPartitions=count)
    assert not (tmp_path / "new").exists()


def test_tasks_make_batches_by_the_settings_of_the_broker(tmp_path: Path) -> None:
    """Those in the cluster's metadata beside the partitions hold, as they do at the commit."""
    one = UUID(int=1)
    records = [made.topic("t", one), made.setting("compression.type", "gzip", "t")]
    made.write_metadata(SYSTEM_FILES, str(tmp_path), made.metadata_log([records]))
    quorum = tmp_path / "__cluster_metadata-0" / "quorum-state"
    quorum.write_text('{"currentVoters":[{"voterId":1}]}')
    (tmp_path / "t-0").mkdir()
    write_partition_metadata(SYSTEM_FILES, str(tmp_path / "t-0" / PARTITION_METADATA_FILE), one)

    plan = known_topics(options(tmp_path))["t"]
    with tidelog.open(tmp_path) as logs:
        config = logs.config_of("t")

    assert (plan.partitions, plan.form.codec, plan.topic_id) == (1, Codec.GZIP, one)
    assert config.compression_type == "gzip"


def test_an_executor_that_does_not_see_the_directory_fails(tmp_path: Path) -> None:
    """Each task looks for a file that the driver made, before it works."""
    plan = pickle.loads(pickle.dumps(plan_of(tmp_path / "driver")))
    (tmp_path / "executor").mkdir()

    plan.visits(str(tmp_path / "driver"))
    for path in ("executor", "nowhere"):
        with pytest.raises(DirectoryNotShared, match="every executor must see it"):
            plan.visits(str(tmp_path / path))
    for _ in range(2):
        delete_attempts(str(tmp_path / "driver"), [plan.marker])
    assert os.listdir(tmp_path / "driver") == []


@pytest.mark.parametrize("is_late", [False, True])
def test_a_task_whose_write_was_aborted_leaves_no_file(tmp_path: Path, is_late: bool) -> None:
    """Whether the abort came before its last file or after: Spark does not wait for its tasks."""
    given, plan = options(tmp_path), plan_of(tmp_path)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": ["a"]})
        if not is_late:
            abort_write(given, "txn", [plan.marker])

    with suppress(DirectoryNotShared) if is_late else pytest.raises(DirectoryNotShared):
        stage_rows(given, plan, rows(), txn="txn", task_number=0)
    if is_late:
        abort_write(given, "txn", [plan.marker])

    assert list_staged(SYSTEM_FILES, str(tmp_path)) == []


def test_the_marker_is_swept_as_a_staged_file_is(tmp_path: Path) -> None:
    """After a driver that died; and Kafka ignores it."""
    plan = plan_of(tmp_path)

    assert is_staged_name(plan.marker)
    assert list_staged(SYSTEM_FILES, str(tmp_path), "txn") == [plan.marker]


@pytest.mark.parametrize("topic", ["t", ""])
def test_a_topic_in_several_directories_is_refused_with_the_remedy(
    tmp_path: Path, topic: str
) -> None:
    """A write goes to one directory; without the option, by the task that meets such a row."""
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    with tidelog.open(one, two) as logs:
        logs.create_topic("t", 2, is_spread=True)
        home = logs.partition("t", 0).log.directory.rpartition("/")[0]
    found = known_topics(options(tmp_path / os.path.basename(home), topic=topic))["t"]

    command = f"tidelog move t --partition 1 -d DIR --to {home}; DIR is the data directory with"
    assert found.refusal is not None
    assert f"partition 1 of topic t lies in another data directory than {home}" in found.refusal
    assert command in found.refusal
    if topic:
        with pytest.raises(InvalidArgument, match="tidelog move t --partition 1"):
            plan_of(tmp_path / os.path.basename(home))


def test_a_topic_of_kafka_with_a_gap_is_refused(tmp_path: Path) -> None:
    """The partition in between lies in another of the broker's directories."""
    for number in (0, 2):
        (tmp_path / f"t-{number}").mkdir()
        path = tmp_path / f"t-{number}" / PARTITION_METADATA_FILE
        write_partition_metadata(SYSTEM_FILES, str(path), UUID(int=1))

    with pytest.raises(InvalidArgument, match=r"partition 1 of topic t lies in another"):
        plan_of(tmp_path)


def test_what_is_not_valid_is_refused_when_the_query_is_planned(tmp_path: Path) -> None:
    """Not when its tasks run, and nothing is left in the directory."""
    with pytest.raises(InvalidArgument, match="level"):
        plan_of(tmp_path, compression="zstd", compressionLevel="99")
    with pytest.raises(InvalidConfig, match=r"option config\.retention\.ms"):
        plan_of(tmp_path, **{"config.retention.ms": "long"})
    with pytest.raises(InvalidTopic):
        plan_of(tmp_path, topic="a/b")
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 2)
        logs.create_topic("u")
        with logs.transaction("id") as txn:
            txn.append("u", b"v")
    with pytest.raises(InvalidArgument, match="topic t has 2 partitions"):
        plan_of(tmp_path, numPartitions="3")
    with pytest.raises(TransactionMismatch, match="committed before for u, not for t"):
        plan_of(tmp_path, txnId="id")
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == []


def test_a_directory_is_made_unless_the_options_forbid_it(tmp_path: Path) -> None:
    """A mistake in its path is an error then, and leaves nothing there."""
    path = tmp_path / "dtaa"

    with pytest.raises(InvalidArgument, match=r"no data directory .*dtaa, and option create"):
        plan_of(path, createDirectory="false")

    assert not path.exists()
    plan_of(path)
    assert path.exists()
    plan_of(path, createDirectory="false")
