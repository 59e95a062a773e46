"""``tidelog cleaner status``: how far each log is cleaned, how dirty it is, what limits it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import JSON, LOGS, NOW, SERVER_PROPERTIES, SETTINGS, Command, argument
from tidelog.cli.terminal import print_line, print_row
from tidelog.codec.shown_rows import as_json
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.explain.printable_text import format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.cli.partition_choice import Place


COMMAND: Final = Command(
    "cleaner",
    "show how far compacted topics are cleaned, and what limits it",
    (argument("operation", choices=("status",)), *LOGS, NOW, SETTINGS, SERVER_PROPERTIES, JSON),
)


def run(args: Namespace) -> int:
    """Print a line for each compacted log, and one about the cleaner of a running service.

    Returns 1 if the cleaning of a log has failed, or a thread of the cleaner has ended. The logs
    are only read, so a writer may be at work.
    """
    from tidelog.cli.operations import plan_terms
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.explain.service_metrics import cleaner_of_service, cleaner_text

    chosen = chosen_by(args)
    is_missing = chosen.report_missing(args.command)
    terms = plan_terms(args, chosen.directory)
    compacted = [place for place in chosen.places if terms.config(place.topic).is_compacted]

    def status(place: Place) -> CompactionFacts:
        return terms.compaction_of(place.key, lambda: chosen.open(place))

    listed = failed = 0
    for _, facts in chosen._replace(places=compacted).look(args.command, status):
        listed += 1
        failed += facts.failure is not None
        print_row(args, as_json(facts), _line(facts))
    fs, now_ms = chosen.directory.fs, SYSTEM_CLOCK.now_ms()
    found = (cleaner_of_service(fs, path, now_ms) for path in chosen.directory.paths)
    service = next((one for one in found if one is not None), None)
    if args.json:
        numbers = {"partitions": listed, "failed": failed, "missing": len(chosen.missing)}
        print(json.dumps({"service": service, "counts": numbers}))
    elif not compacted:
        print_line(f"no topic of {chosen.directory.name} is compacted")
    if service is not None and not args.json:
        print(cleaner_text(service))
    return int(is_missing or bool(failed) or bool(service and service["deadThreads"]))


def _line(facts: CompactionFacts) -> str:
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
