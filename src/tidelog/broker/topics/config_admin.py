"""DescribeConfigs, ListConfigResources, AlterConfigs and IncrementalAlterConfigs.

Kafka: ``ConfigAdminManager``.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import FOLLOW, NEW_TOPIC, Refusal, at_once_or_not, refused
from tidelog.broker.topics.each_part import answer_each
from tidelog.broker.topics.shown_settings import shown_broker_settings, shown_settings
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of
from tidelog.datadir.catalogue import Topic
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError
from tidelog.manager.topics.topic_checks import altered_config
from tidelog.segment.filenames import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.node import Node
    from tidelog.config.serve_config import ServeConfig
    from tidelog.manager.log_manager import LogManager

_TOPIC: Final = 2
_BROKER: Final = 4
_LOGGERS: Final = 8
_CLIENT_METRICS: Final = 16
_KINDS: Final = frozenset({_TOPIC, _BROKER, _LOGGERS, _CLIENT_METRICS, 32})
"""All that may be asked for; loggers, client metrics and groups (32) have no settings here."""

_KINDS_VERSION: Final = 1
"""Of ListConfigResources: before, it lists client metrics only."""
_MANY_RESOURCES: Final = 10
"""To show all settings of one takes half a millisecond."""


class _Step(IntEnum):
    """How a setting is to be changed. Source: Kafka AlterConfigOp."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigAdmin:
    """Shows and changes settings."""

    def __init__(self, manager: LogManager, node: Node, serving: ServeConfig) -> None:
        self._manager = manager
        self._node = node
        self._serving = serving

    def describe(self, request: Request) -> Answer:
        """DescribeConfigs."""
        is_long = len(request.values["resources"]) > _MANY_RESOURCES
        return at_once_or_not(partial(self._describe_all, request), takes_long=is_long)

    def _describe_all(self, request: Request) -> dict[str, Any]:
        values = request.values
        left_out = {
            *(() if values["includeSynonyms"] else ("synonyms",)),
            *(() if values["includeDocumentation"] else ("documentation",)),
        }
        parts = _Parts(left_out)
        is_joined = request.peer.held is not None
        describe = partial(self._describe, parts, is_joined=is_joined)
        return {"results": [describe(one) for one in values["resources"]]}

    def _describe(self, parts: _Parts, given: dict[str, Any], *, is_joined: bool) -> dict[str, Any]:
        answer = _head(given)
        try:
            shown = self._shown(given, is_joined=is_joined)
        except KafkaError as error:
            return answer | refused(error)
        wanted = given["configurationKeys"]
        found = [parts.of(one) for one in shown if not wanted or one["name"] in wanted]
        return answer | {"configs": found}

    def _shown(self, given: dict[str, Any], *, is_joined: bool) -> list[dict[str, Any]]:
        kind, name = given["resourceType"], given["resourceName"]
        if kind == _TOPIC and name == NEW_TOPIC and is_joined:
            config = self._manager.config.log_defaults
            return shown_settings(self._manager, Topic(name, ZERO_ID, {}, birth={}), config)
        if kind == _TOPIC:
            check_topic_name(name)
            topic = self._manager.topic(name)
            return shown_settings(self._manager, topic, self._manager.config_of(name))
        self._check_known(kind, name)
        # What is set for all brokers, groups, ...: nothing.
        is_broker = kind == _BROKER and name
        return shown_broker_settings(self._manager, self._serving) if is_broker else []

    def _check_known(self, kind: int, name: str) -> None:
        """Refuse what is neither a broker nor something that may have settings in Kafka."""
        if kind not in _KINDS:
            raise _unknown_kind(kind)
        if not name and kind != _BROKER:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the name of what is asked for is empty")
        if kind in {_BROKER, _LOGGERS} and name not in {"", str(self._node.node_id)}:
            reason = f"the one broker is {self._node.node_id}, not {name!r}"
            raise Refusal(ErrorCode.INVALID_REQUEST, reason)

    def list_resources(self, request: Request) -> Answer:
        """ListConfigResources: what has settings."""
        kinds = {_CLIENT_METRICS}
        if request.version >= _KINDS_VERSION:
            kinds = set(request.values["resourceTypes"]) or set(_KINDS)
        if kinds - _KINDS:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
        named = {_TOPIC: sorted(self._manager.topics()), _BROKER: [str(self._node.node_id)]}
        return {
            "configResources": [
                {"resourceName": name, "resourceType": kind}
                for kind, names in named.items()
                if kind in kinds
                for name in names
            ]
        }

    def alter(self, request: Request) -> Answer:
        """AlterConfigs: what is given replaces all settings of a topic's own."""
        return self._each(request, self._replacement)

    def alter_some(self, request: Request) -> Answer:
        """IncrementalAlterConfigs."""
        return self._each(request, self._changes)

    async def _each(
        self, request: Request, changes: Callable[[dict[str, Any]], tuple[dict[str, str], set[str]]]
    ) -> dict[str, Any]:
        is_trial, is_joined = request.values["validateOnly"], request.peer.held is not None
        change = partial(self._change, changes, is_trial=is_trial, is_joined=is_joined)
        return {"responses": await answer_each(request.values["resources"], _head, change)}

    def _change(
        self,
        changes: Callable[[dict[str, Any]], tuple[dict[str, str], set[str]]],
        given: dict[str, Any],
        *,
        is_trial: bool,
        is_joined: bool,
    ) -> dict[str, Any]:
        kind, name = given["resourceType"], given["resourceName"]
        if kind != _TOPIC:
            self._check_known(kind, name)
            _check_deletes(given["configs"], kind)
            return {}
        check_topic_name(name)
        given, follow = _without_follow(given) if is_joined else (given, set())
        _check_once_each(given["configs"])
        # What changes depends on what is set: of two that look at once, one would undo the other.
        with self._manager.changing():
            settings, unset = changes(given)
            if is_joined:  # what is not set is an error to it, as in its own logs
                unset |= {one["name"] for one in given["configs"] if _is_delete(one)}
            if is_trial:
                defaults = self._manager.config.log_defaults
                altered_config(self._manager.topic(name), settings, unset, defaults=defaults)
            else:
                self._manager.alter_topic(name, settings, unset, follow)
        return {}

    def _replacement(self, given: dict[str, Any]) -> tuple[dict[str, str], set[str]]:
        settings = {}
        for one in given["configs"]:
            if one["value"] is None:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"no value is given for {one['name']}")
            settings[one["name"]] = one["value"]
        return settings, set(self._own(given)) - settings.keys()

    def _changes(self, given: dict[str, Any]) -> tuple[dict[str, str], set[str]]:
        own = self._own(given)
        settings: dict[str, str] = {}
        unset: set[str] = set()
        for one in given["configs"]:
            name, value = one["name"], one["value"]
            try:
                step = _Step(one["configOperation"])
            except ValueError as error:
                raise Refusal(ErrorCode.INVALID_REQUEST, str(error)) from error
            if step is _Step.DELETE:
                unset |= {name} & own.keys()  # what is not set needs no change
            elif value is None:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"no value is given for {name}")
            elif step is _Step.SET:
                settings[name] = value
            else:
                settings[name] = self._changed_list(given, name, value, step)
        return settings, unset

    def _own(self, given: dict[str, Any]) -> Mapping[str, str]:
        return self._manager.topic(given["resourceName"]).config

    def _changed_list(self, given: dict[str, Any], name: str, value: str, step: _Step) -> str:
        known = {one.name: one for one in options_of(LogConfig)}.get(name)
        if known is None or known.kind.name != "list":
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} is not a list")
        # What is stored, else Kafka's default: a setting for this run must not be stored by it.
        stored = self._manager.topic(given["resourceName"]).config_in_force(LogConfig())
        there = list(getattr(stored, known.field))
        changed = [part.strip() for part in value.split(",")]
        if step is _Step.APPEND:
            there += [part for part in changed if part not in there]
        else:
            there = [part for part in there if part not in changed]
        return ",".join(there)


