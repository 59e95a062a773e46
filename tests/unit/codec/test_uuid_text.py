"""Ids as Kafka writes them."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.codec.uuid_text import format_uuid, parse_uuid
from tidelog.errors import InvalidArgument

ID = UUID("8394ba52-0359-434d-8442-68cf2d512b5a")
ID_TEXT = "g5S6UgNZQ02EQmjPLVErWg"


def test_an_id_is_22_characters_of_url_safe_base64() -> None:
    """It is written without padding; the padded form is accepted too."""
    assert format_uuid(ID) == ID_TEXT
    assert parse_uuid(ID_TEXT) == ID
    assert parse_uuid(ID_TEXT + "==") == ID


@pytest.mark.parametrize(
    "text",
    ["", "g5S6UgNZQ02EQmjPLVErW", ID_TEXT + "=", ID_TEXT + "A", "+" * 22, f" {ID_TEXT}", str(ID)],
)
def test_other_text_is_not_an_id(text: str) -> None:
    """Another length, alphabet or form is rejected."""
    with pytest.raises(InvalidArgument):
        parse_uuid(text)
