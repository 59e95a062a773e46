"""The system table of what a check of everything finds, as ``tidelog verify`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.explain.tables.system_table import (
    PARTITION,
    TOPIC,
    SystemTable,
    cells_of,
    columns_of,
)
from tidelog.explain.verify.findings import Finding
from tidelog.explain.verify.verify_directory import Located, check_directory, strays_in
from tidelog.explain.verify.verify_partition import verify_partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.explain.tables.system_table import Keys, Row, TableSource
    from tidelog.segment.filenames import TopicPartition


def _of_directory(source: TableSource, keys: Keys) -> Iterator[Row]:
    for path in source.directory.paths:
        for located in check_directory(source.fs, path):
            if keys is None or located.key is None or located.key in keys:
                yield _row(located)
    topics = None if keys is None else {key.topic for key in keys}
    for located in strays_in(source.directory):
        if topics is None or (located.key is not None and located.key.topic in topics):
            yield _row(located)


def _of_partition(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    path = source.directory.partition_path(*key)
    is_compacted = source.topic(key.topic).is_compacted
    check = verify_partition(
        source.fs,
        path,
        clock=source.clock,
        is_compacted=is_compacted,
        checkpoints=source.checkpoint_lines,
    )
    for finding in check.findings:
        yield _row(Located(key, finding))


def _row(located: Located) -> Row:
    topic, partition = (None, None) if located.key is None else located.key
    return topic, partition, *cells_of(located.finding)


FINDINGS: Final = SystemTable(
    "findings",
    "one thing that a check of every byte has found; a sound partition has no row",
    (
        TOPIC._replace(is_nullable=True, text="the topic; null: about the data directory"),
        PARTITION._replace(is_nullable=True, text="the partition; null: about the data directory"),
        *columns_of(Finding),
    ),
    of_partition=_of_partition,
    of_directory=_of_directory,
)
