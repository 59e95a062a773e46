"""The checksum of batches and snapshots."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tidelog.codec.crc32c import crc32c


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_the_checksum_is_castagnolis(data: bytes, checksum: int) -> None:
    """The values are those of RFC 3720, appendix B.4, and of the usual check string."""
    assert checksum == crc32c(data)


def test_every_kind_of_buffer_gives_the_same_checksum() -> None:
    """Bytes are not copied, and read-only arrays are accepted."""
    data = b"123456789"
    array = np.frombuffer(data, np.uint8)

    assert {0xE3069283} == {crc32c(bytearray(data)), crc32c(memoryview(data)), crc32c(array)}


def test_a_checksum_can_continue_another() -> None:
    """Two parts give the checksum of the whole."""
    assert crc32c(b"56789", crc32c(b"1234")) == 0xE3069283


def test_the_golden_batch_has_the_checksum_that_it_stores() -> None:
    """The checksum covers everything from the attributes on."""
    batch = bytes.fromhex(
        "0000000000000000 00000046 00000000 02 d70a9a39 0000 00000001 00000000000003e8"
        "00000000000003ed ffffffffffffffff ffff ffffffff 00000002 10000000026b027600"
        "16000a02026b010202680278"
    )

    assert crc32c(batch[21:]) == 0xD70A9A39


def test_a_checksum_loads_the_compiled_module_alone() -> None:
    """A short command that checks one batch must not wait for the whole package."""
    code = (
        "import sys; from tidelog.codec.crc32c import crc32c; print(crc32c(b'123456789'),"
        "[name for name in ('crc32c', 'importlib.metadata', 'argparse') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert f"{0xE3069283} []" == done.stdout.strip()
