"""The settings of a service: from ``-o``, else the environment, else a properties file."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.cli.options import DIRECTORY_VARIABLE
from tidelog.cli.server_properties import NAMED_FILES, broker_properties
from tidelog.config.broker_config import TIDELOG_DEFAULTS
from tidelog.config.kafka_names import foreign_names
from tidelog.config.log_config import LogConfig
from tidelog.config.sources import broker_config, from_environment
from tidelog.datadir.broker_properties import read_properties
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from tidelog.config.broker_config import BrokerConfig

_log = logging.getLogger(__name__)


def given_settings(args: Namespace) -> dict[str, str]:
    """Return all settings under Kafka's names; the paths of ``log.dirs`` are absolute.

    Where directories are arguments there is no ``log.dirs``: see ``service_config``.
    """
    from_file = {}
    if args.config is not None:
        from_file = _of_storage(
            args.config, read_properties(SYSTEM_FILES, args.config, NAMED_FILES)
        )
    environment = dict(os.environ)
    environment.pop(DIRECTORY_VARIABLE, None)
    given = {**from_file, **from_environment(environment), **dict(args.options)}
    for name in ("log.dirs", "log.dir"):
        if args.directories or args.words:
            given.pop(name, None)
        elif name in given:
            paths = [path.strip() for path in given[name].split(",")]
            given[name] = ",".join(os.path.abspath(path) if path else "" for path in paths)
    return given


def service_config(args: Namespace, given: Mapping[str, str]) -> BrokerConfig:
    """Return the broker settings of a service.

    ``log.dirs`` is split at commas, as Kafka does; an argument, or ``TIDELOG_DIR``, is one
    directory, as for every command. ``TIDELOG_DIR`` is used only if nothing else names one.
    With a properties file, topic settings that nothing gives have Kafka's defaults.
    """
    directories = [*args.directories, *args.words]
    if not directories and not given.keys() & {"log.dirs", "log.dir"}:
        directories = [one for one in (os.environ.get(DIRECTORY_VARIABLE),) if one]
    if "" in directories:
        raise InvalidArgument("the name of a data directory is empty")
    paths = tuple(dict.fromkeys(map(os.path.abspath, directories)))
    defaults = TIDELOG_DEFAULTS if args.config is None else LogConfig.of_kafka()
    config = broker_config(given, paths, defaults)
    has_retention = args.config is not None and "retention.ms" in config.given
    config = replace(config, is_retention_in_file=has_retention)
    return config.with_server_properties(broker_properties(args))


def _of_storage(path: str, properties: dict[str, str]) -> dict[str, str]:
    """Return the settings without those of a broker's network, quorum or groups, which are logged.

    A ``server.properties`` of Kafka's has many of them; a name that Kafka does not know is not
    among them, so a misspelt setting is still an error.
    """
    foreign = foreign_names(properties)
    if foreign:
        _log.warning("settings-not-of-storage path=%s settings=%s", path, ",".join(foreign))
    return {name: text for name, text in properties.items() if name not in foreign}
