"""The door for programs, on the real disk: ``tidelog.open``."""

from __future__ import annotations

import gc
import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome
from tests.machinery.transactions import append_transaction

import tidelog
from tidelog.errors import (
    DirectoryLocked,
    InvalidArgument,
    InvalidConfig,
    KafkaStorageError,
    LogDirNotFound,
    OffsetOutOfRange,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.embedded.logs import Logs


def test_a_program_creates_appends_reads_and_deletes(tmp_path: Path) -> None:
    """In a line each."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", partitions=2, is_spread=True)
        first = logs.append("t", b"a", key=b"k", headers=[("h", b"x")], timestamp=5)
        second = logs.append("t", b"b", partition=first.partition)
        records = list(logs.read("t", first.partition))
        logs.delete_topic("t")

        assert [(r.offset, r.key, r.value) for r in records] == [(0, b"k", b"a"), (1, None, b"b")]
        assert (records[0].timestamp, records[0].headers) == (5, (("h", b"x"),))
        assert (second.offset, logs.topics()) == (1, {})


def test_an_existing_topic_is_an_error_unless_it_may_exist(tmp_path: Path) -> None:
    """With ``exist_ok`` the topic is returned unchanged."""
    with tidelog.open(tmp_path) as logs:
        topic = logs.create_topic("t")

        assert logs.create_topic("t", exist_ok=True) == topic
        with pytest.raises(TopicAlreadyExists):
            logs.create_topic("t")


def test_a_topic_that_another_thread_creates_meanwhile_may_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``exist_ok`` it is returned."""
    with tidelog.open(tmp_path) as logs:
        create = logs.manager.create_topic

        def created_before(*args: Any, **how: Any) -> None:
            create("t", 2)
            create(*args, **how)

        monkeypatch.setattr(logs.manager, "create_topic", created_before)

        assert len(logs.create_topic("t", exist_ok=True).partitions) == 2


def test_a_transaction_takes_its_directory_as_open_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path, or one with a slash at its end; another directory is refused at once."""
    monkeypatch.chdir(tmp_path)
    with tidelog.open("a", "b") as logs:
        with logs.transaction(path="a/") as txn:
            txn.create_topic("t")
            txn.append("t", b"x")
        with pytest.raises(LogDirNotFound):
            logs.transaction(path="c")

        assert [record.value for record in logs.read("t")] == [b"x"]


def test_many_records_are_appended_in_batches(tmp_path: Path) -> None:
    """And are durable when the call returns."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        records = (tidelog.NewRecord(None, b"%d" % number) for number in range(100))
        count = logs.append_all("t", records, codec=tidelog.Codec.LZ4)
        log = logs.partition("t", 0).log

        assert (count, log.recovery_point, len(list(logs.read("t")))) == (100, 100, 100)


def test_a_follower_gets_what_comes_later(tmp_path: Path) -> None:
    """It waits between records, and ends when nothing comes for as long as it said."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        followed = logs.follow("t", idle_ms=50)
        first = next(followed).value
        logs.append("t", b"b")
        rest = [record.value for record in followed]

    assert (first, rest) == (b"a", [b"b"])


def test_a_follower_passes_markers_that_are_deleted_behind_its_last_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has missed nothing when the log start is after the marker of a transaction it read."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        append_transaction(logs.partition("t", 0), b"a")

        def wait(_seen: int, _ms: int) -> None:
            logs.manager.on_demand.delete_records(TopicPartition("t", 0), -1)
            logs.append("t", b"b")

        monkeypatch.setattr(logs.manager.bell, "wait", wait)
        followed = logs.follow("t")

        assert [next(followed).value for _ in range(2)] == [b"a", b"b"]


def test_a_follower_of_a_deleted_topic_is_told(tmp_path: Path) -> None:
    """It does not wait for ever."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        followed = logs.follow("t")
        next(followed)
        logs.delete_topic("t")

        with pytest.raises(UnknownTopicOrPartition):
            next(followed)


def test_a_closed_one_refuses(tmp_path: Path) -> None:
    """With a typed error."""
    logs = tidelog.open(tmp_path)
    logs.create_topic("t")
    partition = logs.partition("t", 0)
    logs.close()

    with pytest.raises(KafkaStorageError):
        partition.append_records([(-1, None, b"x", ())])
    for use in (lambda: logs.append("t", b"x"), lambda: logs.create_topic("u")):
        with pytest.raises(KafkaStorageError, match=r"the logs of \S+ are closed"):
            use()


def test_settings_of_a_topic_are_no_keywords(tmp_path: Path) -> None:
    """Those of ``tidelog.open`` are; the error shows where they belong."""
    with tidelog.open(tmp_path) as logs:
        with pytest.raises(InvalidArgument, match=r"go into config=\{'retention.ms': '1'\}"):
            logs.create_topic("t", retention_ms=1)
        with pytest.raises(InvalidArgument, match="is given as partitions="):
            logs.create_topic("t", num_partitions=2)
        assert logs.topics() == {}


def test_a_setting_without_a_value_is_no_text(tmp_path: Path) -> None:
    """The error says how a setting is dropped."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", config={"retention.ms": 1})
        with pytest.raises(InvalidConfig, match=r": retention\.ms: None is not a value.*unset="):
            logs.alter_topic("t", {"retention.ms": None})  # type: ignore[dict-item]  # the mistake


def test_keywords_are_settings(tmp_path: Path) -> None:
    """Underscores stand for dots; several directories may be named."""
    with tidelog.open(tmp_path / "a", tmp_path / "b", retention_ms=5) as logs:
        logs.create_topic("t", 2, is_spread=True)

        assert logs.config_of("t").retention_ms == 5
        assert (tmp_path / "b" / "t-1").is_dir()


def test_only_one_may_have_a_directory_open(tmp_path: Path) -> None:
    """The second open fails and names the process, be it this one; reading still works."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        with pytest.raises(DirectoryLocked, match=rf"in use by this process \({os.getpid()}\);"):
            tidelog.open(tmp_path)
        assert "in use by process 5;" in str(DirectoryLocked(str(tmp_path), 5))
        with tidelog.open_read_only(tmp_path / "t-0") as log:
            assert log.log_end_offset == 0


@pytest.mark.parametrize("word", ["committed", "READ_COMMITTED", "nonsense"])
def test_an_unknown_isolation_is_an_error(tmp_path: Path, word: str) -> None:
    """A reader that misspells it gets no records instead of aborted ones."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")

        with pytest.raises(InvalidArgument, match="isolation"):
            list(logs.read("t", isolation=word))
        with pytest.raises(InvalidArgument, match="isolation"):
            list(logs.follow("t", idle_ms=0, isolation=word))
        assert [one.value for one in logs.read("t", isolation="read_committed")] == [b"a"]


def test_a_program_counts_records_and_reads_metrics_without_the_manager(tmp_path: Path) -> None:
    """``Logs`` answers both itself."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append_all("t", [tidelog.NewRecord(None, b"v")] * 3)

        sizes = {one.kafka_name: one.value for one in logs.metrics() if one.name == "LogEndOffset"}
        assert logs.count_records("t", 0, 1, 3) == logs.count_records("t", 0, 1) == (2, 0, 0, 0)
        assert sizes == {"kafka.log:type=Log,name=LogEndOffset,topic=t,partition=0": 3}


def test_a_program_retains_compacts_and_describes(tmp_path: Path) -> None:
    """On demand, some topics or all; values name what was done, by topic and partition."""
    small = {"internal.segment.bytes": "80", "file.delete.delay.ms": "0"}
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 1, {**small, "retention.bytes": "0"})
        logs.create_topic("c", 1, {**small, "cleanup.policy": "compact"})
        for number in range(4):
            for topic in ("t", "c"):
                logs.append(topic, b"%d" % number, key=b"k")

        deleted, cleaned = logs.retain("t"), logs.compact(("c", 0))
        described = logs.describe_log_dirs()

    assert [segment.base_offset for segment in deleted["t", 0]] == [0, 1, 2, 3]
    assert cleaned["c", 0].end_offset == 3
    assert [replica.topic for replica in described[str(tmp_path)].replicas] == ["c", "t"]


