"""What a stream reads from batch to batch, and again after a restart."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.transactions import begin_transaction, end_transaction

from tidelog.errors import (
    DataLoss,
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.records.decoding.record_columns import decode_groups
from tidelog.spark.options.source_options import ReadOptions
from tidelog.spark.read.live_batches import RangeReader
from tidelog.spark.read.stream_plan import StreamPlan
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from tidelog.spark.read.stream_offsets import Json

EARLIEST: dict[str, Any] = {"startingOffsets": "earliest"}


class Topics:
    """A data directory to which a test appends between batches."""

    def __init__(self, **partitions: int) -> None:
        self.home = DataHome()
        self.clock = ManualClock()
        for topic, count in partitions.items():
            self.create(topic, count)

    def create(self, topic: str, count: int = 1) -> None:
        with self.home.open() as directory:
            directory.create_topic(topic, count)

    def delete(self, topic: str) -> None:
        with self.home.open() as directory:
            directory.delete_topic(topic)

    def append(self, topic: str, count: int, partition: int = 0, time_ms: int = -1) -> None:
        with self.home.open() as directory:
            for _ in range(count):
                _, key, value, headers = record(b"v")
                one = (time_ms, key, value, headers)
                directory.partition(topic, partition).append_records([one])

    def start_at(self, topic: str, offset: int) -> None:
        with self.home.open() as directory:
            directory.partition(topic, 0).log.maybe_increment_log_start_offset(offset)

    def plan(self, *, cores: int = 2, **options: Any) -> StreamPlan:
        all_options = {"path": self.home.path, "subscribePattern": "."} | options
        if any(name in options for name in ("subscribe", "assign")):
            del all_options["subscribePattern"]
        parsed = ReadOptions.parse_stream(all_options)
        return StreamPlan(self.home.fs, parsed, clock=self.clock, cores=cores)

    def read(
        self, plan: StreamPlan, start: Json, end: Json, **options: str
    ) -> list[tuple[str, int]]:
        """Return topic and offset of each record of a batch."""
        all_options = {"path": self.home.path, "subscribePattern": "."} | options
        reader = RangeReader(self.home.fs, ReadOptions.parse_stream(all_options))
        return [
            (part.topic, offset)
            for task in plan.tasks(start, end)
            for part in task
            for piece in reader.read(part)
            for group in decode_groups(piece.data, piece.batches_in_data)
            for offset in group.offset.tolist()
            if part.start_offset <= offset < part.end_offset
        ]


def offsets(value: Json) -> dict[str, Any]:
    """Return the offsets of a stream's offset, without topic ids and the first start."""
    return {name: entry for name, entry in value.items() if "#" not in name}


def test_a_stream_begins_at_the_latest_offset() -> None:
    """By default a new query reads records appended after its start; earliest reads all."""
    topics = Topics(a=2)
    topics.append("a", 3)

    assert offsets(topics.plan().initial()) == {"a": {"0": 3, "1": 0}}
    assert offsets(topics.plan(**EARLIEST).initial()) == {"a": {"0": 0, "1": 0}}


def test_a_stream_may_begin_at_explicit_offsets() -> None:
    """Offsets by partition apply to the first batch and must name each partition."""
    topics = Topics(a=2)
    topics.append("a", 3)

    plan = topics.plan(startingOffsets='{"a":{"0":2,"1":-2}}')

    assert offsets(plan.initial()) == {"a": {"0": 2, "1": 0}}
    incomplete = topics.plan(startingOffsets='{"a":{"0":2}}')
    for _ in range(2):  # Spark may ask again
        with pytest.raises(InvalidArgument, match="must name every partition"):
            incomplete.latest(incomplete.initial())


def test_a_batch_continues_where_the_previous_one_ended() -> None:
    """Each batch begins at the end of the previous one and ends at what is available."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(**EARLIEST)

    start = plan.initial()
    first = plan.latest(start)
    topics.append("a", 3)
    second = plan.latest(first)

    assert topics.read(plan, start, first) == [("a", 0), ("a", 1)]
    assert topics.read(plan, first, second) == [("a", 2), ("a", 3), ("a", 4)]


def test_without_new_records_the_same_offset_is_returned() -> None:
    """Spark compares offsets as text, so an end equal to the start is the identical object."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(**EARLIEST)

    end = plan.latest(plan.initial())

    assert plan.latest(end) is end
    assert plan.tasks(end, end) == []


