"""Settings as clients see them. Kafka: ``ConfigHelper``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of
from tidelog.config.serve_config import ServeConfig
from tidelog.datadir.known_setting import ConfigSource

if TYPE_CHECKING:
    from tidelog.config.option import Option
    from tidelog.datadir.catalogue import Topic
    from tidelog.manager.log_manager import LogManager

_TOPIC: Final = 1
_STATIC: Final = 4
_DEFAULT: Final = 5
_SOURCES: Final = {
    ConfigSource.TOPIC: _TOPIC,
    ConfigSource.BROKER: 2,
    ConfigSource.CLUSTER: 3,
    ConfigSource.STATIC: _STATIC,
    ConfigSource.DEFAULT: _DEFAULT,
    # Kafka knows no such thing: what held when the topic was created was the broker's setting.
    ConfigSource.BIRTH: _STATIC,
}
_KEPT: Final = 1000
"""Most topics have most settings in common: a thousand topics would be 100,000 dicts."""
_TYPES: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}


def shown_settings(manager: LogManager, topic: Topic, config: LogConfig) -> list[dict[str, Any]]:
    """Return the settings of a topic, which are in force; those that are unknown have no value.

    What is returned is shared with other calls.
    """
    unknown, inherited = topic.unknown_settings, topic.inherited
    found = []
    for known in options_of(LogConfig):
        source = _DEFAULT
        if known.name in topic.config:
            source = _TOPIC
        elif known.name in inherited:
            given = inherited[known.name]
            is_usual = given.value == known.kind.format(known.default)
            source = _DEFAULT if is_usual else _SOURCES[given.source]
        elif known.name in manager.config.given:
            source = _STATIC
        value = getattr(config, known.field)
        if value is None and source != _TOPIC:  # one of tests' own, which Kafka does not show
            continue
        shown = _shown(known, value, source)
        if known.name in unknown:
            shown = {**shown, "value": None, "synonyms": []}
        found.append(shown)
    return found


def shown_broker_settings(manager: LogManager, serving: ServeConfig) -> list[dict[str, Any]]:
    """Return the settings of the service, which clients cannot change."""
    defaults = manager.config.log_defaults
    found = [
        _shown(known, getattr(config, known.field), None, is_fixed=True)
        for config in (manager.config, serving)
        for known in options_of(BrokerConfig if config is manager.config else ServeConfig)
    ]
    for known in options_of(LogConfig):
        for synonym in known.synonyms[:1]:
            value = getattr(defaults, known.field)
            found.append(_shown(known, value, None, name=synonym.name, is_fixed=True))
    return found


@lru_cache(_KEPT)
def _shown(
    known: Option, value: object, source: int | None, *, name: str = "", is_fixed: bool = False
) -> dict[str, Any]:
    """Return a setting of a topic, or, if it ``is_fixed``, of the broker, by its ``name`` there."""
    if source is None:
        source = _DEFAULT if value == known.default else _STATIC
    of_broker = [one.name for one in known.synonyms[:1]]
    if is_fixed:
        of_broker = [name or known.name]
    text = None if value is None else known.kind.format(value)
    names = [known.name] if source == _TOPIC else of_broker
    synonyms = [{"name": one, "value": text, "source": source} for one in names]
    if source != _DEFAULT and known.default is not None:
        default = known.kind.format(known.default)
        synonyms += [{"name": one, "value": default, "source": _DEFAULT} for one in of_broker]
    return {
        "name": name or known.name,
        "value": text,
        "readOnly": is_fixed,
        "configSource": source,
        "isSensitive": False,
        "synonyms": synonyms,
        "configType": _TYPES[known.kind.name],
        "documentation": known.doc,
    }
