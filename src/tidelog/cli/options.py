"""What a command is declared with, and the options that several commands share.

A command's own options are in its module under ``commands``. Nothing here or at the top of those
modules imports NumPy or other slow packages, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.cli.arguments import (
    directory_name,
    either,
    key_value,
    target_name,
    time_ms,
    whole,
)
from tidelog.cli.shown import Shown
from tidelog.exit_codes import ExitCode
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from argparse import Action, Namespace, _SubParsersAction
    from collections.abc import Callable, Collection, Sequence

    from tidelog.cli.argument_parser import CommandParser

    Commands = _SubParsersAction[CommandParser]
    Check = Callable[[Namespace], str | None]
    Part = Callable[[Any], object]
    """Adds something to the parser of a command, as ``argument`` and ``checked_by`` return."""

DIRECTORY_VARIABLE: Final = "TIDELOG_DIR"
"""The environment variable that names the directory where ``-d`` is not given."""
READ_COMMITTED: Final = Isolation.READ_COMMITTED

_SIGNALS: Final = {ExitCode.INTERRUPTED, ExitCode.TERMINATED}
DIRECTORY_WORD: Final = "directory_word"
"""The destination of DIR as the first word of a command."""
EXIT_CODES: Final = "exit codes: {}; {}".format(
    ", ".join(f"{code} {code.summary}" for code in ExitCode if code not in _SIGNALS),
    ", ".join(f"{code} {code.summary}" for code in sorted(_SIGNALS)),
)
TIME_FORMAT: Final = """\
TIME: milliseconds since 1970-01-01; a date and time such as 2026-11-21T14:30, in UTC
unless it names a zone; or a distance such as 90s, 30m, 1h, 2d or 1w: that long ago
(+1h: from now)."""


class Command(NamedTuple):
    """A command, or a job of one: what the user types, and what may follow it.

    ``text`` is its line in ``tidelog --help``, ``epilog`` the end of its own help, before the exit
    codes. ``printed_events`` are log events that it reports itself, in its own output; None: it
    does not print what is logged, so ``-v``, ``-q`` and ``--progress`` are not options of it.
    """

    name: str
    text: str
    parts: tuple[Part, ...]
    epilog: str | None = None
    printed_events: Collection[str] | None = ()

    def add_to(self, commands: Commands) -> CommandParser:
        """Add it to the command line, or to the jobs of its command."""
        parser = commands.add_parser(
            self.name,
            help=self.text,
            description=self.text[:1].upper() + self.text[1:] + ".",
            epilog=f"{self.epilog}\n\n{EXIT_CODES}" if self.epilog else EXIT_CODES,
        )
        parts = self.parts
        if self.printed_events is not None:
            parser.set_defaults(printed_events=self.printed_events, progress=Shown.ON_TERMINAL)
            parts = (*_SHOWN, *parts)
        for part in parts:
            part(parser)
        return parser


def argument(*names: str, **given: Any) -> Part:  # noqa: ANN401 - those of argparse
    """Return an option or a positional argument: what ``add_argument`` of argparse takes."""
    return methodcaller("add_argument", *names, **given)


def checked_by(check: Check) -> Part:
    """Return a check of the whole command line; see ``CommandParser.check_with``."""
    return methodcaller("check_with", check)


def exclusive(*options: Part) -> Part:
    """Return options of which one may be given."""

    def add(parser: CommandParser) -> None:
        group = parser.add_mutually_exclusive_group()
        for option in options:
            option(group)

    return add


_SHOWN: Final = (
    argument("-v", "--verbose", action="store_true", help="log each step to standard error"),
    exclusive(
        argument(
            "-q",
            "--quiet",
            action="store_const",
            const=Shown.NEVER,
            dest="progress",
            help="do not show progress",
        ),
        argument(
            "--progress",
            action="store_const",
            const=Shown.ALWAYS,
            help="show progress even if standard error is not a terminal",
        ),
    ),
)


def directory_option(text: str, *names: str) -> Part:
    """Return an option that names one more directory; ``text`` is its help."""
    return argument(
        *(names or ("-d", "--dir")),
        action="append",
        default=[],
        type=directory_name,
        metavar="DIR",
        dest="directories",
        help=text,
    )


def _directories(what: str, *, is_one: bool = False) -> tuple[Part, ...]:
    """Return DIR and ``-d DIR``; other positional arguments come after it."""
    return (
        argument(
            DIRECTORY_WORD,
            metavar="DIR",
            nargs="?" if is_one else "*",
            default=[],
            help="the same as -d DIR",
        ),
        directory_option(f"{what} (default: ${DIRECTORY_VARIABLE})"),
        lambda parser: parser.check_with(partial(_take_directories, parser, is_one=is_one)),
    )


def _take_directories(parser: CommandParser, args: Namespace, *, is_one: bool) -> str | None:
    """Take directories from ``-d``, the first words or the environment; return an error if none.

    A word is a directory if it can be nothing else, or if neither ``-d`` nor the environment
    variable names one. The remaining words are for the arguments that follow.
    """
    arguments = [one for one in parser.actions if not one.option_strings and one.choices is None]
    words = [word for one in arguments for word in _words_of(args, one)]
    usual = os.environ.get(DIRECTORY_VARIABLE)
    count = count_directories(
        words, is_one=is_one, is_lone=len(arguments) == 1, is_given=bool(args.directories)
    )
    directories, words = [*words[:count], *args.directories], words[count:]
    for word in directories[:count]:
        if not (_is_path(word) or _is_directory(word)):
            other = next(filter(_is_directory, words), None)
            order = "" if other is None else f"; the directory comes first: {other} {word}"
            return f"{word} is not a directory: name one with -d DIR or {DIRECTORY_VARIABLE}{order}"
    if not directories and usual:
        directories = [usual]
    if not directories:
        return f"no directory given: use -d DIR or set {DIRECTORY_VARIABLE}"
    if is_one and len(directories) > 1:
        hint = ""
        if hasattr(args, "partition"):
            hint = (
                ": choose a partition of one of them (-p N), or start a service over both and name"
                " either"
            )
        return f"{' and '.join(directories)}: this command takes one directory{hint}"
    args.directories = directories
    if is_one:
        from tidelog.env.paths import NOT_A_DIRECTORY, is_uri  # --help needs no paths

        if is_uri(directories[0]):
            return f"{directories[0]}: {NOT_A_DIRECTORY}"
        args.directory = directories[0]
    delattr(args, DIRECTORY_WORD)
    return _hand_out(args, arguments[1:], words)


def count_directories(words: Sequence[str], *, is_one: bool, is_lone: bool, is_given: bool) -> int:
    """Return how many words are directories, from the first on.

    ``is_one``: the command takes one directory. ``is_lone``: it takes no other words. ``is_given``:
    ``-d`` names one.
    """
    if is_one and is_given and not is_lone:
        return 0  # what is a path may be a topic or a transaction of that directory
    is_named = is_given or bool(os.environ.get(DIRECTORY_VARIABLE))
    for count, word in enumerate(words[:1] if is_one else words):
        is_first = count == 0 and not is_named
        if not word or not (is_lone or is_first or _is_path(word)):
            return count
    return min(len(words), 1) if is_one else len(words)


def _words_of(args: Namespace, argument: Action) -> list[str]:
    value = getattr(args, argument.dest)
    return value if isinstance(value, list) else [] if value is None else [value]


def _hand_out(args: Namespace, arguments: Sequence[Action], words: list[str]) -> str | None:
    """Give each argument its words; return an error if some are missing or left over."""
    for argument in arguments:
        count = len(words) if argument.nargs in {"*", "+"} else 1
        taken, words = words[:count], words[count:]
        if not taken and argument.nargs in {None, "+"}:
            return f"the following arguments are required: {argument.metavar}"
        single = taken[0] if taken else None
        setattr(args, argument.dest, taken if argument.nargs in {"*", "+"} else single)
    return f"unrecognized arguments: {' '.join(words)}" if words else None


def _is_path(word: str) -> bool:
    """Return whether a word can only be a directory.

    Groups and transactions may have a slash in their names.
    """
    if word in {os.curdir, os.pardir} or word.startswith(("/", "./", "../")) or "://" in word:
        return True
    return os.sep in word and _is_directory(word)


def _is_directory(path: str) -> bool:
    from tidelog.env.system_files import SYSTEM_FILES  # --help needs no files

    try:
        return SYSTEM_FILES.stat(path).is_directory
    except (OSError, ValueError):  # ValueError: a zero byte
        return False


def partition_option(text: str, *, required: bool = False) -> Part:
    """Return ``-p N``: one partition instead of all; the word all stands for all."""
    return argument(
        "-p",
        "--partition",
        type=either(whole(), all=None),
        required=required,
        metavar="N",
        help=text,
    )


def partitions_option(text: str, *, required: bool = False) -> Part:
    """Return ``-p N`` of a command that makes partitions: how many there are to be."""
    return argument(
        "-p",
        "--partitions",
        type=whole(1, rule="a topic has at least 1 partition"),
        required=required,
        metavar="N",
        help=text,
    )


def json_option(text: str) -> Part:
    """Return ``--json``; ``text`` is its help, as below."""
    return argument("--json", action="store_true", help=text)


def dry_run_option(text: str) -> Part:
    """Return ``--dry-run``."""
    return argument("--dry-run", action="store_true", help=text)


def target_option(text: str, *, required: bool = False) -> Part:
    """Return ``--to DIR``, the data directory that a command writes to."""
    return argument(
        "--to", type=target_name, metavar="DIR", dest="target", required=required, help=text
    )


def txn_option(text: str) -> Part:
    """Return ``--txn ID``, the id of the transaction that a command commits."""
    return argument("--txn", metavar="ID", help=text)


USUAL_ENCODING: Final = "utf8"


def encoding_option(text: str, default: str | None = USUAL_ENCODING) -> Part:
    """Return ``--encoding``."""
    return argument(
        "--encoding",
        choices=(USUAL_ENCODING, "base64", "hex", "json"),
        default=default,
        help=text,
    )


def compression_option(text: str, default: str | None = None) -> Part:
    """Return ``--compression``, the codec of the batches that a command writes."""
    return argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default=default,
        help=text,
    )


def isolation_option(default: Isolation) -> Part:
    """Return ``--isolation``."""
    return argument(
        "--isolation",
        choices=(str(Isolation.READ_UNCOMMITTED), str(READ_COMMITTED)),
        default=str(default),
        help=f"read_committed omits aborted and open transactions (default {default})",
    )


def range_options(start: str, end: str, *, can_start_at_end: bool = False) -> tuple[Part, Part]:
    """Return ``--from`` and ``--to``, the offsets of a range; ``start``, ``end`` are their help."""
    return (
        argument(
            "--from",
            type=either(whole(), "end") if can_start_at_end else whole(),
            metavar="OFFSET",
            dest="start_offset",
            help=start,
        ),
        argument("--to", type=whole(), metavar="OFFSET", dest="end_offset", help=end),
    )


def time_option(
    name: str, text: str, *, metavar: str = "TIME", read: Callable[[str], int | str] = time_ms
) -> Part:
    """Return an option that takes a point in time; the end of the help says how one is given."""

    def add(parser: CommandParser) -> None:
        parser.add_argument(name, type=read, metavar=metavar, help=text)
        if TIME_FORMAT not in str(parser.epilog):
            parser.epilog = f"{TIME_FORMAT}\n\n{parser.epilog}"

    return add


DIRECTORY: Final = _directories("data directory", is_one=True)
"""The one data directory that a command acts on."""
WHOLE_DIRECTORIES: Final = _directories("data directory; repeatable, if topics are in several")
"""Data directories, for a command that takes whole topics only."""
_ALLOW_PARTIAL: Final = argument(
    "--allow-partial",
    action="store_true",
    help="leave out the partitions of topics that are in other data directories than those"
    " given, which are an error otherwise",
)
DIRECTORIES: Final = (*WHOLE_DIRECTORIES, _ALLOW_PARTIAL)
"""Data directories that a command reads."""
PLACES: Final = (
    *_directories(
        "data directory, or one partition's directory; repeatable, if topics are in several"
    ),
    _ALLOW_PARTIAL,
)
"""Data directories, or those of partitions, that a command reads."""
TOPIC: Final = argument("topic", metavar="TOPIC")
OPTIONAL_TOPIC: Final = argument(
    "topic", metavar="TOPIC", nargs="?", help="may be omitted if DIR holds only one topic"
)
TOPICS: Final = argument(
    "topics", metavar="TOPIC", nargs="*", default=[], help="only these topics (default: all)"
)
PARTITION: Final = partition_option("only this partition (default: all)")
LOGS: Final = (*PLACES, TOPICS, PARTITION)
"""What chooses logs."""
SETTINGS: Final = argument(
    "-o",
    "--option",
    action="append",
    default=[],
    type=key_value,
    metavar="KEY=VALUE",
    dest="options",
    help="a Kafka setting, such as retention.ms=-1; repeatable",
)
SERVER_PROPERTIES: Final = argument(
    "--server-properties",
    metavar="FILE",
    help="the server.properties of the broker that wrote DIR: used for settings that"
    " neither the topics nor the cluster metadata in DIR name",
)
"""For commands that depend on the settings of topics."""
JSON: Final = json_option("print JSON instead of text")
DRY_RUN: Final = dry_run_option("only print what would be deleted")
NOW: Final = time_option(
    "--now", "the current time to assume, such as +1d (default: the system clock)"
)
"""For commands whose result depends on the time of day."""
FULL: Final = argument(
    "--full",
    action="store_true",
    help="check every segment from the first on, even after a clean shutdown",
)
"""For commands that recover logs."""
ENCODING: Final = encoding_option(
    "how keys, values and header values are printed (default utf8; those that are not"
    " UTF-8 are in base64, and their row names the encoding); json: values that are JSON as"
    " JSON, the rest as utf8"
)
LOG_END: Final = "logEnd"
UP_TO: Final = argument(
    "--up-to",
    choices=("highWatermark", LOG_END),
    default="highWatermark",
    dest="up_to",
    help="where reading ends (default highWatermark)",
)
VISIBILITY: Final = UP_TO, isolation_option(Isolation.READ_UNCOMMITTED)
"""Which records a reader sees."""


def _check_force(args: Namespace) -> str | None:
    return "--force is for --output FILE" if args.force and args.output is None else None


OUTPUT: Final = (
    argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to a new file, whole or not at all; what precedes damage is left in"
        " FILE.incomplete",
    ),
    argument("--force", action="store_true", help="replace a file of that name"),
    checked_by(_check_force),
)
"""For commands that print rows; see ``output_file.opened_output``."""


def broker_options(dry_run: str) -> tuple[Part, ...]:
    """Return all options of a command that takes all data directories of a broker."""
    return (
        *WHOLE_DIRECTORIES,
        directory_option("the same as -d DIR", "--more"),
        SERVER_PROPERTIES,
        dry_run_option(dry_run),
        JSON,
    )