def test_a_batch_repeated_after_a_restart_has_the_same_rows() -> None:
    """A new process plans the same rows for an old batch, though more were appended since."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(**EARLIEST)
    first = plan.latest(plan.initial())
    topics.append("a", 3)
    second = plan.latest(first)
    rows = topics.read(plan, first, second)
    topics.append("a", 4)

    again = topics.read(topics.plan(**EARLIEST), first, second)

    assert again == rows == [("a", 2), ("a", 3), ("a", 4)]


def test_a_repeated_first_batch_begins_where_it_began() -> None:
    """Spark asks for the initial offset again, which may now be after the end of the batch."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan()
    start = plan.initial()
    topics.append("a", 3)
    end = plan.latest(start)
    rows = topics.read(plan, start, end)
    topics.append("a", 4)

    restarted = topics.plan()
    again = topics.read(restarted, restarted.initial(), end)

    assert again == rows == [("a", 2), ("a", 3), ("a", 4)]


@pytest.mark.parametrize(
    "start",
    [{"startingOffsets": '{"a":{"0":1}}'}, {"startingTimestamp": "0"}],
    ids=["offsets by partition", "timestamp"],
)
def test_a_repeated_first_batch_does_not_depend_on_partitions_added_since(
    start: dict[str, str],
) -> None:
    """It holds its own start; the new partition is read by the batch after it."""
    topics = Topics(a=1)
    topics.append("a", 3, time_ms=1000)
    plan = topics.plan(cores=2, **start)
    begin = plan.initial()
    end = plan.latest(begin)
    rows = topics.read(plan, begin, end)
    with topics.home.open() as directory:
        directory.create_partitions("a", 2)

    restarted = topics.plan(cores=2, **start)
    again = topics.read(restarted, restarted.initial(), end)
    topics.append("a", 2, partition=1)
    next_end = restarted.latest(end)

    assert again == rows
    assert offsets(next_end) == {"a": {"0": 3, "1": 2}}
    assert topics.read(restarted, end, next_end) == [("a", 0), ("a", 1)]


def test_new_partitions_and_topics_are_read_from_their_start() -> None:
    """Partitions and topics that appear while a query runs are read completely."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan()
    start = plan.initial()
    topics.create("b", 2)
    topics.append("b", 3, partition=1)

    end = plan.latest(start)

    assert offsets(end) == {"a": {"0": 2}, "b": {"0": 0, "1": 3}}
    assert topics.read(plan, start, end) == [("b", 0), ("b", 1), ("b", 2)]


def test_a_new_partition_without_its_first_records_is_a_data_loss() -> None:
    """Records deleted before the stream first saw the partition count as lost."""
    topics = Topics(a=1)
    plan = topics.plan()
    start = plan.initial()
    topics.create("b")
    topics.append("b", 4)
    topics.start_at("b", 3)
    end = plan.latest(start)

    with pytest.raises(DataLoss, match=r"b-0 has no offsets \[0, 3\): delete-records"):
        plan.tasks(start, end)


def test_a_transaction_that_began_below_the_log_start_is_no_data_loss() -> None:
    """Where it is open, readers of committed records end at the log start, as Kafka's do."""
    committed: dict[str, Any] = {"kafka.isolation.level": "read_committed"}
    topics = Topics(a=1)
    with topics.home.open() as directory:
        begin_transaction(directory.partition("a", 0), 7, [record(b"v")] * 4)
    topics.append("a", 2)
    topics.start_at("a", 3)
    plan = topics.plan(**committed)
    start = plan.initial()
    assert offsets(start) == {"a": {"0": 3}}
    with topics.home.open() as directory:
        end_transaction(directory.partition("a", 0), 7, is_commit=True)

    found = topics.read(plan, start, plan.latest(start), **committed)

    assert [offset for _, offset in found] == [3, 4, 5, 6]  # the last one is the marker


def test_a_recreated_topic_is_detected_by_its_id() -> None:
    """Also if the new topic is longer, and across a restart; the new one is read completely.

    The error comes before Spark records the new topic's id in the checkpoint.
    """
    topics = Topics(a=1)
    topics.append("a", 2)
    before = topics.plan(**EARLIEST)
    first = before.latest(before.initial())
    topics.delete("a")
    topics.create("a")
    topics.append("a", 5)

    lenient = topics.plan(failOnDataLoss="false")
    second = lenient.latest(first)
    for plan in (before, topics.plan()):
        cause = "a-0 has no offsets from 2 on: the topic was deleted .* reads the new topic from"
        with pytest.raises(DataLoss, match=cause):
            plan.latest(first)
        with pytest.raises(DataLoss, match=cause):
            plan.tasks(first, second)

    assert topics.read(lenient, first, second) == [("a", offset) for offset in range(5)]
    assert lenient.latest(second) is second


