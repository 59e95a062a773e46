"""``tidelog create``: create a topic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import (
    DIRECTORY,
    JSON,
    SETTINGS,
    TOPIC,
    Command,
    argument,
    partitions_option,
)
from tidelog.cli.terminal import print_message, print_row
from tidelog.explain.printable_text import counted, printable

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.datadir.effective_config import CopiedSettings


COMMAND: Final = Command(
    "create",
    "create a topic",
    (
        *DIRECTORY,
        TOPIC,
        partitions_option("number of partitions (default 1, or that of --like)"),
        SETTINGS,
        argument(
            "--like",
            metavar="OTHER",
            help="with the number of partitions and the settings of this topic, except for what"
            " is given here, and without its archive",
        ),
        JSON,
    ),
    epilog=(
        "Without -o or --like its records are kept for ever, also if a service with another\n"
        "retention creates it; tidelog alter TOPIC --follow retention.ms lets the service's count."
    ),
)


def run(args: Namespace) -> int:
    """Create the topic and print its name, number of partitions and id."""
    from tidelog.cli.serving.service_requests import perform
    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.birth import birth_values
    from tidelog.datadir.effective_config import CopiedSettings
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.topics.topic_checks import check_topic

    path = os.path.abspath(args.directory)
    is_new = not SYSTEM_FILES.exists(path)
    count, copied = 1, CopiedSettings({}, birth_values(LogConfig()), ())
    if args.like is not None:
        count, copied = _like(path, args.like)
    partitions = count if args.partitions is None else args.partitions
    settings, birth = {**copied.config, **dict(args.options)}, copied.birth
    if is_new:
        # Before the directory is made: a topic that is refused would leave it there, empty.
        check_topic(args.topic, partitions, settings, birth, defaults=LogConfig())
    arguments = {
        "topic": args.topic,
        "partitions": partitions,
        "settings": settings,
        "birth": birth,
    }
    topic = perform(args.command, path, arguments)
    if copied.left_out:
        from tidelog.cli.commands.topics.mirror_command import left_out

        text = left_out(args.topic, copied.left_out, is_plan=False)
        print_message(args.command, printable(text))
    if is_new:
        print_message(args.command, f"created data directory {path}")
    shown = counted(topic["partitions"], "partition")
    print_row(args, topic, f"{topic['topic']}: {shown}, id {topic['id']}")
    return 0


def _like(path: str, name: str) -> tuple[int, CopiedSettings]:
    """Return how many partitions a topic has, and the settings for one like it."""
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.absent_partitions import BY_NOTHING
    from tidelog.readonly.read_only_directory import open_directory_read_only

    directory = open_directory_read_only(path, fs=SYSTEM_FILES, accept=BY_NOTHING)
    directory.check_catalogue()
    topic = directory.topic(name)
    return max(directory.numbers_of(name)) + 1, topic.settings_of_copy()
