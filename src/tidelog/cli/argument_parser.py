"""How a command line is taken apart: options anywhere, and short words for what is wrong.

Owns what argparse does not do as users expect. Must not know any command.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

_BAD_USAGE: Final = 2


class CommandParser(ArgumentParser):
    """A command's parser, which takes options before, between and behind the other words."""

    def error(self, message: str) -> NoReturn:
        """Say in a line or two what is wrong and where to look; argparse prints all options."""
        if message.startswith("argument COMMAND: invalid choice: "):
            message = _unknown_command(message)
        self.exit(_BAD_USAGE, f"{self.prog}: {message}\nsee: {self.prog} --help\n")

    _is_sorted = False
    """Whether options and other words have been told apart; they are looked at in turn then."""

    def parse_known_args(  # type: ignore[override]  # as argparse calls it for a command
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse, so that ``append t -d DIR FILE`` finds its FILE."""
        if self._is_sorted or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_sorted = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_sorted = False


def _unknown_command(message: str) -> str:
    """Say which command may have been meant."""
    import re  # slow to load, as the other, and only a slip needs them
    from difflib import get_close_matches

    said, _, known = message.partition("choose from")
    word = said.split("'")[1]
    close = get_close_matches(word, re.findall(r"[a-z][a-z-]+", known), 1)
    return f"there is no command {word!r}" + (f"; did you mean {close[0]}?" if close else "")
