"""Files that hold next to nothing of their size, as anybody can make them with ``truncate``."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.main import main
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch
from tidelog.records.damage.past_damage import BadBytes, walk_past_damage

if TYPE_CHECKING:
    from pathlib import Path

if sys.platform != "win32":
    import resource

SPARSE_BYTES = (2 << 30) - 8
ROOM_BYTES = 1536 << 20
"""Address space of a command: enough for all it does, and less than a sparse file."""
HOLE_BYTES = 1 << 40
"""More than can be read while a test lasts."""
NAME = f"{0:020}"
FILES = (
    *(f"t-0/{2:020}.snapshot", f"t-0/{NAME}.index", f"t-0/{NAME}.timeindex"),
    *(f"t-0/{NAME}.txnindex", "t-0/leader-epoch-checkpoint", "t-0/partition.metadata"),
    *("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "meta.properties"),
    *(".kafka_cleanshutdown", "tidelog.topics.json", "tidelog.metrics.prom"),
)
COMMANDS = (("verify",), ("append", "t"))

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs sparse files and limits")


def make_sparse(path: Path) -> None:
    """Extend a file, or make one, by bytes that take no room on the disk; the last is not zero."""
    with path.open("ab") as file:
        file.truncate(SPARSE_BYTES)
        file.write(b"xxxxxxxx")


def run(data: Path, *words: str) -> tuple[int, str]:
    """Run a command in a process that cannot hold a sparse file in memory."""
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", *words, "-d", str(data)],
        input="x\n",
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ROOM_BYTES, ROOM_BYTES)),
    )
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("words", COMMANDS)
def test_a_sparse_file_is_not_read_into_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: tuple[str, ...]
) -> None:
    """Sizes are checked against what the format can hold: an answer or a typed error."""
    data = tmp_path / "d"
    (tmp_path / "lines").write_text("a\nb\n")
    assert main(["create", "t", "-d", str(data)]) == 0
    assert main(["append", "t", str(tmp_path / "lines"), "-d", str(data)]) == 0
    capsys.readouterr()
    make_sparse(data / name)

    code, errors = run(data, *words)

    assert code in {0, 1, 2, 3}, errors
    assert "Traceback" not in errors
    assert "MemoryError" not in errors
    assert os.strerror(errno.ENOMEM) not in errors  # it was read, and did not fit


@pytest.mark.parametrize("words", ["list", "cat t", "describe", "offsets t --count", "verify"])
def test_a_hole_at_the_end_of_a_log_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    """Whether it is longer than a segment, or a file was preallocated for one."""
    data = tmp_path / "d"
    (tmp_path / "lines").write_text("a\nb\n")
    assert main(["create", "t", "-d", str(data)]) == 0
    assert main(["append", "t", str(tmp_path / "lines"), "-d", str(data)]) == 0
    os.truncate(data / f"t-0/{NAME}.log", HOLE_BYTES)
    capsys.readouterr()

    assert main([*words.split(), "-d", str(data)]) in {0, 1}

    assert main(["rescue", str(data), "--to", str(tmp_path / "rescued")]) == 0
    assert "copied 2 records" in capsys.readouterr().out


@pytest.mark.parametrize("shift", [0, 1, BATCH_HEADER.size - 1, BATCH_HEADER.size, 4096, 65_536])
def test_a_batch_behind_a_hole_is_found(tmp_path: Path, shift: int) -> None:
    """Wherever it lies in what is read at once, and though its first bytes are zeros."""
    batch = build_batch([(1000, b"k", b"v", ())])
    assert batch[0] == 0
    at = HOLE_BYTES + shift
    with (tmp_path / "log").open("wb") as written:
        written.write(b"no batch")
        written.seek(at)
        written.write(batch)
    file = SYSTEM_FILES.open(str(tmp_path / "log"))

    bad, piece = walk_past_damage(file, 0, file.size())

    assert isinstance(bad, BadBytes)
    assert (bad.position, bad.end) == (0, at)
    assert not isinstance(piece, BadBytes)
    assert piece.batches.base_offset.tolist() == [0]
    file.close()