def test_a_repeated_batch_of_a_recreated_topic_is_a_data_loss() -> None:
    """The records of a batch are lost if its topic was recreated before the batch is repeated."""
    topics = Topics(a=1, b=1)
    topics.append("a", 4)
    plan = topics.plan(**EARLIEST)
    start = plan.initial()
    end = plan.latest(start)
    topics.delete("a")
    topics.create("a")
    topics.append("a", 9)

    with pytest.raises(DataLoss, match=r"a-0 has no offsets \[0, 4\): the topic was deleted"):
        topics.plan(**EARLIEST).tasks(start, end)
    assert topics.plan(failOnDataLoss="false").tasks(start, end) == []


def test_a_deleted_topic_is_a_data_loss() -> None:
    """A topic deleted while a stream reads it is reported; the stream may continue without it."""
    topics = Topics(a=1, b=1)
    topics.append("a", 2)
    topics.append("b", 2)
    plan = topics.plan(failOnDataLoss="false", **EARLIEST)
    first = plan.latest(plan.initial())
    topics.delete("b")
    topics.append("a", 1)
    second = plan.latest(first)

    assert topics.read(plan, first, second) == [("a", 2)]
    with pytest.raises(DataLoss, match="b-0 has no offsets from 2 on: its directory is gone"):
        topics.plan().tasks(first, second)


def test_a_topic_that_the_options_no_longer_select_is_reported_as_such() -> None:
    """It was not deleted, so the error does not say so."""
    topics = Topics(a=1, b=1)
    plan = topics.plan(subscribe="a,b", **EARLIEST)
    topics.append("b", 2)
    first = plan.latest(plan.initial())
    topics.append("a", 1)
    narrowed = topics.plan(subscribe="a")

    lenient = topics.plan(subscribe="a", failOnDataLoss="false")
    second = lenient.latest(first)
    with pytest.raises(DataLoss, match=r"b-0 has no offsets from 2 on: .* no longer select it"):
        narrowed.latest(first)
    with pytest.raises(DataLoss, match=r"b-0 has no offsets from 2 on: .* no longer select it"):
        narrowed.tasks(first, second)
    assert [part.topic for task in lenient.tasks(first, second) for part in task] == ["a"]


def test_a_stream_that_accepts_data_loss_goes_on_without_a_deleted_topic() -> None:
    """Also after a restart, until it exists again; a new query that names it is an error."""
    topics = Topics(a=1, b=1)
    topics.append("a", 1)
    accepted = {"subscribe": "a,b", "failOnDataLoss": "false"} | EARLIEST
    plan = topics.plan(cores=2, **accepted)
    first = plan.latest(plan.initial())
    topics.delete("b")
    topics.append("a", 1)

    for goes_on in (plan, topics.plan(cores=2, **accepted)):
        second = goes_on.latest(first)
        assert topics.read(goes_on, first, second) == [("a", 1)]
    topics.delete("a")
    without_any = plan.latest(second)
    assert offsets(without_any) == {}
    topics.create("a")
    topics.append("a", 2)
    assert topics.read(plan, without_any, plan.latest(without_any)) == [("a", 0), ("a", 1)]

    new = topics.plan(cores=2, **accepted)
    with pytest.raises(UnknownTopicOrPartition, match="no topic b"):
        new.latest(new.initial())


def test_a_stream_fails_if_all_its_topics_were_deleted() -> None:
    """A topic that is named, not matched by a pattern, must exist."""
    topics = Topics(a=1)
    plan = topics.plan(subscribe="a")
    start = plan.initial()
    topics.delete("a")

    with pytest.raises(UnknownTopicOrPartition, match="no topic a"):
        plan.latest(start)


def test_records_deleted_before_they_were_read_are_a_data_loss() -> None:
    """If retention overtakes a stream, it fails, or continues at the log start offset."""
    topics = Topics(a=1)
    topics.append("a", 6)
    plan = topics.plan(**EARLIEST)
    start = plan.initial()
    end = plan.latest(start)
    topics.start_at("a", 4)

    with pytest.raises(DataLoss, match=r"a-0 has no offsets \[0, 4\)"):
        topics.plan(**EARLIEST).tasks(start, end)
    lenient = topics.plan(failOnDataLoss="false")
    assert topics.read(lenient, start, end, failOnDataLoss="false") == [("a", 4), ("a", 5)]


