"""``tidelog compact``: clean compacted topics once, or plan it."""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import JSON, LOGS, NOW, SERVER_PROPERTIES, SETTINGS, Command
from tidelog.cli.terminal import print_message, print_row, print_total
from tidelog.codec.shown_rows import as_json
from tidelog.explain.printable_text import counted, format_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping

    from tidelog.cleaner.compaction import CompactionProgress
    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.cli.commands.upkeep.dropped_lines import DroppedLines
    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.manager.log_manager import LogManager

_ACTIVE_SEGMENT: Final = "the active segment"
"""What ``heldBy`` of a log says where nothing but its newest segment keeps records dirty."""


COMMAND: Final = Command(
    "compact",
    "clean compacted topics once, ignoring min.cleanable.dirty.ratio",
    (*LOGS, NOW, SETTINGS, SERVER_PROPERTIES, JSON),
)


def run(args: Namespace) -> int:
    """Clean every chosen log that is compacted, up to its active segment.

    Returns 1 if a partition of the catalogue is missing.
    """
    from tidelog.cli.partition_choice import chosen_to_change
    from tidelog.cli.serving.service_requests import perform_on, terms_of

    chosen = chosen_to_change(args)
    has_loss = chosen.report_missing(args.command)
    places = chosen.places
    printer = CompactionPrinter(args, "dropped")
    opened = partial(_opened, args, places)
    perform_on(args, places, terms_of(args), printer.print, opened)
    printer.print_total(len(chosen.missing))
    return int(has_loss)


@contextmanager
def _opened(args: Namespace, places: list[Place]) -> Iterator[LogManager]:
    """Open the directory; show how far each cleaning is."""
    from tidelog.cli.operations import manager_of

    with manager_of(args, places) as manager, showing("cleaning") as show:
        manager.on_demand.on_progress = show
        yield manager


@contextmanager
def showing(verb: str) -> Iterator[Callable[[CompactionProgress], None]]:
    """Yield what shows how far the cleaning of a log, or its plan, is."""
    from tidelog.cli.progress import ShownWork

    with closing(ShownWork()) as work:
        yield lambda now: work.show(f"{verb} {now.topic}-{now.partition}", *now[2:])


def print_plan(args: Namespace) -> int:
    """Print what ``run`` would do; the logs are only read, so a writer may be at work.

    Returns 1 if a partition of the catalogue is missing, or is damaged.
    """
    from tidelog.cli.commands.upkeep.dropped_lines import DroppedLines
    from tidelog.cli.commands.upkeep.key_fates import KeyFates
    from tidelog.cli.partition_choice import chosen_by

    chosen = chosen_by(args, only_named=True)
    has_loss = chosen.report_missing(args.command)
    printer = CompactionPrinter(args, "would drop")
    lines = None
    if args.records or args.key is not None:
        lines = DroppedLines(args) if args.key is None else KeyFates(args)
    with lines or nullcontext(), showing("planning to clean") as show:
        for facts in _planned(args, chosen, show, lines):
            printer.print(as_json(facts))
            if lines is not None and facts.is_compacted:
                lines.print()
    printer.print_total(len(chosen.missing))
    return chosen.exit_code(has_loss=has_loss)


class CompactionPrinter:
    """Prints what was done to each log, or would be; rows are ``CompactionFacts`` as JSON.

    The total is of the logs that had something to clean, with the number of all.
    """

    def __init__(self, args: Namespace, verb: str) -> None:
        self._args = args
        self._verb = verb
        self._printed = 0
        self._sums = dict.fromkeys(("recordsRead", "recordsKept", "bytesRead", "bytesKept"), 0)
        self._not_compacted: set[str] = set()

    def print(self, row: Mapping[str, Any]) -> None:
        """Print one row; as text, of a topic that is not compacted, only the first."""
        self._printed += 1
        for name in self._sums:
            self._sums[name] += row.get(name) or 0
        is_repeated = row["topic"] in self._not_compacted
        if row["isCompacted"]:
            text = _as_text(row, self._verb)
        else:
            text = _not_compacted(row)
            self._not_compacted.add(row["topic"])
        if self._args.json or not is_repeated:
            print_row(self._args, row, text)

    def print_total(self, missing: int) -> None:
        """Print the sums; ``missing`` is the number of partitions that are."""
        records_read, bytes_read = self._sums["recordsRead"], self._sums["bytesRead"]
        dropped = records_read - self._sums["recordsKept"]
        freed_bytes = bytes_read - self._sums["bytesKept"]
        print_total(
            self._args,
            f"{self._verb} {dropped:,} of {counted(records_read, 'record')},"
            f" {format_bytes(freed_bytes)} of {format_bytes(bytes_read)},"
            f" of {counted(self._printed, 'partition')}",
            partitions=self._printed,
            recordsRead=records_read,
            droppedRecords=dropped,
            bytesRead=bytes_read,
            freedBytes=freed_bytes,
            missing=missing,
        )


