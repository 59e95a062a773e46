"""``tidelog delete``: delete topics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.cli.options import add_directory, add_dry_run, new_parser

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands
    from tidelog.datadir.catalogue import Topic
    from tidelog.env.files import FileSystem


def add_parser(commands: Commands) -> None:
    """Add ``tidelog delete`` to the command line."""
    parser = new_parser(commands, "delete", "delete topics with all their records", run)
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    add_directory(parser)
    add_dry_run(parser)


def run(args: Namespace) -> int:
    """Delete the topics with all their records, or with ``--dry-run`` print their sizes only."""
    from tidelog.cli.terminal import counted
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.embedded.doors import brief_machine
    from tidelog.env.clock import SYSTEM_CLOCK
    from tidelog.env.overlay_files import OverlayFiles
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.picture import format_bytes
    from tidelog.manager.log_manager import Loading, LogManager

    fs: FileSystem = OverlayFiles(SYSTEM_FILES) if args.dry_run else SYSTEM_FILES
    path = os.path.abspath(args.directory)
    with LogManager(
        BrokerConfig(log_dirs=(path,)),
        brief_machine(fs, SYSTEM_CLOCK),
        loading=Loading.FIRST_USE,
    ) as manager:
        topics = [manager.topic(name) for name in args.topics]
        sizes = [_size_bytes(path, topic) for topic in topics]
        for topic in topics:
            manager.delete_topic(topic.name)
    verb = "would be deleted" if args.dry_run else "deleted"
    for topic, size_bytes in zip(topics, sizes, strict=True):
        partitions = counted(len(topic.partitions), "partition")
        print(f"{topic.name}: {partitions}, {format_bytes(size_bytes)} {verb}")
    return 0


def _size_bytes(data_directory: str, topic: Topic) -> int:
    """Return the bytes of all segments of a topic in this directory."""
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.read_only_log import open_read_only
    from tidelog.segment.filenames import log_directory_name

    total = 0
    for number in topic.partitions:
        path = os.path.join(data_directory, log_directory_name(topic.name, number))
        if SYSTEM_FILES.exists(path):
            with open_read_only(path, fs=SYSTEM_FILES) as log:
                total += log.size_bytes
    return total
