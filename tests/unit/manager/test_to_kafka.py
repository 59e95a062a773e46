"""Handing data directories to a broker of Kafka: what is written, and what is refused."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery import metadata_log as made
from tests.machinery.directory_home import DataHome, record
from tests.machinery.staging import leave, stage

from tidelog.config.log_config import LogConfig
from tidelog.datadir.birth import birth_values
from tidelog.datadir.cluster_metadata.bootstrap import BOOTSTRAP_FILE, FEATURES
from tidelog.datadir.effective_config import is_about_tiers
from tidelog.datadir.metadata_files import MetaProperties, read_meta_properties
from tidelog.errors import CommitPending, CorruptFile, KafkaStorageError
from tidelog.log.archived import ArchivedOffsets
from tidelog.mailbox.letter import State
from tidelog.manager.to_kafka import PROPERTIES_FILE, plan_hand_over, write_hand_over
from tidelog.readonly.cluster_metadata import read_bootstrap_types, read_cluster_metadata
from tidelog.records.builder import build_batch
from tidelog.staging.journal import journal_name
from tidelog.staging.manifest_names import new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest

if TYPE_CHECKING:
    from tests.machinery.fields import ProducerFields

    from tidelog.datadir.cluster_metadata.metadata_image import MetadataImage
    from tidelog.manager.to_kafka import HandOver

PATH = DataHome.path
BOOTSTRAP = f"{PATH}/{BOOTSTRAP_FILE}"
FOREVER = {"retention.ms": "-1"}
BORN = birth_values(LogConfig())


def hand_over(home: DataHome, *paths: str) -> HandOver:
    """Hand directories over."""
    with home.open(paths=paths or (PATH,)) as logs:
        plan = plan_hand_over(logs.manager)
        write_hand_over(logs.manager, plan)
    return plan


def home_with_topics() -> DataHome:
    """Return a directory with a topic that has settings, and one that has none."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 2, config=FOREVER)
        logs.create_topic("u")
        logs.partition("t", 1).append_records([record(b"a")])
    return home


def image_of(home: DataHome) -> MetadataImage:
    """Return what a controller makes of the file: it copies the records into its log."""
    directory = f"{PATH}/__cluster_metadata-0"
    home.fs.make_directory(directory)
    home.fs.write(f"{directory}/{0:020d}-{0:010d}.checkpoint", home.fs.read(BOOTSTRAP))
    found = read_cluster_metadata(PATH, fs=home.fs)
    assert found is not None
    return found.image


def test_a_controller_finds_all_topics_with_ids_partitions_and_settings() -> None:
    """And the features of a new cluster; the catalogue stays as it is.

    By its own default the broker would delete what a topic without a retention keeps for ever.
    """
    home = home_with_topics()
    catalogue = home.text("tidelog.topics.json")

    plan = hand_over(home)

    image = image_of(home)
    topics = {topic.name: topic.partitions for topic in image.topics.values()}
    assert topics == {"t": {0, 1}, "u": {0}}
    assert {topic.topic_id for topic in plan.topics} == image.topics.keys()
    untiered = {n: v for n, v in BORN.items() if not n.startswith(("remote.", "local."))}
    assert [
        (resource.name, {key: one.value for key, one in settings.items()})
        for resource, settings in image.settings.items()
    ] == [("t", untiered | FOREVER), ("u", untiered)]
    assert image.features == FEATURES
    assert home.text("tidelog.topics.json") == catalogue
    assert f"log.dirs={PATH}" in home.text(PROPERTIES_FILE)
    assert list(plan.files) == [f"{PATH}/{PROPERTIES_FILE}", BOOTSTRAP]


def test_settings_for_the_broker_that_exist_are_not_replaced() -> None:
    """Somebody may have changed them; the file that a controller reads is made again each time."""
    home = home_with_topics()
    hand_over(home)
    home.fs.write(f"{PATH}/{PROPERTIES_FILE}", b"mine")

    plan = hand_over(home)

    assert list(plan.files) == [BOOTSTRAP]
    assert home.text(PROPERTIES_FILE) == "mine"


