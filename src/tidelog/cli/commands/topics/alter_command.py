"""``tidelog alter``: change a topic's settings, or add partitions to it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import (
    DIRECTORY,
    JSON,
    SETTINGS,
    TOPIC,
    Command,
    argument,
    partitions_option,
)
from tidelog.cli.terminal import print_line
from tidelog.errors import InvalidArgument
from tidelog.explain.printable_text import counted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping


COMMAND: Final = Command(
    "alter",
    "change a topic's settings, or add partitions",
    (
        *DIRECTORY,
        TOPIC,
        SETTINGS,
        argument(
            "--unset",
            action="append",
            default=[],
            metavar="KEY",
            help="drop a setting of the topic's own; repeatable",
        ),
        argument(
            "--follow",
            action="append",
            default=[],
            metavar="KEY",
            help="forget how a setting was when the topic was created, so that what is given to a"
            " service or program counts; repeatable",
        ),
        partitions_option(
            "add partitions until there are N; keys go to other partitions from then on, and old"
            " records stay where they are; tidelog spark repartition copies them to a new topic,"
            " in the order of each key if partitions were added once"
        ),
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """Change the topic, and print what it has now.

    Settings come first: where they are refused no partition is added.
    """
    has_settings = args.options or args.unset or args.follow
    if not has_settings and args.partitions is None:
        ways = "-o KEY=VALUE, --unset KEY, --follow KEY or --partitions N"
        raise InvalidArgument(f"nothing to change: use {ways}")
    from tidelog.cli.notices import setting_topic
    from tidelog.cli.serving.service_requests import perform

    path = os.path.abspath(args.directory)
    arguments = {
        "topic": args.topic,
        "settings": dict(args.options),
        "unset": args.unset,
        **({"follow": args.follow} if args.follow else {}),
    }
    row = {"topic": args.topic, "settings": None, "unknown": None, "partitions": None}
    if has_settings:
        with setting_topic(args.topic):
            topic = perform(args.command, path, arguments)
        row |= topic
        if not args.json:
            print_line(_settings(topic))
    if args.partitions is not None:
        wanted = {"topic": args.topic, "partitions": args.partitions}
        topic = perform("create-partitions", path, wanted)
        row |= topic
        if not args.json:
            print_line(f"{topic['topic']}: {counted(topic['partitions'], 'partition')}")
    if args.json:
        print(json.dumps(row))
    return 0


def _settings(topic: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in sorted(topic["settings"].items()))
    unknown = ", ".join(topic["unknown"])
    known = settings or "no settings of its own"
    return f"{topic['topic']}: {known}{f'; unknown: {unknown}' if unknown else ''}"
