"""``tidelog retain``: delete the segments that have outlived their retention, now."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import JSON, LOGS, NOW, SERVER_PROPERTIES, SETTINGS, Command

if TYPE_CHECKING:
    from argparse import Namespace


COMMAND: Final = Command(
    "retain",
    "delete the segments that have outlived their retention limits",
    (*LOGS, NOW, SETTINGS, SERVER_PROPERTIES, JSON),
)


def run(args: Namespace) -> int:
    """Delete expired segments of every chosen log and free their space.

    Returns 1 if a partition of the catalogue is missing.
    """
    from tidelog.cli.operations import print_shrunk, print_shrunk_total
    from tidelog.cli.partition_choice import chosen_to_change
    from tidelog.cli.serving.service_requests import perform_on, terms_of

    chosen = chosen_to_change(args)
    has_loss = chosen.report_missing(args.command)
    arguments = {**terms_of(args), "are_named": bool(args.topics)}
    logs = perform_on(args, chosen.places, arguments, partial(print_shrunk, args, "deleted"))
    print_shrunk_total(args, logs, "deleted", missing=len(chosen.missing))
    return int(has_loss)
