"""Directories of tidelog's own, as an earlier version left them: whole, killed and damaged.

What is expected was taken from that version; ``README.md`` says how. Only the command line and
``tidelog`` itself are asked, so that what is inside may change.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import tidelog

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path
    from types import ModuleType

    from tests.golden.own.conftest import Asked, Case, Row

CATALOGUE = "tidelog.topics.json"
PARTITIONS = {
    "short-writer": 14,
    "short-writer-killed": 3,
    "short-writer-creating": 5,
    "short-writer-deleting": 2,
    "service": 14,
    "service-killed": 16,
    "moving": 4,
    "swapping": 4,
    "altering": 4,
    "dropping": 2,
    "power-cut": 4,
    "damaged": 16,
    "damaged-marked": 10,
}
"""How many live partitions each case has, in all its directories."""
LEFTOVERS = {
    ".cleaned": 3,
    ".deleted": 7,
    ".swap": 6,
    ".tmp": 4,
    "-delete": 36,
    "-future": 16,
    "-stray": 13,
}
"""How many files lie there that processes left which ended too early, by what they are."""
OWN_FILES = {
    "tidelog.*.*.staged": 4,
    "tidelog.cleaner.failures.json": 1,
    "tidelog.metrics.prom": 2,
    "tidelog.topics.json": 20,
}
"""How many of each file of tidelog's own lie there."""


def test_every_case_is_there(own: ModuleType) -> None:
    """Thirteen cases in twenty directories, each with as many partitions as it was given."""
    found = {
        case.name: sum(
            len(own.expected_of(name)["read"]["offsets"]["partitions"]) for name in case.directories
        )
        for case in own.CASES
    }
    directories = sorted(name for case in own.CASES for name in case.directories)

    assert found == PARTITIONS
    assert directories == sorted(path.name for path in own.DATA.iterdir())
    assert len(directories) == 20


def test_every_kind_of_leftover_is_there(kinds: Counter[str]) -> None:
    """What a process leaves that ends too early lies in some directory, to be met there."""
    found = {
        end: sum(count for kind, count in kinds.items() if kind.endswith(end)) for end in LEFTOVERS
    }

    assert found == LEFTOVERS


def test_every_file_of_tidelogs_own_is_there(kinds: Counter[str]) -> None:
    """Each plain file that tidelog writes beside Kafka's lies in some directory."""
    assert {kind: n for kind, n in kinds.items() if kind in OWN_FILES} == OWN_FILES


def test_readers_see_what_they_saw(own: ModuleType, name: str, read: Asked) -> None:
    """Offsets, records, topics, settings and the cleaner's progress are those of then."""
    assert read.facts == own.expected_of(name)["read"]


def test_reading_changes_nothing(read: Asked) -> None:
    """No command that reads makes, changes or removes a file, and none takes the lock."""
    assert read.before
    assert read.after == read.before


def test_a_short_lived_writer_leaves_the_same_files(
    own: ModuleType, name: str, recovered: Asked
) -> None:
    """Loading every log and closing in order cuts, rebuilds and removes what it did then."""
    assert recovered.facts == own.expected_of(name)["recovered"]


def test_appends_go_on_where_they_ended(
    own: ModuleType, name: str, recovered: Asked, tmp_path: Path
) -> None:
    """A record to each partition gets the offset and leaves the bytes that it did then."""
    copy = tmp_path / name
    shutil.copytree(recovered.directory, copy)

    assert own.written_facts(copy, tmp_path / "batch") == own.expected_of(name)["written"]


def test_what_was_left_in_order_is_not_touched(own: ModuleType, whole: str, tmp_path: Path) -> None:
    """A short-lived writer changes no byte of a log and no file of tidelog's own."""
    recovered = own.asked(whole, tmp_path, own.recovered_facts)

    before, after = recovered.before, recovered.after
    kept = [path for path in before if path.endswith(".log") or path.startswith("tidelog.")]
    assert len(kept) >= 14
    assert {path: after[path] for path in kept} == {path: before[path] for path in kept}


def test_a_service_makes_of_them_what_it_made(case: Case, served: tuple[list[Path], Row]) -> None:
    """It finds the same topics and records in the same places, and leaves the same files."""
    _, facts = served

    assert facts == case.expected


def test_a_service_finds_the_same_again(
    own: ModuleType, case: Case, served: tuple[list[Path], Row]
) -> None:
    """What a service left after a recovery, a second one opens without a change to any log."""
    copies, first = served
    before = {path.name: logs_of(own, path) for path in copies}

    second = own.service_facts(copies)

    assert list(before) == list(case.directories)
    assert second["topics"] == first["topics"]
    assert {path.name: logs_of(own, path) for path in copies} == before


def logs_of(own: ModuleType, directory: Path) -> dict[str, bytes]:
    """Return the bytes of every ``.log`` file in a directory."""
    found = own.contents(directory)
    return {path: data for path, data in found.items() if path.endswith(".log")}


def newer(directory: Path) -> None:
    """Let the catalogue say that a later version of tidelog wrote it."""
    path = directory / CATALOGUE
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**content, "version": content["version"] + 98}))


@pytest.mark.parametrize(
    "words",
    [
        ("recover",),
        ("create", "another"),
        ("append", "tides", "/dev/null"),
        ("alter", "altered", "-o", "retention.ms=1"),
        ("delete", "tides"),
        ("delete-records", "trimmed", "-p", "all", "--before", "12"),
        ("retain",),
        ("compact",),
        ("to-kafka",),
        ("from-kafka",),
    ],
    ids=lambda words: words[0],
)
def test_a_newer_catalogue_is_refused_untouched(
    own: ModuleType, words: tuple[str, ...], tmp_path: Path
) -> None:
    """No command that writes does anything in a directory whose catalogue a later version wrote."""
    copy = own.copy_directory("short-writer", tmp_path)
    newer(copy)
    before = own.contents(copy)

    code, _ = own.run(*words, "-d", copy)

    assert (code, own.contents(copy)) == (3, before)


def test_a_newer_catalogue_is_refused_by_a_service(own: ModuleType, tmp_path: Path) -> None:
    """Where no directory is left that it can read, it does not start, and changes no file.

    The empty file of the lock may stay.
    """
    copies = [own.copy_directory(f"service-{end}", tmp_path) for end in "ab"]
    for copy in copies:
        newer(copy)
    before = [own.contents(copy) for copy in copies]

    with pytest.raises(tidelog.TidelogError):
        tidelog.open(copies[0], copies[1], config=own.SETTINGS)

    after = [own.contents(copy) for copy in copies]
    assert {found.pop(".lock", b"") for found in after} == {b""}
    assert after == before


def test_a_newer_catalogue_beside_an_older_one_stays_as_it_is(
    own: ModuleType, tmp_path: Path
) -> None:
    """Whether or not a service continues with the other directory, it leaves that one alone."""
    older, later = (own.copy_directory(f"service-{end}", tmp_path) for end in "ab")
    newer(later)
    before = own.contents(later)

    with suppress(tidelog.TidelogError):
        tidelog.open(older, later, config=own.SETTINGS).close()

    assert own.contents(later) == before
