"""Topics as streams of Arrow record batches: the functions that ``tidelog.arrow`` offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.arrow.schema import named_columns, whole_number
from tidelog.arrow.table_stream import DEFAULT_THREADS, TableStream
from tidelog.arrow.topic_dataset import TopicDataset
from tidelog.arrow.topic_read import TopicRead, with_read_arguments
from tidelog.env.scheduler import ThreadScheduler
from tidelog.readonly.missing.damaged_range import skipped_by

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from tidelog.arrow.topic_read import ReadArguments
    from tidelog.env.paths import Paths


@with_read_arguments
def read(
    directory: Paths,
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    threads: int = DEFAULT_THREADS,
    **narrow: Unpack[ReadArguments],
) -> pa.RecordBatchReader:
    """Return a stream of the records of a topic, up to the ends as of now.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append_all("tides", [b"high", b"low"])
    2
    >>> tidelog.arrow.read("data", "tides", columns=["offset", "value"]).read_all().to_pylist()
    [{'offset': 0, 'value': b'high'}, {'offset': 1, 'value': b'low'}]

    Partitions come one after the other in order of their numbers, and records in order of their
    offsets in each. Memory is bounded, whatever the size of the topic. Any number of writers,
    tidelog or Kafka, may be at work: nothing is locked.

    Args:
        directory: a data directory, or a list of several that belong together.
        topic: the topic's name.
        columns: names of ``SCHEMA_WITH_HEADERS``, in the order wanted; None: all.
        threads: how many threads decode ahead of the reader; 1: none does.
        narrow: which records: ``partitions``, a number or several, None: all; ``since``
            (inclusive) and ``until`` (exclusive), times in ms, as ``datetime`` or text as for
            ``tidelog cat``, by which records of any offset are left out; ``start_offsets``
            (inclusive) and ``end_offsets`` (exclusive) by partition, an ``int`` for the only one;
            ``key``, text or bytes, of the records wanted; ``last``, how many of those in each
            partition, counted from its end; ``isolation``, as ``Logs.read``; ``read_up_to``,
            ``highWatermark`` or ``logEnd``, None: ``highWatermark``, with a warning if more is
            there and no process writes; ``allow_partial``, to read a topic without the
            partitions in other directories; ``on_damage``, called with each ``DamagedRange`` that
            is then skipped, where damage is else an error.

    Raises:
        InvalidArgument, UnknownTopicOrPartition, PartitionsElsewhere, OffsetOutOfRange,
        KafkaStorageError: as ``TopicRead.plan``. The reader raises the errors of
        ``TableStream.tables``, damage and lost segments after all records before them.
    """
    found = TopicRead.of(directory, topic, **narrow)
    stream = stream_of(found, columns, threads)
    return pa.RecordBatchReader.from_batches(stream.schema, stream.tables(found.plan()))


@with_read_arguments
def read_table(
    directory: Paths,
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    threads: int = DEFAULT_THREADS,
    **narrow: Unpack[ReadArguments],
) -> pa.Table:
    """Return the records of a topic as one table, in memory; arguments and errors as ``read``.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append_all("tides", [{"key": b"Brest", "value": b"high"}, {"value": b"low"}])
    2
    >>> tidelog.arrow.read_table("data", "tides", key="Brest", columns=["value"]).to_pylist()
    [{'value': b'high'}]
    >>> tidelog.arrow.read_table("data", "tides", last=1, columns=["value"]).to_pylist()
    [{'value': b'low'}]
    """
    return read(directory, topic, columns=columns, threads=threads, **narrow).read_all()


@with_read_arguments
def dataset(
    directory: Paths,
    topic: str,
    *,
    threads: int = DEFAULT_THREADS,
    **narrow: Unpack[ReadArguments],
) -> TopicDataset:
    """Return a topic as a dataset, which PyArrow, DuckDB and Polars query as a table.

    Each query reads the records that are there then. Arguments and errors as ``read``.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append_all("tides", [b"high", b"low"])
    2
    >>> tides = tidelog.arrow.dataset("data", "tides")
    >>> tides.count_rows(filter=pyarrow.dataset.field("offset") >= 1)
    1
    """
    found = TopicRead.of(directory, topic, **narrow)
    found.plan()  # so that what is wrong is known now
    return TopicDataset(found, stream_of(found, threads=threads))


def stream_of(
    found: TopicRead, columns: Iterable[str] | None = None, threads: int = DEFAULT_THREADS
) -> TableStream:
    """Return what decodes the records that a read finds; arguments and errors as ``read``."""
    whole_number("threads", threads, 1)
    names = named_columns(columns)
    stream = TableStream(
        *(names, found.times, found.committed, ThreadScheduler(0), threads, found.key),
        remedy=skipped_by(found.skipping) if found.on_damage is None else "",
        report_lost=found.report_lost,
    )
    _ = stream.schema  # raises InvalidArgument for an unknown name
    return stream
