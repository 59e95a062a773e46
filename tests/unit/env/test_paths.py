"""Paths and URIs as people give them."""

from __future__ import annotations

import os

import pytest

from tidelog.env.paths import absolute_path, absolute_place, absolute_places, is_uri
from tidelog.errors import InvalidArgument


def test_paths_are_no_uris() -> None:
    """A directory may have a colon in its name."""
    assert is_uri("s3://lake")
    assert is_uri("gs://lake/x")
    assert not any(map(is_uri, ["/data", "data", "C:/x", "a:b", "://x", "s3:/x"]))


def test_a_place_is_a_directory_or_an_archive() -> None:
    """To be written, it is a directory."""
    assert absolute_places(["data", "s3://lake/x/"]) == [os.path.abspath("data"), "s3://lake/x"]
    assert absolute_path("data") == os.path.abspath("data")
    with pytest.raises(InvalidArgument, match="s3://lake/x is not a directory: an archive"):
        absolute_path("s3://lake/x")


@pytest.mark.parametrize("given", ["", b"data", 5, None, "\0", "a\0b", "s3://a/\0", "\ud800"])
def test_other_things_are_no_places(given: object) -> None:
    """Nor is an empty list."""
    with pytest.raises(InvalidArgument):
        absolute_place(given)  # type: ignore[arg-type]  # what a caller may get wrong
    with pytest.raises(InvalidArgument, match="no data directory"):
        absolute_places([])
