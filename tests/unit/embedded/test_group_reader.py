"""Readers with a consumer group, whose positions survive a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.transactions import (
    append_transaction,
    begin_with_position,
    end_transaction,
)

import tidelog
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    DataLoss,
    GroupInUse,
    InvalidArgument,
    InvalidRecord,
    KafkaStorageError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tidelog.explain.groups import group_positions
from tidelog.readonly.group_positions import (
    Committed,
    Position,
    partition_of_group,
    position_key,
    position_records,
    position_value,
    read_committed_position,
)
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.batch import TimestampType
from tidelog.records.record import Record
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.embedded.group_reader import GroupReader

OFFSETS = "__consumer_offsets"
GROUPED = TopicPartition("t", 0)


def filled(logs: tidelog.Logs, *values: str, topic: str = "t", partition: int = 0) -> None:
    """Append values, to a topic that is created if it is missing."""
    logs.create_topic(topic, 2, exist_ok=True)
    for value in values:
        logs.append(topic, value.encode(), partition=partition)


def values(reader: GroupReader) -> list[str]:
    """Return the values of the records that are there."""
    return [(record.value or b"").decode() for record in reader.read()]


def test_a_reader_continues_where_its_group_has_committed(tmp_path: Path) -> None:
    """After a restart; what was read and not committed is read again. Each group has its own."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b")
        with logs.reader("t", group="g") as reader:
            assert values(reader) == ["a", "b"]
            reader.commit()
            filled(logs, "c")
            assert values(reader) == ["c"]
    with tidelog.open(tmp_path) as logs:
        with logs.reader("t", group="g") as reader:
            assert reader.lag() == {("t", 0): 1, ("t", 1): 0}
            assert values(reader) == ["c"]
        with logs.reader("t", group="other") as reader:
            assert values(reader) == ["a", "b", "c"]


def test_records_have_their_place_and_several_topics_are_read(tmp_path: Path) -> None:
    """Partition by partition, in order of offsets in each."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        filled(logs, "b", partition=1)
        filled(logs, "c", topic="u")
        logs.append("t", b"d", key=b"k", headers=[("h", b"x")], timestamp=7, partition=0)

        with logs.reader("t", "u", group="g") as reader:
            found = list(reader.read())

    assert [(r.topic, r.partition, r.offset, r.value) for r in found] == [
        ("t", 0, 0, b"a"),
        ("t", 0, 1, b"d"),
        ("t", 1, 0, b"b"),
        ("u", 0, 0, b"c"),
    ]
    assert found[1][3:7] == (7, b"k", b"d", (("h", b"x"),))


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_reader_that_has_read_all_stands_behind_markers_and_aborted_records(
    tmp_path: Path, is_commit: bool
) -> None:
    """Nothing is left to read, and nothing is missed when they are deleted."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        append_transaction(logs.partition("t", 0), b"b", is_commit=is_commit)
        with logs.reader("t", group="g", start="none", isolation="read_committed") as reader:
            assert values(reader) == ["a", "b"][: 1 + is_commit]
            assert reader.lag() == {("t", 0): 0, ("t", 1): 0}
            logs.manager.on_demand.delete_records(TopicPartition("t", 0), -1)
            filled(logs, "c")
            assert values(reader) == ["c"]


def test_a_reader_that_is_not_done_does_not_pass_what_it_has_not_yielded(tmp_path: Path) -> None:
    """A loop that is left early continues with the next record, also after a jump."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b")
        append_transaction(logs.partition("t", 0), b"c")
        with logs.reader("t", group="g") as reader:
            for _ in reader.read():
                break
            assert values(reader) == ["b", "c"]
            reader.seek("t", 0, 2)
            for record in reader.read():
                if record.offset == 2:
                    reader.seek("t", 0, 1)
                    break
            assert values(reader) == ["b", "c"]


def test_a_commit_in_the_loop_counts_the_record_at_hand(tmp_path: Path) -> None:
    """The position is after a record as soon as the loop has it."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b", "c")
        with logs.reader("t", group="g") as reader:
            for record in reader:
                if record.value == b"b":
                    reader.commit()
                    break
            assert reader.committed == {("t", 0): 2, ("t", 1): 0}
        with logs.reader("t", group="g") as reader:
            assert values(reader) == ["c"]


