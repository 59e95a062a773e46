"""Exit codes and error messages."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import suppress
from errno import EACCES, ENOENT, ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli.commands import warm_command
from tidelog.cli.main import main
from tidelog.cli.parser import COMMAND_MODULES
from tidelog.errors import (
    CorruptFile,
    CorruptMessage,
    DataLoss,
    DirectoryFull,
    DirectoryLocked,
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    Cli = Any


def test_help_is_printed_on_demand(cli: Cli) -> None:
    """Of the whole command line and of each command; exit code 0."""
    outcome = cli("--help")

    assert outcome.code == 0
    for command in ("create", "append", "cat", "dump", "describe", "picture", "warm"):
        assert command in outcome.out
        assert cli(command, "--help").code == 0
    assert "exit codes: 0 fine, 1 damage or loss was found, 2 the usage is wrong" in outcome.out


def test_a_current_directory_that_was_deleted_is_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's error has no name in it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    outcome = cli("create", "t", "-d", "data")

    assert outcome.code == 2
    assert outcome.err == (
        "tidelog create: the current directory was deleted: change to another one\n"
    )


HELP = (["--help"], ["-h"], ["--version"], *([name, "--help"] for name in COMMAND_MODULES))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [*HELP, ["help", "cat"], ["spark", "compact", "--help"]])
def test_a_help_that_cannot_be_printed_is_an_error(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any other output on a full disk; argparse would drop the error."""
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)

        code = main(words)

        monkeypatch.undo()
        with suppress(OSError):
            full.close()
    assert code == ExitCode.FAILED
    assert capsys.readouterr().err == "tidelog: standard output: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [["schema", "list"], ["completion", "bash"]])
