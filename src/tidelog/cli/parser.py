"""The whole command line, put together from the modules under ``commands``.

A command line that names a command loads that command's module only; ``--help`` and a mistyped
command load them all.
"""

from __future__ import annotations

from argparse import SUPPRESS
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from tidelog.cli.argument_parser import CommandParser
from tidelog.cli.options import EXIT_CODES
from tidelog.cli.terminal import screen_width

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import ModuleType

DESCRIPTION: Final = """\
Kafka's log in Python: inspect, write and repair log directories, byte for byte as Kafka does.

A data directory holds one directory per partition, named <topic>-<partition>.
"""

COMMAND_GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "topics and their records": {
        "create": "topics.create_command",
        "alter": "topics.alter_command",
        "delete": "topics.delete_command",
        "append": "records.append_command",
        "cat": "records.cat_command",
        "sql": "records.sql_command",
        "offsets": "records.offsets_command",
        "delete-records": "records.delete_records_command",
    },
    "look at what is there": {
        "list": "topics.list_command",
        "describe": "topics.describe_command",
        "console": "inspection.console_command",
        "picture": "inspection.picture_command",
        "table": "inspection.table_command",
        "dump": "inspection.dump_command",
        "plan": "inspection.plan_command",
        "cleaner": "inspection.cleaner_command",
        "metrics": "upkeep.metrics_command",
    },
    "transactions and consumer groups": {
        "txns": "records.txns_command",
        "staged": "records.staged_command",
        "groups": "records.groups_command",
    },
    "services": {
        "run": "upkeep.run_command",
        "serve": "upkeep.serve_command",
    },
    "space on the disk": {
        "retain": "upkeep.retain_command",
        "compact": "upkeep.compact_command",
        "roll": "upkeep.roll_command",
        "move": "topics.move_command",
    },
    "damage": {
        "verify": "inspection.verify_command",
        "recover": "upkeep.recover_command",
        "salvage": "inspection.salvage_command",
        "rescue": "upkeep.rescue_command",
    },
    "copies, and Kafka's brokers": {
        "mirror": "topics.mirror_command",
        "archive": "upkeep.archive_command",
        "restore": "upkeep.restore_command",
        "join": "topics.join_command",
        "to-kafka": "topics.to_kafka_command",
        "from-kafka": "topics.from_kafka_command",
    },
    "others": {
        "spark": "spark_command",
        "warm": "warm_command",
        "schema": "schema_command",
        "completion": "completion_command",
    },
}
"""Each command's module under ``commands``, by headings; in the order of ``--help``."""
COMMAND_MODULES: Final = {
    name: module for group in COMMAND_GROUPS.values() for name, module in group.items()
}
"""Each command's module under ``commands``."""


def misplaced(words: Sequence[str]) -> str | None:
    """Return what is wrong with a command line that has options before its command."""
    first = words[0] if words else ""
    if not first.startswith("-") or first in {"-h", "--help", "-V", "--version"}:
        return None
    command = next((word for word in words if word in COMMAND_MODULES), None)
    return None if command is None else f"options follow the command: tidelog {command} {first} ..."


def make_parser(words: Sequence[str] = ()) -> CommandParser:
    """Return a parser of the command that ``words`` begin with; of every command, if of none."""
    command = words[0] if words else ""
    return _parser_of(command) if command in COMMAND_MODULES else _make_parser(COMMAND_MODULES)


@cache  # a program may run several commands, and making a parser takes longer than parsing
def _parser_of(command: str) -> CommandParser:
    return _make_parser([command])


def _make_parser(names: Collection[str]) -> CommandParser:
    parser = CommandParser(
        prog="tidelog",
        usage="%(prog)s [-h] [-V] COMMAND ...",
        description=DESCRIPTION,
        epilog=f"{_listing()}\n\n{EXIT_CODES}" if len(names) > 1 else EXIT_CODES,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", help=SUPPRESS, prog=parser.prog
    )
    for name in names:
        module = _module(name)
        module.COMMAND.add_to(commands).set_defaults(module=module)
    return parser


def command_texts() -> dict[str, str]:
    """Return what ``--help`` says of each command, in its order."""
    return {name: _module(name).COMMAND.text for name in COMMAND_MODULES}


def _module(command: str) -> ModuleType:
    return import_module(f"tidelog.cli.commands.{COMMAND_MODULES[command]}")


def _listing() -> str:
    """Return all commands under their headings, as wide as the terminal."""
    from textwrap import wrap  # slow to import, and only the help needs it

    texts = command_texts()
    begin = max(map(len, texts)) + 4
    width, below = screen_width() - 2, " " * begin
    lines: list[str] = []
    for heading, names in COMMAND_GROUPS.items():
        lines += ["", f"{heading}:"]
        for name in names:
            first = f"  {name}".ljust(begin)
            lines += wrap(texts[name], width, initial_indent=first, subsequent_indent=below)
    return "\n".join(lines[1:])
