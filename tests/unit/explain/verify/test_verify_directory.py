"""What a check of a data directory finds beyond its logs."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.archive.claim_file import (
    ClaimFile,
    KnownArchive,
    claim_file,
    read_claim,
    write_claim,
)
from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import KafkaStorageError
from tidelog.explain.verify.verify_directory import check_directory

WATERMARKS = "replication-offset-checkpoint"
CATALOGUE = "tidelog.topics.json"


@pytest.fixture
def home() -> DataHome:
    """A data directory with the topics t, of three partitions, and u."""
    home = DataHome()
    with home.open() as directory:
        directory.create_topic("t", 3)
        directory.create_topic("u")
    return home


def found(home: DataHome) -> list[tuple[str | None, str, str]]:
    """Return partition, severity and file of everything found."""
    return [
        (None if key is None else str(key), row.severity.value, row.path.removeprefix("/data/"))
        for key, row in check_directory(home.fs, home.path)
    ]


def other_id(home: DataHome, name: str, number: int = 7) -> None:
    """Give a partition the id of another topic."""
    text = f"version: 0\ntopic_id: {format_uuid(UUID(int=number))}"
    home.write(f"{name}/partition.metadata", text)


def remove(home: DataHome, name: str) -> None:
    """Delete a partition's directory by hand."""
    for file in home.files(name):
        home.fs.delete(f"{home.path}/{name}/{file}")
    home.fs.delete_directory(f"{home.path}/{name}")


def test_a_sound_directory_has_no_findings(home: DataHome) -> None:
    """Ids, catalogue and lines are those of the partitions that are there."""
    assert found(home) == []


def test_a_partition_of_another_topic_is_damage(home: DataHome) -> None:
    """The catalogue says which id is right, even where most partitions say something else."""
    other_id(home, "t-0")
    other_id(home, "t-2")

    assert found(home) == [
        ("t-0", "damage", "t-0/partition.metadata"),
        ("t-2", "damage", "t-2/partition.metadata"),
    ]


def test_a_copy_under_another_name_is_damage(home: DataHome) -> None:
    """Clients read by ids: they would get records of either topic."""
    home.fs.make_directory(f"{home.path}/copy-0")
    for name in home.files("t-0"):
        home.write(f"copy-0/{name}", home.text(f"t-0/{name}"))

    assert found(home) == [("copy-0", "damage", "copy-0/partition.metadata")]


def test_without_a_catalogue_most_partitions_are_right(home: DataHome) -> None:
    """As in a directory that Kafka wrote."""
    home.fs.delete(f"{home.path}/{CATALOGUE}")
    other_id(home, "t-0")

    (told,) = check_directory(home.fs, home.path)

    assert str(told.key) == "t-0"
    assert "the others have" in told.finding.what


def test_of_two_partitions_nobody_knows_which_is_right(home: DataHome) -> None:
    """The difference is reported once."""
    home.fs.delete(f"{home.path}/{CATALOGUE}")
    remove(home, "t-2")
    home.write(WATERMARKS, "0\n0\n")
    other_id(home, "t-0")

    (told,) = check_directory(home.fs, home.path)

    assert "another partition has" in told.finding.what


def test_a_partition_without_an_id_is_not_compared(home: DataHome) -> None:
    """The check of its directory reports that it has none, or that the file is unreadable."""
    home.fs.delete(f"{home.path}/t-0/partition.metadata")
    home.write("t-1/partition.metadata", "no such file")

    assert found(home) == []


def test_a_directory_that_is_gone_is_damage_if_the_catalogue_knows_it(home: DataHome) -> None:
    """The topic was not deleted. Its checkpoint lines are not reported then."""
    home.write(WATERMARKS, "0\n1\nt 1 57\n")
    remove(home, "t-1")

    assert found(home) == [("t-1", "damage", CATALOGUE)]


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (ClaimFile(), "or what an archive has with tidelog restore. Do it before a process"),
        (
            ClaimFile(drawn={"s3://lake": ("x",)}),
            "restore s3://lake t -p 1 --to /data. Do it before",
        ),
        (
            ClaimFile(archive=KnownArchive("s3://own", 0, 5), drawn={"s3://lake": ("x",)}),
            "restore s3://own t -p 1 --to /data. Until then the log is offline",
        ),
        (
            ClaimFile(drawn={"s3://a": ("x",), "s3://b": ("x",)}),
            "tidelog restore s3://a t -p 1 --to /data (or from s3://b). Do it before",
        ),
    ],
)
def test_a_directory_that_is_gone_comes_back_from_its_archive(
    home: DataHome, claim: ClaimFile, said: str
) -> None:
    """The remedy names the command, whether a service archives the log or somebody by hand."""
    with home.open() as directory:
        topic_id = directory.topic("t").topic_id
    assert topic_id is not None
    write_claim(home.fs, claim_file("/data", topic_id, 1), claim)
    remove(home, "t-1")

    ((_, finding),) = check_directory(home.fs, home.path)

    assert said in (finding.remedy or "")


