"""``tidelog create``: create a topic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import DIRECTORY, JSON, SETTINGS, TOPIC, Command, partitions_option
from tidelog.cli.terminal import print_message, print_row
from tidelog.explain.printable_text import counted

if TYPE_CHECKING:
    from argparse import Namespace


COMMAND: Final = Command(
    "create",
    "create a topic",
    (
        *DIRECTORY,
        TOPIC,
        partitions_option("number of partitions (default 1)", default=1),
        SETTINGS,
        JSON,
    ),
    epilog=(
        "Without -o its records are kept for ever, also if a service with another retention\n"
        "creates it; tidelog alter TOPIC --follow retention.ms lets the service's count."
    ),
)


def run(args: Namespace) -> int:
    """Create the topic and print its name, number of partitions and id."""
    from tidelog.cli.serving.service_requests import perform
    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.birth import birth_values
    from tidelog.env.system_files import SYSTEM_FILES

    path = os.path.abspath(args.directory)
    is_new = not SYSTEM_FILES.exists(path)
    arguments = {
        "topic": args.topic,
        "partitions": args.partitions,
        "settings": dict(args.options),
        "birth": birth_values(LogConfig()),
    }
    topic = perform(args.command, path, arguments)
    if is_new:
        print_message(args.command, f"created data directory {path}")
    partitions = counted(topic["partitions"], "partition")
    print_row(args, topic, f"{topic['topic']}: {partitions}, id {topic['id']}")
    return 0