def test_results_and_positions_are_committed_together(tmp_path: Path) -> None:
    """Consume, transform, produce: both or neither, also at the group's first commit."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b")
        logs.create_topic("out")
        reader = logs.reader("t", group="g")
        dropped = logs.transaction()
        for record in reader.read():
            dropped.append("out", (record.value or b"").upper())
        reader.commit(dropped)
        dropped.abort()
        assert (reader.committed, list(logs.read("out"))) == ({}, [])

        reader.rewind()
        with logs.transaction() as txn:
            for record in reader.read():
                txn.append("out", (record.value or b"").upper())
            reader.commit(txn)

        assert [record.value for record in logs.read("out")] == [b"A", b"B"]
        assert reader.committed == {("t", 0): 2, ("t", 1): 0}
        assert values(reader) == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_position_can_be_set_back_after_a_transaction(
    tmp_path: Path, *, is_restarted: bool
) -> None:
    """To where the last commit without a transaction was, which is the group's no longer."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b", "c")
        reader = logs.reader("t", group="g")
        next(reader.read())
        reader.commit()
        if is_restarted:
            reader.close()
            reader = logs.reader("t", group="g")
        with logs.transaction() as txn:
            assert values(reader) == ["b", "c"]
            reader.commit(txn)
        assert reader.committed[TopicPartition("t", 0)] == 3

        reader.seek("t", 0, 1)
        reader.commit()
        assert reader.committed[TopicPartition("t", 0)] == 1
        reader.close()
        with logs.reader("t", group="g") as reader:
            assert values(reader) == ["b", "c"]


def test_partitions_that_are_added_are_read_from_their_start(tmp_path: Path) -> None:
    """Also by a reader that began at the end."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        with logs.reader("t", group="g", start="latest") as reader:
            assert values(reader) == []
            logs.create_partitions("t", 3)
            filled(logs, "b", partition=2)
            filled(logs, "c")

            assert sorted(values(reader)) == ["b", "c"]


def test_a_position_below_the_log_start_is_reset_or_an_error(tmp_path: Path) -> None:
    """As ``start`` says; retention has deleted what was to be read."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b", "c")
        with logs.reader("t", group="g", partitions=[0]) as reader:
            next(reader.read())
            reader.commit()
        logs.manager.on_demand.delete_records(TopicPartition("t", 0), 2)

        for start, wanted in (("earliest", ["c"]), ("latest", [])):
            with logs.reader("t", group="g", partitions=[0], start=start) as reader:
                assert values(reader) == wanted
        reader = logs.reader("t", group="g", partitions=[0], start="none")
        with pytest.raises(OffsetOutOfRange):
            values(reader)


def lose_end(path: Path, partition: int = 0) -> int:
    """Delete the newest segment of a log that is closed; return where it begins."""
    newest = max((path / f"t-{partition}").glob("*.log"))
    for each in newest.parent.glob(f"{newest.stem}.*"):
        each.unlink()
    return int(newest.stem)


