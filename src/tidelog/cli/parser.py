"""The command line's words: every command, its options and their help.

Owns what the user may type. Must not import anything heavy: ``tidelog --help`` answers before NumPy
could be loaded. What a command does stands in the module of its name beside this one.
"""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from typing import TYPE_CHECKING, Final

from tidelog.cli.argument_parser import CommandParser
from tidelog.cli.arguments import (
    directory_name,
    key_value,
    not_negative,
    offset_target,
    positive,
    time_ms,
)

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[CommandParser]

DESCRIPTION: Final = """\
Kafka's log in Python: look into, write and repair log directories, byte for byte as Kafka does.

A data directory holds one directory per partition, named <topic>-<partition>.
"""

READ_COMMITTED: Final = "read_committed"

EXIT_CODES: Final = (
    "exit codes: 0 fine, 1 the data is bad, 2 the usage is wrong; 130 Ctrl-C, 143 SIGTERM"
)
_TIME: Final = (
    "TIME: milliseconds since 1970, or as 2026-11-21T14:30, in UTC unless it says another zone"
)


def make_parser() -> CommandParser:
    """Return the parser of the whole command line; ``args.command`` names the command."""
    parser = CommandParser(
        prog="tidelog",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for add in _COMMANDS:
        add(commands)
    return parser


def _command(
    commands: Commands,
    name: str,
    text: str,
    epilog: str | None = None,
    *,
    has_verbose: bool = True,
) -> CommandParser:
    parser = commands.add_parser(
        name,
        help=text,
        description=text[:1].upper() + text[1:] + ".",
        epilog=f"{epilog}\n\n{EXIT_CODES}" if epilog else EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if has_verbose:
        parser.add_argument(
            "-v",
            "--verbose",
            action="store_true",
            help="tell each step as a log line on standard error",
        )
    return parser


def _directory(parser: CommandParser, *, partition: bool = False) -> None:
    what = "data directory" + (", or one partition's directory" if partition else "")
    parser.add_argument(
        "-d",
        "--dir",
        required=True,
        type=directory_name,
        metavar="DIR",
        dest="directory",
        help=what,
    )


def _settings(parser: CommandParser) -> None:
    parser.add_argument(
        "-o",
        "--option",
        action="append",
        default=[],
        type=key_value,
        metavar="KEY=VALUE",
        dest="options",
        help="a Kafka setting, as retention.ms=-1; may be given again",
    )


def _json(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _create(commands: Commands) -> None:
    parser = _command(commands, "create", "create a topic")
    parser.add_argument("topic", metavar="TOPIC")
    _directory(parser)
    parser.add_argument(
        "-p", "--partitions", type=positive, default=1, metavar="N", help="how many (default 1)"
    )
    _settings(parser)


def _move(commands: Commands) -> None:
    parser = _command(
        commands,
        "move",
        "move partitions of a topic to another data directory",
        "A service that runs on the directory does it itself, while records come and go.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    _directory(parser)
    parser.add_argument(
        "--to",
        required=True,
        type=directory_name,
        metavar="DIR",
        dest="target",
        help="data directory to which they go; a service must have it among its own",
    )
    parser.add_argument("-p", "--partition", type=not_negative, metavar="N", help="this one only")


def _delete(commands: Commands) -> None:
    parser = _command(commands, "delete", "delete topics with all their records")
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    _directory(parser)
    _dry_run(parser, "only say what would be deleted")


def _alter(commands: Commands) -> None:
    parser = _command(commands, "alter", "change a topic's settings")
    parser.add_argument("topic", metavar="TOPIC")
    _directory(parser)
    _settings(parser)
    parser.add_argument(
        "--unset",
        action="append",
        default=[],
        metavar="KEY",
        help="let a setting be the default again; may be given again",
    )


def _run(commands: Commands) -> None:
    parser = _command(
        commands,
        "run",
        "keep logs open, flushing, retaining and compacting, until told to stop",
        "Settings come from -o, from variables TIDELOG_<KEY> and from the file, in this order.\n"
        "SIGTERM and SIGINT stop the service, SIGHUP lets it read its settings again.",
        has_verbose=False,
    )
    parser.add_argument(
        "-d",
        "--dir",
        action="append",
        default=[],
        metavar="DIR",
        dest="directories",
        help="data directory; may be given again; else log.dirs of the settings",
    )
    parser.add_argument("--config", metavar="FILE", help="a properties file, as Kafka's")
    _settings(parser)
    parser.add_argument(
        "--log-level",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        default="INFO",
        help="how much to tell on standard error (default INFO)",
    )


def _metrics(commands: Commands) -> None:
    parser = _command(
        commands,
        "metrics",
        "print metrics in Prometheus' form: a running service's, else of the logs as they lie",
    )
    _directory(parser)
    _json(parser)


def _append(commands: Commands) -> None:
    parser = _command(
        commands,
        "append",
        "append records to a topic, from a file or standard input",
        'a record as JSON: {"key": text, "value": text, "headers": [[name, text], …],'
        ' "timestamp": ms, "partition": number}\neach member may be left out; text may be null',
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("file", metavar="FILE", nargs="?", help="input (default: standard input)")
    _directory(parser)
    parser.add_argument(
        "--format",
        choices=("auto", "lines", "json"),
        default="auto",
        help="lines: each line is a value; json: each line is a record; auto (the default): json"
        " where the first line is such a record",
    )
    _encoding(parser)
    parser.add_argument(
        "-p", "--partition", type=not_negative, metavar="N", help="append to this one only"
    )
    parser.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="codec of the batches (default none)",
    )
    _settings(parser)


def _visibility(parser: CommandParser) -> None:
    parser.add_argument(
        "--up-to",
        choices=("highWatermark", "logEnd"),
        default="highWatermark",
        dest="up_to",
        help="how far to read (default highWatermark)",
    )
    parser.add_argument(
        "--isolation",
        choices=("read_uncommitted", READ_COMMITTED),
        default="read_uncommitted",
        help="read_committed leaves out what is aborted or still open (default read_uncommitted)",
    )


def _encoding(parser: CommandParser) -> None:
    parser.add_argument(
        "--encoding",
        choices=("utf8", "base64", "hex"),
        default="utf8",
        help="how keys, values and header values are written as text (default utf8)",
    )


def _cat(commands: Commands) -> None:
    parser = _command(commands, "cat", "print a topic's records as JSON lines", _TIME)
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="may be left out where -d tells")
    _directory(parser, partition=True)
    parser.add_argument("-p", "--partition", type=not_negative, metavar="N", help="this one only")
    parser.add_argument(
        "--from", type=not_negative, metavar="OFFSET", dest="start_offset", help="first offset"
    )
    parser.add_argument(
        "--to", type=not_negative, metavar="OFFSET", dest="end_offset", help="end, exclusive"
    )
    parser.add_argument(
        "--since",
        type=time_ms,
        metavar="TIME",
        help="only records with that timestamp or a later one",
    )
    parser.add_argument(
        "--until", type=time_ms, metavar="TIME", help="only records with an earlier timestamp"
    )
    _visibility(parser)
    parser.add_argument(
        "-n", "--limit", type=not_negative, metavar="N", help="at most N records a partition"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with records that come, until Ctrl-C"
    )
    _encoding(parser)


def _offsets(commands: Commands) -> None:
    parser = _command(
        commands,
        "offsets",
        "print where partitions start and end, or are at a time, a line of JSON for each",
        _TIME,
    )
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="may be left out where -d tells")
    _directory(parser, partition=True)
    parser.add_argument("-p", "--partition", type=not_negative, metavar="N", help="this one only")
    parser.add_argument(
        "--at",
        type=offset_target,
        metavar="WHEN",
        help="earliest, latest, max-timestamp or a TIME: the one offset that goes with it",
    )
    _visibility(parser)
    parser.add_argument("--json", action="store_true", help="what it prints anyway")


def _dump(commands: Commands) -> None:
    parser = _command(commands, "dump", "print any one file of a log as JSON lines")
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a .log, .index, .timeindex, .txnindex, .snapshot or checkpoint file, meta.properties,"
        " partition.metadata or tidelog.topics.json",
    )
    parser.add_argument("--records", action="store_true", help="print the records of a .log, too")
    parser.add_argument(
        "--from",
        type=not_negative,
        metavar="OFFSET",
        dest="start_offset",
        help="leave out what of a .log lies below this offset",
    )
    parser.add_argument(
        "--to",
        type=not_negative,
        metavar="OFFSET",
        dest="end_offset",
        help="end before this offset; a batch is shown whole if one of its offsets is in the range",
    )
    _encoding(parser)


def _describe(commands: Commands) -> None:
    parser = _command(commands, "describe", "show topics: segments, sizes, offsets, a picture")
    parser.add_argument(
        "topics", metavar="TOPIC", nargs="*", default=[], help="only these (default: all)"
    )
    _directory(parser, partition=True)
    _json(parser)


def _picture(commands: Commands) -> None:
    parser = _command(commands, "picture", "draw logs as text: segments, offsets, watermarks")
    parser.add_argument(
        "topics", metavar="TOPIC", nargs="*", default=[], help="only these (default: all)"
    )
    _directory(parser, partition=True)
    parser.add_argument(
        "--width",
        type=positive,
        metavar="COLUMNS",
        help="how wide (default: the terminal's width)",
    )
    _json(parser)


def _recover(commands: Commands) -> None:
    parser = _command(commands, "recover", "check logs after a crash, and cut what is torn")
    _chosen_topics(parser)
    _dry_run(parser, "only say what would be cut; 1 if anything would")
    _full(parser)
    _acting(parser)


def _retain(commands: Commands) -> None:
    parser = _command(commands, "retain", "delete the segments that retention allows to go")
    _chosen_topics(parser)
    _acting(parser)


def _compact(commands: Commands) -> None:
    parser = _command(commands, "compact", "clean compacted topics once, whatever their dirt")
    _chosen_topics(parser)
    _acting(parser)


def _cleaner(commands: Commands) -> None:
    parser = _command(commands, "cleaner", "say how far compacted topics are cleaned, and why")
    parser.add_argument("operation", choices=("status",))
    _chosen_topics(parser)
    _acting(parser)


def _delete_records(commands: Commands) -> None:
    parser = _command(commands, "delete-records", "delete a topic's records below an offset")
    parser.add_argument("topic", metavar="TOPIC")
    _directory(parser, partition=True)
    parser.add_argument(
        "--before",
        type=int,
        required=True,
        metavar="OFFSET",
        help="the new log start offset; -1: the high watermark",
    )
    parser.add_argument("-p", "--partition", type=not_negative, metavar="N", help="this one only")
    _dry_run(parser, "only say what would be deleted")
    _acting(parser)


def _plan(commands: Commands) -> None:
    parser = _command(commands, "plan", "say what an operation would do; change nothing")
    parser.add_argument("operation", choices=("recovery", "retention", "compaction"))
    _chosen_topics(parser)
    _full(parser)
    _acting(parser)


def _verify(commands: Commands) -> None:
    parser = _command(commands, "verify", "check everything in partition directories")
    _chosen_topics(parser)
    _settings(parser)
    _json(parser)


def _dry_run(parser: CommandParser, text: str) -> None:
    parser.add_argument("--dry-run", action="store_true", help=text)


def _chosen_topics(parser: CommandParser) -> None:
    parser.add_argument(
        "topics", metavar="TOPIC", nargs="*", default=[], help="only these (default: all)"
    )
    _directory(parser, partition=True)


def _full(parser: CommandParser) -> None:
    parser.add_argument(
        "--full",
        action="store_true",
        help="check from the first segment on, even after a clean shutdown",
    )


def _acting(parser: CommandParser) -> None:
    parser.add_argument(
        "--now",
        type=time_ms,
        metavar="TIME",
        help="what time it is (default: the clock's); in ms, or"
        " as 2026-11-21T14:30, in UTC unless it says another zone",
    )
    _settings(parser)
    _json(parser)


def _warm(commands: Commands) -> None:
    parser = _command(commands, "warm", "compile all kernels now, so that nothing waits later")
    _json(parser)


_COMMANDS: Final = (
    _create,
    _delete,
    _alter,
    _move,
    _append,
    _cat,
    _offsets,
    _dump,
    _describe,
    _picture,
    _verify,
    _recover,
    _retain,
    _compact,
    _cleaner,
    _delete_records,
    _plan,
    _run,
    _metrics,
    _warm,
)
