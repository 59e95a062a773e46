"""``tidelog compact``: clean compacted topics once, or plan it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

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
    from collections.abc import Iterable, Iterator

    from tidelog.cleaner.compaction import CompactionFacts
    from tidelog.cli.options import Commands
    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.env.scheduler import Scheduler

_NOT_COMPACTED: Final = "not compacted: its cleanup.policy lacks compact or is unknown; -o sets it"


def add_parser(commands: Commands) -> None:
    """Add ``tidelog compact`` to the command line."""
    text = "clean compacted topics once, ignoring min.cleanable.dirty.ratio"
    parser = new_parser(commands, "compact", text, run)
    add_topics(parser)
    add_now(parser)
    add_settings(parser)
    add_server_properties(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Clean every chosen log that is compacted, up to its active segment."""
    return _print_all(args, _compacted(args), "dropped")


def print_plan(args: Namespace) -> int:
    """Print what ``run`` would do; the logs are only read, so a writer may be at work.

    Returns 1 if a partition of the catalogue is missing.
    """
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.cli.server_properties import broker_properties
    from tidelog.config.log_config import LogConfig
    from tidelog.env.system_files import SYSTEM_FILES

    LogConfig().with_overrides(dict(args.options))
    chosen = choose_partitions(
        SYSTEM_FILES, args.directory, args.topics, server_properties=broker_properties(args)
    )
    has_loss = chosen.report_missing(args.command)
    return max(_print_all(args, _planned(args, chosen), "would drop"), int(has_loss))


def _print_all(args: Namespace, found: Iterable[CompactionFacts], verb: str) -> int:
    reported: set[str] = set()
    for facts in found:
        if args.json:
            print(json.dumps(facts_as_json(facts)))
        elif not facts.is_compacted:
            if facts.topic not in reported:
                print(f"{facts.topic}: {_NOT_COMPACTED}")
            reported.add(facts.topic)
        else:
            _print(facts, verb)
    return 0


def _planned(args: Namespace, chosen: ChosenPartitions) -> Iterator[CompactionFacts]:
    """Yield what would be done to each log."""
    import random

    from tidelog.cleaner.compaction import Compaction
    from tidelog.cli.operations import clock_of
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.env.scheduler import InlineScheduler
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.plans.compaction import CleanerLines, plan_compaction
    from tidelog.explain.plans.recovery_beside import recovery_points
    from tidelog.explain.plans.txn_index_check import unmatched_txn_indexes

    clock = clock_of(args)
    configs = chosen.configs_in_force(dict(args.options))
    lines = CleanerLines.read(SYSTEM_FILES, chosen.directory.path)
    points = recovery_points(SYSTEM_FILES, chosen.directory.path)
    compaction = Compaction(
        BrokerConfig(), clock=clock, scheduler=InlineScheduler(), rng=random.SystemRandom()
    )

    def plan(place: Place) -> tuple[CompactionFacts, list[str]]:
        config = configs[place.topic]
        facts = plan_compaction(lambda: chosen.open(place), config, lines, clock, compaction)
        if not facts.is_compacted:
            return facts, []
        with chosen.open(place) as log:
            return facts, unmatched_txn_indexes(log, points.get(place.key, 0))

    for place, (facts, unmatched) in chosen.look(args.command, plan):
        if unmatched:
            _print_unmatched(args.command, place, unmatched)
        yield facts


def _print_unmatched(command: str, place: Place, names: list[str]) -> None:
    from tidelog.cli.terminal import print_message

    text = f"{place.key}: aborted transactions of the log are missing in {', '.join(names)}"
    rebuilt = "opening the log rebuilds what is missing, so a cleaning may drop other records"
    print_message(command, f"{text}; {rebuilt}")


def _compacted(args: Namespace) -> Iterator[CompactionFacts]:
    """Clean each log and yield what was done."""
    from tidelog.cli.operations import open_to_act
    from tidelog.env.system_files import SYSTEM_FILES

    with _writers() as scheduler, open_to_act(args, SYSTEM_FILES, args.topics) as acting:
        for place in acting.places:
            done = acting.manager.compact(place.key, scheduler=scheduler, leaves_unknown=True)
            yield done[place.key]


@contextmanager
def _writers() -> Iterator[Scheduler]:
    """Start threads that write and flush cleaned segments while the cleaner reads on."""
    from tidelog.cleaner.background_writers import MAX_WRITERS
    from tidelog.env.scheduler import ThreadScheduler

    scheduler = ThreadScheduler(MAX_WRITERS, "tidelog-compact")
    scheduler.start()
    try:
        yield scheduler
    finally:
        scheduler.shutdown()


def facts_as_json(facts: CompactionFacts) -> dict[str, Any]:
    """Return the facts under the names that every command uses in JSON."""
    found = facts.to_clean
    row: dict[str, Any] = {
        "topic": facts.topic,
        "partition": facts.partition,
        "isCompacted": facts.is_compacted,
        "firstDirtyOffset": found.offsets.first_dirty_offset,
        "firstUncleanableOffset": found.offsets.first_uncleanable_offset,
        "heldBy": found.held_by,
        "cleanBytes": found.clean_bytes,
        "cleanableBytes": found.cleanable_bytes,
        "dirtyRatio": found.dirty_ratio,
        "sizeBytes": facts.size_bytes,
        "failure": None if facts.failure is None else facts.failure.error,
    }
    stats = facts.stats
    if stats is None:
        return row
    return {
        **row,
        "endOffset": facts.end_offset,
        "trueDirtyRatio": facts.true_dirty_ratio,
        "recordsRead": stats.records_read,
        "recordsKept": stats.records_written,
        "bytesRead": stats.bytes_read,
        "bytesKept": stats.bytes_written,
        "oldestTombstone": stats.oldest_tombstone_ms,
        "dropped": {cause.value: count for cause, count in stats.dropped.items()},
    }


def _print(facts: CompactionFacts, verb: str) -> None:
    from tidelog.explain.picture import format_bytes

    name = f"{facts.topic}-{facts.partition}"
    stats, found = facts.stats, facts.to_clean
    if stats is None:
        start = found.offsets.first_dirty_offset
        print(f"{name}: nothing to clean from offset {start:,} on, limited by {found.held_by}")
        return
    causes = ", ".join(f"{count:,} {cause.value}" for cause, count in stats.dropped.items())
    dropped = stats.records_read - stats.records_written
    print(
        f"{name}: {verb} {dropped:,} of {stats.records_read:,} records,"
        f" {format_bytes(facts.freed_bytes)} of {format_bytes(stats.bytes_read)}"
        f"{f' ({causes})' if causes else ''};"
        f" clean up to {facts.end_offset:,}, limited by {found.held_by}"
    )
    if not facts.is_whole:
        end = found.offsets.first_uncleanable_offset
        print(f"  the offset map was full: run the command again to clean up to {end:,}")
