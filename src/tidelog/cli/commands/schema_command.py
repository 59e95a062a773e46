"""``tidelog schema``: print the JSON schema of what a command prints as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.options import new_parser
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands


def add_parser(commands: Commands) -> None:
    """Add ``tidelog schema`` to the command line."""
    text = "print the JSON schema of each line that a command prints as JSON"
    parser = new_parser(
        commands,
        "schema",
        text,
        run,
        epilog="tidelog schema list; tidelog schema plan retention",
    )
    parser.add_argument(
        "words", metavar="COMMAND", nargs="*", help="the command; without it, all are named"
    )


def run(args: Namespace) -> int:
    """Print the schema, or the names of all commands that have one."""
    from tidelog.cli.schemas.outputs import all_outputs

    outputs = all_outputs()
    name = " ".join(args.words)
    if not name:
        print("\n".join(outputs))
        return 0
    if name not in outputs:
        raise InvalidArgument(f"no schema of {name!r}; there are: {', '.join(outputs)}")
    print(json.dumps(outputs[name].schema(name), indent=2))
    return 0