def test_a_program_asks_for_offsets_and_deletes_records(tmp_path: Path) -> None:
    """By offset and by time, as the topics of ``open_directory_read_only`` answer."""
    with tidelog.open(tmp_path, retention_ms=-1) as logs:
        logs.create_topic("t")
        logs.create_topic("c", config={"cleanup.policy": "compact"})
        logs.append_all("t", [(None, b"%d" % number, (), number * 10) for number in range(5)])
        beside = tidelog.open_directory_read_only(tmp_path)

        assert logs.offsets("t", 0) == beside.offsets("t", 0) == (0, 5, 5, 5)
        assert logs.offset_at("t", 0, 11) == beside.offset_at("t", 0, 11) == (20, 2, 0)
        assert logs.offset_at("t", 0, 41) is None
        with pytest.raises(InvalidArgument, match="-2 is before 1970"):
            logs.offset_at("t", 0, -2)
        assert logs.delete_records("t", 0, 3) == logs.offsets("t", 0).log_start_offset == 3
        with pytest.raises(OffsetOutOfRange):
            logs.delete_records("t", 0, 6)
        with pytest.raises(PolicyViolation):
            logs.delete_records("c", 0, "highWatermark")
        assert logs.delete_records("t", 0, "highWatermark") == 5


def test_what_deletes_records_takes_no_default(tmp_path: Path) -> None:
    """Partition and offset are said; -1, which a mistake may give, is refused."""
    with tidelog.open(tmp_path, retention_ms=-1) as logs:
        logs.create_topic("t")
        logs.append_all("t", [b"a", b"b"])
        ask: Any = logs.delete_records

        for missing in (("t",), ("t", 0)):
            with pytest.raises(TypeError, match="before_offset"):
                ask(*missing)
        for before in (-1, "all", None, True, 1.0):
            with pytest.raises(InvalidArgument, match='"highWatermark" to delete all'):
                ask("t", 0, before)
        with pytest.raises(InvalidArgument, match="not the number of a partition"):
            ask("t", None, 1)
        assert len(list(logs.read("t"))) == 2


def test_a_closed_directory_takes_no_records_by_any_way() -> None:
    """A writer that was opened before refuses them too, as they would never be appended."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        writer = logs.writer("t")
        writer.append(b"1")

    for call in (
        lambda: writer.append(b"2"),
        lambda: writer.append_all([b"2"]),
        lambda: logs.writer("t"),
        logs.transaction,
    ):
        with pytest.raises(KafkaStorageError, match="are closed"):
            call()

    assert home.values("t-0") == [b"1"]
    gc.collect()


def test_a_transaction_that_is_left_open_without_a_with_is_warned_of() -> None:
    """Its records are dropped; one that has none, or has ended, is dropped silently."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        with pytest.warns(ResourceWarning, match="'x' was neither committed nor aborted"):
            leave_open(logs, "x")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            logs.transaction("y")
            with logs.transaction("z") as txn:
                txn.append("t", b"v")
            del txn
            gc.collect()


def leave_open(logs: Logs, name: str) -> None:
    """Drop a transaction with a record."""
    logs.transaction(name).append("t", b"v")
    gc.collect()
