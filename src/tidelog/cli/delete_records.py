"""``tidelog delete-records``: move a partition's log start offset, and free whole segments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.acting import open_to_act, print_shrunk, shrunk_as_json
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.explain.plan import delete_records

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Delete the records below an offset, in one partition or in all of the topic."""
    with open_to_act(args, SYSTEM_FILES, [args.topic], args.partition) as acting:
        logs = [
            delete_records(acting.directory, place.topic, place.partition, args.before)
            for place in acting.places
        ]
    for log in logs:
        if args.json:
            print(json.dumps(shrunk_as_json(log)))
        else:
            print_shrunk(log, "deleted")
    return 0
