"""Runs the code blocks of a page, as readers do who type in one after the other.

All blocks of a page run in order, in one new directory, with ``tidelog`` on the PATH. A ``python``
block has the names of those before it; the commands of ``sh`` and ``console`` blocks share a shell.
A command ends with 0, or with the number in its comment ``# exit code N``. What a ``console`` block
shows below its commands, and a ``text`` block right below a ``python`` or ``sh`` block, is the
output, where ``...`` stands for anything. ``<!-- not run: REASON -->`` above a block leaves it out,
``<!-- run with: MODULE -->`` where that module is not installed, unless the variable
``TIDELOG_ALL_BLOCKS`` is set.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

import tidelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BLOCK: Final = re.compile(
    r"(?:^<!-- (?:not run: (?P<reason>.+?)|run with: (?P<module>\w+)) -->\n+)?"
    r"^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
COMMAND: Final = re.compile(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", re.MULTILINE)
"""A command of a console, with its output."""

COMMENTS: Final = re.compile(r"(\s*(#.*)?\n)*")
EXIT_CODE: Final = re.compile(r"# exit code (\d+)\b")
RELATIVE: Final = re.compile(r"(['\"])((?:data|months|checkpoints?)(?:/\w+)*)\1")
END_MARK: Final = "end of the command, exit code"
CHECK: Final = ("bash", "-n")
STOP_SECONDS: Final = 30
ALL_BLOCKS: Final = bool(os.environ.get("TIDELOG_ALL_BLOCKS"))
"""Whether blocks run for which a module may be missing, and then fail."""
LANGUAGES: Final = ("console", "python", "sh", "text", "mermaid", "")
"""The languages that blocks may name; the last two are pictures."""


class Block(NamedTuple):
    """A block of code; ``reason``: why it is not run, ``output``: what it shows, None: unknown."""

    language: str
    code: str
    line: int
    reason: str | None
    output: str | None


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page that hold code, each with its output."""
    found: list[Block] = []
    last_end = 0
    for match in BLOCK.finditer(page):
        language, code = match["language"], match["code"]
        assert language in LANGUAGES, f"no block is in {language}"
        is_next = not page[last_end : match.start()].strip()
        last_end = match.end()
        if language == "text" and is_next and found and found[-1].output is None:
            found[-1] = found[-1]._replace(output=code)
        elif language in {"console", "python", "sh"}:
            line = page.count("\n", 0, match.start("code")) + 1
            reason = match["reason"]
            module = match["module"]
            if module and not ALL_BLOCKS and importlib.util.find_spec(module) is None:
                reason = f"{module} is not installed"
            found.append(Block(language, code, line, reason, None))
        else:
            last_end = 0  # what stands below a picture is not the output of a block
    return found


def is_shown(expected: str, actual: str) -> bool:
    """Return whether an output is as a page shows it; ``...`` alone may stand for many lines."""
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    patterns = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*?") + r"\s*?\n"
        for line in lines
    ]
    text = actual.strip("\n")
    return re.fullmatch("".join(patterns), f"{text}\n" if text else "") is not None


def commands_of(block: Block) -> Iterator[tuple[int, str, str | None]]:
    """Yield each command with its line and its output, None where the block shows none."""
    if block.language == "console":
        for match in COMMAND.finditer(block.code):
            yield block.line + block.code.count("\n", 0, match.start()), match[1], match[2]
        return
    command = ""
    for at, line in enumerate(block.code.splitlines(keepends=True)):
        command += line
        if is_whole(command):
            if not COMMENTS.fullmatch(command):
                yield block.line + at, command, None
            command = ""
    assert not command, f"line {block.line}: a command has no end: {command}"


def is_whole(command: str) -> bool:
    """Return whether a shell would run a text, rather than wait for the rest of it."""
    if command.endswith("\\\n"):
        return False
    done = subprocess.run(
        ["bash", "-n"], input=command, capture_output=True, text=True, check=False
    )
    return not done.returncode and not done.stderr


