"""One partition whose only replica is this process."""

from __future__ import annotations

from tidelog.codec.compression import Codec
from tidelog.records.builder import build_batch
from tidelog.testing.directory_home import DataHome, record


def home_with_topic() -> DataHome:
    """Return a data directory with topic t."""
    home = DataHome()
    with home.open() as directory:
        directory.create_topic("t")
    return home


def test_each_way_to_append_moves_the_high_watermark() -> None:
    """Batches and records are seen by readers of the log at once."""
    with home_with_topic().open() as directory:
        partition = directory.partition("t", 0)
        partition.append(build_batch([record(b"a")]))
        after_batch = partition.log.high_watermark
        partition.append_records([record(b"b"), record(b"c")])

        assert (after_batch, partition.log.high_watermark) == (1, 3)


def test_a_new_log_has_the_leader_epoch_0() -> None:
    """Nobody else led it before."""
    home = home_with_topic()
    with home.open() as directory:
        partition = directory.partition("t", 0)
        before = partition.leader_epoch
        partition.append_records([record(b"a")])

    with home.read_only("t-0") as log:
        assert (before, [found.leader_epoch for found in log.records()]) == (0, [0])


def test_a_log_keeps_the_leader_epoch_it_has() -> None:
    """Batches appended to a log of Kafka's go on in its newest epoch."""
    home = home_with_topic()
    with home.open() as directory:
        partition = directory.partition("t", 0)
        partition.log.append_as_leader(build_batch([record(b"a")]), leader_epoch=6)
    with home.open() as directory:
        partition = directory.partition("t", 0)
        partition.append_records([record(b"b")])

        assert partition.leader_epoch == 6
    with home.read_only("t-0") as log:
        assert [found.leader_epoch for found in log.records()] == [6, 6]


def test_records_are_one_batch_compressed_as_asked() -> None:
    """``codec`` is the producer's; the topic's ``compression.type`` is left at ``producer``."""
    home = home_with_topic()
    with home.open() as directory:
        directory.partition("t", 0).append_records([record(b"a" * 500)] * 3, codec=Codec.ZSTD)

    with home.read_only("t-0") as log:
        assert [piece.batches.codec.tolist() for piece in log.pieces()] == [[Codec.ZSTD]]
