"""``tidelog spark compact``: compact logs that are too large for one machine, or plan it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import whole
from tidelog.cli.options import (
    DIRECTORIES,
    JSON,
    NOW,
    SETTINGS,
    TOPICS,
    Command,
    argument,
    dry_run_option,
)
from tidelog.cli.terminal import ToTheEnd

if TYPE_CHECKING:
    from argparse import Namespace

    from pyspark.sql import SparkSession

    from tidelog.embedded.spread_compaction import CompactedLog


JOB: Final = Command(
    "compact",
    "clean compacted topics once on Spark, ignoring min.cleanable.dirty.ratio",
    (
        *DIRECTORIES,
        TOPICS,
        NOW,
        SETTINGS,
        dry_run_option("only print what would be dropped"),
        argument(
            "--local-below",
            type=whole(),
            metavar="BYTES",
            help="if fewer bytes of a log must be read, clean it without Spark's tasks, which is"
            " faster (default: 4 GiB)",
        ),
        argument(
            "--buckets",
            type=whole(1),
            metavar="N",
            help="divide the keys into N parts, each held in memory by one task (default: parts of"
            " about 1 GiB, and at least one for each task that runs at a time)",
        ),
        argument(
            "--exact-keys",
            action="store_true",
            help="compare keys themselves, not only their 128-bit hashes; this takes longer",
        ),
        JSON,
    ),
    epilog="For logs whose keys do not fit the memory of one machine; tidelog compact is faster"
    " for\n"
    "others. Except with --dry-run, the directory is locked until the job ends: stop its\n"
    "service first.",
    printed_events=None,
)


def run(args: Namespace, spark: SparkSession) -> int:
    """Clean every chosen log that is compacted, up to its active segment.

    Returns 1 if a partition of the catalogue is missing.
    """
    from tidelog.cli.commands.upkeep.compact_command import CompactionPrinter, showing
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.embedded.spread_compaction import SpreadTerms
    from tidelog.readonly.absent_partitions import BY_FLAG
    from tidelog.spark.jobs.compact import DEFAULT_MIN_BYTES, compact_each

    chosen = chosen_by(args, only_named=True)
    has_loss = chosen.report_missing(args.command)
    verb = "would drop" if args.dry_run else "dropped"
    printer = CompactionPrinter(args, verb)
    min_bytes = DEFAULT_MIN_BYTES if args.local_below is None else args.local_below
    terms = SpreadTerms(args.now, dict(args.options), min_bytes, args.exact_keys)
    printing = ToTheEnd()

    def show_log(one: CompactedLog) -> None:
        printer.print(one.as_json())
        if one.facts.is_due and not args.json:
            print(f"  {_how(one.why_local)}")

    with showing("planning to clean" if args.dry_run else "cleaning") as show:
        done = compact_each(
            *(spark, args.directories, sorted({place.topic for place in chosen.places})),
            terms=terms,
            buckets=args.buckets,
            accept=BY_FLAG if args.topics and not args.allow_partial else None,
            dry_run=args.dry_run,
            on_progress=show,
        )
        with closing(done):
            for one in done if chosen.places else ():
                printing.print(show_log, one)
                if args.dry_run:
                    printing.finish()
    printing.finish()
    printer.print_total(len(chosen.missing))
    return int(has_loss)


def _how(why_local: str | None) -> str:
    """Return in words whether a log was cleaned by Spark's tasks."""
    if why_local is None:
        return "by Spark's tasks"
    return f"without Spark's tasks (--local-below): {why_local}"
