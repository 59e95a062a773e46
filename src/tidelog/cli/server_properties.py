"""The option ``--server-properties``: settings of the broker that wrote a data directory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.codec.java_properties import parse_properties
from tidelog.config.kafka_names import REMOVED
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from argparse import Namespace

_log = logging.getLogger(__name__)


def broker_properties(args: Namespace) -> dict[str, str] | None:
    """Return the settings in the file that the command line names; None if it names none.

    Whatever Kafka accepts there is accepted; only settings of topics are used. Removed names are
    logged. Raises OSError, or InvalidArgument for a file that is malformed.
    """
    path = args.server_properties
    if path is None:
        return None
    properties = parse_properties(SYSTEM_FILES.read(path))
    for name in sorted(properties.keys() & REMOVED.keys()):
        _log.warning("setting-removed path=%s setting=%s reason=%s", path, name, REMOVED[name])
    return properties