def test_a_partition_has_the_epoch_of_its_log_and_the_directory_that_holds_it() -> None:
    """A leader of an earlier epoch would fall behind what is in the log."""
    home, other = home_with_topics(), "/other"
    with home.open(paths=(PATH, other)) as logs:
        logs.manager.create_topic("elsewhere", path=other)
        logs.partition("t", 1).log.maybe_assign_epoch(7, 1)
        logs.partition("t", 1).append_records([record(b"b")])
        ids = {path: logs.manager.directory_id(path) for path in (PATH, other)}

    plan = hand_over(home, PATH, other)

    found = {topic.name: topic.partitions for topic in plan.topics}
    assert found["elsewhere"][0].directory_id == ids[other]
    assert [one.directory_id for one in found["t"]] == [ids[PATH]] * 2
    assert found["t"][0].leader_epoch == 0
    assert found["t"][1].leader_epoch == 7
    assert f"log.dirs={PATH},{other}" in home.text(PROPERTIES_FILE)


def test_a_directory_of_kafka_3_becomes_one_of_kraft() -> None:
    """Which reads ``meta.properties`` of version 1 only; ids that are there are kept."""
    home = home_with_topics()
    path = f"{PATH}/meta.properties"
    known = read_meta_properties(home.fs, path)
    assert known is not None
    old = MetaProperties(version=0, node_id=5, directory_id=known.directory_id)
    home.fs.write(path, old.format())

    plan = hand_over(home)

    meta = read_meta_properties(home.fs, path)
    assert meta is not None
    assert (meta.version, meta.node_id, meta.cluster_id) == (1, 5, plan.cluster_id)
    assert meta.directory_id == known.directory_id


def test_directories_of_kafka_3_get_one_cluster() -> None:
    """A broker does not start on directories of different clusters."""
    home, other = DataHome(), "/other"
    home.open(paths=(PATH, other)).close()
    for path in (PATH, other):
        known = read_meta_properties(home.fs, f"{path}/meta.properties")
        assert known is not None
        old = MetaProperties(version=0, node_id=5, directory_id=known.directory_id)
        home.fs.write(f"{path}/meta.properties", old.format())

    plan = hand_over(home, PATH, other)

    metas = [read_meta_properties(home.fs, f"{path}/meta.properties") for path in (PATH, other)]
    assert [meta and meta.cluster_id for meta in metas] == [plan.cluster_id] * 2


def test_settings_that_name_other_directories_are_refused() -> None:
    """A broker started with those of an earlier call would lack the partitions of a directory."""
    home, other = home_with_topics(), "/other"
    hand_over(home)

    with pytest.raises(KafkaStorageError, match=f"log.dirs={PATH}, not {PATH},{other}"):
        hand_over(home, PATH, other)

    home.fs.delete(f"{PATH}/{PROPERTIES_FILE}")
    hand_over(home, PATH, other)


def test_new_producers_get_ids_above_those_in_the_logs() -> None:
    """Also above those that the transaction coordinator has given; ids out of reach do not count.

    A broker refuses the first record of a new producer with the id of one that a log knows.
    """
    home = home_with_topics()
    with home.open() as logs:
        for producer_id in (4321, 2**63 - 1):
            producer: ProducerFields = {"producer_id": producer_id, "producer_epoch": 0}
            records = [(home.clock.now_ms(), None, b"x", ())]
            batch = build_batch(records, **producer, base_sequence=0)
            logs.partition("u", 0).log.append_as_leader(batch)

    assert hand_over(home).next_producer_id == 5000
    assert 15 in read_bootstrap_types(BOOTSTRAP, fs=home.fs)


def test_a_directory_that_names_the_same_topics_to_its_broker_needs_nothing() -> None:
    """The controller reads its own metadata, and no ``bootstrap.checkpoint``."""
    home = home_with_topics()
    hand_over(home)
    image_of(home)
    home.fs.delete(BOOTSTRAP)

    plan = hand_over(home)

    assert (plan.is_known, dict(plan.files)) == (True, {})
    assert not home.fs.exists(BOOTSTRAP)


