"""Settings from several sources, under broker-level or topic-level names.

Kafka: ``DynamicBrokerConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.config.broker_config import TIDELOG_DEFAULTS, BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of
from tidelog.config.units import unit_of
from tidelog.errors import InvalidArgument, InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SettingValue: TypeAlias = "str | int | float | timedelta | Sequence[str]"
"""What a program may give as the value of a setting; a bool is an int."""
VARIABLE_PREFIX: Final = "TIDELOG_"
"""``TIDELOG_LOG_RETENTION_MS`` is ``log.retention.ms``."""

_SYNONYMS: Final = {s.name for known in options_of(LogConfig) for s in known.synonyms}
_TOPIC_NAMES: Final = {
    name: known.name
    for known in options_of(LogConfig)
    for name in (known.name, *(one.name for one in known.synonyms))
}
"""The topic-level name of each setting, by all of its names."""
_TOPIC_ONLY: Final = {known.name for known in options_of(LogConfig)} - _SYNONYMS
_BROKER_NAMES: Final = {known.name for known in options_of(BrokerConfig)}
_DIRECTORIES: Final = {"log.dir", "log.dirs"}

_DYNAMIC_BROKER: Final = frozenset(
    {
        "cordoned.log.dirs",
        "num.recovery.threads.per.data.dir",
        "log.cleaner.threads",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.backoff.ms",
        "transaction.partition.verification.enable",
        "producer.id.expiration.ms",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "tidelog.reserve.bytes",
        "tidelog.retention.disk.percent",
        "tidelog.log.levels",
    }
)


def broker_config(
    properties: Mapping[str, str],
    directories: Sequence[str] = (),
    defaults: LogConfig = TIDELOG_DEFAULTS,
    others: Iterable[str] = (),
) -> BrokerConfig:
    """Return the broker settings for ``properties``.

    ``directories``, if there are any, replace ``log.dirs``; their names may hold commas.
    ``defaults`` stand for topic settings that ``properties`` lack. ``others`` are names that the
    user may give beside these, which a mistyped one may mean.

    A topic-level name, such as ``retention.ms``, sets the default of all topics and overrides
    the broker-level names of the setting. Raises one InvalidConfig that names every bad key.
    """
    topic_level = {name: text for name, text in properties.items() if name in _TOPIC_ONLY}
    own = {name: text for name, text in properties.items() if name not in _TOPIC_ONLY}
    problems: list[str] = []
    config = BrokerConfig()
    try:
        config = BrokerConfig.parse(own, directories, defaults, (*_TOPIC_ONLY, *others))
    except InvalidConfig as error:
        problems += error.problems
    try:
        defaults = config.log_defaults.with_overrides(topic_level)
    except InvalidConfig as error:
        problems += error.problems
    if problems:
        raise InvalidConfig(tuple(problems))
    return config.with_log_defaults(defaults, topic_settings_in(properties))


def topic_settings_in(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the topic settings among ``properties``, by their topic-level names."""
    return frozenset(_TOPIC_NAMES[name] for name in properties.keys() & _TOPIC_NAMES.keys())


def other_names(properties: Mapping[str, str]) -> frozenset[str]:
    """Return all names of the settings that ``properties`` give, by whichever of their names.

    Left out is a name that is a setting of the broker, too: it has a meaning of its own.
    """
    given = topic_settings_in(dict.fromkeys(properties.keys() - _BROKER_NAMES, ""))
    found = {name for name, known in _TOPIC_NAMES.items() if known in given} - _BROKER_NAMES
    return frozenset(found | (_DIRECTORIES if properties.keys() & _DIRECTORIES else set()))


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings among environment variables, by Kafka's names.

    Every variable with the prefix is taken as a setting; parsing the result reports unknown names.
    """
    return {
        name.removeprefix(VARIABLE_PREFIX).lower().replace("_", "."): text
        for name, text in environment.items()
        if name.startswith(VARIABLE_PREFIX)
    }


def variable_of(name: str) -> str:
    """Return the variable of which ``from_environment`` makes a setting."""
    return VARIABLE_PREFIX + name.upper().replace(".", "_")


def from_keywords(keywords: Mapping[str, object]) -> dict[str, str]:
    """Return keyword arguments as settings: ``retention_ms=5`` is ``retention.ms``."""
    return {name.replace("_", "."): value for name, value in from_mapping(keywords).items()}


_NOT_OF_TOPICS: Final = {
    "num_partitions": "the number of partitions is given as partitions=",
    "replication_factor": "a topic has one replica: leave out replication_factor",
}
"""What Kafka's clients give to create a topic; tidelog has no such settings."""


def topic_settings(
    config: Mapping[str, SettingValue] | None, keywords: Mapping[str, object]
) -> dict[str, str]:
    """Return the settings of a topic; InvalidArgument if some are given as keywords."""
    for name in _NOT_OF_TOPICS.keys() & keywords.keys():
        raise InvalidArgument(_NOT_OF_TOPICS[name])
    if keywords:
        raise InvalidArgument(f"a topic's settings go into config={from_keywords(keywords)!r}")
    return from_mapping({} if config is None else config)


def from_mapping(settings: Mapping[str, SettingValue] | Mapping[str, object]) -> dict[str, str]:
    """Return settings with their values as text, formatted as in a properties file.

    Text stays as it is; parsing the result reports what is not valid. A ``timedelta`` becomes a
    number in the unit that the name of the setting ends with; without one it is not valid. Raises
    InvalidArgument for what is not a mapping.
    """
    if not isinstance(settings, Mapping):
        raise InvalidArgument(
            'settings are a mapping, such as {"retention.ms": 3_600_000}, not '
            + type(settings).__name__
        )
    return {name: _as_text(name, value) for name, value in settings.items()}


def is_dynamic(name: str) -> bool:
    """Return whether a setting can change at run time. Source: Kafka DynamicBrokerConfig.

    Of several broker-level names of a topic setting, only the first is dynamic.
    """
    first = {known.synonyms[0].name for known in options_of(LogConfig) if known.synonyms}
    return name in _DYNAMIC_BROKER or name in first or name in _TOPIC_ONLY


def check_dynamic(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise one InvalidConfig that names every changed setting that is not dynamic."""
    fixed = [name for name in _changed(old, new) if not is_dynamic(name)]
    if fixed:
        raise InvalidConfig(tuple(f"{name}: takes effect only after a restart" for name in fixed))


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return what has changed as ``name=value``, or ``name unset``, sorted by name.

    Other settings than those that can change at run time, or are of topics, are left out: in a
    broker's file there are passwords.
    """
    return [
        f"{name}={new[name]}" if name in new else f"{name} unset"
        for name in _changed(old, new)
        if is_dynamic(name) or name in _TOPIC_NAMES
    ]


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _as_text(name: str, value: object) -> str:
    if value is None:
        raise InvalidConfig((f"{name}: None is not a value; one is dropped by unset=[{name!r}]",))
    unit = unit_of(name)
    if isinstance(value, timedelta) and unit is not None:
        return f"{value / timedelta(milliseconds=unit):.15g}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(str(part) for part in value)
    if isinstance(value, float) and value.is_integer():  # such as 7 * 86.4e6
        return str(int(value))
    return str(value)
