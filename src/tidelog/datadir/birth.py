"""Birth values: the settings about deletion and compaction that held when a topic was created.

Without them, the process that opens a topic would decide what is deleted of it, instead of the one
that created it. A topic's own settings go before them, those of the opening process come after.
Kafka needs no such thing: one cluster has one set of defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.config.deletion_settings import DELETION_SETTINGS
from tidelog.datadir.known_setting import ConfigSource, KnownSetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidelog.config.log_config import LogConfig

BIRTH_SETTINGS: Final = frozenset(
    {
        *DELETION_SETTINGS,
        "delete.retention.ms",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "min.compaction.lag.ms",
        "remote.log.delete.on.disable",
        "segment.ms",
    }
)
"""The settings that decide what is deleted or compacted, and when."""

OF_OLDER_TOPICS: Final[Mapping[str, str]] = {"retention.ms": "-1"}
"""What holds for topics of files without birth values: how long to keep them is not known."""


def birth_values(defaults: LogConfig) -> dict[str, str]:
    """Return the birth values of a topic that is created where these defaults hold."""
    from tidelog.config.option import options_of  # noqa: PLC0415 - for who creates topics only

    return {
        known.name: known.kind.format(getattr(defaults, known.field))
        for known in options_of(type(defaults))
        if known.name in BIRTH_SETTINGS
    }


def read_birth(values: Mapping[str, object]) -> dict[str, str]:
    """Read birth values from a file; raise AttributeError for another form."""
    return {str(name): str(one) for name, one in values.items()}


def settings_of_birth(birth: Mapping[str, str] | None) -> dict[str, KnownSetting]:
    """Return birth values as settings with their source; None: those of an older catalogue."""
    values = OF_OLDER_TOPICS if birth is None else birth
    return {name: KnownSetting(value, ConfigSource.BIRTH) for name, value in values.items()}


def unlike_birth(
    inherited: Mapping[str, KnownSetting], given: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield name, birth value and given value of the settings of a process that do not count."""
    from tidelog.datadir.cluster_metadata.broker_settings import (  # noqa: PLC0415 - for writers
        formatted,
    )

    for name, value in sorted(given.items()):
        born = inherited.get(name)
        if born is None or born.source is not ConfigSource.BIRTH:
            continue
        if formatted(name, born.value) != formatted(name, value):
            yield name, born.value, value
