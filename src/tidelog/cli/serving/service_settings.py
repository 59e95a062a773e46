"""The settings of a service: from ``-o``, else the environment, else a properties file."""

from __future__ import annotations

import logging
import os
from collections import ChainMap
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from tidelog.cli.options import DIRECTORY_VARIABLE
from tidelog.cli.server_properties import NAMED_FILES, broker_properties
from tidelog.config.broker_config import TIDELOG_DEFAULTS
from tidelog.config.kafka_names import foreign_names
from tidelog.config.log_config import LogConfig
from tidelog.config.serve_config import SERVE_NAMES, ServeConfig
from tidelog.config.sources import (
    broker_config,
    from_environment,
    other_names,
    topic_settings_in,
    variable_of,
)
from tidelog.datadir.broker_properties import read_properties
from tidelog.embedded.doors import check_no_files
from tidelog.env.paths import absolute_path
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, InvalidConfig
from tidelog.store.store_uri import STORES_VARIABLE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.config.broker_config import BrokerConfig

_log = logging.getLogger(__name__)


def given_settings(args: Namespace) -> ChainMap[str, str]:
    """Return all settings under Kafka's names; the maps are ``-o``, the environment and the file.

    The paths of ``log.dirs`` are absolute. Where directories are arguments there is no
    ``log.dirs``: see ``service_config``.
    """
    variables = os.environ.keys() - {DIRECTORY_VARIABLE, STORES_VARIABLE}
    environment = {name: os.environ[name] for name in variables}
    in_file = _in_file(args.config, _of_listeners(args))
    sources = dict(args.options), from_environment(environment), in_file
    for given, name in product(sources, ("log.dirs", "log.dir")):
        if args.directories or args.words:
            given.pop(name, None)
        elif name in given:
            paths = [path.strip() for path in given[name].split(",")]
            given[name] = ",".join(absolute_path(path) if path else "" for path in paths)
    return ChainMap(*sources)


def service_config(args: Namespace, given: ChainMap[str, str]) -> BrokerConfig:
    """Return the broker settings of a service; ``given`` as ``given_settings`` returns them.

    ``log.dirs`` is split at commas, as Kafka does; an argument, or ``TIDELOG_DIR``, is one
    directory, as for every command. ``TIDELOG_DIR`` is used only if nothing else names one.
    With a properties file, topic settings that nothing gives have Kafka's defaults.
    """
    directories = [*args.directories, *args.words]
    if not directories and not given.keys() & {"log.dirs", "log.dir"}:
        directories = [one for one in (os.environ.get(DIRECTORY_VARIABLE),) if one]
        if not directories and args.config is None:
            # Kafka's default lies in /tmp, where nothing is kept for long.
            raise InvalidArgument(f"no directory given: use -d DIR or set {DIRECTORY_VARIABLE}")
    paths = tuple(dict.fromkeys(map(absolute_path, directories)))
    check_no_files(SYSTEM_FILES, paths)
    defaults = TIDELOG_DEFAULTS if args.config is None else LogConfig.of_kafka()
    with _naming_variables(given):
        config = broker_config(_of_storage(args, given), paths, defaults, _of_listeners(args))
    has_retention = "retention.ms" in topic_settings_in(given.maps[-1])
    config = replace(config, is_retention_in_file=has_retention)
    return config.with_server_properties(broker_properties(args))


@contextmanager
def _naming_variables(given: ChainMap[str, str]) -> Iterator[None]:
    """Let an InvalidConfig name the variables whose settings are wrong.

    Kubernetes sets variables, too: those for a service named tidelog begin with our prefix.
    """
    try:
        yield
    except InvalidConfig as error:
        on_line, *later = given.maps
        names = later[0].keys() - on_line.keys() if later else set()
        problems = [(problem, problem.partition(":")[0]) for problem in error.problems]
        raise InvalidConfig(
            tuple(
                f"{problem} (the variable {variable_of(name)})" if name in names else problem
                for problem, name in problems
            )
        ) from None


def serve_config(given: ChainMap[str, str]) -> ServeConfig:
    """Return the settings of a service's listeners; raise InvalidConfig."""
    with _naming_variables(given):
        return ServeConfig.parse({name: given[name] for name in given.keys() & SERVE_NAMES})


def _of_storage(args: Namespace, given: ChainMap[str, str]) -> dict[str, str]:
    """Return the settings without those of listeners, which only a service that listens takes.

    A retention in hours from one source overrides one in milliseconds from a later source.
    """
    left_out, found = _of_listeners(args), dict[str, str]()
    for source in reversed(given.maps):
        hidden = left_out | other_names(source)
        found = {name: text for name, text in found.items() if name not in hidden}
        found.update(source)
    return {name: text for name, text in found.items() if name not in left_out}


def _of_listeners(args: Namespace) -> frozenset[str]:
    """Return the names of the settings of listeners, if the service listens."""
    return SERVE_NAMES if getattr(args, "serves", False) else frozenset()


def _in_file(path: str | None, also: frozenset[str]) -> dict[str, str]:
    """Return the settings in a file without those of a broker's network, quorum or groups.

    Those in ``also`` are kept.

    Those are logged: a ``server.properties`` of Kafka's has many of them. A name that Kafka does
    not know is not among them, so a misspelt setting is still an error.
    """
    if path is None:
        return {}
    properties = read_properties(SYSTEM_FILES, path, NAMED_FILES)
    foreign = foreign_names(properties.keys() - also)
    if foreign:
        _log.warning("settings-not-of-storage path=%s settings=%s", path, ",".join(foreign))
    return {name: text for name, text in properties.items() if name not in foreign}
