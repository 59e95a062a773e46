"""Marks of topics that were deleted on a disk too full for a new catalogue.

A mark is an empty file, for which there is room when there is none for bytes: from the moment that
it is durable the topic is deleted, whatever the catalogue still says. So its logs can be deleted to
make room, and a crash in between leaves no topic without its records. A later catalogue, without
the topic, replaces the mark.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.datadir.catalogue import Catalogue, read_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileSystem

_NAME: Final = re.compile(r"tidelog\.([0-9a-f]{32})\.deleted")


def mark_deleted(fs: FileSystem, data_dir: str, topic_id: UUID) -> None:
    """Mark a topic as deleted, durably; OSError leaves it open whether the mark is there."""
    with suppress(FileExistsError):
        fs.open(_path(data_dir, topic_id), "x").close()
    # Before the first file of the topic is deleted: else a start would serve what is left of it.
    fs.sync_directory(data_dir)


def delete_mark(fs: FileSystem, data_dir: str, topic_id: UUID) -> None:
    """Delete the mark of a topic, durably; nothing if there is none."""
    with suppress(FileNotFoundError):
        fs.delete(_path(data_dir, topic_id))
    # Of a deletion that was refused: if it came back, the next start would delete the topic.
    fs.sync_directory(data_dir)


def marked_topics(fs: FileSystem, data_dir: str) -> frozenset[UUID]:
    """Return the ids of the topics that are marked as deleted."""
    return marks_among(fs.list(data_dir))


def marks_among(names: Iterable[str]) -> frozenset[UUID]:
    """Return the ids of the topics that are marked as deleted, by the names in a directory."""
    found = map(_NAME.fullmatch, names)
    return frozenset(UUID(hex=match[1]) for match in found if match is not None)


def read_catalogue_in_force(fs: FileSystem, data_dir: str) -> Catalogue:
    """Return the catalogue of a directory without the topics that are marked as deleted.

    Errors as ``read_catalogue``.
    """
    catalogue = read_catalogue(fs, data_dir)
    try:
        marked = marked_topics(fs, data_dir)
    except (FileNotFoundError, NotADirectoryError):
        return catalogue
    return without_marked(catalogue, marked)


def without_marked(catalogue: Catalogue, marked: frozenset[UUID]) -> Catalogue:
    """Return a catalogue in which the marked topics are deleted."""
    if not marked:
        return catalogue
    return Catalogue().merged(replace(catalogue, deleted=catalogue.deleted | marked))


def _path(data_dir: str, topic_id: UUID) -> str:
    return os.path.join(data_dir, f"tidelog.{topic_id.hex}.deleted")