class Shell:
    """One shell, so that directories, variables and jobs last from command to command."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**environment},
            encoding="utf-8",
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; return its exit code and what a terminal would show."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{\n{command}\n}} </dev/null\n")
        self._process.stdin.write(f'printf "\\n%s %d\\n" "{END_MARK}" $?\n')
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith(END_MARK):
                return int(line.rsplit(" ", 1)[1]), "".join(lines)[:-1]
            lines.append(line)
        raise AssertionError(f"the shell ended: {''.join(lines)}")

    def close(self) -> None:
        """End the shell, and the jobs that were begun in it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.stdin.close()
        self._process.stdout.read()  # ends with the last of its jobs
        self._process.stdout.close()
        self._process.wait(STOP_SECONDS)


class PageRun:
    """Runs the blocks of one page in a directory."""

    def __init__(self, page: Path, folder: Path, names: dict[str, Any]) -> None:
        self._page = page
        self._folder = folder
        self.names: Final = {"__name__": "__main__", **names}
        self.ran = 0

    def run(self, environment: Mapping[str, str], absolute: Callable[[str], str]) -> None:
        """Run all blocks; ``absolute`` changes the text of ``python`` blocks before."""
        blocks = blocks_of(self._page.read_text("utf-8"))
        shell = Shell(self._folder, environment)
        with contextlib.closing(shell), restored_loggers(), self._closing_logs():
            for block in blocks:
                if block.reason is not None:
                    continue
                if block.language == "python":
                    self._run_python(block, absolute(block.code))
                else:
                    self._run_commands(block, shell)
                self.ran += 1

    @contextlib.contextmanager
    def _closing_logs(self) -> Iterator[None]:
        """Close what a page that failed has left open."""
        try:
            yield
        finally:
            for value in self.names.values():
                if isinstance(value, tidelog.Logs):
                    value.close()

    def _run_python(self, block: Block, code: str) -> None:
        place = f"{self._page.name}:{block.line}"
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * (block.line - 1) + code, str(self._page), "exec"), self.names)
        sys.stdout.write(output.getvalue())
        check(place, block.output, output.getvalue())

    def _run_commands(self, block: Block, shell: Shell) -> None:
        outputs = []
        for line, command, shown in commands_of(block):
            place = f"{self._page.name}:{line}"
            code, output = shell.run(command)
            sys.stdout.write(f"$ {command}{output}")  # as the page is to show it: pytest -rP
            expected = EXIT_CODE.search(command)
            assert code == int(expected[1] if expected else 0), f"{place}: {code}\n{output}"
            check(place, shown, output)
            outputs.append(output)
        check(f"{self._page.name}:{block.line}", block.output, "".join(outputs))


@contextlib.contextmanager
def restored_loggers() -> Iterator[None]:
    """Undo what a page does to loggers: other tests run in this process."""
    loggers = [logging.getLogger(name) for name in ("tidelog", "tidelog.log")]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    try:
        yield
    finally:
        for logger, (level, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.handlers[:] = handlers


def check(place: str, expected: str | None, actual: str) -> None:
    """Compare an output with the one that a page shows, if it shows one."""
    if expected is not None:
        assert is_shown(expected, actual), f"{place}: the output is\n{actual}"


def absolute_in(folder: Path) -> Callable[[str], str]:
    """Return what makes the paths in a block absolute.

    Spark resolves a relative one against the working directory of its Java process.
    """
    return lambda code: RELATIVE.sub(rf"\1{folder}/\2\1", code)


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PageRun]:
    """Return a function that runs a page in a new directory, in which it leaves the test."""
    folder = tmp_path / "reader"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(
        page: Path,
        environment: Mapping[str, str] | None = None,
        names: Mapping[str, Any] | None = None,
        *,
        with_spark: bool = False,
    ) -> PageRun:
        own = {key: value for key, value in os.environ.items() if not key.startswith("TIDELOG_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
        monkeypatch.setenv("PATH", path)  # a python block may start commands, too
        own |= {"PATH": path, "COLUMNS": "100", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        page_run = PageRun(page, folder, dict(names or {}))
        page_run.run({**own, **(environment or {})}, absolute_in(folder) if with_spark else str)
        return page_run

    return run
