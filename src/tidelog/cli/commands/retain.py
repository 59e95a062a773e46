"""``tidelog retain``: delete the segments that have outlived their retention, now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.options import (
    add_json,
    add_now,
    add_server_properties,
    add_settings,
    add_topics,
    new_parser,
)
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.operations import Acting
    from tidelog.cli.options import Commands
    from tidelog.cli.partition_choice import Place


def add_parser(commands: Commands) -> None:
    """Add ``tidelog retain`` to the command line."""
    text = "delete the segments that have outlived their retention limits"
    parser = new_parser(commands, "retain", text, run)
    add_topics(parser)
    add_now(parser)
    add_settings(parser)
    add_server_properties(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Delete expired segments of every chosen log and free their space."""
    from tidelog.cli.operations import open_to_act, print_shrunk, shrunk_as_json
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.plans.operations import retain_log

    with open_to_act(args, SYSTEM_FILES, args.topics) as acting:
        logs = [
            retain_log(acting.manager, place.topic, place.partition)
            for place in _places_to_retain(args, acting)
        ]
    for log in logs:
        if args.json:
            print(json.dumps(shrunk_as_json(log)))
        else:
            print_shrunk(log, "deleted")
    return 0


def _places_to_retain(args: Namespace, acting: Acting) -> list[Place]:
    """Return the partitions whose cleanup policy is known.

    A limit given with ``-o`` is applied even where the policy is unknown. Topics of unknown policy
    are left out with a message; InvalidArgument if they are named, or if there are no others.
    """
    from tidelog.cli.terminal import print_message
    from tidelog.config.log_config import DELETION_SETTINGS

    manager = acting.manager
    topics = {place.topic for place in acting.places}
    unknown = sorted(name for name in topics if not manager.config_of(name).is_policy_known)
    if not unknown:
        return acting.places
    if any(key in DELETION_SETTINGS for key, _ in args.options):
        for place in acting.places:
            if place.topic in unknown:
                log = manager.partition(place.topic, place.partition).log
                log.update_config(log.config.deleting())
        return acting.places
    reason = (
        f"cleanup.policy of {', '.join(unknown)} is unknown: give one of"
        f" {', '.join(DELETION_SETTINGS)} with -o, or set it permanently with tidelog alter"
    )
    if args.topics or topics == set(unknown):
        raise InvalidArgument(reason)
    print_message(args.command, f"{reason}; until then nothing of it is deleted")
    return [place for place in acting.places if place.topic not in unknown]
