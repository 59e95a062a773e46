"""What the public objects say of themselves: one line, also once they are closed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A data directory with one topic of two partitions and three records."""
    with tidelog.open(tmp_path / "data") as logs:
        logs.create_topic("t", 2, config={"retention.ms": 5})
        for value in (b"a", b"b", b"c"):
            logs.append("t", value, partition=0)
    return tmp_path / "data"


def test_logs_say_their_directory_counts_and_state(path: Path) -> None:
    """The manager's words, and those of what tasks use, are the same."""
    logs = tidelog.open(path)
    opened = repr(logs)
    logs.close()

    assert opened == f"<Logs '{path}': topics=1, partitions=2, open>"
    assert repr(logs) == f"<Logs '{path}': topics=1, partitions=2, closed>"
    assert repr(tidelog.AsyncLogs(logs)) == f"<AsyncLogs of {logs!r}>"
    assert repr(logs.manager) == repr(logs).replace("Logs", "LogService")


def test_a_log_says_its_offsets_and_state(path: Path) -> None:
    """A partition also says its role, and whether it has ended."""
    facts = "log_start_offset=0, high_watermark=3, last_stable_offset=3, log_end_offset=3"
    with tidelog.open(path) as logs:
        partition = logs.partition("t", 0)
        log = partition.log

        assert repr(log) == f"<Log '{path}/t-0': {facts}, segments=1, open>"
        assert repr(partition) == f"<Partition 't-0': leader, {log!r}>"
        logs.delete_topic("t")
        assert repr(partition).startswith("<Partition 't-0': leader, ended, <Log ")
    assert repr(log).endswith(", closed>")


def test_topics_say_partitions_and_settings(path: Path) -> None:
    """As their writer knows them, and as a reader finds them."""
    with tidelog.open(path) as logs:
        facts = "'t': partitions=2, config={'retention.ms': '5'}>"

        assert repr(logs.topic("t")) == f"<Topic {facts}"
        view = tidelog.open_directory_read_only(path)
        assert repr(view.topic("t")) == f"<ReadOnlyTopic {facts}"


def test_a_topic_of_many_partitions_is_one_short_line(tmp_path: Path) -> None:
    """Not a list of them."""
    with tidelog.open(tmp_path) as logs:
        topic = logs.create_topic("t", 500)

        assert len(repr(topic)) < 60


def test_readers_of_files_say_what_they_read(path: Path) -> None:
    """Nothing is read for it: the files may be gone."""
    view = tidelog.open_directory_read_only(path)
    follower = tidelog.LogFollower(str(path / "t-0"), 2, fs=view.open("t", 0).fs)
    log = tidelog.open_read_only(path / "t-0")
    log.close()
    for name in (path / "t-0").iterdir():
        name.unlink()

    assert repr(view) == f"<ReadOnlyLogs '{path}'>"
    assert repr(follower) == f"<LogFollower '{path}/t-0': next_offset=2>"
    assert repr(log) == (
        f"<ReadOnlyLog '{path}/t-0': log_start_offset=0, high_watermark=3, log_end_offset=3,"
        " segments=1>"
    )


def test_writers_transactions_and_readers_say_how_far_they_are(path: Path) -> None:
    """And whether they have ended."""
    with tidelog.open(path) as logs:
        with logs.writer("t") as writer:
            writer.append(b"d")
            gathered = repr(writer)
        with logs.transaction("id-1") as txn:
            txn.append("t", b"e")
            begun = repr(txn)
        with closing(logs.reader("t", group="g")) as reader:
            reading = repr(reader)

        assert gathered == "<TopicWriter of topic 't': records=0, gathered=1>"
        assert repr(writer) == "<TopicWriter of topic 't': records=1, gathered=0>"
        assert begun == f"<Transaction 'id-1' in '{path}': topics=1, open>"
        assert repr(txn) == begun.replace(", open>", ", committed>")
        assert reading == "<GroupReader of group 'g': topics=['t'], partitions=2, open>"
        assert repr(reader) == reading.replace(", open>", ", closed>")


def test_what_was_done_or_planned_says_its_sums(path: Path) -> None:
    """One line for each log, however many segments it is about."""
    with tidelog.open(path) as logs:
        described = logs.describe_log_dirs()
        columns = next(logs.partition("t", 0).log.columns(0))

        assert repr(columns) == "<RecordColumns of 3 records in 3 batches, offsets 0 to 2>"
        assert f"<LogDirDescription '{path}': replicas=2, size_bytes=" in repr(described[str(path)])
        (compacted,) = logs.compact(("t", 0)).values()
        assert repr(compacted).startswith("<CompactionFacts 't-0': nothing cleaned, end_offset=")


def test_a_broker_for_tests_says_where_it_is(tmp_path: Path) -> None:
    """Or that it is stopped."""
    broker = KafkaBroker(tmp_path)

    assert repr(broker) == f"<KafkaBroker '{tmp_path}': stopped>"
