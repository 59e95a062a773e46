"""``tidelog alter``: change a topic's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.cli.options import add_directory, add_settings, add_topic, new_parser
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands


def add_parser(commands: Commands) -> None:
    """Add ``tidelog alter`` to the command line."""
    parser = new_parser(commands, "alter", "change a topic's settings", run)
    add_topic(parser)
    add_directory(parser)
    add_settings(parser)
    parser.add_argument(
        "--unset",
        action="append",
        default=[],
        metavar="KEY",
        help="reset a setting to its default; repeatable",
    )


def run(args: Namespace) -> int:
    """Change the settings and print those that the topic now overrides."""
    if not args.options and not args.unset:
        raise InvalidArgument("nothing to change: use -o KEY=VALUE or --unset KEY")
    from tidelog.cli.service_requests import perform
    from tidelog.cli.terminal import print_line
    from tidelog.embedded.doors import open_to_change

    path = os.path.abspath(args.directory)
    arguments = {"topic": args.topic, "settings": dict(args.options), "unset": args.unset}
    topic = perform(args.command, path, arguments, lambda: open_to_change(path))
    settings = ", ".join(f"{name}={value}" for name, value in sorted(topic["settings"].items()))
    unknown = ", ".join(topic["unknown"])
    known = settings or "no settings of its own"
    print_line(f"{topic['topic']}: {known}{f'; unknown: {unknown}' if unknown else ''}")
    return 0
