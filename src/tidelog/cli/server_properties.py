"""The option ``--server-properties``: settings of the broker that wrote a data directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.datadir.broker_properties import read_broker_properties
from tidelog.env.named_files import NamedFiles
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from argparse import Namespace

NAMED_FILES: Final = NamedFiles()
"""The files that the command line of this process names."""


def broker_properties(args: Namespace) -> dict[str, str] | None:
    """Return the settings in the file that the command line names; None if it names none.

    It may be a pipe. Raises OSError, or InvalidArgument for a file that is malformed.
    """
    path = args.server_properties
    return None if path is None else read_broker_properties(SYSTEM_FILES, path, NAMED_FILES)
