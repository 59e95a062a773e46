"""Which staged files are adopted, and what is written into them before."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.config.log_config import LogConfig
from tidelog.errors import KafkaStorageError
from tidelog.records.builder import build_batch
from tidelog.records.memory import walk
from tidelog.staging.adopting import adopt_run, adopted_from, is_adoptable
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.staged_run import Placement

if TYPE_CHECKING:
    from tidelog.config.log_config import LogConfig as Config
    from tidelog.staging.staged_run import StagedRun
    from tidelog.testing.faults import Operation

BATCHES = [build_batch([(1_000, b"k", b"%d" % n, ()), (1_001, b"k", None, ())]) for n in range(3)]
SIZE = len(b"".join(BATCHES))
PLACEMENT = Placement(0, 0, 4, -1)


def stage(home: LogHome, *batches: bytes, keeps_offsets: bool = False) -> StagedRun:
    """Stage batches as one run."""
    writer = BundleWriter(
        LocalFolder(home.fs, home.data_directory), "x", rng=Random(1), keeps_offsets=keeps_offsets
    )
    for batch in batches:
        writer.append("flights", 0, batch)
    (run,) = writer.finish()
    return run


def settings(segment_bytes: int, **more: Any) -> Config:
    """Return settings with segments of this size."""
    return LogConfig(internal_segment_bytes=segment_bytes, **more)


def writes(traced: list[Operation]) -> list[str]:
    """Name the changes of staged files."""
    return [
        one.name
        for one in traced
        if one.path.endswith(".staged") and one.name in {"pwrite", "sync", "rename"}
    ]


def adopt(home: LogHome, run: StagedRun) -> list[tuple[int, bytes | None]]:
    """Let a new log adopt a run; return what it holds then."""
    log = home.open()
    adopt_run(home.fs, home.data_directory, log, run, PLACEMENT)
    return all_values(log)


def test_files_from_an_eighth_of_a_segment_to_a_whole_one_are_adopted() -> None:
    """Smaller ones would make many small segments, and larger ones do not fit."""
    home = LogHome()
    run = stage(home, *BATCHES)

    def is_taken(config: Config, partition_bytes: int = SIZE) -> bool:
        return is_adoptable(home.fs, home.data_directory, run, config, partition_bytes)

    assert [is_taken(settings(size)) for size in (SIZE - 1, SIZE, 8 * SIZE, 8 * SIZE + 1)] == [
        False,
        True,
        True,
        False,
    ]
    assert not is_taken(settings(SIZE, message_timestamp_type="LogAppendTime"))
    assert not is_taken(settings(8 * SIZE + 1), 100 * SIZE)


def test_parts_of_16_mib_are_adopted_of_what_is_an_eighth_of_a_large_segment_together() -> None:
    """The first size pays for the syncs, the second keeps the segments of a log few."""
    home = LogHome()
    batch = build_batch([(1_000, None, bytes(16 << 20), ())])
    run = stage(home, batch)

    def is_taken(segment_bytes: int, partition_bytes: int) -> bool:
        config = settings(segment_bytes)
        return is_adoptable(home.fs, home.data_directory, run, config, partition_bytes)

    assert is_taken(1 << 30, 1 << 27)
    assert not is_taken(1 << 30, (1 << 27) - 1)
    assert not is_taken(1 << 30, len(batch))
    assert [adopted_from(size) for size in (1, 8, 9, 1 << 27, 1 << 30)] == [1, 1, 2, *[1 << 24] * 2]


def test_a_copy_is_adopted_by_a_topic_with_append_times_too() -> None:
    """It brings its own."""
    home = LogHome()
    run = stage(home, *BATCHES[:1], keeps_offsets=True)
    config = settings(SIZE, message_timestamp_type="LogAppendTime")

    assert is_adoptable(home.fs, home.data_directory, run, config, SIZE)


def test_only_a_run_that_fills_its_file_is_adopted() -> None:
    """Other runs lie before it or after it in the others."""
    home = LogHome()
    writer = BundleWriter(LocalFolder(home.fs, home.data_directory), "x", rng=Random(1))
    for number in range(2):
        writer.append("flights", number, b"".join(BATCHES))
    runs = writer.finish()
    taken = [is_adoptable(home.fs, home.data_directory, run, settings(SIZE), SIZE) for run in runs]

    assert taken == [False, False]


def test_offsets_and_epochs_are_written_and_nothing_else() -> None:
    """Each batch in turn; the checksums stay right."""
    home = LogHome()
    held = adopt(home, stage(home, *BATCHES))
    data = home.read(f"{0:020d}.log")
    batches = walk(data, check_crc=True).batches

    assert [offset for offset, _ in held] == list(range(6))
    assert batches.base_offset.tolist() == [0, 2, 4]
    assert batches.leader_epoch.tolist() == [4, 4, 4]
    whole = b"".join(BATCHES)
    for start in batches.position.tolist():
        assert data[start + 16 : start + 61] == whole[start + 16 : start + 61]


def test_batches_that_are_right_already_are_not_written_again() -> None:
    """A replay writes those that an earlier try did not reach, and syncs in any case."""
    home = LogHome()
    run = stage(home, *BATCHES)
    path = f"{home.data_directory}/{run.name}"
    at = len(BATCHES[0])
    data = bytearray(home.fs.read(path))
    data[12:16] = (4).to_bytes(4)
    data[at : at + 8], data[at + 12 : at + 16] = (2).to_bytes(8), (3).to_bytes(4)
    home.fs.write(path, data)
    traced = home.fs.trace()
    adopt(home, run)

    assert writes(traced) == ["pwrite", "pwrite", "sync", "rename"]
    batches = walk(home.read(f"{0:020d}.log")).batches
    assert batches.base_offset.tolist() == [0, 2, 4]
    assert batches.leader_epoch.tolist() == [4, 4, 4]


def test_a_copy_is_not_written_at_all() -> None:
    """Its writer has made it durable."""
    home = LogHome()
    run = stage(home, build_batch([(1, None, b"v", ())], base_offset=7), keeps_offsets=True)
    traced = home.fs.trace()

    assert adopt(home, run) == [(7, b"v")]
    assert writes(traced) == ["rename"]


@pytest.mark.parametrize("change", ["flip", "header", "cut", "extend", "other"])
def test_a_file_that_is_not_what_was_staged_is_not_adopted(change: str) -> None:
    """The error names it, and it stays."""
    home = LogHome()
    run = stage(home, *BATCHES)
    path = f"{home.data_directory}/{run.name}"
    data = home.fs.read(path)
    other = build_batch([(1_000, b"k", b"9", ()), (1_001, b"k", None, ())])
    home.fs.write(
        path,
        {
            "flip": data[:-1] + bytes([data[-1] ^ 1]),
            "header": data[:23] + b"\x80" + data[24:],
            "cut": data[:-1],
            "extend": data + BATCHES[0],
            "other": other + data[len(other) :],
        }[change],
    )
    with pytest.raises(KafkaStorageError, match="is damaged at"):
        adopt(home, run)

    assert home.fs.exists(path)


def test_a_file_that_is_missing_is_an_error_and_none_is_made() -> None:
    """The disk has not failed."""
    home = LogHome()
    run = stage(home, *BATCHES)
    home.fs.delete(f"{home.data_directory}/{run.name}")
    with pytest.raises(KafkaStorageError, match="does not exist") as caught:
        adopt(home, run)

    assert caught.value.__cause__ is None
    assert not home.fs.exists(f"{home.data_directory}/{run.name}")
