"""The record that a program appends."""

from __future__ import annotations

import pytest

import tidelog
from tidelog.errors import InvalidArgument
from tidelog.records.json.json_record import Encoding, record_from_json
from tidelog.records.new_record import NewRecord


def test_the_public_name_is_the_same_class() -> None:
    """``tidelog.NewRecord`` and the JSON reader use the same class."""
    assert tidelog.NewRecord is NewRecord
    assert type(record_from_json("{}", Encoding.UTF8)) is NewRecord


def test_optional_fields_are_left_to_the_log() -> None:
    """Without them a record has no headers, the time of the append, and any partition."""
    assert NewRecord(b"key", None) == (b"key", None, (), None, None)


@pytest.mark.parametrize(
    ("given", "names"),
    [({"key": b"k", "valu": b"v"}, "key, valu"), ({"value": b"v", "json": 1}, "value, json")],
)
def test_a_dict_of_other_names_is_refused(given: dict[str, object], names: str) -> None:
    """With the names that it may have, and those that it has."""
    known = "a dict has value or json, and perhaps key, headers, timestamp, partition"

    with pytest.raises(InvalidArgument, match=f"^{known}; this one has {names}$"):
        NewRecord.of(given)
