"""The data directory as a whole: lock, identity, mark of a clean shutdown."""

from __future__ import annotations

from random import Random

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.datadir.metadata_files import read_meta_properties
from tidelog.errors import DirectoryLocked, InvalidArgument, KafkaStorageError
from tidelog.manager.directories.log_dir import LogDir

META = "meta.properties"


def lock(home: DataHome, path: str | None = None) -> LogDir:
    """Lock the data directory of ``home``."""
    return LogDir(path or home.path, fs=home.fs, rng=Random(1))


def with_a_log(home: DataHome) -> DataHome:
    """Put an empty partition directory into the data directory."""
    home.write("t-0/partition.metadata", "")
    return home


def test_a_second_writer_is_refused() -> None:
    """While one holds the directory, another gets DirectoryLocked; afterwards it may."""
    home = DataHome()
    first = lock(home)

    with pytest.raises(DirectoryLocked):
        lock(home)
    first.close(clean=True)
    lock(home).close(clean=True)


def test_the_lock_file_goes_with_the_lock() -> None:
    """As Kafka does, an orderly end removes ``.lock``."""
    home = DataHome()
    held = lock(home)
    while_held = home.files()
    held.close(clean=True)

    assert (".lock" in while_held, ".lock" in home.files()) == (True, False)


def test_the_lock_is_given_up_where_the_directory_does_not_read() -> None:
    """A malformed meta.properties is an error that leaves nothing locked."""
    home = DataHome()
    home.write(META, "version=9\n")
    with pytest.raises(KafkaStorageError):
        lock(home)

    home.fs.delete(f"{home.path}/{META}")

    lock(home).close(clean=True)


def test_the_mark_goes_durably_before_the_first_change() -> None:
    """The first change is preceded by the deletion of the mark and a sync of the directory."""
    home = with_a_log(DataHome())
    home.mark()
    held = lock(home)
    before = len(home.fs.operations)

    held.begin_change()
    held.begin_change()

    done = [operation.name for operation in home.fs.operations[before:]]
    assert done == ["delete", "sync_directory"]


def test_the_mark_comes_back_with_its_broker_epoch() -> None:
    """The mark that was there is restored as it was."""
    home = with_a_log(DataHome())
    home.mark(broker_epoch=12)
    before = home.text(".kafka_cleanshutdown")
    held = lock(home)
    held.begin_change()
    is_marked_meanwhile = home.is_marked
    held.close(clean=True)

    assert (False, before) == (is_marked_meanwhile, home.text(".kafka_cleanshutdown"))


def test_a_mark_that_was_not_there_does_not_come() -> None:
    """Logs that were left in disorder are not made clean by someone who touched a few."""
    home = with_a_log(DataHome())
    held = lock(home)
    held.begin_change()
    held.close(clean=True)

    assert (held.was_clean, home.is_marked) == (False, False)


def test_the_mark_does_not_come_back_if_something_failed() -> None:
    """A caller who cannot say that all is closed leaves no mark."""
    home = with_a_log(DataHome())
    home.mark()
    held = lock(home)
    held.begin_change()
    held.close(clean=False)

    assert not home.is_marked


def test_without_a_change_the_mark_stays_untouched() -> None:
    """Opening and closing does not write the mark, whatever the caller says."""
    home = with_a_log(DataHome())
    home.mark()
    held = lock(home)
    before = len(home.fs.operations)
    held.close(clean=False)

    assert home.is_marked
    assert [o.path.rpartition("/")[2] for o in home.fs.operations[before:]] == [".lock"]


@pytest.mark.parametrize("left_over", ["tidelog.x.staged", "meta.properties.tmp", ".lock"])
def test_a_directory_without_logs_is_clean(left_over: str) -> None:
    """Where there are no logs none can be torn, whatever files lie there."""
    home = DataHome()
    home.write(left_over, "")
    held = lock(home)
    held.begin_change()
    held.close(clean=True)

    assert home.is_marked


@pytest.mark.parametrize("seed", range(10))
def test_all_directories_above_are_made_durably(seed: int) -> None:
    """A data directory that was made survives a power cut, with those above it."""
    home = DataHome(seed)
    lock(home, "/disk/of/kafka").begin_change()

    home.fs.power_cut()

    assert home.fs.exists("/disk/of/kafka/meta.properties")


@pytest.mark.parametrize("name", ["00000000000000000000.log", "partition.metadata"])
def test_a_partitions_directory_is_refused(name: str) -> None:
    """A partition's directory is not a data directory; nothing is put into it."""
    home = DataHome()
    home.write(f"t-0/{name}", "")

    with pytest.raises(InvalidArgument, match="name the data directory above"):
        lock(home, f"{home.path}/t-0")
    assert [name] == home.files("t-0")


def test_a_directory_gets_an_id_and_keeps_it() -> None:
    """``directory.id`` is made once, and is the same at the next opening."""
    home = DataHome()
    first = lock(home)
    first.close(clean=True)
    second = LogDir(home.path, fs=home.fs, rng=Random(2))

    assert first.directory_id == second.directory_id


def test_an_id_is_added_to_what_kafka_wrote() -> None:
    """Where meta.properties has no directory.id, it gets one and keeps everything else."""
    home = DataHome()
    home.write(META, "#made by Kafka\nbroker.id=3\nversion=0\ncluster.id=abc\nodd=1\n")
    held = lock(home)

    found = read_meta_properties(home.fs, f"{home.path}/{META}")

    assert found is not None
    assert (found.version, found.cluster_id, found.node_id) == (0, "abc", 3)
    assert ({"odd": "1"}, held.directory_id) == (found.other, found.directory_id)
    assert "#made by Kafka" in home.text(META)