@pytest.mark.parametrize("more", [0, 2, 30])
def test_a_group_reads_what_takes_the_place_of_records_that_were_lost(
    tmp_path: Path, more: int
) -> None:
    """From the first one on, wherever the log ends by then; or that is an error."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 2, config={"internal.segment.bytes": "400"})
        filled(logs, *(f"old {number}" for number in range(20)))
        with logs.reader("t", group="g") as reader:
            assert len(values(reader)) == 20
            reader.commit()
    end = lose_end(tmp_path)
    new = [f"new {number}" for number in range(more)]
    with tidelog.open(tmp_path) as logs:
        filled(logs, *new)
        with logs.reader("t", group="g", start="none") as reader:
            with pytest.raises(DataLoss, match=rf"t-0 has no offsets \[{end}, 20\).* reset the gr"):
                values(reader)
            reader.seek("t", 0, end)
            assert values(reader) == new
        with logs.reader("t", group="g") as reader:
            assert values(reader) == new
            reader.commit()
        assert logs.group_positions()["g"][GROUPED].offset == end + more
        filled(logs, "last")
        with logs.reader("t", group="g", start="none") as reader:
            assert values(reader) == ["last"]


def test_a_reader_sees_that_the_log_below_it_was_cut_while_it_reads(tmp_path: Path) -> None:
    """Others have the offsets of records that it read: it goes back to the first of them."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, *(f"old {number}" for number in range(6)))
        sure = logs.reader("t", group="sure", partitions=[0], start="none")
        with logs.reader("t", group="g") as reader:
            assert [len(values(each)) for each in (sure, reader)] == [6, 6]
            logs.partition("t", 0).log.truncate_to(4)
            logs.partition("t", 0).lead(5)
            new = [f"new {number}" for number in range(4)]
            filled(logs, *new)

            assert values(reader) == new
            reader.commit()
        assert logs.group_positions()["g"][GROUPED].offset == 8
        with pytest.raises(DataLoss, match=r"t-0 has no offsets \[4, 6\)"):
            values(sure)


def test_a_position_behind_a_marker_of_a_new_epoch_is_in_the_log(tmp_path: Path) -> None:
    """The marker is not yielded, and the position says the epoch of what lies below it."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        logs.partition("t", 0).lead(5)
        append_transaction(logs.partition("t", 0), b"aborted", is_commit=False)
        with logs.reader("t", group="g", isolation="read_committed") as reader:
            assert values(reader) == ["a"]
            reader.commit()
        assert logs.group_positions()["g"][GROUPED].leader_epoch == 5
        with logs.reader("t", group="g", start="none") as reader:
            assert values(reader) == []


def test_positions_of_a_topic_that_was_deleted_do_not_count(tmp_path: Path) -> None:
    """Its name may stand for another topic now; the id decides."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b")
        with logs.reader("t", group="g") as reader:
            list(reader.read())
            reader.commit()
        logs.delete_topic("t")
        filled(logs, "new")

        with logs.reader("t", group="g") as reader:
            assert (reader.committed, values(reader)) == ({}, ["new"])


def test_a_reader_does_not_go_on_in_a_topic_that_was_created_again(tmp_path: Path) -> None:
    """Its positions are those of other records: neither read from nor committed, until a rewind."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b")
        with logs.reader("t", group="g") as reader:
            next(found := reader.read())
            logs.delete_topic("t")
            with pytest.raises(UnknownTopicOrPartition):
                reader.commit()
            filled(logs, "new0", "new1")
            for is_refused in (reader.commit, reader.lag, lambda: list(reader.read())):
                with pytest.raises(UnknownTopicOrPartition, match="another one now"):
                    is_refused()
            found.close()  # type: ignore[attr-defined]  # a generator
            assert reader.committed == {}
            reader.rewind()

            assert values(reader) == ["new0", "new1"]


def test_a_rewind_without_a_commit_goes_back_to_where_the_reader_began(tmp_path: Path) -> None:
    """Also if that was the end then, and in partitions that were added since."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        with logs.reader("t", group="g", start="latest") as reader:
            filled(logs, "b")
            assert values(reader) == ["b"]
            logs.create_partitions("t", 3)
            filled(logs, "c", partition=2)
            reader.rewind()

            assert sorted(values(reader)) == ["b", "c"]


