"""A log that a recovery has left with a damaged batch, among others in its directory."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.manager_home import ManagerHome, fill, values

from tidelog.errors import CorruptMessage, DamagedLog, KafkaStorageError
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.mailbox.answer import Answer
from tidelog.manager.lifecycle.log_opener import RecoveryRules
from tidelog.manager.metrics.health import degraded_reasons
from tidelog.manager.recovered_log import RecoveredLog
from tidelog.service.requests.request import Request

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

LOG = f"t-0/{0:020d}.log"
RULES = RecoveryRules(keep_cuts=KeepCuts.ALWAYS, cuts_contradictions=True)


def flip_upward(home: ManagerHome | DataHome, path: str, batch: int) -> None:
    """Let a batch of a file begin 8 offsets later; it is below the high watermark."""
    data = bytearray(home.fs.read(path))
    position = 0
    for _ in range(batch):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    data[position + 7] ^= 8
    home.fs.write(path, bytes(data))


def killed(paths: tuple[str, ...] = ("/data",)) -> ManagerHome:
    """Leave two topics of ten records, of one of which batch 4 is damaged, without an end."""
    home = ManagerHome(*paths, retention_ms=-1, internal_segment_bytes=1 << 20)
    manager = home.open()
    for topic in ("t", "u"):
        manager.create_topic(topic, path=paths[0])
        fill(manager, topic, 0, 10)
    home.restart()
    flip_upward(home, f"{paths[0]}/{LOG}", 4)
    return home


def before_damage(manager: LogService) -> list[bytes | None]:
    """Return the values that a reader gets before the error."""
    found: list[bytes | None] = []
    with pytest.raises(CorruptMessage):
        found.extend(each.value for each in manager.partition("t", 0).log.records())
    return found


def cut_files(home: ManagerHome, path: str = "/data") -> list[str]:
    return [name for name in home.files(path) if name.endswith(".cut")]


def test_a_service_reads_it_and_takes_no_appends_for_it() -> None:
    """Its other logs are as always."""
    home = killed()
    manager = home.open()

    with pytest.raises(DamagedLog):
        fill(manager, "t", 0, 1)
    fill(manager, "u", 0, 1)

    assert before_damage(manager) == [b"value %d" % number for number in range(4)]
    assert len(values(manager, "u", 0)) == 11
    assert cut_files(home) == []


def test_its_directory_is_not_clean_before_it_is_recovered() -> None:
    """Another process, or Kafka, would take it for whole otherwise."""
    home = killed()
    home.open().shutdown()
    assert not home.is_marked()

    manager = home.open()
    assert manager.partition("t", 0).log.contradiction is not None
    manager.recover_log("t", 0)
    manager.shutdown()

    assert home.is_marked()


def test_a_service_counts_it() -> None:
    """Its health says what to do."""
    home = killed()
    manager = home.open()

    before = degraded_reasons(manager.metrics())
    manager.recover_log("t", 0)

    assert before == ["damaged partitions that take no appends until recovered: 1"]
    assert degraded_reasons(manager.metrics()) == []


def ask_to_recover(home: ManagerHome, *, keep: bool = True) -> Answer:
    """Let the service meet the request of ``tidelog recover``."""
    path = f"/data/tidelog.{'1' * 32}.request"
    arguments = {"partitions": {"t": [0], "u": [0]}, "keep": keep}
    home.fs.write(path, Request("recover", arguments, home.clock.now_ms() + 15_000).encoded())
    home.clock.advance(2_000)
    return Answer.parsed(json.loads(home.fs.read(f"{path}-answered")))


@pytest.mark.parametrize("keep", [True, False])
def test_a_running_service_recovers_it_on_request(keep: bool) -> None:
    """What it cuts is kept if so requested; reading and writing continue from the end it left.

    Readers saw what it cuts, so another leader epoch begins there.
    """
    home = killed()
    manager = home.open()
    partition = manager.partition("t", 0)

    answer = ask_to_recover(home, keep=keep)

    rows = [RecoveredLog.unpacked(row) for row in answer.result]
    assert [(row.topic, row.log_end_offset, row.lost_records) for row in rows] == [
        ("t", 4, 6),
        ("u", 10, 0),
    ]
    assert rows[0].lost_offsets == (4, 9)
    assert len(cut_files(home)) == keep
    assert [one.start_offset for one in partition.log.epochs.entries] == [0, 4]
    fill(manager, "t", 0, 1)
    assert manager.partition("t", 0) is partition
    assert values(manager, "t", 0) == [*(b"value %d" % number for number in range(4)), b"value 0"]
    assert home.lines("replication-offset-checkpoint") == ["t 0 4", "u 0 10"]


def test_without_space_for_what_is_cut_it_stays_as_it_is() -> None:
    """The request fails, the log can be read, and asking again once there is space succeeds."""
    home = killed()
    manager = home.open()
    full = OSError(errno.ENOSPC, "No space left on device")
    home.fs.fail("pwrite", ".cut", full)

    with pytest.raises(KafkaStorageError) as caught:
        manager.recover_log("t", 0)

    assert caught.value.__cause__ is full
    assert before_damage(manager) == [b"value %d" % number for number in range(4)]
    assert manager.recover_log("t", 0).log_end_offset == 4
    assert manager.live_dirs == ["/data"]


def test_recovering_a_sound_log_changes_nothing() -> None:
    """It is not even opened again."""
    home = killed()
    manager = home.open()
    log = manager.partition("u", 0).log

    assert manager.recover_log("u", 0) is log


def test_a_transaction_for_it_is_refused_before_it_is_committed() -> None:
    """Else its journal would wait for ever, and hold up those that share a partition with it."""
    home = DataHome()
    with home.open() as logs:
        for topic in ("t", "u"):
            logs.create_topic(topic)
            for number in range(10):
                logs.append(topic, b"%d" % number)
    home.fs.delete(f"{home.path}/.kafka_cleanshutdown")
    home.fs.delete(f"{home.path}/recovery-point-offset-checkpoint")
    flip_upward(home, f"{home.path}/{LOG}", 4)

    with home.open() as logs:
        transaction = logs.transaction("both")
        for topic in ("u", "t"):
            transaction.append(topic, b"new")
        with pytest.raises(DamagedLog):
            transaction.commit()
        logs.append("u", b"free")
        assert len(list(logs.read("u"))) == 11
    assert [name for name in home.files() if name.endswith((".staged", ".intent"))] == []


def test_a_short_lived_writer_recovers_it_by_its_rules() -> None:
    """As ``tidelog recover`` does where no service runs."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        for number in range(10):
            logs.partition("t", 0).append_records([record(b"%d" % number)])
    home.fs.delete(f"{home.path}/.kafka_cleanshutdown")
    home.fs.delete(f"{home.path}/recovery-point-offset-checkpoint")
    flip_upward(home, f"{home.path}/{LOG}", 4)

    with home.open() as logs, pytest.raises(DamagedLog):
        logs.append("t", b"refused")
    with home.open(recovery=RULES) as logs:
        logs.append("t", b"new")

    assert home.values("t-0") == [b"0", b"1", b"2", b"3", b"new"]


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize(("value_bytes", "damaged"), [(10, 4), (360_000, 3)])
def test_damage_is_not_moved_to_another_directory(
    is_killed: bool, value_bytes: int, damaged: int
) -> None:
    """The copy would end at the false offset, and the sound records after it be gone.

    Also where the damaged batch is the last of the bytes that are copied at once.
    """
    home = ManagerHome("/a", "/b", retention_ms=-1, internal_segment_bytes=8 << 20)
    manager = home.open()
    manager.create_topic("t", path="/a")
    for _ in range(14):
        records = [(home.clock.now_ms(), None, bytes(value_bytes), ())]
        manager.partition("t", 0).append_records(records)
    if is_killed:
        home.restart()
    else:
        manager.shutdown()
    flip_upward(home, f"/a/{LOG}", damaged)
    before = home.fs.read(f"/a/{LOG}")
    manager = home.open()

    manager.move_partition("t", 0, "/b")
    home.clock.advance(0)

    assert manager.partition("t", 0).log.directory == "/a/t-0"
    assert manager.partition("t", 0).log.log_end_offset == 14
    assert "impossible offsets" in manager.why_not_moved("t", 0)
    assert home.fs.read(f"/a/{LOG}") == before
