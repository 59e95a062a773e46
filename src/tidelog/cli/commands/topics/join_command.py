"""``tidelog join``: let data directories that were begun apart belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import directory_name
from tidelog.cli.options import Command, argument, directory_option
from tidelog.cli.terminal import print_line

if TYPE_CHECKING:
    from argparse import Namespace


COMMAND: Final = Command(
    "join",
    "join data directories that were created separately, so that run serves them as one",
    (
        argument(
            "words",
            metavar="DIR",
            nargs="*",
            type=directory_name,
            help="two or more data directories; all get the cluster.id and node.id of the first",
        ),
        directory_option("the same as DIR; repeatable"),
        argument(
            "--kafka-too",
            action="store_true",
            help="also where a Kafka broker has written one of them; it would not start on a"
            " directory of another cluster",
        ),
    ),
)


def run(args: Namespace) -> int:
    """Join the directories; print a line each."""
    import random

    from tidelog.env.paths import absolute_path
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.directories.join_directories import join_directories

    paths = [absolute_path(path) for path in (*args.directories, *args.words)]
    joined = join_directories(
        paths, fs=SYSTEM_FILES, rng=random.SystemRandom(), is_kafka_allowed=args.kafka_too
    )
    for one in joined:
        done = "joined" if one.was_changed else "unchanged"
        print_line(f"{one.path}: {done}, cluster.id {one.cluster_id}, node.id {one.node_id}")
    return 0
