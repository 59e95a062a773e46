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
    "create": "topics.create_command",
    "list": "topics.list_command",
    "delete": "topics.delete_command",
    "alter": "topics.alter_command",
    "move": "topics.move_command",
    "join": "topics.join_command",
    "append": "records.append_command",
    "staged": "records.staged_command",
    "cat": "records.cat_command",
    "sql": "records.sql_command",
    "offsets": "records.offsets_command",
    "txns": "records.txns_command",
    "groups": "records.groups_command",
    "dump": "inspection.dump_command",
    "describe": "topics.describe_command",
    "table": "inspection.table_command",
    "picture": "inspection.picture_command",
    "console": "inspection.console_command",
    "verify": "inspection.verify_command",
    "recover": "upkeep.recover_command",
    "salvage": "inspection.salvage_command",
    "rescue": "upkeep.rescue_command",
    "retain": "upkeep.retain_command",
    "compact": "upkeep.compact_command",
    "roll": "upkeep.roll_command",
    "archive": "upkeep.archive_command",
    "restore": "upkeep.restore_command",
    "cleaner": "inspection.cleaner_command",
    "delete-records": "records.delete_records_command",
    "mirror": "topics.mirror_command",
    "to-kafka": "topics.to_kafka_command",
    "from-kafka": "topics.from_kafka_command",
    "plan": "inspection.plan_command",
    "run": "upkeep.run_command",
    "serve": "upkeep.serve_command",
    "metrics": "upkeep.metrics_command",
    "spark": "spark_command",
    "warm": "warm_command",
    "schema": "schema_command",
    "completion": "completion_command",
}
"""Each command's module under ``commands``, in the order of ``--help``."""


def misplaced(words: Sequence[str]) -> str | None:
    """Return what is wrong with a command line that has options before its command."""
    first = words[0] if words else ""
    if not first.startswith("-") or first in {"-h", "--help", "-V", "--version"}:
        return None
    command = next((word for word in words if word in COMMAND_MODULES), None)
    return None if command is None else f"options follow the command: tidelog {command} {first} ..."


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
        module = import_module(f"tidelog.cli.commands.{COMMAND_MODULES[name]}")
        module.COMMAND.add_to(commands).set_defaults(run=module.run)
    return parser
