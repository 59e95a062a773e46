"""Index files built again from the ``.log`` files that Kafka wrote, byte for byte as Kafka's.

What an index holds depends on when its segment was opened: an entry is due after some bytes
since the last one *or since the opening*, and closing adds the greatest timestamp. So a segment
that was appended to across a restart of the broker (its leader epoch rises) is replayed with that
restart. Segments that the cleaner or a recovery wrote again have old epochs and no restart inside.
"""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING

import pytest

from tidelog.codec.checkpoint_file import read_checkpoint
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.records.file_records import FileRecords
from tidelog.segment.filenames import offset_from_file_name
from tidelog.segment.segment import LogSegment
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Enumerated
    from tests.golden.conftest import Partition

    from tidelog.records.batch_columns import BatchColumns

INDEXES = (".index", ".timeindex")


def open_segment(partition: Partition, directory: Path, base_offset: int) -> LogSegment:
    """Open a segment with the settings of its topic."""
    return LogSegment.open(
        str(directory),
        base_offset,
        partition.config,
        fs=SYSTEM_FILES,
        clock=ManualClock(0),
        rng=Random(0),
    )


def stored_batches(path: Path) -> Iterator[tuple[BatchColumns, bytes]]:
    """Yield each batch of a file with its bytes."""
    with FileRecords.open(SYSTEM_FILES, str(path)) as file:
        for piece in file.pieces():
            batches = piece.batches_in_data
            for index in range(len(batches)):
                one = batches.slice(index, index + 1)
                start = int(one.position[0])
                yield one, bytes(piece.data[start : start + int(one.size[0])])


def is_written_anew(partition: Partition, base_offset: int) -> bool:
    """Say whether the cleaner or a recovery made the segment, in one go."""
    path = partition.directory.parent / "cleaner-offset-checkpoint"
    cleaned = read_checkpoint(SYSTEM_FILES, str(path))
    first_dirty = cleaned.get((partition.topic, partition.number), 0)
    return partition.case.startswith("adopted") or base_offset < first_dirty


def replay(partition: Partition, name: str, directory: Path) -> None:
    """Append the batches of a segment one by one, as the broker did."""
    base_offset = offset_from_file_name(name)
    has_restarts = not is_written_anew(partition, base_offset)
    segment = open_segment(partition, directory, base_offset)
    epoch = None
    for batches, data in stored_batches(partition.directory / name):
        if has_restarts and epoch not in {None, int(batches.leader_epoch[0])}:
            segment.close()
            segment = open_segment(partition, directory, base_offset)
            segment.resize_indexes()
        epoch = int(batches.leader_epoch[0])
        segment.append(int(batches.last_offset[0]), data, batches)
    segment.become_inactive()
    segment.close()


def contents(directory: Path, names: list[str]) -> dict[str, bytes]:
    """Return the bytes of those files that are there; one that is not counts as empty."""
    paths = {name: directory / name for name in names}
    return {name: path.read_bytes() if path.exists() else b"" for name, path in paths.items()}


def test_replayed_appends_give_kafkas_index_files(indexed: Partition, tmp_path: Path) -> None:
    """Appending the same batches to a segment makes the same .log, .index and .timeindex."""
    for name in indexed.files(".log"):
        replay(indexed, name, tmp_path)

    names = indexed.files(".log", *INDEXES)
    assert indexed.contents(".log", *INDEXES) == contents(tmp_path, names)


def is_interrupted(indexed: Partition, name: str) -> bool:
    """Say whether a restart fell into the writing of a segment, and nothing wrote it again."""
    epochs = {int(one.leader_epoch[0]) for one, _ in stored_batches(indexed.directory / name)}
    return len(epochs) > 1 and not is_written_anew(indexed, offset_from_file_name(name))


def test_recovery_gives_kafkas_index_files(
    indexed: Partition, tmp_path: Path, enumerated: Enumerated
) -> None:
    """Recovering a segment that no restart interrupted makes the .index and .timeindex it had."""
    chosen = [name for name in indexed.files(".log") if not is_interrupted(indexed, name)]
    if not chosen:
        pytest.skip("a restart interrupted each segment")
    enumerated("segments", len(chosen), at_least=1)
    for name in chosen:
        base_offset = offset_from_file_name(name)
        shutil.copyfile(indexed.directory / name, tmp_path / name)
        segment = open_segment(indexed, tmp_path, base_offset)

        cut = segment.recover()

        segment.close()
        names = [name.replace(".log", suffix) for suffix in INDEXES]
        assert cut == 0
        assert contents(indexed.directory, names) == contents(tmp_path, names)
