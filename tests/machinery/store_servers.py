"""Servers of others, each in a process: moto and S3Proxy, which speak S3, and Azure's Azurite."""

from __future__ import annotations

import base64
import hmac
import socket
import subprocess
import urllib.request
from contextlib import contextmanager, suppress
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.machinery.object_server import BUCKET, ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
MOTO = ROOT / ".venvs" / "moto" / "bin" / "python"
"""A Python with moto; ``make .venvs/moto/.installed`` makes it."""
S3PROXY = ROOT / ".peer" / "s3proxy"
"""The jar of S3Proxy; ``make peer`` fetches it."""
AZURITE = ROOT / ".venvs" / "azurite"
"""The packages of Azurite; ``make .venvs/azurite/.installed`` fetches them."""
PATIENCE_S = 120

_AZURITE_MAIN = "node_modules/azurite/dist/src/blob/main.js"
_ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Of every Azurite, as its documentation says."""

_PROPERTIES = """\
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=none
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={directory}
"""


class StoreServer(NamedTuple):
    """A server with an empty bucket: its URI, and the environment by which a process finds it."""

    uri: str
    environ: dict[str, str]


@contextmanager
def moto() -> Iterator[StoreServer]:
    """Run moto."""
    port = free_port()
    script = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    with _running([str(MOTO), "-c", script], _of_s3(port), port) as server:
        yield server


@contextmanager
def s3proxy(folder: Path) -> Iterator[StoreServer]:
    """Run S3Proxy, which keeps its objects below ``folder``."""
    port = free_port()
    objects, properties = folder / "objects", folder / "s3proxy.conf"
    objects.mkdir()
    properties.write_text(_PROPERTIES.format(port=port, directory=objects))
    (jar,) = S3PROXY.glob("s3proxy-*.jar")
    words = ["java", "-jar", str(jar), "--properties", str(properties)]
    with _running(words, _of_s3(port), port) as server:
        yield server


@contextmanager
def azurite(folder: Path) -> Iterator[StoreServer]:
    """Run Azurite, which keeps its objects below ``folder``."""
    port = free_port()
    words = ["node", str(AZURITE / _AZURITE_MAIN), "--blobHost", "127.0.0.1", "--silent"]
    words += ["--blobPort", str(port), "--location", str(folder)]
    environ = {
        "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": _ACCOUNT_KEY,
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{_ACCOUNT}",
    }
    server = StoreServer(f"azure://{BUCKET}", environ)
    with _running(words, server, port) as running:
        yield running


def _of_s3(port: int) -> StoreServer:
    environ = {
        **ENVIRONMENT,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
    }
    return StoreServer(f"s3://{BUCKET}", environ)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def _running(words: Sequence[str], server: StoreServer, port: int) -> Iterator[StoreServer]:
    """Run a server until it has made the bucket, and for the body."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, stdout=quiet, stderr=quiet) as process:  # noqa: S603 - those above
        try:
            _make_bucket(process, server, f"http://127.0.0.1:{port}")
            yield server
        finally:
            process.kill()


def _make_bucket(process: subprocess.Popen[bytes], server: StoreServer, endpoint: str) -> None:
    is_azure = server.uri.startswith("azure")
    for _ in range(PATIENCE_S * 10):
        assert process.poll() is None, "the server has ended"
        made = _container_request(endpoint) if is_azure else f"{endpoint}/{BUCKET}"
        request = urllib.request.Request(made, method="PUT") if isinstance(made, str) else made  # noqa: S310 - on this machine
        try:
            with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - as above
                return
        except OSError:  # it does not listen yet
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
    raise AssertionError(f"no server at {endpoint}")


def _container_request(endpoint: str) -> urllib.request.Request:
    """Return a request that makes a container, signed as Azure's Shared Key has it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    blanks = "\n" * 11  # of headers that the request lacks, as Content-Length and Range
    text = f"PUT\n{blanks}{signed}/{_ACCOUNT}/{_ACCOUNT}/{BUCKET}\nrestype:container"
    key = base64.b64decode(_ACCOUNT_KEY)
    signature = base64.b64encode(hmac.digest(key, text.encode(), "sha256")).decode()
    headers |= {"Authorization": f"SharedKey {_ACCOUNT}:{signature}", "Content-Length": "0"}
    url = f"{endpoint}/{_ACCOUNT}/{BUCKET}?restype=container"
    return urllib.request.Request(url, method="PUT", headers=headers)  # noqa: S310 - as above
