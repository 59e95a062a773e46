"""The ``tidelog`` command: find the command's module, run it, turn errors into exit codes.

Owns exit codes and what the user sees of an error. Must not know what any command does.
"""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Final

from tidelog.cli.parser import make_parser
from tidelog.errors import (
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    TidelogError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedPlatform,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

OK: Final = 0
BAD_DATA: Final = 1
BAD_USAGE: Final = 2

_USAGE_ERRORS: Final = (
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedPlatform,
    FileNotFoundError,
    NotADirectoryError,
    IsADirectoryError,
    PermissionError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 when fine, 1 when the data is bad, 2 when the usage is wrong."""
    parser = make_parser()
    args = parser.parse_args(argv)
    if args.version:
        print(f"tidelog {metadata.version('tidelog')}")
        return OK
    if args.command is None:
        parser.print_help(sys.stderr)
        return BAD_USAGE
    try:
        code: int = import_module(f"tidelog.cli.{args.command}").run(args)
        sys.stdout.flush()
    except _USAGE_ERRORS as error:
        return _fail(args.command, error, BAD_USAGE)
    except BrokenPipeError:
        # The reader of our output has left, as `| head` does. The interpreter must not try to
        # write the rest when it ends.
        sys.stdout = None
        return OK
    except (TidelogError, OSError) as error:
        return _fail(args.command, error, BAD_DATA)
    except KeyboardInterrupt:
        return 130
    return code


def _fail(command: str, error: Exception, code: int) -> int:
    sys.stdout.flush()
    text = str(error) or type(error).__name__
    print(f"tidelog {command}: {text}", file=sys.stderr)
    return code
