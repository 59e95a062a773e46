"""``tidelog roll``: close the active segments, as no record and no setting does at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import JSON, LOGS, Command
from tidelog.cli.terminal import print_counts, print_row
from tidelog.explain.printable_text import format_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

COMMAND: Final = Command(
    "roll",
    "close the active segments, so that compact, archive and delete-records reach their records",
    (*LOGS, JSON),
)


def run(args: Namespace) -> int:
    """Begin the next segment of every chosen log whose active one has records.

    Returns 1 if a partition of the catalogue is missing.
    """
    from tidelog.cli.partition_choice import chosen_to_change
    from tidelog.cli.serving.service_requests import perform_on

    chosen = chosen_to_change(args)
    has_loss = chosen.report_missing(args.command)
    logs = perform_on(args, chosen.places, {}, partial(_print, args))
    closed = sum(row["closedBaseOffset"] is not None for row in logs)
    print_counts(args, partitions=len(logs), segments=closed, missing=len(chosen.missing))
    return int(has_loss)


def _print(args: Namespace, row: Mapping[str, Any]) -> None:
    base, end = row["closedBaseOffset"], row["activeBaseOffset"]
    text = f"{row['topic']}-{row['partition']}: "
    if base is None:
        text += f"nothing to close: no record is in the active segment, which begins at {end:,}"
    else:
        text += f"closed [{base:,}, {end:,}), {format_bytes(row['sizeBytes'])}"
    print_row(args, row, text)