def test_metadata_of_other_topics_is_refused_with_what_differs() -> None:
    """The broker would delete the partitions of a topic that it does not know."""
    home = home_with_topics()
    hand_over(home)
    image_of(home)
    with home.open() as logs:
        logs.create_topic("new")
        logs.delete_topic("u")
        logs.create_partitions("t", 3)
        logs.alter_topic("t", {"segment.ms": "9"})

    with pytest.raises(KafkaStorageError) as caught:
        hand_over(home)

    text = str(caught.value)
    for part in ("new is not in it", "u is not here", "t has other partitions", "(segment.ms)"):
        assert part in text


@pytest.mark.parametrize(
    ("path", "reason"), [("/a,b", "it has a comma"), ("/a\udcff", "it is not UTF-8")]
)
def test_a_directory_that_no_setting_can_name_is_refused(path: str, reason: str) -> None:
    """The broker would start on another, empty one."""
    home = DataHome()
    with home.open(paths=(path,)) as logs:
        logs.create_topic("t")

    with pytest.raises(KafkaStorageError, match=reason):
        hand_over(home, path)


def test_what_kafka_would_not_start_with_is_refused() -> None:
    """Each reason is named; nothing is written."""
    home = home_with_topics()
    home.fs.make_directory(f"{PATH}/photos")
    home.fs.make_directory(f"{PATH}/empty-0")
    home.fs.make_directory(f"{PATH}/t-0.{'0' * 32}-future")

    with pytest.raises(KafkaStorageError, match="photos") as caught:
        hand_over(home)

    assert "empty-0" in str(caught.value)
    assert "a move is not finished" in str(caught.value)
    assert not home.fs.exists(BOOTSTRAP)
    assert not home.fs.exists(f"{PATH}/{PROPERTIES_FILE}")


def test_two_topics_with_one_id_are_refused() -> None:
    """A controller would: a partition's directory was copied under another name."""
    home = home_with_topics()
    home.fs.make_directory(f"{PATH}/v-0")
    for name in ("partition.metadata", f"{0:020}.log"):
        home.fs.write(f"{PATH}/v-0/{name}", home.fs.read(f"{PATH}/t-1/{name}"))
    with home.open() as logs:
        unknown = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        logs.alter_topic("v", unknown)

    with pytest.raises(KafkaStorageError, match="topics t and v have one id"):
        hand_over(home)


def test_topics_with_unknown_settings_are_refused() -> None:
    """The broker would apply its default retention to a topic that another broker wrote."""
    home = home_with_topics()
    home.fs.delete(f"{PATH}/tidelog.topics.json")

    with pytest.raises(KafkaStorageError, match=r"retention\.ms.* of topic u are unknown"):
        hand_over(home)

    known = {"cleanup.policy": "delete", "retention.ms": "5", "retention.bytes": "-1"}
    with home.open() as logs:
        logs.alter_topic("t", known)
        logs.alter_topic("u", known)
    assert [dict(topic.config) for topic in hand_over(home).topics] == [known, known]


def test_partitions_that_are_not_here_are_refused() -> None:
    """In a directory that is not named, or of numbers that lie nowhere."""
    home, other = home_with_topics(), "/other"
    with home.open(paths=(PATH, other)) as logs:
        logs.manager.create_topic("elsewhere", path=other)

    with pytest.raises(KafkaStorageError, match="elsewhere lie in a directory that is not named"):
        hand_over(home)


def test_transactions_that_wait_are_refused() -> None:
    """Kafka knows nothing of them, and its appends would come between."""
    home = home_with_topics()
    with home.open() as logs:
        home.fs.write(f"{PATH}/{journal_name('x')}", b"")
        with pytest.raises(CommitPending, match="staged list"):
            plan_hand_over(logs.manager)
    assert not home.fs.exists(BOOTSTRAP)


