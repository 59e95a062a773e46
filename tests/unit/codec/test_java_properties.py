"""Java's properties text, read and written."""

from __future__ import annotations

import pytest

from tidelog.codec.java_properties import comments_of, format_properties, parse_properties
from tidelog.errors import InvalidArgument


@pytest.mark.parametrize("line", ["a=b", "a:b", "a b", " a = b", "\ta\t:\tb", "a\f b", "a=b\r"])
def test_a_sign_or_space_separates_key_and_value(line: str) -> None:
    """The first ``=``, ``:`` or white space ends the key; the space around it is dropped."""
    assert parse_properties(line.encode()) == {"a": "b"}


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a==b", "a", "=b"),
        ("a = : b", "a", ": b"),
        ("a", "a", ""),
        ("=b", "", "b"),
        ("a=b ", "a", "b "),
        ("a=b=c#d", "a", "b=c#d"),
        (r"a\=\ b=c", "a= b", "c"),
        (r"a\\=b", "a\\", "b"),
        (r"a=\tb\n\r\f\q\u0041", "a", "\tb\n\r\fqA"),
        (r"a=\ud83c\udf0a", "a", "\U0001f30a"),
        (r"a=C:\\dir", "a", "C:\\dir"),
    ],
)
def test_escapes_stand_for_characters(line: str, key: str, value: str) -> None:
    """A backslash removes a character's meaning or gives it one; other backslashes are dropped."""
    assert parse_properties(line.encode()) == {key: value}


def test_a_line_that_ends_in_a_backslash_continues() -> None:
    """Indentation of the next line is dropped; two backslashes at the end are one in the value."""
    text = b"a=b\\\n   c\\\r\n d\nx=y\\\\\nz=\\\n"

    assert parse_properties(text) == {"a": "bcd", "x": "y\\", "z": ""}


def test_comments_and_blank_lines_hold_no_property() -> None:
    """A comment starts with either sign and cannot continue; a continued line is not one."""
    text = b"#a=b\\\n  ! c=d\n\n \t\nk=v\\\n#w\n\\\n"

    assert parse_properties(text) == {"k": "v#w"}
    assert comments_of(b"#a=b\\\n  ! c=d\nk=v\n#\n") == ("#a=b\\", "  ! c=d", "#")


def test_the_last_of_two_values_wins() -> None:
    """This is what filling a hash table in order gives."""
    assert parse_properties(b"a=1\nb=2\na=3\n") == {"a": "3", "b": "2"}


def test_bytes_are_latin_1() -> None:
    """Java reads property streams as Latin-1, whatever the platform's encoding is."""
    assert parse_properties(b"a=\xe9") == {"a": "\u00e9"}


@pytest.mark.parametrize("line", [r"a=\u12", r"a=\u12g4", r"\uzzzz=b"])
def test_a_malformed_unicode_escape_is_rejected(line: str) -> None:
    """Java rejects the whole text."""
    with pytest.raises(InvalidArgument, match="escape"):
        parse_properties(line.encode())


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("node.id", "1", b"node.id=1\n"),
        ("a b", " c d", b"a\\ b=\\ c d\n"),
        ("a=b:c", "#!=:", b"a\\=b\\:c=\\#\\!\\=\\:\n"),
        ("a", "\\\t\n\r\f\x00\x7f", b"a=\\\\\\t\\n\\r\\f\\u0000\\u007F\n"),
        ("a", "\u00e9\U0001f30a", b"a=\\u00E9\\uD83C\\uDF0A\n"),
    ],
)
def test_special_characters_are_escaped(key: str, value: str, line: bytes) -> None:
    """The lines are those that Java writes, and read back unchanged."""
    assert line == format_properties({key: value})
    assert parse_properties(line) == {key: value}


def test_comments_are_written_first() -> None:
    """They read back unchanged."""
    comments = ("#", "#Sat Nov 21 09:53:36 UTC 2026")

    text = format_properties({"a": "b"}, comments)

    assert text == b"#\n#Sat Nov 21 09:53:36 UTC 2026\na=b\n"
    assert comments == comments_of(text)
