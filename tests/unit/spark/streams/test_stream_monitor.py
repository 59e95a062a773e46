"""The lag of streams, from Spark's progress to logs, metrics and a group's positions."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

import tidelog
from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import InvalidArgument
from tidelog.manager.metrics.metric import parse_prometheus
from tidelog.segment.filenames import TopicPartition
from tidelog.spark.streams.stream_lag import StreamProgress, topic_offsets

pytest.importorskip("pyspark")

from pyspark.sql.streaming.listener import QueryTerminatedEvent

from tidelog.spark.streams.stream_monitor import StreamMonitor

if TYPE_CHECKING:
    from pathlib import Path

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def progress(
    ends: dict[str, int],
    latest: dict[str, int],
    name: str | None = "copy",
    topic_id: str = "unknown",
    **others: Any,
) -> dict[str, Any]:
    """Return a progress as Spark's JSON has it, with a source of another kind beside ours."""
    source = {
        "endOffset": json.dumps({"t": ends, "t#start": {"0": 0}, f"t#{topic_id}": {}}),
        "latestOffset": json.dumps({"t": latest}),
        "numInputRows": 7,
    }
    other = {"endOffset": "42", "latestOffset": "50", "numInputRows": 1}
    given = {"id": "6b6a", "name": name, "batchId": 3, "batchDuration": 120}
    return {**given, "sources": [source, other], **others}


def found(*args: Any, **others: Any) -> StreamProgress:
    made = StreamProgress.of(progress(*args, **others))
    assert made is not None
    return made


def test_the_lag_is_that_of_the_kafka_source() -> None:
    """For each partition the latest offset minus the next one to read, never below 0."""
    one = found({"0": 5, "1": 9}, {"0": 11, "1": 9})

    assert one.behind == {T0: 6, T1: 0}
    assert (one.max_behind, one.min_behind, one.avg_behind) == (6, 0, 3.0)
    assert (one.query, one.batch_id, one.rows, one.duration_ms) == ("copy", 3, 7, 120)
    assert found({"0": 5}, {"0": 4}).behind == {T0: 0}
    assert found({"0": 5, "1": 2}, {"0": 5}).behind == {T0: 0, T1: 0}
    assert found({"0": 5}, {"0": 5}, name=None).query == "6b6a"


@pytest.mark.parametrize(
    "text", [None, "null", "42", "[]", "{", '{"t": 4}', '{"t": {"a": 1}}', "{}"]
)
def test_sources_of_other_kinds_have_no_lag(text: str | None) -> None:
    """Their offsets are numbers, times, anything."""
    assert topic_offsets(text) is None


def test_topics_of_kafka_have_no_lag_here() -> None:
    """Their offsets look like ours: a group would get positions in a topic of the same name."""
    made = progress({"0": 5}, {"0": 11})
    made["sources"][0]["description"] = "KafkaV2[Subscribe[t]]"

    assert StreamProgress.of(made) is None


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Return a directory with the topic t of two partitions."""
    with tidelog.open(tmp_path / "data") as logs:
        logs.create_topic("t", 2)
        for number in (0, 1):
            logs.partition("t", number).append_records([(-1, None, b"v", [])] * 20)
    return str(tmp_path / "data")


def test_metrics_are_in_a_file_while_a_stream_runs(data: str, tmp_path: Path) -> None:
    """In the format of Prometheus; ``stop`` removes it, since it would be out of date."""
    file = tmp_path / "streams.prom"
    monitor = StreamMonitor(data, metrics_file=str(file))

    monitor.progressed(found({"0": 5, "1": 9}, {"0": 11, "1": 9}))

    values = {
        (name, tags.get("partition")): value
        for name, tags, value in parse_prometheus(file.read_text("utf-8"))
    }
    assert values["tidelog_streams_offsets_behind_latest", "0"] == 6
    assert values["tidelog_streams_max_offsets_behind_latest", None] == 6
    assert values["tidelog_streams_avg_offsets_behind_latest", None] == 3
    assert values["tidelog_streams_last_read_batch_records", None] == 7
    monitor.stop()
    assert not file.exists()


def ended(one: StreamProgress, error: str | None = None) -> QueryTerminatedEvent:
    return QueryTerminatedEvent(UUID(one.query_id), uuid4(), error, None)


def test_metrics_of_a_stream_that_ended_stay(data: str, tmp_path: Path) -> None:
    """As of a job that reads what is there; those of one that failed would hide that."""
    file = tmp_path / "streams.prom"
    monitor = StreamMonitor(data, metrics_file=str(file))
    well, failed = (found({"0": 5}, {"0": 5}, id=str(uuid4()), name=name) for name in "ab")
    for one, error in ((well, None), (failed, "IllegalStateException")):
        monitor.progressed(one)
        monitor.onQueryTerminated(ended(one, error))

    assert monitor.streams == {well.query_id: well}
    queries = {tags["query"] for _, tags, _ in parse_prometheus(file.read_text("utf-8"))}
    assert queries == {"a"}


def test_a_stream_replaces_one_that_had_its_name(data: str) -> None:
    """With a new checkpoint it has another id; the old lag would stay for ever."""
    monitor = StreamMonitor(data)
    old, new = (found({"0": end}, {"0": 9}, id=str(uuid4())) for end in (5, 6))
    monitor.progressed(old)
    monitor.onQueryTerminated(ended(old))

    monitor.progressed(new)

    assert monitor.streams == {new.query_id: new}


def test_a_file_that_cannot_be_written_does_not_end_the_watching(
    data: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; the next batch tries again."""
    monitor = StreamMonitor(data, metrics_file="/nowhere/streams.prom")

    monitor.progressed(found({"0": 5}, {"0": 6}))

    assert [one.getMessage().split()[0] for one in caplog.records] == ["metrics-not-written"]
    monitor.stop()


