"""The record that a program appends."""

from __future__ import annotations

import tidelog
from tidelog.records.json.json_record import Encoding, record_from_json
from tidelog.records.new_record import NewRecord


def test_the_public_name_is_the_same_class() -> None:
    """``tidelog.NewRecord`` and the JSON reader use the same class."""
    assert tidelog.NewRecord is NewRecord
    assert type(record_from_json("{}", Encoding.UTF8)) is NewRecord


def test_optional_fields_are_left_to_the_log() -> None:
    """Without them a record has no headers, the time of the append, and any partition."""
    assert NewRecord(b"key", None) == (b"key", None, (), None, None)
