"""``tidelog picture``: draw logs as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.places import find_places
from tidelog.cli.screen import screen_width
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.explain.describe import describe_log
from tidelog.explain.picture import draw_log

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Draw every chosen log; return 1 if one is damaged."""
    width = args.width or screen_width()
    is_damaged = False
    for number, place in enumerate(find_places(SYSTEM_FILES, args.directory, args.topics)):
        facts = describe_log(SYSTEM_FILES, place.path)
        print(("\n" if number else "") + draw_log(facts, width), end="")
        is_damaged |= facts.damage is not None
    return int(is_damaged)
