"""The URI of a store, and the options that find it."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidArgument
from tidelog.store.object_store import ObjectStore
from tidelog.store.store_uri import StoreUri, local_path, parse_store_uri


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://lake", StoreUri("s3", "lake", "")),
        ("s3a://lake/logs//old/", StoreUri("s3", "lake", "logs/old")),
        ("S3://lake/a%20b", StoreUri("s3", "lake", "a b")),
        ("azure://box/x", StoreUri("azure", "box", "x")),
        ("az://box/x", StoreUri("azure", "box", "x")),
        ("file:///data/logs", StoreUri("file", "", "data/logs")),
        ("file://localhost/data", StoreUri("file", "", "data")),
    ],
)
def test_a_uri_names_kind_container_and_prefix(text: str, expected: StoreUri) -> None:
    """What is printed of it is read as the same."""
    found = parse_store_uri(text)

    assert found == expected
    assert parse_store_uri(str(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gs://lake/x", "not the URI of a store that is supported"),
        ("/data", "not the URI"),
        ("s3://", "names no bucket"),
        ("azure:///x", "names no container"),
        ("s3://key:word@lake/x", "AWS_SECRET_ACCESS_KEY"),
        ("azure://x@lake/x", "AZURE_STORAGE"),
        ("s3://lake/../x", "a name that a store does not take"),
        ("s3://lake/%2e%2e/x", "a name that a store does not take"),
        ("s3://lake/x?versionId=1", "a query"),
        ("file://host/x", "an absolute path"),
        ("file:x", "an absolute path"),
    ],
)
def test_other_uris_are_refused(text: str, words: str) -> None:
    """With what to write instead; credentials are not repeated."""
    with pytest.raises(InvalidArgument, match=words) as caught:
        parse_store_uri(text)
    assert "word" not in str(caught.value)


def test_a_directory_is_a_store() -> None:
    """By its absolute path."""
    assert local_path(parse_store_uri("file:///a/b")) == "/a/b"


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("s3://lake", "secret_access_key", "AWS_SECRET_ACCESS_KEY in the environment"),
        ("s3://lake", "aws_session_token", "AWS_SECRET_ACCESS_KEY in the environment"),
        ("azure://box", "account_key", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("s3://lake", "endpont", "endpoint, region"),
        ("file:///x", "endpoint", "not one of a file store's"),
    ],
)
def test_options_that_are_secret_or_unknown_are_refused(kind: str, name: str, words: str) -> None:
    """Options are printed and sent to other machines."""
    with pytest.raises(InvalidArgument, match=words):
        ObjectStore(kind, {name: "x"})
