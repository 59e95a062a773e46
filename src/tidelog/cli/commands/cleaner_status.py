"""``tidelog cleaner status``: how far each log is cleaned, how dirty it is, what limits it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.options import add_json, add_now, add_settings, add_topics, new_parser

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands
    from tidelog.explain.plans.compaction import CompactionFacts


def add_parser(commands: Commands) -> None:
    """Add ``tidelog cleaner`` to the command line."""
    text = "show how far compacted topics are cleaned, and what limits it"
    parser = new_parser(commands, "cleaner", text, run)
    parser.add_argument("operation", choices=("status",))
    add_topics(parser)
    add_now(parser)
    add_settings(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Print a line for each compacted log; return 1 if the cleaning of one has failed.

    The logs are only read, so a writer may be at work.
    """
    from tidelog.cleaner.cleaner_checkpoints import CleanerCheckpoints
    from tidelog.cleaner.failed_cleanings_file import read_failures
    from tidelog.cli.commands.compact import facts_as_json
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.env.clock import SYSTEM_CLOCK
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.plans.compaction import examine_log

    now_ms = SYSTEM_CLOCK.now_ms() if args.now is None else args.now
    chosen = choose_partitions(SYSTEM_FILES, args.directory, args.topics)
    chosen.report_missing(args.command)
    configs = chosen.configs_in_force(dict(args.options))
    path = chosen.directory.path
    checkpoints = CleanerCheckpoints(SYSTEM_FILES).read(path)
    failures = read_failures(SYSTEM_FILES, path)
    has_failed = False
    compacted = [place for place in chosen.places if configs[place.topic].is_compacted]
    for place in compacted:
        with chosen.open(place) as log:
            line, failure = checkpoints.get(place.key), failures.get(place.key)
            facts = examine_log(log, configs[place.topic], line, failure, now_ms)
        has_failed |= failure is not None
        print(json.dumps(facts_as_json(facts)) if args.json else _line(facts))
    if not compacted and not args.json:
        print(f"no topic of {args.directory} is compacted")
    return int(has_failed)


def _line(facts: CompactionFacts) -> str:
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
    return f"{line}\n  failed {failed.times} times, last with {failed.error}"