def test_a_copied_directory_names_the_archive_of_its_source(home: DataHome) -> None:
    """It may not write that, as a copied claim is none, but anybody may restore from it."""
    with home.open() as directory:
        topic_id = directory.topic("t").topic_id
    assert topic_id is not None
    path = claim_file("/data", topic_id, 1)
    write_claim(home.fs, path, ClaimFile(drawn={"s3://lake": ("x",)}))
    copied = home.fs.read(path)
    home.fs.delete(path)
    home.fs.write(path, copied)
    assert read_claim(home.fs, path) == ClaimFile()
    remove(home, "t-1")

    ((_, finding),) = check_directory(home.fs, home.path)

    assert "tidelog restore s3://lake t -p 1 --to /data" in (finding.remedy or "")


def test_a_partition_of_another_directory_is_not_missed(home: DataHome) -> None:
    """The catalogue says in which directory each partition lies; those that lie here are named."""
    text = home.text(CATALOGUE)
    mine = home.text("meta.properties").partition("directory.id=")[2].split("\n")[0]
    home.write(CATALOGUE, text.replace(mine, format_uuid(UUID(int=9))))
    remove(home, "t-1")

    findings = found(home)

    assert {severity for _, severity, _ in findings} == {"unusual"}
    assert "t-1" not in {key for key, *_ in findings}


def test_partitions_of_a_directory_whose_id_is_lost_are_damage(home: DataHome) -> None:
    """The next writer would make another id, and find none of the partitions."""
    home.fs.delete("/data/meta.properties")

    assert found(home) == [(f"t-{number}", "damage", CATALOGUE) for number in range(3)] + [
        ("u-0", "damage", CATALOGUE)
    ]


@pytest.mark.parametrize(("offset", "has_lost"), [(57, True), (0, False)])
def test_a_line_without_its_directory_is_told(
    home: DataHome, offset: int, *, has_lost: bool
) -> None:
    """A crash in the middle of a deletion leaves it, and so does a deletion by hand."""
    home.write(WATERMARKS, f"0\n1\ngone 4 {offset}\n")

    (told,) = check_directory(home.fs, home.path)

    assert (str(told.key), told.finding.severity.value) == ("gone-4", "unusual")
    assert f"names gone-4 with offset {offset}" in told.finding.what
    assert ("offsets are lost" in told.finding.remedy) == has_lost


def test_each_checkpoint_is_looked_at(home: DataHome) -> None:
    """An unreadable one is reported with each partition."""
    names = [
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
    ]
    for name in names:
        home.write(name, "0\n1\ngone 0 5\n")
    home.write(WATERMARKS, "nonsense")

    assert sorted(found(home)) == [("gone-0", "unusual", name) for name in names]


@pytest.mark.parametrize("name", [WATERMARKS, "log-start-offset-checkpoint"])
def test_a_checkpoint_is_looked_at_beside_the_metadata_of_a_cluster(name: str) -> None:
    """It is not a partition that the check reads, so nothing else would report the file."""
    home = DataHome()
    for file in ("00000000000000000000.log", "partition.metadata"):
        home.write(f"__cluster_metadata-0/{file}", "")
    home.write(name, "nonsense")

    assert (None, "damage", name) in found(home)


def test_a_catalogue_that_does_not_read_is_damage(home: DataHome) -> None:
    """Nothing is guessed from half of it; ids are compared with each other."""
    home.write(CATALOGUE, "{")
    other_id(home, "t-0")

    assert found(home) == [
        (None, "damage", CATALOGUE),
        ("t-0", "damage", "t-0/partition.metadata"),
    ]


def test_a_setting_that_cannot_be_taken_is_damage(home: DataHome) -> None:
    """A writer refuses the topic, so the directory is not sound."""
    path = "tidelog.topics.json"
    home.write(path, home.text(path).replace('"config": {}', '"config": {"retention.ms": "x"}', 1))

    [located] = check_directory(home.fs, home.path)

    assert found(home) == [(None, "damage", path)]
    assert "retention.ms" in located.finding.what


def test_a_directory_that_is_not_a_log_is_named(home: DataHome) -> None:
    """It is left alone, and a broker may refuse to start beside it."""
    home.fs.make_directory("/data/photos")

    assert [row[:2] for row in found(home)] == [(None, "unusual")]


@pytest.mark.parametrize("content", ["", "version=1\n", "version=9\n", "directory.id=x\n"])
def test_an_identity_that_a_writer_refuses_is_damage(home: DataHome, content: str) -> None:
    """A damaged ``meta.properties`` keeps the directory offline."""
    home.write("meta.properties", content)

    assert found(home).count((None, "damage", "meta.properties")) == 1
    with pytest.raises(KafkaStorageError):
        home.open()


@pytest.mark.parametrize("name", [".lock", ".kafka_cleanshutdown"])
def test_a_directory_in_place_of_a_file_is_damage(home: DataHome, name: str) -> None:
    """No writer can lock the data directory, or read how it was left."""
    if home.fs.exists(f"{home.path}/{name}"):
        home.fs.delete(f"{home.path}/{name}")
    home.fs.make_directory(f"{home.path}/{name}")

    assert (None, "damage", name) in found(home)
