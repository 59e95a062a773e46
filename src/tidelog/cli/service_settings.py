"""The settings of a service: from a properties file, the environment and ``-o``.

Owns their order: ``-o`` goes before the environment, that before the file. Must not know what they
mean.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.codec.java_properties import parse_properties
from tidelog.config.sources import from_environment
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from argparse import Namespace


def given_settings(args: Namespace) -> dict[str, str]:
    """Return all settings under Kafka's names; ``log.dirs`` are absolute."""
    from_file = {}
    if args.config is not None:
        from_file = parse_properties(SYSTEM_FILES.read(args.config))
    given = {**from_file, **from_environment(os.environ), **dict(args.options)}
    if args.directories:
        given.pop("log.dir", None)
        given["log.dirs"] = ",".join(args.directories)
    for name in ("log.dirs", "log.dir"):
        if name in given:
            paths = [path.strip() for path in given[name].split(",")]
            given[name] = ",".join(os.path.abspath(path) if path else "" for path in paths)
    return given
