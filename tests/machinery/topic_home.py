"""A data directory with one topic, and what is written to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.directory_home import DataHome

from tidelog.codec.compression import Codec

if TYPE_CHECKING:
    from tidelog.records.new_record import NewRecord


def home_with_topic(partitions: int = 3, **config: str) -> DataHome:
    """Return a data directory with topic t."""
    home = DataHome()
    with home.open() as directory:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        directory.create_topic("t", partitions, settings)
    return home


def write(home: DataHome, *records: NewRecord, codec: Codec = Codec.NONE) -> int:
    """Append records and flush; return how many were appended."""
    with home.open() as directory:
        writer = directory.writer("t", codec=codec)
        for record in records:
            writer.append(record)
        writer.flush()
        return writer.records


def batch_counts(home: DataHome, name: str) -> list[int]:
    """Return the number of records of each batch of a partition."""
    with home.read_only(name) as log:
        return [count for piece in log.pieces() for count in piece.batches.records_count.tolist()]


def all_values(home: DataHome) -> dict[str, list[bytes | None]]:
    """Return the values of each partition that has any."""
    found = {name: home.values(name) for name in home.files() if name.startswith("t-")}
    return {name: values for name, values in found.items() if values}
