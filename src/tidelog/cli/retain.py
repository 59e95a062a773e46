"""``tidelog retain``: delete what retention allows to go, now; or say what would go."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from tidelog.cli.acting import open_to_act, print_shrunk, shrunk_as_json
from tidelog.cli.places import find_places
from tidelog.env.overlay_files import OverlayFiles
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.explain.plan import retain_log
from tidelog.manager.catalogue import read_catalogue

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.env.files import FileSystem

_TELLING = ("cleanup.policy", "retention.ms", "retention.bytes")


def run(args: Namespace) -> int:
    """Delete old segments of every chosen log and free their space."""
    return apply_retention(args, is_plan=False)


def apply_retention(args: Namespace, *, is_plan: bool) -> int:
    """Do it, or say what would be done; the same code does both."""
    fs: FileSystem = OverlayFiles(SYSTEM_FILES) if is_plan else SYSTEM_FILES
    _check_settings_known(args, is_plan=is_plan)
    with open_to_act(args, fs, args.topics) as acting:
        logs = [
            retain_log(acting.directory, place.topic, place.partition, acting.now_ms)
            for place in acting.places
        ]
    for log in logs:
        if args.json:
            print(json.dumps(shrunk_as_json(log)))
        else:
            print_shrunk(log, "would delete" if is_plan else "deleted")
    return 0


def _check_settings_known(args: Namespace, *, is_plan: bool) -> None:
    """Refuse to delete by Kafka's defaults what a Kafka with settings of its own has written."""
    if any(key in _TELLING for key, _ in args.options):
        return
    places = find_places(SYSTEM_FILES, args.directory, args.topics)
    known = read_catalogue(SYSTEM_FILES, os.path.dirname(places[0].path)).topics
    unknown = sorted({place.topic for place in places} - set(known))
    if not unknown:
        return
    text = (
        f"the settings of {', '.join(unknown)} are not kept in this directory;"
        f" say one of {', '.join(_TELLING)} with -o"
    )
    if not is_plan:
        raise InvalidArgument(text)
    print(f"tidelog plan: {text}, else Kafka's defaults are taken", file=sys.stderr)
