"""Which directories are partitions, and the ids they get."""

from __future__ import annotations

from random import Random

from tests.machinery.directory_home import DataHome

from tidelog.datadir.partition_directories import live_partitions, random_id


def test_no_id_begins_with_a_dash() -> None:
    """The text of an id can be given on a command line."""
    from tidelog.codec.uuid_text import format_uuid

    rng = Random(5)
    texts = [format_uuid(random_id(rng)) for _ in range(2000)]

    assert [text for text in texts if text.startswith("-")] == []


def test_live_partitions_are_directories_with_a_plain_name() -> None:
    """Files, other directories, and deleted, future or stray ones are not live partitions."""
    home = DataHome()
    uuid = "0" * 32
    for name in ("b-10", "b-2", "a-0", f"a-1.{uuid}-delete", f"a-2.{uuid}-future", "x", "a-03"):
        home.fs.make_directory(f"{home.path}/{name}")
    home.write("c-0", "a file")

    found = live_partitions(home.fs, home.path)

    assert found == [("a", 0), ("b", 2), ("b", 10)]
