"""The interface to numba: accepted arguments, caching, and behaviour without numba."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

import tidelog
from tidelog.kernels.hashing.crc import crc32c
from tidelog.kernels.runtime import intrinsics, jit
from tidelog.kernels.varint_kernel import varint_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PACKAGE = Path(tidelog.__file__).parent
DATA = b"123456789"
CRC = 0xE3069283

PROBE = """
import json, sys
import numpy as np
from tidelog.kernels.runtime import jit
from tidelog.kernels.hashing.crc import crc32c
found = crc32c(np.frombuffer(b"123456789", np.uint8), 0, 9)
stats = crc32c.stats
print(json.dumps([found, sum(stats.cache_hits.values()), stats.cache_path]))
"""


@pytest.mark.parametrize("is_writable", [False, True])
def test_bytes_may_be_read_only_or_not(*, is_writable: bool) -> None:
    """The same kernel accepts a mapped file and a reused buffer."""
    data = np.frombuffer(DATA, np.uint8)

    assert crc32c(data.copy() if is_writable else data, 0, 9) == CRC


@pytest.mark.parametrize(
    "data",
    [DATA, np.zeros(9, np.int8), np.zeros(18, np.uint8)[::2], np.zeros((3, 3), np.uint8)],
    ids=["bytes", "int8", "strided", "two dimensions"],
)
def test_another_type_of_array_is_refused(data: Any) -> None:
    """A kernel has one signature and is never compiled for another."""
    with pytest.raises(TypeError, match="No matching definition"):
        crc32c(data, 0, 9)


def test_a_callee_runs_as_python_when_python_calls_it() -> None:
    """A function without an entry point from Python runs as Python instead of crashing."""
    assert [varint_bytes(value) for value in (0, 63, 64, -(2**63))] == [1, 1, 2, 10]


def test_an_operation_runs_as_python_when_python_calls_it() -> None:
    """An operation called from Python runs its plain equivalent, for integers of any type."""
    add64: Callable[..., int] = intrinsics.add64

    assert add64(np.int64(2**63 - 1), np.uint8(1)) == -(2**63)


def test_other_code_s_numba_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's settings, and where the user's own functions are cached, are unchanged."""
    (tmp_path / "users_own.py").write_text(
        "import numba\n\n\n@numba.njit(cache=True)\ndef double(x):\n    return 2 * x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    users_own = import_module("users_own")

    assert users_own.double(4) == 8
    assert users_own.double.stats.cache_path == str(tmp_path / "__pycache__")
    assert os.environ.get("NUMBA_CACHE_DIR", "") == vars(numba.config)["CACHE_DIR"]


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **variables}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def probe(**variables: str) -> tuple[int, int, str | None]:
    done = run_python(PROBE, **variables)
    assert done.returncode == 0, done.stderr
    crc, hits, folder = json.loads(done.stdout)
    return crc, hits, folder


def test_without_numba_the_decorators_change_nothing() -> None:
    """Without numba the functions run as Python; the gate never chooses kernels, and logs that."""
    code = """
import sys
sys.modules["numba"] = None
import numpy as np
from tidelog.kernels.runtime import gate
from tidelog.kernels.hashing.crc import crc32c
assert not gate.use_kernels(1 << 40) and gate.warm(lambda: 0) == []
print(crc32c(np.frombuffer(b"123456789", np.uint8), 0, 9))
"""
    done = run_python(code)

    logged = "kernels-unavailable reason=numba is not installed\n"
    assert (done.stdout, done.stderr) == (f"{CRC}\n", logged)


