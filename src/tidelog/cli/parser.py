"""The command line's words: every command, its options and their help.

Owns what the user may type. Must not import anything heavy: ``tidelog --help`` answers before NumPy
could be loaded. What a command does stands in the module of its name beside this one.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from argparse import Namespace, _SubParsersAction
    from collections.abc import Sequence

DESCRIPTION: Final = """\
Kafka's log in Python: look into, write and repair log directories, byte for byte as Kafka does.

A data directory holds one directory per partition, named <topic>-<partition>.
"""

READ_COMMITTED: Final = "read_committed"

EXIT_CODES: Final = "exit codes: 0 fine, 1 the data is bad, 2 the usage is wrong"


class CommandParser(ArgumentParser):
    """A command's parser, which takes options before, between and behind the other words."""

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


def make_parser() -> ArgumentParser:
    """Return the parser of the whole command line; ``args.command`` names the command."""
    parser = ArgumentParser(
        prog="tidelog",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    made_by: type[ArgumentParser] = CommandParser
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=made_by
    )
    for add in _COMMANDS:
        add(commands)
    return parser


def _command(
    commands: _SubParsersAction[ArgumentParser], name: str, text: str, epilog: str | None = None
) -> ArgumentParser:
    return commands.add_parser(
        name,
        help=text,
        description=text[:1].upper() + text[1:] + ".",
        epilog=epilog or EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _directory(parser: ArgumentParser, *, partition: bool = False) -> None:
    what = "data directory" + (", or one partition's directory" if partition else "")
    parser.add_argument("-d", "--dir", required=True, metavar="DIR", dest="directory", help=what)


def _settings(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--option",
        action="append",
        default=[],
        type=_key_value,
        metavar="KEY=VALUE",
        dest="options",
        help="a Kafka setting, as retention.ms=-1; may be given again",
    )


def _json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _create(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "create", "create a topic")
    parser.add_argument("topic", metavar="TOPIC")
    _directory(parser)
    parser.add_argument(
        "-p", "--partitions", type=_positive, default=1, metavar="N", help="how many (default 1)"
    )
    _settings(parser)


def _delete(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "delete", "delete topics with all their records")
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    _directory(parser)


def _alter(commands: _SubParsersAction[ArgumentParser]) -> None:
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


def _run(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(
        commands,
        "run",
        "keep logs open, flushing, retaining and compacting, until told to stop",
        "Settings come from -o, from variables TIDELOG_<KEY> and from the file, in this order.\n"
        "SIGTERM and SIGINT stop the service, SIGHUP lets it read its settings again.\n"
        + EXIT_CODES,
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


def _metrics(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(
        commands,
        "metrics",
        "print metrics in Prometheus' form: a running service's, else of the logs as they lie",
    )
    _directory(parser)
    _json(parser)


def _append(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(
        commands,
        "append",
        "append records to a topic, from a file or standard input",
        'a record as JSON: {"key": text, "value": text, "headers": [[name, text], …],'
        ' "timestamp": ms, "partition": number}\nevery member may be left out, and text may be null'
        f"\n\n{EXIT_CODES}",
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
        "-p", "--partition", type=_not_negative, metavar="N", help="append to this one only"
    )
    parser.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="codec of the batches (default none)",
    )
    _settings(parser)


def _visibility(parser: ArgumentParser) -> None:
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


def _encoding(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--encoding",
        choices=("utf8", "base64", "hex"),
        default="utf8",
        help="how keys, values and header values are written as text (default utf8)",
    )


def _cat(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "cat", "print a topic's records as JSON lines")
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="may be left out where -d tells")
    _directory(parser, partition=True)
    parser.add_argument("-p", "--partition", type=_not_negative, metavar="N", help="this one only")
    parser.add_argument(
        "--from", type=_not_negative, metavar="OFFSET", dest="start_offset", help="first offset"
    )
    parser.add_argument(
        "--to", type=_not_negative, metavar="OFFSET", dest="end_offset", help="end, exclusive"
    )
    parser.add_argument(
        "--since", type=int, metavar="MS", help="only records with a timestamp of MS or later"
    )
    parser.add_argument(
        "--until", type=int, metavar="MS", help="only records with a timestamp before MS"
    )
    _visibility(parser)
    parser.add_argument(
        "-n", "--limit", type=_not_negative, metavar="N", help="at most N records a partition"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with records that come, until Ctrl-C"
    )
    _encoding(parser)


def _offsets(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "offsets", "print where partitions start and end, or are at a time")
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="may be left out where -d tells")
    _directory(parser, partition=True)
    parser.add_argument("-p", "--partition", type=_not_negative, metavar="N", help="this one only")
    parser.add_argument(
        "--at",
        type=_offset_target,
        metavar="WHEN",
        help="earliest, latest, max-timestamp or a time in ms: the one offset that goes with it",
    )
    _visibility(parser)
    _json(parser)


def _dump(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "dump", "print any one file of a log as JSON lines")
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a .log, .index, .timeindex, .txnindex, .snapshot or checkpoint file",
    )
    parser.add_argument("--records", action="store_true", help="print the records of a .log, too")
    parser.add_argument("--from", type=_not_negative, metavar="OFFSET", dest="start_offset")
    parser.add_argument("--to", type=_not_negative, metavar="OFFSET", dest="end_offset")
    _encoding(parser)


def _describe(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "describe", "show topics: segments, sizes, offsets, a picture")
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="only these (default: all)")
    _directory(parser, partition=True)
    _json(parser)


