"""The container file builds, and what it builds is a broker: tried without a daemon or a registry.

The image that it begins with is made of Debian's packages, under the name that the file gives.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.waiting import sleep_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOLS = ("buildah", "debootstrap")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        os.name != "posix" or os.geteuid() != 0 or None in map(shutil.which, TOOLS),
        reason="needs root: apt install buildah debootstrap",
    ),
]
ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy/container/Containerfile"
DEBIAN = "trixie"
"""The release with the Python of the container file."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PATIENCE_S = 60


class Images:
    """Images and containers in a directory of their own."""

    def __init__(self, folder: Path) -> None:
        self._words = ("buildah", "--root", folder / "images", "--runroot", folder / "run")
        self._env = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}

    def __call__(self, *words: object) -> str:
        """Run a command, and return what it prints."""
        command = [str(word) for word in (*self._words, *words)]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout.strip()

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Start a command; its output is its standard error's, too."""
        command = [str(word) for word in (*self._words, *words)]
        return subprocess.Popen(
            command, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


@pytest.fixture
def images(tmp_path: Path) -> Images:
    """Images, among them the one that the container file begins with."""
    (name,) = set(re.findall(r"^FROM (\S+)", FILE.read_text("utf-8"), re.MULTILINE))
    root = tmp_path / "debian"
    packages = "--include=python3,python3-venv,ca-certificates"
    command = ["debootstrap", "--variant=minbase", packages, DEBIAN, str(root)]
    subprocess.run(command, check=True, capture_output=True)
    (root / "usr/bin/python").symlink_to("python3")
    if CERTIFICATES.exists():
        shutil.copyfile(CERTIFICATES, root / str(CERTIFICATES)[1:])
    found = Images(tmp_path)
    base = found("from", "scratch")
    found("copy", "-q", base, root, "/")
    found("commit", "-q", base, f"docker.io/library/{name}")
    return found


def lines_until(output: Iterator[str], pattern: str) -> re.Match[str]:
    """Return the first line's match of a pattern."""
    seen = []
    for line in output:
        seen.append(line)
        if match := re.search(pattern, line):
            return match
    raise AssertionError("".join(seen))


def test_an_image_is_built_and_is_a_broker(images: Images) -> None:
    """It runs as its own user, answers as the check of its health asks, and ends in order."""
    images("bud", "--pull=never", "-f", FILE, "-t", "tidelog", ROOT)
    container = images("from", "--pull=never", "localhost/tidelog")
    assert images("run", container, "--", "id", "-u") == "10001"

    words = ("tidelog", "serve", "--http", 0, "--listen", "127.0.0.1:0")
    with images.start("run", container, "--", *words) as process:
        assert process.stdout is not None
        output = iter(process.stdout)
        try:
            http = lines_until(output, r"http-listening path=(\S+)")[1]
            bootstrap = lines_until(output, r"listening to=(\S+)")[1]
            pid = int(lines_until(output, r"ready pid=(\d+)")[1])
            check = f"from urllib.request import urlopen; urlopen('{http}/health', timeout=4)"
            images("run", container, "--", "python", "-c", check)

            producer = Producer({"bootstrap.servers": bootstrap})
            producer.produce("tides", b"high")
            assert producer.flush(PATIENCE_S) == 0
            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
            consumer.assign([TopicPartition("tides", 0, 0)])
            (message,) = consumer.consume(1, PATIENCE_S)
            assert message.value() == b"high"
            consumer.close()

            os.kill(pid, signal.SIGTERM)
            end_ns = SYSTEM_CLOCK.monotonic_ns() + PATIENCE_S * 1_000_000_000
            while process.poll() is None and SYSTEM_CLOCK.monotonic_ns() < end_ns:
                sleep_ms(50)
            assert process.returncode in {0, 143}
        finally:
            process.kill()