@pytest.mark.skipif(not jit.HAVE_NUMBA, reason="needs numba")
@pytest.mark.slow
def test_kernels_are_kept_and_found_again(tmp_path: Path) -> None:
    """The second process compiles nothing, and both use the folder chosen for the sources."""
    first = probe(XDG_CACHE_HOME=str(tmp_path))
    second = probe(XDG_CACHE_HOME=str(tmp_path))

    assert (first[:2], second[:2]) == ((CRC, 0), (CRC, 1))
    assert str(second[2]).startswith(str(tmp_path / "tidelog" / "kernels-"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:0], lambda data: data[: len(data) // 2], lambda data: b"\x80" * len(data)],
    ids=["empty", "half", "garbage"],
)
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_is_compiled_again(
    tmp_path: Path, suffix: str, damage: Callable[[bytes], bytes]
) -> None:
    """Whatever a cached file contains, the kernel works, and the next process finds it cached."""
    probe(XDG_CACHE_HOME=str(tmp_path))
    (kept,) = tmp_path.rglob(f"*.{suffix}")
    kept.write_bytes(damage(kept.read_bytes()))

    again = probe(XDG_CACHE_HOME=str(tmp_path))

    assert again[:2] == (CRC, 0)
    assert probe(XDG_CACHE_HOME=str(tmp_path))[:2] == (CRC, 1)


@pytest.mark.slow
@pytest.mark.skipif(not jit.HAVE_NUMBA, reason="needs numba")
def test_a_cached_kernel_that_is_partly_zeros_is_compiled_again(tmp_path: Path) -> None:
    """A power cut may leave pages of a file as zeros; the code in it would crash the process."""
    probe(XDG_CACHE_HOME=str(tmp_path))
    (kept,) = tmp_path.rglob("*.nbc")
    data = kept.read_bytes()
    starts = range(0, len(data) - 4096, 4096)

    def crc_without(at: int) -> int:
        kept.write_bytes(data[:at] + bytes(4096) + data[at + 4096 :])
        return probe(XDG_CACHE_HOME=str(tmp_path))[0]

    assert len(starts) > 2
    assert [crc_without(at) for at in starts] == [CRC] * len(starts)


@pytest.mark.slow
@pytest.mark.skipif(not jit.HAVE_NUMBA, reason="needs numba")
def test_a_kernel_of_another_cpu_is_compiled_again(tmp_path: Path) -> None:
    """Machines that share a home and compile at the same time may write to the same file."""
    ours, others = tmp_path / "ours", tmp_path / "others"
    probe(XDG_CACHE_HOME=str(ours))
    probe(XDG_CACHE_HOME=str(others), NUMBA_CPU_NAME="generic")
    (kept,), (other,) = ours.rglob("*.nbc"), others.rglob("*.nbc")
    kept.write_bytes(other.read_bytes())

    assert probe(XDG_CACHE_HOME=str(ours))[:2] == (CRC, 0)
    assert probe(XDG_CACHE_HOME=str(ours))[:2] == (CRC, 1)


@pytest.mark.slow
def test_without_any_folder_kernels_still_work() -> None:
    """Without a home and a temporary folder, each process compiles and nothing is cached."""
    found = probe(HOME=os.devnull, XDG_CACHE_HOME="", TMPDIR=os.devnull)

    assert found[0] == CRC


@pytest.mark.slow
def test_a_cpu_without_the_crc_instruction_gets_tables(tmp_path: Path) -> None:
    """Compiled for a generic CPU, kernels use no special instruction."""
    found = probe(NUMBA_CPU_NAME="generic", XDG_CACHE_HOME=str(tmp_path))

    assert found[:2] == (CRC, 0)


@pytest.mark.slow
def test_kernels_work_from_a_zip_file(tmp_path: Path) -> None:
    """Imported from an archive, kernels compile, are cached, and are found by the next process."""
    inside = tmp_path / "sources" / "tidelog"
    shutil.copytree(PACKAGE, inside, ignore=shutil.ignore_patterns("__pycache__"))
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", inside.parent)
    variables = {"PYTHONPATH": archive, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    assert [probe(**variables)[:2] for _ in range(2)] == [(CRC, 0), (CRC, 1)]


@pytest.mark.slow
def test_an_edited_callee_is_not_served_from_the_cache(tmp_path: Path) -> None:
    """After an edit of a function that a kernel calls, the old code is not used again."""
    copy = tmp_path / "tidelog"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    variables = {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    probe(**variables)
    columns = copy / "kernels" / "rows.py"
    columns.write_text(columns.read_text() + "\n# edited\n")

    assert probe(**variables)[:2] == (CRC, 0)


def test_an_interrupt_while_llvm_calls_back_is_raised() -> None:
    """Python would print and drop it, and Ctrl-C would be lost."""

    def interrupt(frame: FrameType, _event: str, _value: object) -> None:
        if frame.f_code.co_name == "_raw_object_cache_notify":
            sys.settrace(None)
            raise KeyboardInterrupt

    hook, before = sys.unraisablehook, sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            jit.kernel("int64(int64)")(lambda number: number + 1)
    finally:
        sys.settrace(before)

    assert sys.unraisablehook is hook
