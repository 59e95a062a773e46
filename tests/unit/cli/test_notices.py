"""What the library logs, as a command prints it."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.cli.notices import SENTENCES, OneLine, printing_notices, sentence
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Enumerated

    Cli = Any

SOURCES = Path(tidelog.__file__).parent
ROOMS = ("segment", "log", "cleaner")
SERVICE_ONLY = {"cleaner-pass-failed", "cleaner-not-started", "stale-producer-epoch-replicated"}
"""Events of threads that only a service has, and of replicas."""


def events() -> Iterator[str]:
    """Yield the text of each warning and error that the engine logs."""
    for room in ROOMS:
        for path in (SOURCES / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Attribute(attr="warning" | "error" | "exception"),
                        args=[ast.Constant(value=str(text)), *_],
                    ):
                        yield text


def record(text: str, *values: object) -> logging.LogRecord:
    return logging.LogRecord("tidelog", logging.WARNING, "x.py", 1, text, values, None)


def test_each_event_of_the_engine_has_a_sentence(enumerated: Enumerated) -> None:
    """The sentence uses only values that the event has."""
    texts = [text for text in events() if text.split()[0] not in SERVICE_ONLY]
    enumerated("events", len(texts), at_least=20)
    for text in texts:
        values = [7 if word.endswith("%d") else "here" for word in text.split()[1:]]
        printed = sentence(record(text, *values))
        assert "=" not in printed, text
        assert text.split()[0] in SENTENCES


def test_an_event_without_a_sentence_is_printed_as_logged() -> None:
    """Rather than not at all."""
    assert sentence(record("moon-rose hour=%d", 5)) == "moon-rose hour=5"


def test_warnings_are_sentences_and_verbose_ones_log_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without ``-v`` nothing below a warning is printed."""
    logger = logging.getLogger("tidelog.test")
    for verbose in (False, True):
        with printing_notices("x", verbose=verbose):
            logger.info("log-rolled directory=%s base_offset=%d", "a-0", 5)
            logger.warning("leftover-deleted path=%s", "a-0/x.swap")
    lines = capsys.readouterr().err.splitlines()

    assert lines[0] == "tidelog x: a-0/x.swap was left over and was deleted"
    assert [line.partition("level=")[2] for line in lines[1:]] == [
        "INFO logger=tidelog.test log-rolled directory=a-0 base_offset=5",
        "WARNING logger=tidelog.test leftover-deleted path=a-0/x.swap",
    ]


def test_a_command_reports_what_it_had_to_truncate(topic: Cli) -> None:
    """An append to a torn log prints a sentence."""
    topic.append("a")
    (topic.data / ".kafka_cleanshutdown").unlink()
    (topic.data / "recovery-point-offset-checkpoint").unlink()
    with topic.log_file().open("ab") as file:
        file.write(b"torn")

    outcome = topic.on("append", "t", stdin="b\n")

    assert outcome[:2] == (0, "1 record appended to t, each line as text\n")
    kept, cut = outcome.err.splitlines(keepends=True)
    assert kept.endswith(".1.cut; tidelog salvage shows them\n")
    assert "4 bytes that were cut off are kept in" in kept
    assert cut == (
        f"tidelog append: {topic.data / 't-0'}: 4 bytes of segment 0 were truncated,"
        " and 0 segments after it deleted\n"
    )


@pytest.mark.parametrize("words", [[], ["-v"]])
def test_a_quiet_command_stays_quiet(topic: Cli, words: list[str]) -> None:
    """With ``-v`` it may print log lines, on standard error only."""
    outcome = topic.on("append", "t", *words, stdin="a\n")

    assert outcome[:2] == (0, "1 record appended to t, each line as text\n")
    assert bool(outcome.err) <= bool(words)


def test_a_log_line_and_its_traceback_escape_what_comes_from_outside() -> None:
    """A name with a newline or an escape sequence must not fake a line of the log."""
    formatter = OneLine("level=%(levelname)s %(message)s")
    error = KafkaStorageError("\x1b[2J/d/a\x9bb is offline")
    info = (type(error), error, None)
    record = logging.LogRecord("t", logging.ERROR, "f", 1, "path=%s", ("a\nlevel=INFO",), info)

    first, *others = formatter.format(record).split("\n")

    assert first == r"level=ERROR path=a\nlevel=INFO"
    assert all(line.isprintable() for line in others)
    assert others[-1].endswith(r"KafkaStorageError: \x1b[2J/d/a\x9bb is offline")
