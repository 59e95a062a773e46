"""``tidelog delete``: delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.screen import counted
from tidelog.manager.open import open_data_directory

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Delete the topics with all their records, and print how many partitions each had."""
    with open_data_directory(args.directory) as directory:
        topics = [directory.topic(name) for name in args.topics]
        for topic in topics:
            directory.delete_topic(topic.name)
    for topic in topics:
        print(f"{topic.name}: {counted(len(topic.partitions), 'partition')} deleted")
    return 0