def _planned(
    args: Namespace,
    chosen: ChosenPartitions,
    show: Callable[[CompactionProgress], None],
    lines: DroppedLines | None,
) -> Iterator[CompactionFacts]:
    """Yield what would be done to each log; ``show`` is called as it is found out.

    ``lines``, if given, has then those about the records of that log.
    """
    from tidelog.cli.operations import plan_terms
    from tidelog.explain.plans.txn_index_check import unmatched_txn_indexes
    from tidelog.manager.compaction_plan import compaction_to_plan

    terms = plan_terms(args, chosen.directory)
    compaction = compaction_to_plan(terms.clock, on_progress=show)

    def plan(place: Place) -> tuple[CompactionFacts, list[str]]:
        begin = {} if lines is None else {"on_answer": partial(lines.begin, place.key)}
        opened = partial(chosen.open, place)
        facts = terms.compaction_of(place.key, opened, compaction, **begin)
        if not facts.is_compacted:
            return facts, []
        with chosen.open(place) as log:
            if lines is not None:
                lines.complete(log, facts)
            return facts, unmatched_txn_indexes(log, terms.recovery_point(place.key) or 0)

    for place, (facts, unmatched) in chosen.look_past_damage(args.command, plan):
        if unmatched:
            _print_unmatched(args.command, place, unmatched)
        yield facts


def _print_unmatched(command: str, place: Place, names: list[str]) -> None:
    text = f"{place.key}: aborted transactions of the log are missing in {', '.join(names)}"
    rebuilt = "opening the log rebuilds what is missing, so a cleaning may drop other records"
    print_message(command, f"{text}; {rebuilt}")


def _not_compacted(row: Mapping[str, Any]) -> str:
    policy = row.get("cleanupPolicy")
    known = "unknown" if policy is None else policy or "none"
    remedy = "-o cleanup.policy=compact sets it"
    return f"{row['topic']}: not compacted: its cleanup.policy is {known}; {remedy}"


def _as_text(row: Mapping[str, Any], verb: str) -> str:
    name = f"{row['topic']}-{row['partition']}"
    if row.get("endOffset") is None:
        text = f"{name}: nothing to clean from offset {row['firstDirtyOffset']:,} on, limited by"
        if row["heldBy"] != _ACTIVE_SEGMENT:
            return f"{text} {row['heldBy']}"
        # What is clean or cleanable lies before the active segment.
        size = row["sizeBytes"] - row["cleanBytes"] - row["cleanableBytes"]
        # Where records were deleted up to an offset within it, it counts as clean itself.
        begins_within = row["firstUncleanableOffset"] < row["firstDirtyOffset"]
        if not size and not begins_within:
            return f"{text} {row['heldBy']}, which is empty"
        shown_size = "" if begins_within else f" ({format_bytes(size)})"
        return (
            f"{text} {row['heldBy']}{shown_size}, which is never cleaned: an append"
            " begins the next one once segment.bytes or segment.ms is reached, and tidelog roll"
            " at once"
        )
    causes = ", ".join(f"{count:,} {cause}" for cause, count in row["dropped"].items())
    records, bytes_read = row["recordsRead"], row["bytesRead"]
    text = (
        f"{name}: {verb} {records - row['recordsKept']:,} of {records:,} records,"
        f" {format_bytes(bytes_read - row['bytesKept'])} of {format_bytes(bytes_read)}"
        f"{f' ({causes})' if causes else ''};"
        f" clean up to {row['endOffset']:,}, limited by {row['heldBy']}"
    )
    end = row["firstUncleanableOffset"]
    if row["endOffset"] < end:
        text += f"\n  the offset map was full: run the command again to clean up to {end:,}"
    return text
