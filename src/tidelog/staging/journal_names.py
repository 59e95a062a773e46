"""The names of journals of commits, which alone say that a transaction waits to be applied."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import TEMPORARY_SUFFIX

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem

JOURNAL_SUFFIX: Final = ".intent"
_NAME: Final = re.compile(r"tidelog\.[0-9a-f]{32}\.intent")


def is_journal_name(name: str) -> bool:
    """Return whether a file name is that of a journal."""
    return _NAME.fullmatch(name) is not None


def is_unfinished_name(name: str) -> bool:
    """Return whether a file was to become a journal: its transaction is not committed."""
    journal = name.removesuffix(TEMPORARY_SUFFIX)
    return journal != name and is_journal_name(journal)


def list_journals(fs: FileSystem, data_dir: str) -> list[str]:
    """Return the sorted names of the journals of a directory."""
    return sorted(filter(is_journal_name, fs.list(data_dir)))
