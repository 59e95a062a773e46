"""What starts tidelog loads little: times vary between machines, the modules loaded do not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

SLOW = {
    "argparse", "asyncio", "dataclasses", "email", "importlib.metadata", "inspect", "json",
    "llvmlite", "logging", "numba", "numpy", "pathlib", "pyarrow", "pyspark", "shutil",
    "subprocess", "zipfile",
}  # fmt: skip
ASK = """
import signal, socket, sys
from tidelog.broker import server
from tidelog.cli.commands.upkeep import run_command
from tidelog.codec.protocol.apis import api_named, frame_size, size_of_frame
def ask(logs):
    with socket.create_connection(logs.door.addresses[0]) as client, client.makefile("rb") as file:
        for api in map(api_named, ("ApiVersions", "Metadata")):
            parts = [api.request_header(1, 7, "test"), *api.write_request(1, {"topics": None})]
            client.sendall(size_of_frame(parts) + b"".join(parts))
            assert file.read(frame_size(file.read(4), 0))[:4] == b"\\0\\0\\0\\7"
    signal.raise_signal(signal.SIGTERM)
run_command._log_ready, server._FIRST_ANSWERS_S = ask, 60
"""
BARE = "import sys; before = set(sys.modules)"
LIST = "print(*set(sys.modules) - before, file=sys.stderr)"


def loaded_by(code: str) -> set[str]:
    """Return the modules that a new process loads for ``code``."""
    command = [sys.executable, "-c", f"{BARE}\n{code}\n{LIST}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def of_tidelog(loaded: set[str]) -> set[str]:
    """Return those of the modules that are tidelog's."""
    return {name for name in loaded if name.partition(".")[0] == "tidelog"}


def test_importing_the_package_loads_its_door_only() -> None:
    """``import tidelog`` loads no room; each name loads its own when it is first used."""
    loaded = loaded_by("import tidelog")

    assert of_tidelog(loaded) == {"tidelog", "tidelog.lazy"}
    assert loaded & SLOW == set()


def test_nothing_slow_is_loaded_before_ctrl_c_is_caught() -> None:
    """``main`` catches it: an interrupt in an import before that is a traceback to the user."""
    loaded = loaded_by("import tidelog.__main__")

    assert of_tidelog(loaded) == {"tidelog", "tidelog.__main__", "tidelog.lazy"}
    assert loaded & {*SLOW, "collections", "enum", "functools", "re", "typing"} == set()


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_printed_without_a_parser(option: str) -> None:
    """Neither the commands nor the metadata of installed packages are read for it."""
    code = f"from tidelog.__main__ import main; sys.argv[1:] = [{option!r}]; assert main() == 0"

    loaded = loaded_by(code)

    assert of_tidelog(loaded) == {
        "tidelog", "tidelog.__main__", "tidelog.cli", "tidelog.cli.main", "tidelog.error_codes",
        "tidelog.errors", "tidelog.exit_codes", "tidelog.lazy", "tidelog.version",
    }  # fmt: skip
    assert loaded & SLOW == set()


@pytest.mark.parametrize(("command", "most"), [("list", 117), ("offsets", 117), ("describe", 147)])
def test_a_look_at_a_directory_loads_little(tmp_path: Path, command: str, most: int) -> None:
    """No NumPy, and what reads transactional ids only where a log has transactions."""
    with tidelog.open(tmp_path) as logs:
        logs.append(logs.create_topic("t").name, b"value")
    arguments = [command, "-d", str(tmp_path)]
    code = f"from tidelog.__main__ import main; sys.argv[1:] = {arguments!r}; assert main() == 0"

    loaded = loaded_by(code)

    assert len(of_tidelog(loaded)) <= most
    assert loaded & {"numpy", "numba", "asyncio", "tidelog.readonly.transactional_id"} == set()


def test_a_broker_answers_before_it_has_loaded_all(tmp_path: Path) -> None:
    """No NumPy, and no cleaner, mirror or transaction of a program's own, before it is asked."""
    with tidelog.open(tmp_path) as logs:
        logs.append(logs.create_topic("t").name, b"value")
    arguments = ["serve", "-d", str(tmp_path), "--listen", "127.0.0.1:0"]
    code = (
        f"{ASK}\nfrom tidelog.__main__ import main; sys.argv[1:] = {arguments!r}; assert not main()"
    )

    loaded = loaded_by(code)

    assert len(of_tidelog(loaded)) <= 412
    assert loaded & {
        "numpy", "numba", "pyarrow", "tidelog.cleaner.cleaner", "tidelog.embedded.transaction",
        "tidelog.manager.mirror", "tidelog.manager.recovered_log",
    } == set()  # fmt: skip
