"""``tidelog cleaner status``: how far each log is cleaned, how dirty it is, what limits it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.options import (
    add_json,
    add_now,
    add_server_properties,
    add_settings,
    add_topics,
    new_parser,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cleaner.compaction import CompactionFacts
    from tidelog.cli.options import Commands
    from tidelog.cli.partition_choice import Place


def add_parser(commands: Commands) -> None:
    """Add ``tidelog cleaner`` to the command line."""
    text = "show how far compacted topics are cleaned, and what limits it"
    parser = new_parser(commands, "cleaner", text, run)
    parser.add_argument("operation", choices=("status",))
    add_topics(parser)
    add_now(parser)
    add_settings(parser)
    add_server_properties(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Print a line for each compacted log; return 1 if the cleaning of one has failed.

    The logs are only read, so a writer may be at work.
    """
    from tidelog.cli.operations import clock_of
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.cli.server_properties import broker_properties
    from tidelog.cli.terminal import print_counts, print_line
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.plans.compaction import CleanerLines, plan_compaction

    clock = clock_of(args)
    chosen = choose_partitions(
        SYSTEM_FILES,
        args.directory,
        args.topics,
        server_properties=broker_properties(args),
        may_be_empty=True,
    )
    is_missing = chosen.report_missing(args.command)
    configs = chosen.configs_in_force(dict(args.options))
    lines = CleanerLines.read(SYSTEM_FILES, chosen.directory.path)
    compacted = [place for place in chosen.places if configs[place.topic].is_compacted]

    def status(place: Place) -> CompactionFacts:
        return plan_compaction(lambda: chosen.open(place), configs[place.topic], lines, clock)

    listed = failed = 0
    for _, facts in chosen._replace(places=compacted).look(args.command, status):
        listed += 1
        failed += facts.failure is not None
        print(json.dumps(facts.as_json()) if args.json else _line(facts))
    if args.json:
        print_counts(partitions=listed, failed=failed, missing=len(chosen.missing))
    elif not compacted:
        print_line(f"no topic of {args.directory} is compacted")
    return int(is_missing or bool(failed))


def _line(facts: CompactionFacts) -> str:
    from tidelog.cli.terminal import printable
    from tidelog.explain.picture import format_bytes

    found = facts.to_clean
    line = (
        f"{facts.topic}-{facts.partition}: clean up to {found.offsets[0]:,},"
        f" {found.dirty_ratio:.0%} dirty ({format_bytes(found.cleanable_bytes)}),"
        f" up to {found.offsets[1]:,} cleanable, limited by {found.held_by}"
    )
    if facts.failure is None:
        return line
    failed = facts.failure
    return f"{line}\n  failed {failed.times} times, last with {printable(failed.error)}"
