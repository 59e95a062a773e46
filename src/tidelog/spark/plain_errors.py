"""Lets Spark show the text of an error of ours without the traceback of the Python that raised it.

A missing topic or a misspelled option is an answer to the user, and Spark prints each error of
a Python data source with the frames of the source and of PySpark's worker.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.errors import TidelogError

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
"""PySpark's workers read this variable of their environment when they report an error."""

_OF_WORKERS: Final = "PYTHON_WORKER_FACTORY_"
"""How variables begin that Spark sets for each Python that it starts, and for no other process."""

_OF_OURS: Final = re.compile(r"^(?:.*\s)?tidelog\.errors\.\w+: (.+)$", re.MULTILINE)
_OF_SPARK: Final = ("pyspark", "py4j")


def in_worker() -> bool:
    """Return whether Spark started this process."""
    return any(name.startswith(_OF_WORKERS) for name in os.environ)


def is_of_spark(error: Exception) -> bool:
    """Return whether an error is one that Spark reports."""
    return type(error).__module__.partition(".")[0] in _OF_SPARK


def text_in(error: Exception) -> str:
    """Return the text of the error of ours that Spark reports; else Spark's, in one line."""
    text = str(error).strip()
    match = _OF_OURS.search(text)
    return match[1].strip() if match else text.partition("\n")[0]


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report a TidelogError raised in the block, or in a function so decorated, by its text alone.

    A worker ends after it has reported an error, so the variable has no effect on other sources.
    Any other error is a fault of the program and keeps its traceback.
    """
    try:
        yield
    except TidelogError:
        if in_worker():
            os.environ[HIDE_TRACEBACK] = "1"
        raise
