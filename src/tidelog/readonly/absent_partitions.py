"""The error of a read that would be of a part only: what is absent, where it is, what to do.

Kafka has no such error: its brokers open all of their directories.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

from tidelog.codec.one_line import first_names
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, read_meta_properties
from tidelog.errors import InvalidArgument, KafkaStorageError, PartitionsElsewhere

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.readonly.placement import Absent

BY_ARGUMENT: Final = "pass allow_partial=True"
BY_FLAG: Final = "add --allow-partial"
BY_OPTION: Final = "set allowPartialTopics=true"
BY_NOTHING: Final = ""
"""What the caller does to have topics in part, for each way to read, or to change them."""
_MAX_LOOKED_AT: Final = 1000
"""Directories beside those given that are asked for their id, to name them in a message."""


def partitions_elsewhere(
    fs: FileSystem,
    paths: Sequence[str],
    absent: Sequence[Absent],
    accept: str,
    *,
    log_dirs: str = "",
) -> PartitionsElsewhere:
    """Return the error about partitions that are in none of the directories ``paths``.

    ``accept`` says how to have topics in part, if it says anything. ``log_dirs``: the broker's
    setting, which may name the directories where they are; they are looked for beside those given,
    too.
    """
    homes = {each.home for each in absent if each.home is not None}
    known = _paths_of(fs, paths, homes, log_dirs)
    by_place: dict[str, list[Absent]] = {}
    for each in absent:
        by_place.setdefault(_place(each, known), []).append(each)
    facts = "; ".join(_fact(place, found) for place, found in by_place.items())
    choice = f"; or, for a part of them only, {accept}" if accept else ""
    return PartitionsElsewhere(
        f"not all partitions are in {', '.join(paths)}: {facts}. Name all data directories of these"
        f" topics{choice}",
        tuple((each.topic, each.numbers.start, each.numbers.stop - 1) for each in absent),
        tuple(known.values()),
    )


def _place(absent: Absent, known: dict[UUID, str]) -> str:
    """Return where partitions are, in words that follow their names."""
    if absent.home is None:
        return "in another data directory, or on another broker"
    place = f"in the directory with directory.id {format_uuid(absent.home)}"
    if absent.home in known:
        place = f"in {known[absent.home]}"
    if absent.copy is None:
        return place
    return f"{place} by {CATALOGUE_FILE}, so that what {absent.copy} holds may be an old copy"


def _fact(place: str, found: Sequence[Absent]) -> str:
    """Say where partitions are, as ``t-1, t-3 to t-5 are in /disk2``."""
    is_one = len(found) == 1 and len(found[0].numbers) == 1
    names = first_names([_name(each) for each in found])
    return f"{names} {'is' if is_one else 'are'} {place}"


def _name(absent: Absent) -> str:
    first, last = absent.numbers.start, absent.numbers.stop - 1
    name = f"{absent.topic}-{first}"
    return name if first == last else f"{name} to {absent.topic}-{last}"


def _paths_of(
    fs: FileSystem, paths: Sequence[str], homes: Collection[UUID], log_dirs: str
) -> dict[UUID, str]:
    """Return the paths of directories by id, as far as they can be found."""
    found: dict[UUID, str] = {}
    named = (one.strip() for one in log_dirs.split(","))
    for path in chain(filter(None, named), _beside(fs, paths)):
        if len(found) == len(homes):
            break
        with suppress(KafkaStorageError, InvalidArgument, OSError):
            meta = read_meta_properties(fs, os.path.join(path, META_PROPERTIES_FILE))
            home = None if meta is None else meta.directory_id
            if home is not None and home in homes:
                found.setdefault(home, path)
    return found


def _beside(fs: FileSystem, paths: Iterable[str]) -> Iterator[str]:
    """Yield what lies beside some directories."""
    for above in dict.fromkeys(os.path.dirname(os.path.abspath(path)) for path in paths):
        names: list[str] = []
        with suppress(KafkaStorageError, OSError):
            names = sorted(fs.list(above))
        yield from (os.path.join(above, name) for name in names[:_MAX_LOOKED_AT])