def test_a_transaction_that_is_in_the_logs_does_not_keep_a_broker_out() -> None:
    """Though the process that waited for it has not looked for the outcome."""
    home = home_with_topics()
    with home.open() as logs:
        name, *_ = logs.manager.topics()
        one = stage(
            *(home.fs, PATH, "x", {(name, 0): [b"a"]}),
            rng=Random(1),
            topic_ids={name: logs.manager.topic(name).topic_id},
            is_named=False,
        )
        files = ReadyFiles(home.fs, PATH, new_stem("x", Random(2)))
        leave(files, ReadyManifest(one, 4_000_000_000_000))
        with pytest.raises(CommitPending, match="staged list"):
            plan_hand_over(logs.manager)
        files.change(State.WAITING, State.CLAIMED)
        logs.manager.staged_commits.commit(PATH, one)
        plan_hand_over(logs.manager)
    assert files.is_in(State.CLAIMED)


def test_users_and_acls_of_a_formatted_directory_are_not_replaced() -> None:
    """``kafka-storage format --add-scram`` puts them into the same file."""
    home = home_with_topics()
    home.fs.write(BOOTSTRAP, made.metadata_snapshot([made.feature("metadata.version", 30)]))
    hand_over(home)
    scram = made.message(11, made.text("alice") + bytes(8))
    home.fs.write(BOOTSTRAP, made.metadata_snapshot([made.topic("t", UUID(int=9)), scram]))

    with pytest.raises(KafkaStorageError, match="more than topics"):
        hand_over(home)


def test_a_damaged_bootstrap_file_is_not_replaced_and_nothing_is_written() -> None:
    """Users may be in the batch that is cut short."""
    home = home_with_topics()
    users = made.metadata_snapshot([made.message(11, made.text("alice") + bytes(8))])
    home.fs.write(BOOTSTRAP, users[:-100])

    with pytest.raises(CorruptFile, match="cut off by the end"):
        hand_over(home)

    assert home.fs.read(BOOTSTRAP) == users[:-100]
    assert not home.fs.exists(f"{PATH}/{PROPERTIES_FILE}")


def test_a_log_that_begins_in_an_archive_is_not_handed_over_in_part() -> None:
    """A broker would begin it where the disk does, so somebody has to say that this is meant."""
    home = home_with_topics()
    with home.open() as logs:
        for group in ("below", "at"):
            with logs.reader("t", group=group) as reader:
                reader.seek("t", 1, 0 if group == "below" else 1)
                reader.commit()
        log = logs.partition("t", 1).log
        logs.delete_records("t", 1, 1)
        log.note_archived(ArchivedOffsets(0, 1))
        with pytest.raises(
            KafkaStorageError, match="offsets 0 to 0 of t-1 are only in its archive"
        ):
            plan_hand_over(logs.manager)
        plan = plan_hand_over(logs.manager, is_local_only=True)

    assert [topic.name for topic in plan.topics] == ["__consumer_offsets", "t", "u"]
    assert plan.begun_later == (("t", 1, 0, 1),)
    assert plan.groups_below == ("below",)


def test_settings_of_an_archive_are_not_handed_over() -> None:
    """A broker without remote storage of its own refuses all settings of such a topic.

    The same holds where its metadata knows the topic from the hand-over before.
    """
    home, known = home_with_topics(), {"remote.log.copy.disable": "false", **FOREVER}
    archived = {"remote.storage.enable": "true", "local.retention.ms": "5"}
    with home.open() as logs:
        logs.alter_topic("t", {**known, **archived})

    plan = hand_over(home)

    left_out = {"t": ("local.retention.ms", "remote.log.copy.disable", "remote.storage.enable")}
    assert plan.left_out == {"u": (), **left_out}
    assert not [key for topic in plan.topics for key in topic.config if is_about_tiers(key)]
    assert not [key for one in image_of(home).settings.values() for key in one if "remote" in key]
    again = hand_over(home)
    assert (again.is_known, again.left_out) == (True, plan.left_out)
