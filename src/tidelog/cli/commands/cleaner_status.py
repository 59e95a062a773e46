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
    """Print a line for each compacted log; return 1 if the cleaning of one has failed."""
    import random

    from tidelog.cli.commands.compact import facts_as_json
    from tidelog.cli.operations import ClockAt, open_to_act
    from tidelog.env.overlay_files import OverlayFiles
    from tidelog.env.scheduler import InlineScheduler
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.plans.compaction import Compaction

    has_failed = False
    with open_to_act(args, OverlayFiles(SYSTEM_FILES), args.topics) as acting:
        compaction = Compaction(
            acting.manager,
            now_ms=acting.now_ms,
            clock=ClockAt(acting.now_ms),
            scheduler=InlineScheduler(),
            rng=random.SystemRandom(),
            is_plan=True,
        )
        compacted = 0
        for place in acting.places:
            facts = compaction.examine(place.topic, place.partition)
            if facts.is_compacted:
                compacted += 1
                has_failed |= facts.failure is not None
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
