"""``tidelog schema``: print the JSON schema of what a command prints as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import Command, argument
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace


COMMAND: Final = Command(
    "schema",
    "print the JSON schema of each line that a command prints as JSON",
    (
        argument(
            "words", metavar="COMMAND", nargs="*", help="the command; without it, all are named"
        ),
    ),
    epilog="tidelog schema list; tidelog schema plan retention",
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
