"""The remedy for a damaged segment that an archive has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome, append

from tidelog.archive.claim_file import (
    ClaimFile,
    Digest,
    KnownArchive,
    claim_file,
    read_claim,
    write_claim,
)
from tidelog.codec.crc32c import crc32c
from tidelog.explain.verify.findings import CUT
from tidelog.explain.verify.verify_partition import verify_partition

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG = "t-0/00000000000000000000.log"
MOVED = "move /data/t-0 to ASIDE/t-0"
RESTORED = "`tidelog restore {uri} t -p 0 --to /data`; `tidelog mirror ASIDE --to /data` then"


def remedies(home: DataHome) -> set[str]:
    """Return the remedies for the damage of the partition."""
    check = verify_partition(home.fs, f"{home.path}/t-0", clock=home.clock)
    return {finding.remedy for finding in check.findings if finding.severity == "damage"}


@pytest.fixture
def home() -> DataHome:
    """A data directory with the topic t, whose segment holds three batches."""
    home = DataHome()
    with home.open() as directory:
        directory.create_topic("t")
        for value in (b"a", b"b", b"c"):
            append(directory, value)
    return home


def claim(home: DataHome, **more: object) -> str:
    """Write what the log knows of an archive with its segment as it is now; return the path."""
    data = home.fs.read(f"{home.path}/{LOG}")
    with home.open() as directory:
        topic_id = directory.topic("t").topic_id
    assert topic_id is not None
    known: Mapping[str, object] = {"drawn": {"s3://lake": ("x",)}, **more}
    digests = {0: Digest(1, len(data), 1, crc32c(data), 3)}
    path = claim_file(home.path, topic_id, 0)
    write_claim(home.fs, path, ClaimFile(digests=digests, **known))  # type: ignore[arg-type]  # by name
    return path


def damage(home: DataHome) -> None:
    """Change a byte of the second batch."""
    data = bytearray(home.fs.read(f"{home.path}/{LOG}"))
    data[len(data) // 2] ^= 1
    home.write(LOG, bytes(data))


@pytest.mark.parametrize("uri", ["s3://lake", "s3://own"])
def test_a_damaged_segment_comes_back_from_its_archive(home: DataHome, uri: str) -> None:
    """Also where a service moves the log into it."""
    claim(home, archive=None if uri == "s3://lake" else KnownArchive(uri, 0, 3))
    damage(home)

    (remedy,) = remedies(home)

    assert MOVED in remedy
    assert RESTORED.format(uri=uri) in remedy


def test_a_damaged_segment_comes_back_in_a_copied_directory(home: DataHome) -> None:
    """Repairs are made in a copy: what is beside it is a copied file, and no claim."""
    path = claim(home)
    data = home.fs.read(path)
    home.fs.delete(path)
    home.fs.write(f"{path}.other", b"takes the inode")
    home.fs.write(path, data)
    assert read_claim(home.fs, path) == ClaimFile()
    damage(home)

    (remedy,) = remedies(home)

    assert RESTORED.format(uri="s3://lake") in remedy


def test_a_segment_that_was_damaged_when_it_was_archived_does_not(home: DataHome) -> None:
    """The archive has the same bytes."""
    damage(home)
    claim(home)

    assert remedies(home) == {CUT}


def test_a_segment_that_is_not_archived_is_rescued(home: DataHome) -> None:
    """Nor is one whose claim cannot be read, which keeps no damage from being found."""
    path = claim(home)
    damage(home)
    write_claim(home.fs, path, ClaimFile(drawn={"s3://lake": ("x",)}))
    assert remedies(home) == {CUT}
    home.fs.write(path, b"no claim")
    assert remedies(home) == {CUT}
    home.fs.delete(path)
    assert remedies(home) == {CUT}