def test_the_latest_offset_never_moves_back_within_the_log() -> None:
    """A high watermark in the checkpoint below what was read means no new records, not a loss."""
    topics = Topics(a=1)
    topics.append("a", 6)
    plan = topics.plan(**EARLIEST)
    end = plan.latest(plan.initial())
    topics.home.write("replication-offset-checkpoint", "0\n1\na 0 4\n")

    assert plan.latest(end) is end
    assert topics.plan().latest(end) is end


def test_a_truncated_log_is_a_data_loss() -> None:
    """A log end below the stream's offset is reported; if accepted, the stream continues there."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(failOnDataLoss="false")
    ahead = {"a": {"0": 5}}

    end = plan.latest(ahead)

    assert offsets(end) == {"a": {"0": 2}}
    assert plan.tasks(ahead, end) == []
    cause = r"a-0 has no offsets \[2, 5\): the end of the log moved back .* continues at the end"
    with pytest.raises(DataLoss, match=cause):
        topics.plan().latest(ahead)  # before Spark records the lower end
    with pytest.raises(DataLoss, match=cause):
        topics.plan().tasks(ahead, end)


def test_a_stream_that_notes_a_lower_end_reads_what_follows_once() -> None:
    """Started before anything is appended, it has an empty batch; then come the new records."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(failOnDataLoss="false")
    ahead = {"a": {"0": 5}}
    noted = plan.latest(ahead)
    assert plan.tasks(ahead, noted) == []
    topics.append("a", 3)

    strict = topics.plan()
    end = strict.latest(noted)

    assert topics.read(strict, noted, end) == [("a", 2), ("a", 3), ("a", 4)]
    assert strict.latest(end) is end


def test_a_batch_is_limited_unless_spark_asks_for_all() -> None:
    """``maxOffsetsPerTrigger`` limits batches; a trigger that reads all available is unlimited."""
    topics = Topics(a=1)
    topics.append("a", 10)
    plan = topics.plan(maxOffsetsPerTrigger="4", **EARLIEST)

    first = plan.latest(plan.initial())
    second = plan.latest(first)
    whole = plan.latest(first, is_limited=False)

    ends = [offsets(end)["a"]["0"] for end in (first, second, whole)]
    assert ends == [4, 8, 10]


def test_a_bounded_query_ends_at_what_was_available_at_first() -> None:
    """With AvailableNow, limited batches read what was available at the start, and no more."""
    topics = Topics(a=1)
    topics.append("a", 5)
    plan = topics.plan(maxOffsetsPerTrigger="2", minOffsetsPerTrigger="2", **EARLIEST)
    plan.bound()

    ends = [plan.initial()]
    while (end := plan.latest(ends[-1])) is not ends[-1]:
        topics.append("a", 1)
        ends.append(end)

    assert [offsets(end)["a"]["0"] for end in ends] == [0, 2, 4, 5]


def test_a_batch_is_delayed_until_there_are_enough_offsets() -> None:
    """``minOffsetsPerTrigger`` delays a batch until then, for ``maxTriggerDelay`` at most."""
    topics = Topics(a=1)
    plan = topics.plan(minOffsetsPerTrigger="5", maxTriggerDelay="10s", **EARLIEST)
    start = plan.initial()
    topics.append("a", 1)
    first = plan.latest(start)
    topics.append("a", 1)

    too_few = plan.latest(first)
    topics.clock.advance(10_000)
    late = plan.latest(first)

    assert too_few is first
    assert offsets(late) == {"a": {"0": 2}}


def test_progress_reports_the_end_of_the_available_offsets() -> None:
    """The latest offset is reported without the limit of a batch, so it shows the lag."""
    topics = Topics(a=1)
    topics.append("a", 10)
    plan = topics.plan(maxOffsetsPerTrigger="4", **EARLIEST)

    before = plan.report()
    plan.latest(plan.initial())

    assert before is None
    assert plan.report() == {"a": {"0": 10}}


def test_small_ranges_share_tasks() -> None:
    """Many partitions with few records each make few tasks."""
    topics = Topics(a=20)
    for partition in range(20):
        topics.append("a", 1, partition)
    plan = topics.plan(**EARLIEST)

    tasks = plan.tasks(plan.initial(), plan.latest(plan.initial()))

    assert len(tasks) == 1
    assert sum(len(task) for task in tasks) == 20


