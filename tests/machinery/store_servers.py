"""Servers of others that speak S3, each in a process: moto, and S3Proxy on a directory."""

from __future__ import annotations

import socket
import subprocess
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.machinery.object_server import BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
MOTO = ROOT / ".venvs" / "moto" / "bin" / "python"
"""A Python with moto; ``make .venvs/moto/.installed`` makes it."""
S3PROXY = ROOT / ".peer" / "s3proxy"
"""The jar of S3Proxy; ``make peer`` fetches it."""
PATIENCE_S = 120

_PROPERTIES = """\
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=none
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={directory}
"""


@contextmanager
def moto() -> Iterator[str]:
    """Run moto; yield its endpoint."""
    port = free_port()
    script = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    with _running([str(MOTO), "-c", script], port) as endpoint:
        yield endpoint


@contextmanager
def s3proxy(folder: Path) -> Iterator[str]:
    """Run S3Proxy, which keeps its objects below ``folder``; yield its endpoint."""
    port = free_port()
    objects, properties = folder / "objects", folder / "s3proxy.conf"
    objects.mkdir()
    properties.write_text(_PROPERTIES.format(port=port, directory=objects))
    (jar,) = S3PROXY.glob("s3proxy-*.jar")
    with _running(["java", "-jar", str(jar), "--properties", str(properties)], port) as endpoint:
        yield endpoint


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def _running(words: Sequence[str], port: int) -> Iterator[str]:
    """Run a server until it has made the bucket, and for the body."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, stdout=quiet, stderr=quiet) as process:  # noqa: S603 - those above
        try:
            endpoint = f"http://127.0.0.1:{port}"
            _make_bucket(process, endpoint)
            yield endpoint
        finally:
            process.kill()


def _make_bucket(process: subprocess.Popen[bytes], endpoint: str) -> None:
    request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")  # noqa: S310 - on this machine
    for _ in range(PATIENCE_S * 10):
        assert process.poll() is None, "the server has ended"
        try:
            with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - as above
                return
        except OSError:  # it does not listen yet
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
    raise AssertionError(f"no server at {endpoint}")
