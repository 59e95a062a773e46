"""The settings of a service: from ``-o``, else the environment, else a properties file."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from tidelog.cli.options import DIRECTORY_VARIABLE
from tidelog.cli.server_properties import NAMED_FILES
from tidelog.config.kafka_names import foreign_names
from tidelog.config.sources import from_environment
from tidelog.datadir.broker_properties import read_properties
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from argparse import Namespace

_log = logging.getLogger(__name__)


def given_settings(args: Namespace) -> dict[str, str]:
    """Return all settings under Kafka's names; the paths of ``log.dirs`` are absolute.

    Directories that are arguments replace ``log.dirs``. ``TIDELOG_DIR`` is used only if nothing
    else names a directory.
    """
    from_file = {}
    if args.config is not None:
        from_file = _of_storage(
            args.config, read_properties(SYSTEM_FILES, args.config, NAMED_FILES)
        )
    environment = dict(os.environ)
    default_directory = environment.pop(DIRECTORY_VARIABLE, "")
    given = {**from_file, **from_environment(environment), **dict(args.options)}
    directories = [*args.directories, *args.words]
    if not directories and default_directory and not given.keys() & {"log.dirs", "log.dir"}:
        directories = [default_directory]
    if directories:
        given.pop("log.dir", None)
        given["log.dirs"] = ",".join(directories)
    for name in ("log.dirs", "log.dir"):
        if name in given:
            paths = [path.strip() for path in given[name].split(",")]
            given[name] = ",".join(os.path.abspath(path) if path else "" for path in paths)
    return given


def _of_storage(path: str, properties: dict[str, str]) -> dict[str, str]:
    """Return the settings without those of a broker's network, quorum or groups, which are logged.

    A ``server.properties`` of Kafka's has many of them; a name that Kafka does not know is not
    among them, so a misspelt setting is still an error.
    """
    foreign = foreign_names(properties)
    if foreign:
        _log.warning("settings-not-of-storage path=%s settings=%s", path, ",".join(foreign))
    return {name: text for name, text in properties.items() if name not in foreign}
