"""The options that several commands share, each declared once.

A command's own options are in its module under ``commands``. Nothing here or at the top of those
modules imports NumPy or other slow packages, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import (
    directory_name,
    key_value,
    not_negative,
    offset_or_end,
    partition_count,
    partition_or_all,
    time_ms,
)
from tidelog.cli.shown import Shown
from tidelog.exit_codes import ExitCode
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from argparse import Action, Namespace, _SubParsersAction
    from collections.abc import Callable, Collection, Sequence

    from tidelog.cli.argument_parser import CommandParser

    Commands = _SubParsersAction[CommandParser]

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


def new_parser(
    commands: Commands,
    name: str,
    text: str,
    run: Callable[[Namespace], int],
    *,
    epilog: str | None = None,
    printed_events: Collection[str] = (),
) -> CommandParser:
    """Add a command to the command line, with ``-v``, ``-q`` and ``--progress``.

    Args:
        commands: the commands of the whole command line.
        name: what the user types.
        text: the command's line in ``tidelog --help``.
        run: runs the command and returns its exit code.
        epilog: shown at the end of the command's help, before the exit codes.
        printed_events: log events that the command reports itself, in its own output.
    """
    parser = new_service_parser(commands, name, text, run, epilog=epilog)
    parser.set_defaults(printed_events=printed_events, progress=Shown.ON_TERMINAL)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="log each step to standard error"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "-q",
        "--quiet",
        action="store_const",
        const=Shown.NEVER,
        dest="progress",
        help="do not show progress",
    )
    shown.add_argument(
        "--progress",
        action="store_const",
        const=Shown.ALWAYS,
        help="show progress even if standard error is not a terminal",
    )
    return parser


def new_service_parser(
    commands: Commands,
    name: str,
    text: str,
    run: Callable[[Namespace], int],
    *,
    epilog: str | None = None,
) -> CommandParser:
    """Add a command that sets up logging itself: no ``-v``, and no notices are printed for it."""
    parser = new_subparser(commands, name, text, epilog=epilog)
    parser.set_defaults(run=run)
    return parser


def new_subparser(
    commands: Commands, name: str, text: str, *, epilog: str | None = None
) -> CommandParser:
    """Add a command, or one of the jobs of a command, with its help."""
    return commands.add_parser(
        name,
        help=text,
        description=text[:1].upper() + text[1:] + ".",
        epilog=f"{epilog}\n\n{EXIT_CODES}" if epilog else EXIT_CODES,
    )


def add_directory(parser: CommandParser) -> None:
    """Add DIR and ``-d DIR``: the one data directory that a command acts on.

    Call it before the other positional arguments are added, as the first word may be DIR.
    """
    _add_directory_options(parser, "data directory", is_one=True)


def add_directories(parser: CommandParser, *, may_be_partition: bool = False) -> None:
    """Add DIR, ``-d DIR`` and ``--allow-partial``, for a command that reads several directories.

    They are data directories or, where ``may_be_partition``, those of partitions. Call it first, as
    ``add_directory``.
    """
    what = "data directory" + (", or one partition's directory" if may_be_partition else "")
    _add_several(parser, what)
    parser.add_argument(
        "--allow-partial",
        action="store_true",
        help="leave out the partitions of topics that are in other data directories than those"
        " given, which are an error otherwise",
    )


def add_whole_directories(parser: CommandParser) -> None:
    """Add DIR and ``-d DIR``, repeatable, for a command that takes whole topics only."""
    _add_several(parser, "data directory")


def _add_several(parser: CommandParser, what: str) -> None:
    _add_directory_options(parser, f"{what}; repeatable, if topics are in several", is_one=False)


def _add_directory_options(parser: CommandParser, what: str, *, is_one: bool) -> None:
    parser.add_argument(
        DIRECTORY_WORD,
        metavar="DIR",
        nargs="?" if is_one else "*",
        default=[],
        help="the same as -d DIR",
    )
    parser.add_argument(
        "-d",
        "--dir",
        action="append",
        default=[],
        type=directory_name,
        metavar="DIR",
        dest="directories",
        help=f"{what} (default: ${DIRECTORY_VARIABLE})",
    )
    parser.check_with(partial(_take_directories, parser, is_one=is_one))


def add_broker_directories(parser: CommandParser, dry_run: str) -> None:
    """Add all options of a command that takes all data directories of a broker."""
    add_whole_directories(parser)
    parser.add_argument(
        "--more",
        action="append",
        default=[],
        type=directory_name,
        metavar="DIR",
        dest="directories",
        help="the same as -d DIR",
    )
    add_server_properties(parser)
    add_dry_run(parser, dry_run)
    add_json(parser)


def add_topic(parser: CommandParser, what: str | None = None) -> None:
    """Add TOPIC; ``what`` is its help."""
    parser.add_argument("topic", metavar="TOPIC", help=what)


def add_optional_topic(parser: CommandParser) -> None:
    """Add TOPIC, for a command that needs it only where a directory holds several topics."""
    parser.add_argument(
        "topic", metavar="TOPIC", nargs="?", help="may be omitted if DIR holds only one topic"
    )


def add_topics(parser: CommandParser) -> None:
    """Add any number of TOPICs, for a command that acts on all topics if none is named."""
    parser.add_argument(
        "topics",
        metavar="TOPIC",
        nargs="*",
        default=[],
        help="only these topics (default: all)",
    )


def add_logs(parser: CommandParser) -> None:
    """Add what chooses logs: directories, TOPICs and ``-p``."""
    add_directories(parser, may_be_partition=True)
    add_topics(parser)
    add_partition(parser)


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
            return f"{word} is not a directory: name one with -d DIR or {DIRECTORY_VARIABLE}"
    if not directories and usual:
        directories = [usual]
    if not directories:
        return f"no directory given: use -d DIR or set {DIRECTORY_VARIABLE}"
    if is_one and len(directories) > 1:
        return f"{' and '.join(directories)}: this command takes one directory"
    args.directories = directories
    if is_one:
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
    if word in {os.curdir, os.pardir} or word.startswith(("/", "./", "../")):
        return True
    return os.sep in word and _is_directory(word)


def _is_directory(path: str) -> bool:
    from tidelog.env.system_files import SYSTEM_FILES  # --help needs no files

    try:
        return SYSTEM_FILES.stat(path).is_directory
    except (OSError, ValueError):  # ValueError: a zero byte
        return False


def add_partition(
    parser: CommandParser,
    text: str = "only this partition (default: all)",
    *,
    required: bool = False,
) -> None:
    """Add ``-p N``: one partition instead of all; the word all stands for all."""
    parser.add_argument(
        "-p", "--partition", type=partition_or_all, required=required, metavar="N", help=text
    )


def add_partitions(
    parser: CommandParser, text: str, *, required: bool = False, default: int | None = None
) -> None:
    """Add ``-p N`` to a command that makes partitions: how many there are to be."""
    parser.add_argument(
        "-p",
        "--partitions",
        type=partition_count,
        required=required,
        default=default,
        metavar="N",
        help=text,
    )


def add_settings(parser: CommandParser) -> None:
    """Add ``-o KEY=VALUE``."""
    parser.add_argument(
        "-o",
        "--option",
        action="append",
        default=[],
        type=key_value,
        metavar="KEY=VALUE",
        dest="options",
        help="a Kafka setting, such as retention.ms=-1; repeatable",
    )


def add_server_properties(parser: CommandParser) -> None:
    """Add ``--server-properties``, for commands that depend on the settings of topics."""
    parser.add_argument(
        "--server-properties",
        metavar="FILE",
        help="the server.properties of the broker that wrote DIR: used for settings that"
        " neither the topics nor the cluster metadata in DIR name",
    )


def add_json(parser: CommandParser, text: str = "print JSON instead of text") -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help=text)


def add_time(
    parser: CommandParser,
    name: str,
    text: str,
    *,
    metavar: str = "TIME",
    read: Callable[[str], int | str] = time_ms,
) -> None:
    """Add an option that takes a point in time, and say at the end of the help how one is given."""
    parser.add_argument(name, type=read, metavar=metavar, help=text)
    if TIME_FORMAT not in str(parser.epilog):
        parser.epilog = f"{TIME_FORMAT}\n\n{parser.epilog}"


def add_now(parser: CommandParser) -> None:
    """Add ``--now``, for commands whose result depends on the time of day."""
    add_time(parser, "--now", "the current time to assume (default: the system clock)")


def add_range(
    parser: CommandParser, start: str, end: str, *, can_start_at_end: bool = False
) -> None:
    """Add ``--from`` and ``--to``, the offsets of a range; ``start`` and ``end`` are their help."""
    parser.add_argument(
        "--from",
        type=offset_or_end if can_start_at_end else not_negative,
        metavar="OFFSET",
        dest="start_offset",
        help=start,
    )
    parser.add_argument("--to", type=not_negative, metavar="OFFSET", dest="end_offset", help=end)


def add_target_directory(parser: CommandParser, text: str, *, required: bool = False) -> None:
    """Add ``--to DIR``, the data directory that a command writes to; ``text`` is its help."""
    parser.add_argument(
        "--to", type=directory_name, metavar="DIR", dest="target", required=required, help=text
    )


def add_txn(parser: CommandParser, text: str) -> None:
    """Add ``--txn ID``, the id of the transaction that a command commits."""
    parser.add_argument("--txn", metavar="ID", help=text)


def add_compression(parser: CommandParser, text: str, default: str | None = None) -> None:
    """Add ``--compression``, the codec of the batches that a command writes."""
    parser.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default=default,
        help=text,
    )


def add_dry_run(parser: CommandParser, text: str = "only print what would be deleted") -> None:
    """Add ``--dry-run``."""
    parser.add_argument("--dry-run", action="store_true", help=text)


def add_full(parser: CommandParser) -> None:
    """Add ``--full``, for commands that recover logs."""
    parser.add_argument(
        "--full",
        action="store_true",
        help="check every segment from the first on, even after a clean shutdown",
    )


def add_encoding(
    parser: CommandParser,
    text: str = "how keys, values and header values are printed (default utf8; those that are not"
    " UTF-8 are in base64, and their row names the encoding)",
) -> None:
    """Add ``--encoding``; ``text`` is its help."""
    parser.add_argument("--encoding", choices=("utf8", "base64", "hex"), default="utf8", help=text)


def add_isolation(parser: CommandParser, default: Isolation = Isolation.READ_UNCOMMITTED) -> None:
    """Add ``--isolation``."""
    parser.add_argument(
        "--isolation",
        choices=(str(Isolation.READ_UNCOMMITTED), str(READ_COMMITTED)),
        default=str(default),
        help=f"read_committed omits aborted and open transactions (default {default})",
    )


def add_visibility(parser: CommandParser) -> None:
    """Add the options that say which records a reader sees."""
    parser.add_argument(
        "--up-to",
        choices=("highWatermark", "logEnd"),
        default="highWatermark",
        dest="up_to",
        help="where reading ends (default highWatermark)",
    )
    add_isolation(parser)