def test_an_output_that_does_not_fit_its_buffer_ends_alike(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command itself finds the disk full then, and not the end of the process."""
    test_a_help_that_cannot_be_printed_is_an_error(words, capsys, monkeypatch)


def test_the_version_is_the_packages(cli: Cli) -> None:
    """As its metadata have it."""
    from importlib import metadata

    for option in ("-V", "--version"):
        assert cli(option)[:2] == (0, f"tidelog {metadata.version('tidelog')}\n")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["cat"],
        ["cat", "t"],
        ["cat", "t", "-d", "x", "--backwards"],
        ["cat", "t", "-d", "x", "--isolation", "dirty"],
        ["cat", "t", "-d", "x", "--enc", "hex"],
        ["cat", "t", "-d", "x", "--encoding", "latin1"],
        ["cat", "t", "-d", "x", "--from", "-1"],
        ["cat", "t", "-d", "x", "--from", "a"],
        ["cat", "t", "-d", "x", "--up-to", "end"],
        ["cat", "t", "-d", "x", "-n", "-1"],
        ["append", "t", "-d", "x", "--format", "xml"],
        ["append", "t", "-d", "x", "--compression", "rar"],
        ["append", "t", "-d", "x", "-o", "retention.ms"],
        ["append", "t", "-d", "x", "-o", "=1"],
        ["create", "t", "-d", "x", "-p", "0"],
        ["create", "-d", "x"],
        ["dump"],
        ["picture", "-d", "x", "--width", "0"],
        ["describe"],
    ],
)
def test_wrong_words_are_wrong_usage(cli: Cli, words: list[str]) -> None:
    """Exit code 2; standard error has the reason and how to get help, or the help itself."""
    outcome = cli(*words)

    assert outcome[:2] == (2, "")
    assert ("see: tidelog" if words else "usage: tidelog") in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ["cat", "t", "-d", "nowhere"],
        ["describe", "-d", "nowhere"],
        ["picture", "-d", "nowhere"],
        ["dump", "nowhere/00000000000000000000.log"],
        ["dump", "nowhere/replication-offset-checkpoint"],
        ["append", "t", "-d", "nowhere"],
    ],
)
def test_a_missing_file_or_directory_is_wrong_usage(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """The error names the path, without an errno, and nothing is created."""
    cli.data.mkdir()
    monkeypatch.chdir(cli.data)

    outcome = cli(*words)

    assert outcome[:2] == (2, "")
    assert outcome.err.startswith(f"tidelog {words[0]}: ")
    assert "nowhere" in outcome.err
    assert "Errno" not in outcome.err
    assert list(cli.data.iterdir()) == []


def test_a_locked_directory_fails(topic: Cli) -> None:
    """Exit code 3, with the other writer's process id; read-only commands still work."""
    import tidelog

    topic.append("a")
    with tidelog.open(topic.data):
        refused = topic.on("staged", "commit")

        assert refused.code == 3
        assert f"is in use by this process ({os.getpid()})" in refused.err
        assert topic.values() == ["a"]
        assert [topic.on(name).code for name in ("describe", "picture")] == [0, 0]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CorruptMessage("the CRC of a batch is wrong", 0, "x.log"), 1),
        (CorruptFile("x is malformed"), 1),
        (DataLoss("t", 0, 5, 9, "the log was truncated"), 1),
        (InvalidArgument("nothing to change"), 2),
        (UnknownTopicOrPartition("no topic t"), 2),
        (FileNotFoundError(ENOENT, "No such file or directory", "x"), 2),
        (KafkaStorageError("/data is offline"), 3),
        (DirectoryFull("/data has no space left"), 3),
        (DirectoryLocked("/data/.lock", 7), 3),
        (PermissionError(EACCES, "Permission denied", "/data"), 3),
        (OSError(ENOSPC, "No space left on device", "/data"), 3),
    ],
    ids=repr,
)
def test_an_error_has_the_exit_code_of_its_kind(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    """1: the data is damaged or lost; 2: the user's mistake; 3: the system refused."""

    def fail(_args: object) -> int:
        raise error

    monkeypatch.setattr(warm_command, "run", fail)

    outcome = cli("warm")

    assert (outcome.code, outcome.err.startswith("tidelog warm: ")) == (code, True)


@pytest.mark.parametrize("cause", [InvalidArgument("not an integer"), CorruptMessage("torn")])
def test_a_storage_error_about_wrong_bytes_is_damage(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, cause: Exception
) -> None:
    """Its cause is what is wrong with the file."""

    def fail(_args: object) -> int:
        raise KafkaStorageError("x cannot be read") from cause

    monkeypatch.setattr(warm_command, "run", fail)

    assert cli("warm").code == 1


def test_names_from_outside_cannot_break_a_message(cli: Cli) -> None:
    """Line breaks and escape sequences in the name of a directory are printed escaped."""
    outcome = cli("describe", "-d", "a\nb\x1b[2J")

    assert outcome.code == 2
    assert "a\\nb\\x1b[2J" in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_package_can_be_run() -> None:
    """``python -m tidelog`` is the command ``tidelog``, with its exit codes."""
    done = [
        subprocess.run(
            [sys.executable, "-m", "tidelog", word], capture_output=True, text=True, check=False
        )
        for word in ("--version", "nonsense")
    ]

    assert [outcome.returncode for outcome in done] == [0, 2]
    assert done[0].stdout.startswith("tidelog ")
    assert done[1].stderr.startswith("tidelog: there is no command 'nonsense'")


class Closed(io.BytesIO):
    """An output whose reader has closed it."""

    def write(self, _data: object) -> int:
        """Fail as a closed pipe does."""
        raise BrokenPipeError


@pytest.mark.parametrize("words", [["cat", "t"], ["describe"], ["picture"]])
def test_a_reader_may_close_the_output_early(
    topic: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """As ``| head`` does; nothing more is written, even when the interpreter exits."""
    topic.append("a", "b")
    out = io.TextIOWrapper(Closed(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", out)

    assert main([*words, "-d", str(topic.data)]) == 0
    assert sys.stdout is None


class Full(io.BytesIO):
    """A file on a full disk."""

    def write(self, _data: object) -> int:
        """Fail as such a file does."""
        raise OSError(ENOSPC, "No space left on device")


def test_output_that_cannot_be_written_is_an_error(
    topic: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message names it; the code is the one of a failed operation."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Full(), encoding="utf-8"))

    assert main(["list", "-d", str(topic.data)]) == 3
    assert sys.stdout is None
    assert capsys.readouterr().err == "tidelog: standard output: No space left on device\n"


@pytest.mark.parametrize("kind", [Full, Closed])
def test_a_standard_error_that_cannot_be_written_changes_nothing(
    torn: Cli,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type[io.BytesIO],
) -> None:
    """Events are printed in the middle of a change; that continues, with the same exit codes."""
    for words, code in ((["append", "t"], 0), (["cat", "other"], 2), (["nonsense"], 2)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"d\n")))
            err = io.TextIOWrapper(kind(), encoding="utf-8", line_buffering=True)
            patch.setattr(sys, "stderr", err)

            assert main([*words, "-d", str(torn.data)]) == code

    capsys.readouterr()
    assert torn.values() == ["a", "d"]


@pytest.mark.parametrize(("kind", "code"), [(Full, 3), (Closed, 0)])
def test_a_change_is_made_to_the_end_whatever_becomes_of_its_output(
    topic: Cli, monkeypatch: pytest.MonkeyPatch, kind: type[io.BytesIO], code: int
) -> None:
    """Half of it would be left out, with an exit code as if all were done."""
    topic("create", "u", "-d", str(topic.data))
    out = io.TextIOWrapper(kind(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", out)

    assert main(["delete", "t", "u", "-d", str(topic.data)]) == code
    assert [path.name for path in topic.data.glob("*-0")] == []


def test_output_is_utf8_in_every_locale(topic: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON is UTF-8; a C locale does not make a command fail."""
    topic.append("☃")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))

    code = main(["cat", "t", "-d", str(topic.data)])

    assert code == 0
    assert '"value": "☃"'.encode() in raw.getvalue()


def test_an_interrupt_has_the_exit_code_of_shells(
    topic: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """130, without a traceback; appended records stay."""

    class Interrupted(io.BytesIO):
        """Standard input that ends with Ctrl-C."""

        def read(self, _size: int | None = -1) -> bytes:
            line = self.readline()
            if line == b"stop\n":
                raise KeyboardInterrupt
            return line

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Interrupted(b"a\nstop\nb\n")))
    code = main(["append", "t", "-d", str(topic.data)])
    monkeypatch.undo()

    assert code == 130


@pytest.mark.parametrize(
    ("closed", "words", "code", "message"),
    [
        (1, ("cat", "t"), 3, "tidelog: standard output is closed\n"),
        (0, ("append", "t"), 0, ""),
        (2, ("cat", "none"), 2, ""),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX descriptors")
def test_a_closed_stream_is_no_traceback(
    cli: Cli, closed: int, words: tuple[str, ...], code: int, message: str
) -> None:
    """As after ``cat >&-``; and no file of a log gets the number of a stream."""
    cli.on("create", "t")
    others = {number: subprocess.PIPE for number in (1, 2) if number != closed}

    done = subprocess.run(
        [sys.executable, "-m", "tidelog", *words, "-d", str(cli.data)],
        stdin=subprocess.DEVNULL,
        stdout=others.get(1),
        stderr=others.get(2),
        preexec_fn=lambda: os.close(closed),
        check=False,
    )

    assert (done.returncode, (done.stderr or b"").decode()) == (code, message)


def test_an_early_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the command line is being imported ends with 130, as later."""
    import builtins

    from tidelog.__main__ import main as start

    real = builtins.__import__

    def interrupted(name: str, *rest: Any) -> Any:
        if name == "tidelog.cli.main":
            raise KeyboardInterrupt
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", interrupted)

    assert start() == 130
