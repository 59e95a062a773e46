"""``tidelog create``: create a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.arguments import partition_count
from tidelog.cli.options import add_directory, add_settings, add_topic, new_parser

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands


def add_parser(commands: Commands) -> None:
    """Add ``tidelog create`` to the command line."""
    parser = new_parser(commands, "create", "create a topic", run)
    add_topic(parser)
    add_directory(parser)
    parser.add_argument(
        "-p",
        "--partitions",
        type=partition_count,
        default=1,
        metavar="N",
        help="number of partitions (default 1)",
    )
    add_settings(parser)


def run(args: Namespace) -> int:
    """Create the topic and print its name, number of partitions and id."""
    from tidelog.cli.terminal import counted
    from tidelog.codec.metadata_files import format_uuid
    from tidelog.embedded.doors import open_briefly

    with open_briefly(args.directory) as directory:
        topic = directory.create_topic(args.topic, args.partitions, dict(args.options))
    partitions = counted(len(topic.partitions), "partition")
    print(f"{topic.name}: {partitions}, id {format_uuid(topic.topic_id)}")
    return 0