def test_a_rewind_into_a_topic_that_was_created_again_skips_nothing(tmp_path: Path) -> None:
    """A reader begins at the latest record once only; a rewind that fails leaves its position."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        with logs.reader("t", group="g", start="latest") as reader:
            logs.delete_topic("t")
            with pytest.raises(UnknownTopicOrPartition):
                reader.rewind()
            filled(logs, "new")
            with pytest.raises(UnknownTopicOrPartition, match="another one now"):
                reader.lag()
            reader.rewind()

            assert values(reader) == ["new"]


def test_one_reader_at_a_time_reads_a_partition_for_a_group(tmp_path: Path) -> None:
    """Two would commit over each other; apart they may read."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        with logs.reader("t", group="g", partitions=[0]) as first:
            with pytest.raises(GroupInUse, match="group 'g' has a reader"):
                logs.reader("t", group="g")
            logs.reader("t", group="g", partitions=[1]).close()
            logs.reader("t", group="other").close()
        logs.reader("t", group="g").close()
        with pytest.raises(InvalidArgument, match="is closed"):
            values(first)


def test_a_reader_can_seek(tmp_path: Path) -> None:
    """Also in the middle of reading."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b", "c")
        reader = logs.reader("t", group="g")
        found = reader.read()
        assert [next(found).value, next(found).value] == [b"a", b"b"]
        reader.seek("t", 0, 0)

        assert [record.value for record in found] == [b"a", b"b", b"c"]
        with pytest.raises(InvalidArgument, match="t-7 is not read by this reader"):
            reader.seek("t", 7, 0)


@pytest.mark.parametrize("group", ["", None, "x" * 32_768, "\ud800"])
def test_the_name_of_a_group_is_checked(tmp_path: Path, group: str) -> None:
    """Text that a record of Kafka's can hold."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        with pytest.raises(InvalidArgument, match="name of a group"):
            logs.reader("t", group=group)


def test_arguments_are_checked(tmp_path: Path) -> None:
    """At once, and nothing is left behind."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a")
        with pytest.raises(InvalidArgument, match="'first' is not one of earliest"):
            logs.reader("t", group="g", start="first")
        with pytest.raises(InvalidArgument, match="at least one topic"):
            logs.reader(group="g")
        with pytest.raises(tidelog.errors.UnknownTopicOrPartition):
            logs.reader("nope", group="g")
        with pytest.raises(InvalidArgument, match="partitions is a list, as"):
            logs.reader("t", group="g", partitions="0")  # type: ignore[arg-type]  # wrong
        with pytest.raises(InvalidArgument, match="name of a topic: name them one by one"):
            logs.reader(["t"], group="g")  # type: ignore[arg-type]  # wrong
        with pytest.raises(
            tidelog.errors.UnknownTopicOrPartition, match="t has no partition 7; it has 0 to 1"
        ):
            logs.reader("t", group="g", partitions=[0, 7])
        logs.reader("t", group="g").close()


# How they are kept


def record_of(key: bytes | None, value: bytes | None) -> Record:
    """Return a record of ``__consumer_offsets``."""
    return Record(5, 0, TimestampType.CREATE_TIME, key, value)


def test_positions_are_records_of_kafkas() -> None:
    """What is written is read; an older version, a tombstone and other records are known."""
    key = TopicPartition("t", 3)
    written = Position(7, 2, "note", 99, None)

    assert read_committed_position(record_of(position_key("g", key), position_value(written))) == (
        Committed("g", key, written)
    )
    assert read_committed_position(record_of(position_key("g", key), None)) == (
        Committed("g", key, None)
    )
    expiring = Position(7, -1, "", 99, None, 107)
    old = bytes.fromhex("0001 0000000000000007 0000 0000000000000063 000000000000006b")
    assert old == position_value(expiring)
    assert read_committed_position(record_of(position_key("g", key), old)) == (
        Committed("g", key, expiring)
    )
    assert read_committed_position(record_of(bytes.fromhex("0002 0001 67"), b"x")) is None
    for bad in (b"", b"\x00\x01", b"\x00\x01\x00\x05g"):
        with pytest.raises(InvalidRecord):
            read_committed_position(record_of(bad, None))
    with pytest.raises(InvalidRecord, match="version 9"):
        read_committed_position(record_of(position_key("g", key), b"\x00\x09"))


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("group-0", 48),
        ("g", 3),
        ("", 0),
        ("a long name of a group é ☃ 𝄞", 37),
        ("polygenelubricants", 0),
    ],
)
def test_a_group_is_in_the_partition_that_kafka_gives_it(group: str, partition: int) -> None:
    """By Java's hash of its name, of 50 partitions; also where that hash is the least integer."""
    assert partition_of_group(group, 50) == partition


