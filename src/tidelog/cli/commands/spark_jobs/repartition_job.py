"""``tidelog spark repartition``: write a topic's records to one with more or fewer partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import directory_name
from tidelog.cli.options import (
    JSON,
    READ_COMMITTED,
    SETTINGS,
    WHOLE_DIRECTORIES,
    Command,
    argument,
    compression_option,
    dry_run_option,
    isolation_option,
    partitions_option,
    txn_option,
)
from tidelog.cli.terminal import print_counts, print_row
from tidelog.codec.shown_rows import as_json
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tidelog.spark import Repartitioned


JOB: Final = Command(
    "repartition",
    "write a topic's records to a new topic with another number of partitions",
    (
        *WHOLE_DIRECTORIES,
        argument("topic", metavar="TOPIC", help="the topic to read"),
        argument("--to", required=True, metavar="TOPIC", help="the new topic"),
        partitions_option("number of partitions of the new topic", required=True),
        argument(
            "--to-dir",
            type=directory_name,
            metavar="DIR",
            help="the data directory to write to (default: the one that is read, the first of"
            " several)",
        ),
        txn_option(
            "the id of the transaction (default: made of the topics and the number of partitions)"
        ),
        isolation_option(READ_COMMITTED),
        argument(
            "--keyless",
            choices=("spread", "source"),
            default="spread",
            help="records without a key: spread them over all partitions, or write each to the"
            " number of its source partition modulo N (default spread)",
        ),
        compression_option(
            "codec of the new batches, unless the new topic's compression.type sets one"
        ),
        SETTINGS,
        dry_run_option("count what would be written, and write nothing"),
        JSON,
    ),
    epilog="All records are written in one transaction: after a failure, run the same command\n"
    "again. Records with the same key stay in order, unless a warning says otherwise.",
    printed_events=None,
)


def run(args: Namespace, spark: SparkSession) -> int:
    """Write the records, and print what was written."""
    from tidelog.cli.progress import current_line
    from tidelog.spark import repartition

    what = "counting" if args.dry_run else "repartitioning"
    with current_line().task(f"{what} {args.topic}", unit="task") as task:
        done = repartition(
            spark,
            args.directories,
            args.topic,
            to=args.to,
            partitions=args.partitions,
            to_path=args.to_dir,
            txn_id=args.txn,
            isolation=args.isolation,
            keyless=args.keyless,
            config=dict(args.options),
            options={} if args.compression is None else {"compression": args.compression},
            dry_run=args.dry_run,
            on_progress=lambda ended, tasks: task.show(ended, total=tasks or None),
        )
    print_row(args, as_json(done), "\n".join(map(printable, _lines(done))))
    print_counts(args, records=done.records)
    return 0


def _lines(done: Repartitioned) -> Iterator[str]:
    partitions = counted(done.from_partitions, "partition"), counted(done.partitions, "partition")
    route = f"{done.topic} ({partitions[0]}) to {done.to} ({partitions[1]})"
    if done.was_done:
        written = counted(done.records, "record")
        yield f"{route}: nothing to do, {written} written before"
        yield f"  records that {done.topic} got after that run had begun are not read"
        return
    verb = "would be written" if done.is_dry_run else "written"
    size = format_bytes(done.size_bytes)
    yield f"{route}: {counted(done.records, 'record')} {verb}, about {size} in the log"
    if done.keyless:
        yield f"  {counted(done.keyless, 'record')} without a key"
    if done.retention_bytes is not None:
        more = f"retention.bytes={done.retention_bytes}"
        yield f"  each partition of {done.to} gets {more}, since there are fewer of them"
    yield f"  transaction {done.txn_id}; {done.topic} was read up to {done.next_offsets}"
