"""The errors that a test can ask a broker for, by the words a user types."""

from __future__ import annotations

import pytest

from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidArgument
from tidelog.testing.error_answers import code_named, error_answer, offered_api
from tidelog.testing.other_codes import OTHER_CODES


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ("NOT_ENOUGH_REPLICAS", 19),
        ("not_enough_replicas", 19),
        (19, 19),
        ("TOPIC_AUTHORIZATION_FAILED", 29),
        ("NOT_LEADER_OR_FOLLOWER", 6),
        (6, 6),
        (ErrorCode.MESSAGE_TOO_LARGE, 10),
    ],
)
def test_every_code_of_the_protocol_has_its_name_and_number(given: int | str, number: int) -> None:
    """Also those that no broker of ours ever gives."""
    code = code_named(given)

    assert code.number == number
    data = [{"name": "t", "partitionData": [{"index": 0}]}]
    answer = error_answer("Produce", {"topicData": data}, code)
    assert answer["responses"][0]["partitionResponses"][0]["errorCode"] == number


@pytest.mark.parametrize(
    ("name", "topics", "partition", "answered", "field"),
    [
        ("Produce", "topicData", {"index": 0}, "partitionResponses", "baseOffset"),
        ("Fetch", "topics", {"partition": 0}, "partitions", "highWatermark"),
        ("DeleteRecords", "topics", {"partitionIndex": 0}, "partitions", "lowWatermark"),
    ],
)
def test_a_partition_that_failed_has_no_offset(
    name: str, topics: str, partition: dict[str, int], answered: str, field: str
) -> None:
    """As in Kafka: offset 0 would be taken for the offset of a record."""
    parts = "partitionData" if name == "Produce" else "partitions"
    asked = {topics: [{"name": "t", "topic": "t", parts: [partition]}]}

    (answer,) = error_answer(name, asked, code_named("NOT_LEADER_OR_FOLLOWER")).values()

    assert answer[0][answered][0][field] == -1


def test_no_code_is_named_twice() -> None:
    """The numbers from -1 to the last one are all there."""
    numbers = [*map(int, ErrorCode), *OTHER_CODES.values()]

    assert sorted(numbers) == list(range(-1, len(numbers) - 1))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("NOT_LEADER", "did you mean NOT_LEADER_OR_FOLLOWER"),
        ("NOT_ENOUGH_REPLICA", "did you mean NOT_ENOUGH_REPLICAS"),
        ("zzz", "'zzz' is not an error of Kafka's protocol$"),
        (9999, "9999 is not an error"),
    ],
)
def test_another_code_is_refused_with_a_hint(given: int | str, reason: str) -> None:
    """By its near name, if there is one."""
    with pytest.raises(InvalidArgument, match=reason):
        code_named(given)


@pytest.mark.parametrize("name", ["produce", "Produse", "PRODUCE"])
def test_a_mistyped_request_is_refused_with_a_hint(name: str) -> None:
    """In whatever case it was typed."""
    with pytest.raises(InvalidArgument, match="did you mean Produce"):
        offered_api(name)
