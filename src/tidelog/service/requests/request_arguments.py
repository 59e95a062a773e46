"""The arguments of each command that a service carries out, and the check of those of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.errors import InvalidArgument
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check = Callable[[Any], bool]

_MAX_INT: Final = (1 << 63) - 1


def _is_text(value: Any) -> bool:  # noqa: ANN401 - whatever JSON may hold
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:  # noqa: ANN401 - as above
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:  # noqa: ANN401 - as above
    # A float or a bool equals some number, and would make the name of another directory.
    return type(value) is int and abs(value) <= _MAX_INT


def _is_texts(value: Any) -> bool:  # noqa: ANN401 - as above
    return isinstance(value, list) and all(map(_is_text, value))


def _is_settings(value: Any) -> bool:  # noqa: ANN401 - as above
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_partitions(value: Any) -> bool:  # noqa: ANN401 - as above
    """Whether it maps names of topics to lists of numbers, as in ``{"t": [0, 1]}``."""
    if not isinstance(value, dict):
        return False
    return all(isinstance(each, list) and all(map(_is_number, each)) for each in value.values())


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


_TERMS: Final[dict[str, Check]] = {
    "settings": _is_settings,
    "now_ms": _or_none(_is_number),
}

ARGUMENTS: Final[dict[str, dict[str, Check]]] = {
    "create": {
        "topic": _is_text,
        "partitions": _is_number,
        "settings": _is_settings,
        "birth": _is_settings,
    },
    "alter": {
        "topic": _is_text,
        "settings": _is_settings,
        "unset": _is_texts,
        "follow": _is_texts,
    },
    "create-partitions": {"topic": _is_text, "partitions": _is_number},
    "delete": {"topics": _is_texts},
    "delete-records": {"partitions": _is_partitions, "before": _is_number, **_TERMS},
    "retain": {
        "partitions": _is_partitions,
        "are_named": _is_flag,
        "server_properties": _or_none(_is_settings),
        **_TERMS,
    },
    "roll": {"partitions": _is_partitions},
    "compact": {
        "partitions": _is_partitions,
        "server_properties": _or_none(_is_settings),
        **_TERMS,
    },
    "archive": {
        "partitions": _is_partitions,
        "are_named": _is_flag,
        "to": _is_text,
        "takes_over": _is_flag,
        "follows_start": _is_flag,
        "sweeps": _is_flag,
        "truncates": _is_flag,
        "snapshot": _or_none(_is_text),
        "server_properties": _or_none(_is_settings),
        **_TERMS,
    },
    "recover": {"partitions": _is_partitions, "keep": _is_flag},
    "move": {"partitions": _is_partitions, "target": _is_text},
    "list-moves": {},
    "cancel-moves": {"partitions": _is_partitions},
    "throttle-moves": {"bytes_per_second": _or_none(_is_number)},
    "abort-transaction": {
        "partitions": _is_partitions,
        "producer_id": _is_number,
        "first_offset": _is_number,
    },
    "check-abort": {"partitions": _is_partitions, "producer_id": _is_number},
    "undo-abort": {"partitions": _is_partitions},
}
"""The arguments of each command, and what each must be."""
_LATER: Final = {"create": {"birth"}, "alter": {"follow"}}
"""Arguments that requests of the release before lack; a request must have all others."""


def check_arguments(command: str, arguments: Mapping[str, Any]) -> None:
    """Raise InvalidArgument unless these are the arguments of the command, each of its type."""
    checks = ARGUMENTS.get(command)
    if checks is None:
        known = ", ".join(ARGUMENTS)
        raise InvalidArgument(f"a service does not carry out {command[:80]!r}; it knows {known}")
    if arguments.keys() | _LATER.get(command, set()) != checks.keys():
        raise InvalidArgument(f"the arguments of {command} must be {', '.join(checks)}")
    for name, value in arguments.items():
        if not checks[name](value):
            raise InvalidArgument(f"the argument {name} of {command} has a value of another type")


def partitions_of(arguments: Mapping[str, Any]) -> list[TopicPartition]:
    """Return the partitions that the arguments of a command name, sorted."""
    named = arguments["partitions"].items()
    return sorted({TopicPartition(topic, number) for topic, numbers in named for number in numbers})