def _picture(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "picture", "draw logs as text: segments, offsets, watermarks")
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="only these (default: all)")
    _directory(parser, partition=True)
    parser.add_argument("--width", type=_positive, default=None, metavar="COLUMNS")


def _recover(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "recover", "check logs after a crash, and cut what is torn")
    _chosen_topics(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be cut; 1 if anything would"
    )
    _full(parser)
    _acting(parser)


def _retain(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "retain", "delete the segments that retention allows to go")
    _chosen_topics(parser)
    _acting(parser)


def _compact(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "compact", "clean compacted topics once, whatever their dirt")
    _chosen_topics(parser)
    _acting(parser)


def _cleaner(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "cleaner", "say how far compacted topics are cleaned, and why")
    parser.add_argument("operation", choices=("status",))
    _chosen_topics(parser)
    _acting(parser)


def _delete_records(commands: _SubParsersAction[ArgumentParser]) -> None:
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
    parser.add_argument("-p", "--partition", type=_not_negative, metavar="N", help="this one only")
    _acting(parser)


def _plan(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "plan", "say what an operation would do; change nothing")
    parser.add_argument("operation", choices=("recovery", "retention", "compaction"))
    _chosen_topics(parser)
    _full(parser)
    _acting(parser)


def _verify(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "verify", "check everything in partition directories")
    _chosen_topics(parser)
    _settings(parser)
    _json(parser)


def _chosen_topics(parser: ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="only these (default: all)")
    _directory(parser, partition=True)


def _full(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--full",
        action="store_true",
        help="check from the first segment on, even after a clean shutdown",
    )


def _acting(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--now", type=_not_negative, metavar="MS", help="what time it is (default: the clock's)"
    )
    _settings(parser)
    _json(parser)


def _warm(commands: _SubParsersAction[ArgumentParser]) -> None:
    parser = _command(commands, "warm", "compile all kernels now, so that nothing waits later")
    _json(parser)


def _offset_target(text: str) -> str | int:
    return text if text in {"earliest", "latest", "max-timestamp"} else _not_negative(text)


def _key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _not_negative(text: str) -> int:
    return _at_least(0, text)


def _positive(text: str) -> int:
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < least:
        raise ArgumentTypeError(f"{number} is below {least}")
    return number


_COMMANDS: Final = (
    _create,
    _delete,
    _alter,
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
