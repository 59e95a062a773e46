"""Stores that tests use: a directory, and servers that speak S3's protocol, our own and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.object_server import BUCKET, ENVIRONMENT, ObjectServer, object_server

from tidelog.store.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def running_server() -> Iterator[ObjectServer]:
    """A server for all tests of this process."""
    with object_server() as running:
        yield running


@pytest.fixture
def server(running_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """The server, empty and without faults."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    running_server.objects.clear()
    running_server.uploads.clear()
    running_server.requests.clear()
    running_server.faults.clear()
    running_server.choose = None
    return running_server


@pytest.fixture
def s3(server: ObjectServer) -> ObjectStore:
    """A prefix on the server, whose requests time out after 300 ms."""
    times = {"timeout_ms": "300", "retry_timeout_ms": "1500"}
    return ObjectStore(f"s3://{BUCKET}/some/prefix", server.options | times)


@pytest.fixture(
    params=[
        "file",
        "s3",
        pytest.param("moto_server", marks=pytest.mark.slow),
        pytest.param("s3proxy_server", marks=[pytest.mark.slow, pytest.mark.compat]),
        pytest.param("azurite_server", marks=pytest.mark.slow),
    ]
)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ObjectStore:
    """A prefix on each kind of store."""
    if request.param == "file":
        return ObjectStore(f"{tmp_path.as_uri()}/the%20store")
    found = request.getfixturevalue(request.param)
    if isinstance(found, ObjectStore):
        return found
    for name, value in found.environ.items():
        monkeypatch.setenv(name, value)
    return ObjectStore(f"{found.uri}/{tmp_path.name}")
