"""``tidelog alter``: change a topic's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.embedded.doors import open_briefly
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Change the settings and print those that the topic now has of its own."""
    if not args.options and not args.unset:
        raise InvalidArgument("say what to change: -o KEY=VALUE, or --unset KEY")
    with open_briefly(args.directory) as directory:
        topic = directory.alter_topic(args.topic, dict(args.options), args.unset)
    settings = ", ".join(f"{name}={value}" for name, value in sorted(topic.config.items()))
    unknown = ", ".join(topic.unknown_settings)
    known = settings or "no settings of its own"
    print(f"{topic.name}: {known}{f'; unknown: {unknown}' if unknown else ''}")
    return 0
