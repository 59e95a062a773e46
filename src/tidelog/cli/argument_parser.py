"""What argparse lacks: options between positional arguments, short errors, checks after parsing."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tidelog.cli.terminal import screen_width
from tidelog.exit_codes import ExitCode
from tidelog.explain.printable_text import printable

if TYPE_CHECKING:
    from argparse import Action, Namespace
    from collections.abc import Callable, Sequence

    from _typeshed import SupportsWrite


_OTHER_COMMANDS: Final = {
    **dict.fromkeys(("consume", "consumer", "read", "tail", "head", "get", "export"), "cat"),
    **dict.fromkeys(("grep", "search", "find"), "cat --grep"),
    **dict.fromkeys(("produce", "producer", "write", "put", "send", "import", "load"), "append"),
    **dict.fromkeys(("lag", "consumer-groups", "group"), "groups"),
    **dict.fromkeys(("topics", "ls"), "list --topics"),
    **dict.fromkeys(("partitions", "status", "size", "du"), "list"),
    **dict.fromkeys(("show", "info", "inspect", "stat"), "describe"),
    **dict.fromkeys(("check", "fsck", "validate", "doctor"), "verify"),
    **dict.fromkeys(("repair", "fix"), "rescue or recover"),
    **dict.fromkeys(("remove", "rm", "drop"), "delete"),
    **dict.fromkeys(("truncate", "purge"), "delete-records"),
    **dict.fromkeys(("prune", "expire"), "retain"),
    **dict.fromkeys(("config", "configs", "set"), "alter"),
    **dict.fromkeys(("backup", "copy", "cp", "sync"), "mirror"),
    "broker": "serve",
    "clean": "compact",
    "count": "offsets --count",
    "dump-log": "dump",
    "mv": "move",
    "query": "sql",
    "start": "run or serve",
}
"""Words of Kafka's tools and others, and the commands that do the same here."""
_OTHER_NAMES: Final = {
    "--address": "--listen",
    "--bind": "--listen",
    "--codec": "--compression",
    "--config": "--option",
    "--data-dir": "--dir",
    "--directory": "--dir",
    "--end": "--to",
    "--from-beginning": "--from",
    "--head": "--limit",
    "--host": "--listen",
    "--log-dirs": "--dir",
    "--max-messages": "--limit",
    "--offset": "--from",
    "--port": "--listen",
    "--regex": "--grep",
    "--start": "--from",
    "--tail": "--last",
}
"""What other programs call options, Kafka's among them; counts where a command has the option."""
_ELSEWHERE: Final = {
    ("tidelog compact", "--dry-run"): "tidelog plan compaction",
    ("tidelog retain", "--dry-run"): "tidelog plan retention",
}
"""The commands that do what an option of others does."""


class CommandHelp(RawDescriptionHelpFormatter):
    """Help as wide as the terminal; argparse would load ``shutil`` to find that out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=screen_width() - 2)


class CommandParser(ArgumentParser):
    """A command's parser: options may stand before, between and after positional arguments.

    They cannot be abbreviated: a new option could change what a command line means.
    """

    _is_intermixed = False
    """Whether options and positional arguments are being parsed one after the other."""
    _words: Sequence[str] = ()
    _checks: tuple[Callable[[Namespace], str | None], ...] = ()

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of argparse
        super().__init__(**options, formatter_class=CommandHelp, allow_abbrev=False)

    def check_with(self, check: Callable[[Namespace], str | None]) -> None:
        """Let ``check`` complete what was parsed, or return an error, or None, after the others."""
        self._checks = (*self._checks, check)

    @property
    def actions(self) -> Sequence[Action]:
        """Its options and positional arguments, in the order of the help."""
        return self._actions

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where to find help, in two lines, and exit with 2."""
        text = printable(_reworded(message, self._words))
        self.exit(ExitCode.BAD_USAGE, f"{self.prog}: {text}\nsee: {self.prog} --help\n")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Print a help, an error or a usage; argparse drops, or not, what a full disk raises.

        Raises OSError for standard output. Standard error has nothing to report it to.
        """
        if file is sys.stdout:
            print(message or "", end="", flush=True)
        else:
            with suppress(OSError):  # Python 3.11.2 raises it, 3.11.7 does not
                super()._print_message(message, file)

    def parse_known_args(  # type: ignore[override]  # as argparse calls it for a command
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse, so that ``append t -d DIR FILE`` finds its FILE."""
        if self._is_intermixed or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._words = args or ()
        self._is_intermixed = True
        try:
            parsed, unknown = self.parse_known_intermixed_args(args, namespace)
        except AttributeError as error:
            # After an interrupt argparse puts back what it may not have saved yet.
            interrupt = error.__context__
            if interrupt is None or isinstance(interrupt, Exception):
                raise
            raise interrupt from None
        finally:
            self._is_intermixed = False
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            hint = _hint(self.prog, unknown, options)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        for check in self._checks:
            if (problem := check(parsed)) is not None:
                self.error(problem)
        return parsed, unknown


def _hint(prog: str, unknown: Sequence[str], known: Sequence[str]) -> str:
    """Return which option, or which command, an unknown option of a command may mean."""
    from difflib import get_close_matches  # slow to import, and only mistakes need it

    for word in unknown:
        typed = word.partition("=")[0]
        if not typed.startswith("--"):
            continue
        if (prog, typed) in _ELSEWHERE:
            return f"; see {_ELSEWHERE[prog, typed]}"
        begun = [name for name in known if name.startswith(typed)]
        close = begun or get_close_matches(typed, known, 1, cutoff=0.75)
        meant = _OTHER_NAMES.get(typed, "")
        if meant in known or close:
            return f"; did you mean {meant if meant in known else close[0]}?"
    return ""


def _reworded(message: str, words: Sequence[str]) -> str:
    """Return argparse's message as ``-p 0: <rule>``, with the option as it was typed."""
    if not message.startswith("argument "):
        return message
    names, _, text = message.removeprefix("argument ").partition(": ")
    if text.startswith("invalid choice: "):
        import re  # slow to import, and only mistakes need it

        said, _, known = text.removeprefix("invalid choice: ").partition(" (choose from ")
        word, choices = said[1:-1], re.findall(r"[\w-]+", known)
        if names == "COMMAND":
            return _unknown_command(word, choices)
        text = f"{word}: choose from {', '.join(choices)}{_close(word, choices)}"
        if names.startswith("{"):  # a word, which argparse calls by its choices
            return text
    known_names = names.split("/")
    typed = (name for name in known_names for word in words if word.startswith(name))
    separator = ": " if text.startswith("expected ") else " "
    return f"{next(typed, known_names[0])}{separator}{text}"


def _unknown_command(word: str, known: Sequence[str]) -> str:
    """Return the error, with the command that may have been meant."""
    meant = _OTHER_COMMANDS.get(word)
    # A guess further off would send someone in a hurry from "repair" to "retain", which deletes.
    hint = f"; did you mean {meant}?" if meant else _close(word, known, 0.7)
    return f"there is no command {word!r}{hint}"


def _close(word: str, known: Sequence[str], cutoff: float = 0.5) -> str:
    """Return which of the known words may have been meant; 0.5: retain may mean retention."""
    from difflib import get_close_matches  # slow to import, and only mistakes need it

    close = get_close_matches(word, known, 1, cutoff)
    return f"; did you mean {close[0]}?" if close else ""
