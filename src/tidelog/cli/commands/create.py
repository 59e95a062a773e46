"""``tidelog create``: create a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.terminal import counted
from tidelog.codec.metadata_files import format_uuid
from tidelog.embedded.doors import open_briefly

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Create the topic and print its name, number of partitions and id."""
    with open_briefly(args.directory) as directory:
        topic = directory.create_topic(args.topic, args.partitions, dict(args.options))
    partitions = counted(len(topic.partitions), "partition")
    print(f"{topic.name}: {partitions}, id {format_uuid(topic.topic_id)}")
    return 0
