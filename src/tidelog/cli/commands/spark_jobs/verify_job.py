"""``tidelog spark verify``: check every byte of a data directory in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.cli.options import JSON, PLACES, TOPICS, Command
from tidelog.cli.terminal import print_counts
from tidelog.explain.printable_text import counted
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from argparse import Namespace

    from pyspark.sql import SparkSession


JOB: Final = Command(
    "verify",
    "check everything in a data directory, without changing anything",
    (*PLACES, TOPICS, JSON),
    printed_events=None,
)


def run(args: Namespace, spark: SparkSession) -> int:
    """Print every finding; return 1 if one of them is damage."""
    from tidelog.cli.commands.inspection.verify_command import print_finding
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.explain.verify.findings import Finding, Severity
    from tidelog.spark import verify

    chosen = chosen_by(args, takes_copies=True)
    options = {"allow_partial": args.allow_partial}
    found = verify(spark, args.directories, args.topics, **options).collect()
    for row in found:
        key = None if row["topic"] is None else TopicPartition(row["topic"], row["partition"])
        severity = Severity(row["severity"])
        finding = Finding(severity, row["file"], row["byte"], row["what"], row["remedy"])
        print_finding(args, key, finding)
    damaged = sum(row["severity"] == Severity.DAMAGE.value for row in found)
    print_counts(args, findings=len(found), damage=damaged)
    if not args.json:
        checked = counted(len(chosen.places), "partition")
        print(f"{checked} checked: {counted(len(found), 'finding')}, {damaged:,} of damage")
    return int(damaged > 0)
