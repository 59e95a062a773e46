"""The ``server.properties`` of the broker that wrote a data directory.

Only settings of topics are used of it, and where the metadata of the cluster lies.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.codec.java_properties import parse_properties
from tidelog.config.kafka_names import REMOVED

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem

_log = logging.getLogger(__name__)


def read_broker_properties(fs: FileSystem, path: str) -> dict[str, str]:
    """Return the settings in a file; whatever Kafka accepts there is accepted.

    Names that Kafka has removed are logged. Raises OSError, or InvalidArgument for a file that is
    malformed.
    """
    properties = parse_properties(fs.read(path))
    for name in sorted(properties.keys() & REMOVED.keys()):
        _log.warning("setting-removed path=%s setting=%s reason=%s", path, name, REMOVED[name])
    return properties
