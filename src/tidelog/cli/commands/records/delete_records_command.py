"""``tidelog delete-records``: move a partition's log start offset, and free whole segments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.arguments import deletion_end
from tidelog.cli.options import (
    DRY_RUN,
    JSON,
    NOW,
    PLACES,
    SETTINGS,
    TOPIC,
    Command,
    argument,
    partition_option,
)
from tidelog.codec.shown_rows import as_json
from tidelog.errors import InvalidArgument, OffsetOutOfRange

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from tidelog.cli.partition_choice import ChosenPartitions, Place


COMMAND: Final = Command(
    "delete-records",
    "delete a topic's records below an offset",
    (
        *PLACES,
        TOPIC,
        argument(
            "--before",
            type=deletion_end,
            required=True,
            metavar="OFFSET",
            help="the new log start offset, or latest, which is highWatermark: delete all that"
            " readers see",
        ),
        partition_option("the partition whose records are deleted, or all", required=True),
        DRY_RUN,
        NOW,
        SETTINGS,
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """Delete the records below an offset, in one partition or all; if one refuses, in none.

    Returns 1 if a partition of the catalogue is missing.
    """
    from tidelog.cli.operations import plan_terms, print_shrunk_total
    from tidelog.cli.partition_choice import chosen_to_change

    chosen = chosen_to_change(args, [args.topic], may_be_empty=False)
    has_loss = chosen.report_missing(args.command)
    config = plan_terms(args, chosen.directory, is_lenient=True).config(args.topic)
    logs = _print_plan(args, chosen) if args.dry_run else _deleted(args, chosen.places)
    verb = "would delete" if args.dry_run else "deleted"
    hidden = sum(map(_hidden_offsets, logs))
    print_shrunk_total(
        args,
        logs,
        verb,
        hidden=hidden,
        is_archived=config.remote_storage_enable,
        missing=len(chosen.missing),
    )
    return int(has_loss)


def _hidden_offsets(log: Mapping[str, Any]) -> int:
    """Return how many offsets of a log readers no longer see."""
    start: int = log["logStartOffset"]
    before: int = log.get("logStartOffsetBefore", start)  # a service of an older version: not known
    return start - before


def _deleted(args: Namespace, places: list[Place]) -> list[dict[str, Any]]:
    """Delete the records, and print what was done to each log; return that."""
    from tidelog.cli.operations import print_shrunk
    from tidelog.cli.serving.service_requests import perform_on

    arguments = {
        "before": args.before,
        "settings": dict(args.options),
        "now_ms": args.now,
    }
    return perform_on(args, places, arguments, partial(print_shrunk, args, "deleted"))


def _print_plan(args: Namespace, chosen: ChosenPartitions) -> list[dict[str, Any]]:
    """Print what would be done to each log, and return that; the logs are only read."""
    from tidelog.cli.operations import plan_terms, print_shrunk
    from tidelog.explain.plans.retention_plan import plan_deletion

    terms = plan_terms(args, chosen.directory, is_lenient=True)

    def plan(place: Place) -> dict[str, Any]:
        config, pinned_from = terms.config(place.topic), terms.pinned_from(place.key)
        opened = partial(chosen.open, place)
        try:
            shrunk = plan_deletion(
                opened, config, terms.clock, args.before, pinned_from=pinned_from
            )
        except OffsetOutOfRange as error:
            named = error.of_log(str(place.key))
            raise InvalidArgument(f"{named}; nothing was deleted") from error
        return as_json(shrunk)

    logs = [log for _, log in chosen.look(args.command, plan)]
    for log in logs:
        print_shrunk(args, "would delete", log)
    return logs