def test_commits_behind_an_open_transaction_count_at_once(tmp_path: Path) -> None:
    """Those of the transaction count in their place once it is committed, and never if aborted."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, *"abcdefgh")
        logs.create_topic(OFFSETS, 1, {"cleanup.policy": "compact"})
        partition = logs.partition(OFFSETS, 0)
        for producer_id, offset in ((7, 1), (8, 7), (9, 6)):
            begin_with_position(partition, producer_id, GROUPED, offset)
        end_transaction(partition, 8, is_commit=False)
        seen = [position_in(logs)]
        for offset in (2, 5):
            at = {GROUPED: Position(offset, -1, "", 1000, None)}
            partition.append_records(position_records("g", at))
            seen.append(position_in(logs))
        seen.append(position_beside(logs, tmp_path))
    with tidelog.open(tmp_path) as logs:
        partition = logs.partition(OFFSETS, 0)
        end_transaction(partition, 7, is_commit=True)
        begin_with_position(partition, 10, GROUPED, 8)
        seen += [position_in(logs), position_beside(logs, tmp_path)]
    with tidelog.open(tmp_path) as logs:
        end_transaction(logs.partition(OFFSETS, 0), 10, is_commit=True)
        end_transaction(logs.partition(OFFSETS, 0), 9, is_commit=False)
        with logs.reader("t", group="g") as reader:
            seen += [reader.positions[GROUPED], position_beside(logs, tmp_path)]

    assert seen == [None, 2, 5, 5, 5, 5, 8, 8]


def test_a_disk_that_fails_once_does_not_move_where_an_undecided_position_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that begins at the latest record does so once the transaction is aborted."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, *"abc")
        logs.create_topic(OFFSETS, 1, {"cleanup.policy": "compact"})
        partition = logs.partition(OFFSETS, 0)
        begin_with_position(partition, 7, GROUPED, 1)
        with logs.reader("t", group="g", start="latest") as reader:
            end_transaction(partition, 7, is_commit=False)
            with monkeypatch.context() as patched:

                def failing(_: object) -> None:
                    raise KafkaStorageError("bad sectors")

                patched.setattr(reader._source, "bounds", failing)
                with pytest.raises(KafkaStorageError):
                    values(reader)
            assert values(reader) == []
            filled(logs, "d")
            assert values(reader) == ["d"]


def position_in(logs: tidelog.Logs) -> int | None:
    """Return the position of group g as the holder of the directory sees it."""
    found = logs.group_positions().get("g", {}).get(GROUPED)
    return None if found is None else found.offset


def position_beside(logs: tidelog.Logs, path: Path) -> int | None:
    """Return the position of group g as the files of the closed directory have it."""
    logs.close()
    found = group_positions(open_directory_read_only(str(path), fs=SYSTEM_FILES))
    return {one.key: one.offset for one in found}[GROUPED]


def test_unreadable_records_are_passed_over(tmp_path: Path) -> None:
    """Each is logged; the positions after it count."""
    with tidelog.open(tmp_path) as logs:
        filled(logs, "a", "b")
        logs.create_topic(OFFSETS, 1, {"cleanup.policy": "compact"})
        logs.append(OFFSETS, b"\x00\x63", key=position_key("g", TopicPartition("t", 0)))
        with logs.reader("t", group="g") as reader:
            assert len(values(reader)) == 2
            reader.commit()

        assert logs.group_positions()["g"][TopicPartition("t", 0)].offset == 2
