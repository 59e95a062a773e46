"""The options that several commands share, each declared once.

A command's own options are in its module under ``commands``. Nothing here or at the top of those
modules imports NumPy or other slow packages, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from argparse import RawDescriptionHelpFormatter
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import directory_name, key_value, partition_or_all, time_ms
from tidelog.cli.shown import Shown
from tidelog.errors import ExitCode
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from argparse import Namespace, _SubParsersAction
    from collections.abc import Callable, Collection

    from tidelog.cli.argument_parser import CommandParser

    Commands = _SubParsersAction[CommandParser]

DIRECTORY_VARIABLE: Final = "TIDELOG_DIR"
"""The environment variable that names the directory where ``-d`` is not given."""
READ_COMMITTED: Final = Isolation.READ_COMMITTED

_SIGNALS: Final = {ExitCode.INTERRUPTED, ExitCode.TERMINATED}
EXIT_CODES: Final = "exit codes: {}; {}".format(
    ", ".join(f"{code} {code.summary}" for code in ExitCode if code not in _SIGNALS),
    ", ".join(f"{code} {code.summary}" for code in sorted(_SIGNALS)),
)
TIME_FORMAT: Final = (
    "TIME: milliseconds since 1970-01-01, or a date and time such as 2026-11-21T14:30;"
    " UTC unless it names a zone"
)


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
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_directory(parser: CommandParser, *, may_be_partition: bool = False) -> None:
    """Add ``-d DIR``: a data directory or, where ``may_be_partition``, one of its partitions."""
    _add_directory_option(parser, may_be_partition=may_be_partition)
    parser.check_with(_take_directory)


def add_lone_directory(parser: CommandParser) -> None:
    """Add ``-d DIR`` and DIR, for a command that takes nothing else."""
    parser.add_argument("words", metavar="DIR", nargs="?", help="the same as -d DIR")
    _add_directory_option(parser, may_be_partition=False)
    parser.check_with(_take_directory_or_word)


def add_broker_directories(parser: CommandParser, dry_run: str) -> None:
    """Add all options of a command that takes all data directories of a broker."""
    add_lone_directory(parser)
    parser.add_argument(
        "--more",
        action="append",
        default=[],
        type=directory_name,
        metavar="DIR",
        help="a further data directory of the same broker; repeatable",
    )
    add_server_properties(parser)
    add_dry_run(parser, dry_run)
    add_json(parser)


def _add_directory_option(parser: CommandParser, *, may_be_partition: bool) -> None:
    what = "data directory" + (", or one partition's directory" if may_be_partition else "")
    parser.add_argument(
        "-d",
        "--dir",
        type=directory_name,
        metavar="DIR",
        dest="directory",
        help=f"{what} (default: ${DIRECTORY_VARIABLE})",
    )


def add_topic(parser: CommandParser, what: str | None = None) -> None:
    """Add TOPIC; ``what`` is its help."""
    parser.add_argument("topic", metavar="TOPIC", help=what)


def add_optional_topic(parser: CommandParser) -> None:
    """Add TOPIC, for a command that needs it only where a directory holds several topics."""
    parser.add_argument(
        "topic", metavar="TOPIC", nargs="?", help="may be omitted if DIR holds only one topic"
    )


def add_topics(parser: CommandParser, *, may_be_partition: bool = True) -> None:
    """Add any number of TOPICs and the data directory or, if allowed, one of its partitions."""
    parser.add_argument(
        "topics",
        metavar="TOPIC",
        nargs="*",
        default=[],
        help="only these topics (default: all); the first may be DIR instead of -d DIR",
    )
    _add_directory_option(parser, may_be_partition=may_be_partition)
    parser.check_with(_take_directory_or_topic)


def _take_directory(args: Namespace) -> str | None:
    """Use the environment variable if ``-d`` is not given; return an error if neither is."""
    if args.directory is None:
        args.directory = os.environ.get(DIRECTORY_VARIABLE) or None
    if args.directory is None:
        return f"no directory given: use -d DIR or set {DIRECTORY_VARIABLE}"
    return None


def _take_directory_or_word(args: Namespace) -> str | None:
    if args.words is not None:
        if args.directory is not None:
            return f"-d {args.directory} and {args.words}: give one directory"
        args.directory = args.words or None
    return _take_directory(args)


def _take_directory_or_topic(args: Namespace) -> str | None:
    """Use the first topic as the directory if it cannot be a topic, or no directory is given."""
    if args.directory is None and args.topics:
        is_path = os.sep in args.topics[0] or args.topics[0] in {os.curdir, os.pardir}
        if is_path or not os.environ.get(DIRECTORY_VARIABLE):
            args.directory, *args.topics = args.topics
    return _take_directory(args)


def add_partition(parser: CommandParser, text: str = "only this partition") -> None:
    """Add ``-p N``: one partition instead of all; the word all stands for all."""
    parser.add_argument("-p", "--partition", type=partition_or_all, metavar="N", help=text)


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


def add_now(parser: CommandParser) -> None:
    """Add ``--now``, for commands whose result depends on the time of day."""
    parser.add_argument(
        "--now",
        type=time_ms,
        metavar="TIME",
        help="the current time to assume (default: the system clock): milliseconds since"
        " 1970-01-01, or a date and time such as 2026-11-21T14:30; UTC unless it names a zone",
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


def add_encoding(parser: CommandParser) -> None:
    """Add ``--encoding``."""
    parser.add_argument(
        "--encoding",
        choices=("utf8", "base64", "hex"),
        default="utf8",
        help="how keys, values and header values are written as text (default utf8)",
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
    parser.add_argument(
        "--isolation",
        choices=(str(Isolation.READ_UNCOMMITTED), str(READ_COMMITTED)),
        default=str(Isolation.READ_UNCOMMITTED),
        help="read_committed omits aborted and open transactions (default read_uncommitted)",
    )