class _Parts:
    """Leaves fields out of settings that are shown; topics share most of them, and the results."""

    def __init__(self, left_out: set[str]) -> None:
        self._left_out = left_out
        self._found: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    def of(self, shown: dict[str, Any]) -> dict[str, Any]:
        """Return a setting without the fields that are left out."""
        if not self._left_out:
            return shown
        known = self._found.get(id(shown))
        if known is None:
            part = {key: value for key, value in shown.items() if key not in self._left_out}
            part.setdefault("documentation", None)
            # The setting is kept with it: else another one could get its id.
            known = self._found[id(shown)] = shown, part
        return known[1]


def _without_follow(given: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return the changes that Kafka has, too, and the settings whose birth values are dropped."""
    steps = given["configs"]
    others = [one for one in steps if one.get("configOperation") != FOLLOW]
    follow = {one["name"] for one in steps if one.get("configOperation") == FOLLOW}
    return given | {"configs": others}, follow


def _head(given: dict[str, Any]) -> dict[str, Any]:
    return {"resourceType": given["resourceType"], "resourceName": given["resourceName"]}


def _check_once_each(configs: Iterable[dict[str, Any]]) -> None:
    counts = Counter(one["name"] for one in configs)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"named more than once: {', '.join(twice)}")


def _is_delete(step: dict[str, Any]) -> bool:
    return step.get("configOperation") == _Step.DELETE


def _check_deletes(configs: Iterable[dict[str, Any]], kind: int) -> None:
    """Raise Refusal unless all that is asked for is to delete settings, of anything but a topic.

    None of them was set by a client, so that changes nothing; Kafka's tools end throttles that way.
    A logger has a level, which Kafka does not delete where there is no such logger.
    """
    if kind != _LOGGERS and all(map(_is_delete, configs)):
        return
    if kind != _BROKER:
        raise _unknown_kind(kind)
    raise Refusal(
        ErrorCode.INVALID_REQUEST,
        "clients cannot change the settings of the service: change its file or arguments;"
        " on SIGHUP it reads them again",
    )


def _unknown_kind(kind: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"topics and the broker have settings, not resources of type {kind}",
    )
