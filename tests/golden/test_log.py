"""Logs that Kafka wrote, opened as ``Log`` on a copy."""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING, Any

from tidelog.codec.checkpoint_file import read_checkpoint, read_leader_epochs
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.log.log import Log
from tidelog.log.producers.producer_snapshot import unpack_snapshot
from tidelog.log.reading.offset_lookup import OffsetTarget
from tidelog.records.isolation import Isolation
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.golden.conftest import Partition

    from tidelog.log.reading.offset_lookup import TimestampedOffset

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
NOTHING = {"offset": -1, "timestamp": -1, "leaderEpoch": None}


def checkpointed(partition: Partition, name: str) -> int:
    """Return what one of the data directory's checkpoints says of the partition; 0: nothing."""
    lines = read_checkpoint(SYSTEM_FILES, str(partition.directory.parent / name))
    return lines.get((partition.topic, partition.number), 0)


def open_copy(partition: Partition, directory: Path, *suffixes: str) -> Log:
    """Open a copy of the partition as the owner of its data directory does.

    With ``suffixes`` only the files that end so are copied, and the log has to be recovered.
    """
    copy = directory / partition.name
    shutil.copytree(partition.directory, copy, copy_function=shutil.copyfile)
    for path in copy.iterdir():
        if suffixes and path.suffix not in suffixes:
            path.unlink()
    log = Log.open(
        str(copy),
        fs=SYSTEM_FILES,
        clock=ManualClock(partition.about["takenAtMs"]),
        scheduler=InlineScheduler(),
        rng=Random(0),
        config=partition.config,
        log_start_offset=checkpointed(partition, "log-start-offset-checkpoint"),
        recovery_point=0 if suffixes else checkpointed(partition, RECOVERY_POINTS),
        clean_shutdown=not suffixes and not partition.is_log_files_only,
    )
    log.update_high_watermark(log.log_end_offset)
    return log


def answer(found: TimestampedOffset | None) -> dict[str, Any]:
    """Return the answer to a query by time in the form of Kafka's listing."""
    if found is None:
        return NOTHING
    return {
        "offset": found.offset,
        "timestamp": found.timestamp,
        "leaderEpoch": found.leader_epoch,
    }


def test_a_log_gives_the_records_that_kafka_gives(loadable: Partition, tmp_path: Path) -> None:
    """Every record that a Java consumer received is read, and no other."""
    with open_copy(loadable, tmp_path) as log:
        read = [loadable.listed(record) for record in log.records()]

    assert loadable.records == read


def test_a_log_gives_committed_records_as_kafka_does(
    transactional: Partition, tmp_path: Path
) -> None:
    """A reader of committed records gets what a read_committed consumer of Kafka got."""
    with open_copy(transactional, tmp_path) as log:
        committed = log.records(isolation=Isolation.READ_COMMITTED)
        read = [transactional.listed(record) for record in committed]

    assert transactional.committed == read


def test_a_log_has_the_offsets_of_the_broker(loadable: Partition, tmp_path: Path) -> None:
    """Start, end, high watermark and last stable offset are those that the broker had."""
    state = loadable.state
    end = state["logEndOffset"]

    with open_copy(loadable, tmp_path) as log:
        offsets = (log.log_start_offset, log.log_end_offset, log.high_watermark)
        last_stable_offset = log.last_stable_offset

    assert (state["logStartOffset"], end, state.get("highWatermark", end)) == offsets
    assert state.get("lastStableOffset", last_stable_offset) == last_stable_offset


def test_a_log_answers_queries_by_time_as_the_broker(indexed: Partition, tmp_path: Path) -> None:
    """The offset for a time, and that of the greatest timestamp, are those the broker gave.

    Where it overlooked a record, that is found.
    """
    state = indexed.state
    queries = {row.pop("query"): row for row in indexed.by_time}

    with open_copy(indexed, tmp_path) as log:
        answers = {query: answer(log.fetch_offset_by_timestamp(query)) for query in queries}
        greatest = answer(log.fetch_offset_by_timestamp(OffsetTarget.MAX_TIMESTAMP))

    assert queries == answers
    assert state["maxTimestamp"] == greatest


def kept_by_opening(partition: Partition) -> dict[str, bytes]:
    """Return the files that a start of Kafka leaves, with their bytes.

    Gone are epochs that begin at the log's end, snapshots at or below its start, and snapshots at
    which no segment begins, except the newest.
    """
    start, end = partition.state["logStartOffset"], partition.state["logEndOffset"]
    files = {path.name: path.read_bytes() for path in partition.directory.iterdir()}
    epochs = read_leader_epochs(SYSTEM_FILES, str(partition.directory / EPOCHS))
    lines = [f"{epoch} {offset}" for epoch, offset in epochs if offset < end]
    files[EPOCHS] = "\n".join(["0", str(len(lines)), *lines, ""]).encode()
    snapshots = partition.files(".snapshot")
    for name in snapshots:
        is_of_segment = name.replace(".snapshot", ".log") in files or name == snapshots[-1]
        if int(name.removesuffix(".snapshot")) <= start or not is_of_segment:
            del files[name]
    return files


def test_opening_and_closing_changes_no_file(indexed: Partition, tmp_path: Path) -> None:
    """A log that was shut down cleanly is left as found, except what Kafka tidies up, too."""
    log = open_copy(indexed, tmp_path)

    log.close()

    copy = tmp_path / indexed.name
    assert kept_by_opening(indexed) == {path.name: path.read_bytes() for path in copy.iterdir()}


def without_order(files: dict[str, bytes]) -> dict[str, object]:
    """Return files by name, the producers of a snapshot sorted: Java's order is that of a map."""
    return {
        name: sorted(unpack_snapshot(data)) if name.endswith(".snapshot") else data
        for name, data in files.items()
    }


def test_an_adopted_log_is_recovered_as_kafka_does(adopted: Partition, tmp_path: Path) -> None:
    """From nothing but the .log file the same indexes, snapshot and leader epochs are built.

    As in the broker, the next leader then begins an epoch; topic ids are not its task.

    Scenario: LogLoaderTest.testLogRecoversForLeaderEpoch
    """
    expected = {path.name: path.read_bytes() for path in adopted.directory.iterdir()}
    del expected["partition.metadata"]
    epoch, _ = read_leader_epochs(SYSTEM_FILES, str(adopted.directory / EPOCHS))[-1]
    log = open_copy(adopted, tmp_path, ".log")

    log.maybe_assign_epoch(epoch, log.log_end_offset)
    log.close()

    found = {path.name: path.read_bytes() for path in (tmp_path / adopted.name).iterdir()}
    assert without_order(expected) == without_order(found)
