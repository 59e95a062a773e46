"""The ``server.properties`` of the broker that wrote a data directory.

Only settings of topics are used of it, and where the metadata of the cluster lies.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import read_small_file
from tidelog.codec.java_properties import parse_properties
from tidelog.config.kafka_names import REMOVED
from tidelog.errors import CorruptFile, InvalidArgument

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.env.named_files import NamedFiles

MAX_PROPERTIES_BYTES: Final = 1 << 20
"""A larger file is not one of settings; it may be sparse."""

_log = logging.getLogger(__name__)


def read_properties(
    fs: FileSystem, path: str, named_files: NamedFiles | None = None
) -> dict[str, str]:
    """Return the settings in a file that a user has named.

    ``named_files`` reads pipes; None: the file must be a regular one. Raises OSError, or
    InvalidArgument for a file that is malformed or too large.
    """
    data = None if named_files is None else named_files.read_stream(path, MAX_PROPERTIES_BYTES)
    try:
        if data is None:
            data = read_small_file(fs, path, MAX_PROPERTIES_BYTES)
        return parse_properties(data)
    except CorruptFile as error:
        raise InvalidArgument(str(error)) from None


def read_broker_properties(
    fs: FileSystem, path: str, named_files: NamedFiles | None = None
) -> dict[str, str]:
    """Return the settings in a file; whatever Kafka accepts there is accepted.

    Names that Kafka has removed are logged. Arguments and errors as ``read_properties``.
    """
    properties = read_properties(fs, path, named_files)
    for name in sorted(properties.keys() & REMOVED.keys()):
        _log.warning("setting-removed path=%s setting=%s reason=%s", path, name, REMOVED[name])
    return properties
