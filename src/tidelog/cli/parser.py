"""The whole command line, put together from the modules under ``commands``.

A command line that names a command loads that command's module only; ``--help`` and a mistyped
command load them all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from tidelog.cli.argument_parser import CommandParser
from tidelog.cli.options import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION: Final = """\
Kafka's log in Python: inspect, write and repair log directories, byte for byte as Kafka does.

A data directory holds one directory per partition, named <topic>-<partition>.
"""

COMMAND_MODULES: Final = {
    "create": "create",
    "list": "list",
    "delete": "delete",
    "alter": "alter",
    "move": "move",
    "join": "join",
    "append": "append",
    "staged": "staged",
    "cat": "cat",
    "offsets": "offsets",
    "txns": "txns",
    "groups": "groups",
    "dump": "dump",
    "describe": "describe",
    "table": "table",
    "picture": "picture",
    "verify": "verify",
    "recover": "recover",
    "salvage": "salvage",
    "retain": "retain",
    "compact": "compact",
    "cleaner": "cleaner_status",
    "delete-records": "delete_records",
    "mirror": "mirror",
    "to-kafka": "to_kafka",
    "from-kafka": "from_kafka",
    "plan": "plan",
    "run": "run",
    "metrics": "metrics",
    "spark": "spark",
    "warm": "warm",
    "schema": "schema",
    "completion": "completion",
}
"""Each command's module under ``commands``, in the order of ``--help``."""


def make_parser(words: Sequence[str] = ()) -> CommandParser:
    """Return a parser of the command that ``words`` begin with; of every command, if of none."""
    parser = CommandParser(
        prog="tidelog",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", prog=parser.prog
    )
    named = [name for name in words[:1] if name in COMMAND_MODULES]
    for name in named or COMMAND_MODULES:
        import_module(f"tidelog.cli.commands.{COMMAND_MODULES[name]}").add_parser(commands)
    return parser
