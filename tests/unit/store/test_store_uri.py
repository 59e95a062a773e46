"""The URI of a store, and the options that find it."""

from __future__ import annotations

import json

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
        ("s3://[lake/x", "not the URI"),
        ("s3://[lake]/x", "not the URI"),
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


STORES = json.dumps(
    {
        "s3://lake": {"region": "eu-central-1"},
        "s3a://lake/logs/": {"endpoint": "http://minio:9000", "access_key_id_from": "MINIO_KEY"},
        "azure://lake": {"account_name": "someone"},
    }
)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://lake", {"region": "eu-central-1"}),
        ("s3://lake/other", {"region": "eu-central-1"}),
        ("s3://lake/logsmith", {"region": "eu-central-1"}),
        ("s3://lake/logs", {"endpoint": "http://minio:9000", "access_key_id_from": "MINIO_KEY"}),
        ("s3://lake/logs/x", {"endpoint": "http://minio:9000", "access_key_id_from": "MINIO_KEY"}),
        ("azure://lake/logs", {"account_name": "someone"}),
        ("s3://sea/logs", {}),
        ("file:///lake/logs", {}),
    ],
)
def test_a_store_has_the_options_of_the_longest_uri_above_it(
    uri: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a program gives go before them."""
    monkeypatch.setenv("TIDELOG_STORES", STORES)
    assert ObjectStore(uri).options == expected
    assert ObjectStore(uri, {}).options == {}
    monkeypatch.setenv("TIDELOG_STORES", "")
    assert ObjectStore(uri).options == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s3://lake", "must be an object in JSON"),
        ("[]", "must be an object in JSON"),
        ('{"s3://lake": "x"}', "must be an object in JSON"),
        ('{"s3://lake": {"region": 1}}', "must be an object in JSON"),
        ('{"lake": {}}', "not the URI of a store"),
        ('{"s3://lake": {"speed": "1"}}', "option speed is not one of a s3 store's"),
        ('{"s3://lake": {"timeout_ms": "1_0"}}', "timeout_ms is a number of ms from 1"),
        ('{"s3://lake": {"retry_timeout_ms": "1e3"}}', "retry_timeout_ms is a number of ms"),
        ('{"s3://lake": {"timeout_ms": "0"}}', "timeout_ms is a number of ms from 1"),
        ('{"s3://lake": {"secret_access_key": "a word"}}', "option secret_access_key is not taken"),
        ('{"azure://lake": {"access_key_id_from": "X"}}', "access_key_id_from is not taken"),
    ],
)
def test_options_of_stores_that_are_malformed_are_refused(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though they are about another store; a secret is not repeated."""
    monkeypatch.setenv("TIDELOG_STORES", text)
    with pytest.raises(InvalidArgument, match=words) as refused:
        ObjectStore("s3://sea/logs")
    assert "a word" not in str(refused.value)