def without_middle_segment() -> Topics:
    """Return a topic of three segments of one record, of which the middle one is gone."""
    topics = Topics(a=1)
    with topics.home.open(overrides={"segment.bytes": "1048576"}) as directory:
        for _ in range(3):
            directory.partition("a", 0).append_records([record(b"v" * 600_000)])
    topics.home.fs.delete(f"{topics.home.path}/a-0/{1:020d}.log")
    return topics


def test_a_missing_segment_is_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    """An error with the range, or a warning; a batch that does not reach it continues."""
    topics = without_middle_segment()
    plan = topics.plan(**EARLIEST)
    start = plan.initial()
    end = plan.latest(start)

    with pytest.raises(DataLoss, match=r"no segment holds them") as lost:
        plan.tasks(start, end)
    error = lost.value
    assert (error.topic, error.partition, error.start_offset, error.end_offset) == ("a", 0, 1, 2)
    tolerant = topics.plan(**EARLIEST, failOnDataLoss="false")
    assert topics.read(tolerant, start, end) == [("a", 0), ("a", 2)]
    assert "no segment holds them" in caplog.text
    assert topics.read(plan, {"a": {"0": 2}}, offsets(end)) == [("a", 2)]


def test_an_empty_first_batch_is_repeated_as_it_was() -> None:
    """Spark plans one even if there is nothing new; what came since is for the next batch."""
    topics = Topics(a=1)
    topics.append("a", 3)
    plan = topics.plan()
    empty = plan.latest(plan.initial())
    topics.append("a", 2)
    restarted = topics.plan()
    start = restarted.initial()

    assert topics.read(restarted, start, empty) == []
    assert topics.read(restarted, empty, restarted.latest(empty)) == [("a", 3), ("a", 4)]


@pytest.mark.parametrize("count", [2, 5])
def test_a_topic_made_again_before_the_first_rows_is_another_one(count: int) -> None:
    """Its records are not taken for those after the first offset of the old one."""
    topics = Topics(a=1)
    topics.append("a", 3)
    strict, lenient = topics.plan(), topics.plan(failOnDataLoss="false")
    starts = [plan.latest(plan.initial()) for plan in (strict, lenient)]
    topics.delete("a")
    topics.create("a")
    topics.append("a", count)
    end = lenient.latest(starts[1])

    with pytest.raises(DataLoss, match="deleted and recreated"):
        strict.latest(starts[0])
    with pytest.raises(DataLoss, match="deleted and recreated"):
        strict.tasks(starts[0], end)
    read = topics.read(lenient, starts[1], end, failOnDataLoss="false")
    assert read == [("a", offset) for offset in range(count)]


@pytest.mark.parametrize("is_new", [True, False])
def test_an_error_of_the_disk_leaves_no_partition_out(is_new: bool) -> None:
    """In an offset that lacked it, it would count as deleted, and in the next as new."""
    topics = Topics(a=1, b=1)
    topics.append("a", 1)
    plan = topics.plan(**EARLIEST)
    start = plan.initial()
    if not is_new:
        start = plan.latest(start)
    topics.append("b", 1)
    topics.home.fs.fail("open", "b-0/00000000000000000000.log", OSError(errno.EIO, "it failed"))
    failing = topics.plan(**EARLIEST)

    with pytest.raises(KafkaStorageError, match="it failed"):
        failing.latest(start)
    assert ("b", 0) in topics.read(failing, start, failing.latest(start))


@pytest.mark.parametrize("content", [b"\0" * 8, b"0\n1\nx 0\n", b"0\n2\n0 0\n", b"\xff"])
def test_a_stream_needs_no_leader_epochs(content: bytes) -> None:
    """Without them it continues where it was, as after a checkpoint that has none."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(**EARLIEST)
    start = plan.latest(plan.initial())
    topics.append("a", 1)
    topics.home.write("a-0/leader-epoch-checkpoint", content)
    restarted = topics.plan(**EARLIEST)

    assert topics.read(restarted, start, restarted.latest(start)) == [("a", 2)]


def test_a_stream_from_a_checkpoint_of_kafkas_source_does_not_go_back() -> None:
    """Such a checkpoint names no topic ids, and may be ahead of the high watermarks on disk."""
    topics = Topics(a=1)
    topics.append("a", 6)
    checkpoint = f"{topics.home.path}/replication-offset-checkpoint"
    topics.home.fs.write(checkpoint, b"0\n1\na 0 4\n")
    plan = topics.plan()
    start = {"a": {"0": 6}}

    assert offsets(plan.latest(start)) == start
