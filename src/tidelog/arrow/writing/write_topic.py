"""Tables as records of topics: the function ``tidelog.arrow.write``."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds

from tidelog.arrow.batch_form import DEFAULT_BATCH_BYTES
from tidelog.arrow.schema import whole_number
from tidelog.arrow.topic_scanner import TopicScanner
from tidelog.arrow.writing.input_columns import arrow_columns
from tidelog.arrow.writing.json_column import with_json_as_value
from tidelog.arrow.writing.named_columns import with_named_columns
from tidelog.arrow.writing.stage_rows import stage_rows
from tidelog.arrow.writing.staged_commit import (
    commit_write,
    ended,
    note_skipped,
    staged_write,
)
from tidelog.arrow.writing.write_options import DEFAULT_BUFFER_BYTES, WriteOptions
from tidelog.arrow.writing.write_plan import make_plan, warn_of_ignored_config
from tidelog.codec.zstd_frames import MIN_LEVEL
from tidelog.config.sources import from_mapping
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.paths import absolute_path
from tidelog.errors import InvalidArgument
from tidelog.staging.finished import CommittedTransaction
from tidelog.staging.staged_file import check_txn

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from tidelog.config.sources import SettingValue

_MIN_BATCH_BYTES: Final = 128
_MIN_BUFFER_BYTES: Final = 1 << 20
_SLICE_PART: Final = 8
"""A slice of a table has at most this part of the buffer."""


def write(
    directory: str | os.PathLike[str],
    topic: str | None,
    table: object,
    txn: str | None = None,
    *,
    key: str | None = None,
    timestamp: str | None = None,
    partitions: int | None = None,
    config: Mapping[str, SettingValue] | None = None,
    compression: str | None = None,
    compression_level: int | None = None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    timeout_ms: int | None = None,
) -> CommittedTransaction:
    """Append the rows of a table to a topic as one transaction: all of them once, or none.

    >>> prices = pyarrow.table({"key": ["tea", "milk"], "value": ["3.20", "1.10"]})
    >>> tidelog.arrow.write("data", "prices", prices, "prices of 2026-11-27").total
    2
    >>> tidelog.arrow.write("data", "prices", prices, "prices of 2026-11-27").is_repeat
    True

    Columns are ``value``, and if wanted ``key`` (both text or binary), ``headers``, ``timestamp``
    (in UTC if it has no zone, or whole numbers of ms; null: now), ``partition`` (null: by key, or
    spread) and ``topic``, in any order and case of letters; ``offset`` and ``timestampType``, which
    a read returns, are ignored.
    A null value is a tombstone. A column ``json`` stands for ``value``: its values, of any type
    that JSON can express, are written as JSON, in UTF-8 and without blanks. The rows are staged in
    files, and committed once all of them are there; memory is bounded, whatever the size of the
    table. The data directory may be in use: a running service, or a program that has called
    ``tidelog.open``, commits for this one.

    Args:
        directory: the data directory, made if it does not exist, with a warning; topics with
            partitions in others are refused.
        topic: the topic's name; it is created if it does not exist. None: each row has it in the
            column ``topic``.
        table: rows of PyArrow (a table, batch, reader or dataset), pandas, Polars or DuckDB:
            whatever has ``__arrow_c_stream__``.
        txn: makes the write repeatable: an id that was committed before, up to 7 days ago, is
            skipped, whatever the rows are. 1 to 255 bytes of UTF-8.
        key: the name of the column that becomes the key, as text if it has whole numbers. With it
            or ``timestamp``, all others become members of a JSON object, the
            value, times among them as text.
        timestamp: the name of the column that becomes the timestamp.
        partitions: how many a new topic has; None: 1.
        config: settings of a new topic, under Kafka's names.
        compression: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``, unless the topic has a
            ``compression.type`` of its own.
        compression_level: the codec's; None: its default.
        batch_bytes: the largest size of a batch before compression, from 128.
        buffer_bytes: about the memory to take, from 1 MiB.
        timeout_ms: how long to wait for a process that holds the directory, and again once that
            process has begun to commit; None: a minute, but an error at once where Kafka holds it,
            which commits for nobody.

    Returns:
        What was committed: records by topic, their ``total``, the time, and ``is_repeat`` if it had
        been committed before.

    Raises:
        InvalidArgument: an argument, a column or a topic is not fit for the write.
        InvalidRecord, InvalidTimestamp, UnknownTopicOrPartition, MessageTooLarge, InvalidTopic: a
            row is not a valid record, or not valid for its topic.
        InvalidConfig: a setting of a new topic is not valid.
        TransactionMismatch: ``txn`` was committed before, for other topics.
        DirectoryLocked, CommitOutcomeUnknown, CommitUnfinished: as ``commit_when_possible``. After
            any other error nothing of the table is in a log.
    """
    options = WriteOptions(
        path=absolute_path(directory),
        topic=topic,
        num_partitions=None if partitions is None else whole_number("partitions", partitions, 1),
        topic_config=from_mapping(config or {}),
        compression=compression,
        compression_level=None
        if compression_level is None
        else whole_number("compression_level", compression_level, MIN_LEVEL),
        batch_bytes=whole_number("batch_bytes", batch_bytes, _MIN_BATCH_BYTES),
        write_buffer_bytes=whole_number("buffer_bytes", buffer_bytes, _MIN_BUFFER_BYTES),
        commit_timeout_ms=None if timeout_ms is None else whole_number("timeout_ms", timeout_ms, 0),
        txn_id=txn,
    )
    if txn is not None:
        check_txn(txn)
    with _reader(table) as given:
        rows = with_json_as_value(with_named_columns(given, key, timestamp))
        columns = arrow_columns(rows.schema, has_topic=topic is not None)
        name = txn or uuid.uuid4().hex
        plan = make_plan(options, columns, name)
        warn_of_ignored_config(options, plan)
        with ended(options, plan, name):
            if plan.committed is not None:
                note_skipped(options.path, name, plan.committed)
                return replace(plan.committed, is_repeat=True)
            batches = _slices(rows, options.write_buffer_bytes // _SLICE_PART)
            part = stage_rows(options, plan, batches, txn=name)
            staged = staged_write(options, plan, name, [part])
            if staged.changes_nothing:
                return CommittedTransaction(name, SYSTEM_CLOCK.now_ms(), {}, is_named=False)
            return commit_write(staged)


def _reader(table: object) -> pa.RecordBatchReader:
    if isinstance(table, pa.RecordBatchReader):
        return table
    if isinstance(table, ds.Dataset):
        table = table.scanner()
    if isinstance(table, ds.Scanner | TopicScanner):  # a stream keeps only the text of an error
        return table.to_reader()
    if isinstance(table, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(table.schema, [table])
    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table)
    raise InvalidArgument(
        f"{type(table).__name__} is not a table: it lacks __arrow_c_stream__, as those of PyArrow,"
        " pandas (2.2 and later), Polars and DuckDB have"
    )


def _slices(rows: pa.RecordBatchReader, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of about ``max_bytes`` at most: a table may be one large batch."""
    for batch in rows:
        if not batch.num_rows:
            continue
        step = max(1, batch.num_rows * max_bytes // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
