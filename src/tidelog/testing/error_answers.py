"""Responses that say of everything in a request that it failed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.protocol.apis import api_named, apis
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidArgument
from tidelog.testing.other_codes import OTHER_CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.codec.protocol.apis import Api

_CODE: Final = "errorCode"
_USUAL: Final = (
    *("topics", "partitions", "partitionIndex"),
    *("topics", "partitions", "partitionIndex"),
)
_PARTS: Final = {
    # Of the request: its topics, their partitions, the number of one; then of the response.
    "Produce": ("topicData", "partitionData", "index", "responses", "partitionResponses", "index"),
    "Fetch": ("topics", "partitions", "partition", "responses", "partitions", "partitionIndex"),
    **dict.fromkeys(("ListOffsets", "OffsetCommit", "TxnOffsetCommit", "DeleteRecords"), _USUAL),
}
"""The requests that are answered partition by partition."""
_BLANK: Final[Mapping[str, Mapping[str, Any]]] = {
    "Produce": {"baseOffset": -1},
    "Fetch": {"highWatermark": -1, "records": b""},
    "DeleteRecords": {"lowWatermark": -1},
}
"""What Kafka says beside the error of a partition, where the protocol has no default for it."""
_INDEXES: Final = "partitionIndexes"
_OF_PARTITIONS: Final = frozenset(
    {
        int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        int(ErrorCode.UNSTABLE_OFFSET_COMMIT),
        int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    }
)
"""What OffsetFetch answers of partitions; clients take it for another error of a group."""


class Code(NamedTuple):
    """An error of Kafka's protocol."""

    name: str
    number: int


def code_named(given: int | str) -> Code:
    """Return a code of Kafka's protocol by its name, in any case, or its number.

    Raises InvalidArgument for another one.
    """
    known = {one.name: int(one) for one in ErrorCode} | OTHER_CODES
    names = {number: name for name, number in known.items()}
    name = given.upper() if isinstance(given, str) else names.get(given, "")
    if name not in known:
        near = _near(name, known) if isinstance(given, str) else ""
        raise InvalidArgument(f"{given!r} is not an error of Kafka's protocol{near}")
    return Code(name, known[name])


def offered_api(name: str) -> Api:
    """Return a request by its name; raise InvalidArgument for one that is not offered."""
    try:
        return api_named(name)
    except KeyError:
        near = _near(name, [one.name for one in apis().values()])
        raise InvalidArgument(f"{name!r} is not a request that is offered{near}") from None


def _near(name: str, names: Iterable[str]) -> str:
    by_small = {one.lower(): one for one in names}
    near = get_close_matches(name.lower(), by_small, n=1)
    return f"; did you mean {by_small[near[0]]}?" if near else ""


def error_answer(name: str, values: Mapping[str, Any], code: Code) -> dict[str, Any]:
    """Return the fields of a response in which all has failed.

    Raises InvalidArgument for a request that is not known, or that is not answered in such a way.
    """
    if name in _PARTS:
        return {
            _PARTS[name][3]: [_topic(name, one, code) for one in values.get(_PARTS[name][0], ())]
        }
    api = offered_api(name)
    if name == "AddPartitionsToTxn":
        return {"results": [_added(one, code) for one in values.get("topics", ())]}
    if name == "Metadata":
        topics = values.get("topics") or ()
        return {"topics": [{"name": one["name"], _CODE: code.number} for one in topics]}
    answer: dict[str, Any] = {_CODE: code.number, "errorMessage": code.name}
    if name == "FindCoordinator":
        keys = values.get("coordinatorKeys", ())
        answer["coordinators"] = [{"key": key, _CODE: code.number} for key in keys]
    elif name == "OffsetFetch":
        answer |= _without_positions(values, code)
    elif not api.has_response_field(_CODE):
        raise InvalidArgument(f"a response to {name} has no error of its own")
    return answer


def _without_positions(values: Mapping[str, Any], code: Code) -> dict[str, Any]:
    """Return an answer to OffsetFetch: a code is either that of a group or of its partitions."""
    groups, is_of_group = values.get("groups", ()), code.number not in _OF_PARTITIONS
    return {
        _CODE: code.number if is_of_group else 0,
        "topics": _unknown_positions(values, code),
        "groups": [
            {
                "groupId": one["groupId"],
                _CODE: code.number if is_of_group else 0,
                "topics": _unknown_positions(one, code),
            }
            for one in groups
        ],
    }


def _unknown_positions(asked: Mapping[str, Any], code: Code) -> list[dict[str, Any]]:
    blank = {"committedOffset": -1, "metadata": "", _CODE: code.number}
    return [
        {
            "name": topic["name"],
            "partitions": [{"partitionIndex": number, **blank} for number in topic[_INDEXES]],
        }
        for topic in asked.get("topics") or ()
    ]


def _topic(name: str, topic: Mapping[str, Any], code: Code) -> dict[str, Any]:
    _, partitions, number, _, answers, answered = _PARTS[name]
    key = {field: topic[field] for field in ("name", "topic", "topicId") if field in topic}
    blank = {**_BLANK.get(name, {}), _CODE: code.number}
    return {**key, answers: [{answered: one[number], **blank} for one in topic[partitions]]}


def _added(topic: Mapping[str, Any], code: Code) -> dict[str, Any]:
    results = [
        {"partitionIndex": number, "partitionErrorCode": code.number}
        for number in topic["partitions"]
    ]
    return {"name": topic["name"], "resultsByPartition": results}
