"""``tidelog retain``: delete the segments that have outlived their retention, now."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import JSON, LOGS, NOW, SERVER_PROPERTIES, SETTINGS, Command
from tidelog.cli.terminal import print_message

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
    from tidelog.cli.operations import manager_of, print_shrunk, print_shrunk_total
    from tidelog.cli.partition_choice import chosen_to_change
    from tidelog.cli.serving.service_requests import perform, perform_printing, terms_of

    chosen = chosen_to_change(args)
    has_loss = chosen.report_missing(args.command)
    places = chosen.places
    done: dict[str, Any] = {"logs": [], "notes": []}
    if places:
        arguments = {**terms_of(args, places), "are_named": bool(args.topics)}
        path = os.path.dirname(places[0].path)
        request = (args.command, path, arguments, lambda: manager_of(args, places))
        show = partial(print_shrunk, args, "deleted")
        done = perform_printing(perform, request, show, lambda result: result["logs"])
    for note in done["notes"]:
        print_message(args.command, note)
    print_shrunk_total(args, done["logs"], "deleted", missing=len(chosen.missing))
    return int(has_loss)