def test_positions_are_committed_to_the_group_of_the_stream(data: str) -> None:
    """Only those of streams that have a group; Kafka's tools and ours see them."""
    monitor = StreamMonitor(data, groups={"copy": "copies"})

    monitor.progressed(found({"0": 5, "1": 9}, {"0": 11, "1": 9}))
    monitor.progressed(found({"0": 1}, {"0": 1}, name="other"))
    monitor.progressed(found({"0": 7, "1": 9}, {"0": 11, "1": 9}))

    with tidelog.open(data) as logs:
        positions = logs.group_positions()
        topic_id = logs.topics()["t"].topic_id
    assert positions.keys() == {"copies"}
    assert {key: one.offset for key, one in positions["copies"].items()} == {T0: 7, T1: 9}
    assert {one.topic_id for one in positions["copies"].values()} == {topic_id}


def test_positions_in_a_topic_that_was_created_again_since_do_not_count(data: str) -> None:
    """They are those of other records: who begins there would pass over the new ones."""
    monitor = StreamMonitor(data, groups={"copy": "copies"})
    with tidelog.open(data) as logs:
        topic_id = format_uuid(logs.topics()["t"].topic_id)
        logs.delete_topic("t")
        logs.create_topic("t", 2)

    monitor.progressed(found({"0": 5, "1": 9}, {"0": 5, "1": 9}, topic_id=topic_id))

    with tidelog.open(data) as logs, logs.reader("t", group="copies") as reader:
        assert reader.committed == {}


def test_a_commit_that_fails_is_logged_and_made_by_the_next_batch(
    data: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The stream continues; its checkpoint is what it continues from."""
    caplog.set_level(logging.INFO)
    monitor = StreamMonitor(data, groups={"copy": "copies"})
    gone = StreamProgress("1", "copy", 0, 0, 0, {TopicPartition("gone", 0): 1}, {T0: 0})

    monitor.progressed(gone)
    monitor.progressed(found({"0": 7}, {"0": 7}))

    events = [one.getMessage().split()[0] for one in caplog.records if "stream_mon" in one.name]
    assert events == ["stream-progress", "positions-not-committed", "stream-progress"]
    with tidelog.open(data) as logs:
        assert logs.group_positions()["copies"][T0].offset == 7


@pytest.mark.parametrize(
    ("groups", "words"),
    [({"a": ""}, "not the name of a group"), ({"a": "g", "b": "g"}, "one group")],
)
def test_groups_that_cannot_be_meant_are_refused(groups: dict[str, str], words: str) -> None:
    """Two streams would overwrite each other's positions."""
    with pytest.raises(InvalidArgument, match=words):
        StreamMonitor("data", groups=groups)
