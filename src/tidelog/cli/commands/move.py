"""``tidelog move``: move partitions to another data directory, here or by the running service."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tidelog.cli.arguments import directory_name
from tidelog.cli.options import add_directory, add_json, add_partition, add_topic, new_parser
from tidelog.errors import InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands
    from tidelog.cli.partition_choice import Place


def add_parser(commands: Commands) -> None:
    """Add ``tidelog move`` to the command line."""
    parser = new_parser(
        commands,
        "move",
        "move partitions of a topic to another data directory",
        run,
        epilog="If a service is running on the directory, it moves them itself, while it serves\n"
        "reads and appends.",
    )
    add_topic(parser)
    add_directory(parser)
    parser.add_argument(
        "--to",
        required=True,
        type=directory_name,
        metavar="DIR",
        dest="target",
        help="data directory to move to; a running service must have it in its log.dirs",
    )
    add_partition(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Move the partitions, one after another; a running service is asked to do it."""
    from tidelog.cli.partition_choice import find_places
    from tidelog.cli.service_requests import asked, numbers_by_topic
    from tidelog.cli.terminal import print_counts, print_line
    from tidelog.env.system_files import SYSTEM_FILES

    source, target = os.path.abspath(args.directory), os.path.abspath(args.target)
    places = find_places(SYSTEM_FILES, source, [args.topic], args.partition)
    if source == target:
        raise InvalidArgument(f"--to {args.target}: the partitions are there already")
    arguments = {"partitions": numbers_by_topic(places), "target": target}
    asked(args.command, source, arguments, lambda: _move_here(places, source, target))
    for place in places:
        if args.json:
            row = {"topic": place.topic, "partition": place.partition, "directory": target}
            print(json.dumps(row))
        else:
            print_line(f"{place.topic}-{place.partition}: moved to {target}")
    if args.json:
        print_counts(partitions=len(places))
    return 0


def _move_here(places: list[Place], source: str, target: str) -> None:
    """Move them in this process, which locks the directories; delete the originals at once."""
    from dataclasses import replace

    from tidelog.cli.progress import showing_load
    from tidelog.config.sources import broker_config
    from tidelog.embedded.doors import start_logs

    settings = {"log.dirs": f"{source},{target}", "log.segment.delete.delay.ms": "0"}
    config = replace(broker_config(settings), log_cleaner_enable=False)
    with showing_load() as load:
        opened = start_logs(config, on_locked=load.begin, should_stop=load.should_stop)
    with opened as logs:
        for path in (source, target):
            if path not in logs.manager.live_dirs:
                raise KafkaStorageError(f"{path} is offline; nothing was moved")
        for place in places:
            logs.move_partition(place.topic, place.partition, target)
        logs.manager.delete_renamed_logs()
