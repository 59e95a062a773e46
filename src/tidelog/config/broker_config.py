"""The settings of a whole data directory, called broker configs in Kafka.

They are the broker configs that concern storage, and the broker-level names of topic defaults.
Kafka: ``KafkaConfig``, ``ServerLogConfigs``, ``CleanerConfig``.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, replace
from dataclasses import field as plain_field
from typing import TYPE_CHECKING, Any, Final

from tidelog.config.kafka_names import WITHOUT_EFFECT
from tidelog.config.log_config import DAY_MS, MINUTE_MS, SECOND_MS, LogConfig
from tidelog.config.log_levels import LEVEL_FORM, are_log_levels
from tidelog.config.option import (
    INT64_MAX,
    Check,
    Int32,
    any_value,
    at_least,
    between,
    check_options,
    check_value,
    option,
    options_of,
    parse_options,
    read_value,
)
from tidelog.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidelog.config.option import Option, Synonym

_LOGGER: Final = logging.getLogger(__name__)

ALL_DIRS: Final = "*"
STAGED_RETENTION_MS: Final = 7 * DAY_MS
CUT_RETENTION_MS: Final = 7 * DAY_MS
MOST_JOINED: Final = 1000
MOST_THREADS: Final = 256
"""Threads of one kind that are used at most; Kafka starts them as they are needed."""
_MIB: Final = 2**20
_uri_of_archive: Final = Check(
    "the URI of an archive, without credentials",
    lambda text: not text or ("://" in text and "@" not in text),
)
_some_directories: Final = Check("a list of one or more directories", bool)


TIDELOG_DEFAULTS: Final = LogConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of a data directory; ``log_defaults`` apply to topics without their own.

    Source: Kafka KafkaConfig.
    """

    log_dir: tuple[str, ...] = option(
        "log.dir",
        ("/tmp/kafka-logs",),  # noqa: S108 - Kafka's default
        _some_directories,
        "Data directory, used if log.dirs is not set.",
    )
    log_dirs: tuple[str, ...] | None = option(
        "log.dirs",
        None,
        Check(_some_directories.valid, lambda dirs: dirs is None or bool(dirs)),
        "Data directories.",
    )
    cordoned_log_dirs: tuple[str, ...] = option(
        "cordoned.log.dirs",
        (),
        any_value,
        "Directories of log.dirs that receive no new partitions; * for all.",
    )
    num_recovery_threads_per_data_dir: Int32 = option(
        "num.recovery.threads.per.data.dir",
        2,
        at_least(1),
        "Maximum number of threads per directory that load logs at startup and close them.",
    )
    log_retention_check_interval_ms: int = option(
        "log.retention.check.interval.ms",
        5 * MINUTE_MS,
        at_least(1),
        "Interval in ms between checks for expired segments.",
    )
    log_flush_scheduler_interval_ms: int = option(
        "log.flush.scheduler.interval.ms",
        INT64_MAX,
        any_value,
        "Interval in ms between checks for logs that flush.ms requires to be flushed.",
    )
    log_flush_offset_checkpoint_interval_ms: Int32 = option(
        "log.flush.offset.checkpoint.interval.ms",
        MINUTE_MS,
        at_least(0),
        "Interval in ms between checkpoints of the recovery points.",
    )
    log_flush_start_offset_checkpoint_interval_ms: Int32 = option(
        "log.flush.start.offset.checkpoint.interval.ms",
        MINUTE_MS,
        at_least(0),
        "Interval in ms between checkpoints of the log start offsets.",
    )
    log_initial_task_delay_ms: int = option(
        "log.initial.task.delay.ms",
        30 * SECOND_MS,
        at_least(0),
        "Delay in ms between startup and the first background tasks.",
    )
    log_dir_failure_timeout_ms: int = option(
        "log.dir.failure.timeout.ms",
        30 * SECOND_MS,
        at_least(1),
        "Time in ms allowed for reporting a failed directory before the broker stops; accepted"
        " without effect.",
    )
    log_cleaner_enable: bool = option(
        "log.cleaner.enable", True, any_value, "Whether logs are compacted."
    )
    log_cleaner_threads: Int32 = option(
        "log.cleaner.threads", 1, at_least(0), "Number of threads that compact logs."
    )
    log_cleaner_dedupe_buffer_size: int = option(
        "log.cleaner.dedupe.buffer.size",
        128 * _MIB,
        any_value,
        "Total memory in bytes for the offset maps of all cleaner threads.",
    )
    log_cleaner_io_buffer_load_factor: float = option(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        at_least(0.0001),
        "Maximum fill ratio of the offset map.",
    )
    log_cleaner_io_buffer_size: Int32 = option(
        "log.cleaner.io.buffer.size",
        _MIB // 2,
        at_least(0),
        "Total memory in bytes for the read and write buffers of all cleaner threads.",
    )
    log_cleaner_io_max_bytes_per_second: float = option(
        "log.cleaner.io.max.bytes.per.second",
        sys.float_info.max,
        Check("at least 1, or negative for no limit", lambda value: value >= 1 or value < 0),
        "Maximum average rate, in bytes per second, at which cleaners read and write.",
    )
    log_cleaner_backoff_ms: int = option(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        at_least(0),
        "Time in ms that a cleaner sleeps when there is nothing to clean.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = option(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        INT64_MAX,
        at_least(1),
        "Maximum rate, in bytes per second, at which all moves between data directories together"
        " copy.",
    )
    producer_id_expiration_ms: Int32 = option(
        "producer.id.expiration.ms",
        DAY_MS,
        at_least(1),
        "Time in ms since a producer's last batch after which its state is dropped.",
    )
    producer_id_expiration_check_interval_ms: Int32 = option(
        "producer.id.expiration.check.interval.ms",
        10 * MINUTE_MS,
        at_least(1),
        "Interval in ms between checks for expired producers.",
    )
    transaction_partition_verification_enable: bool = option(
        "transaction.partition.verification.enable",
        True,
        any_value,
        "Whether transactional batches are rejected unless their transaction was verified.",
    )
    transaction_max_timeout_ms: Int32 = option(
        "transaction.max.timeout.ms",
        15 * MINUTE_MS,
        at_least(1),
        "Maximum timeout in ms of a transaction; it counts as late after five more minutes.",
    )
    transactional_id_expiration_ms: Int32 = option(
        "transactional.id.expiration.ms",
        7 * DAY_MS,
        at_least(1),
        "Time in ms without use after which `tidelog serve` forgets a transactional id.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = option(
        "replica.high.watermark.checkpoint.interval.ms",
        5 * SECOND_MS,
        any_value,
        "Interval in ms between checkpoints of the high watermarks.",
    )
    background_threads: Int32 = option(
        "background.threads", 10, at_least(1), "Number of threads for background tasks."
    )
    tidelog_reserve_bytes: int = option(
        "tidelog.reserve.bytes",
        0,
        at_least(0),
        "Free bytes on a disk below which its directories reject appends; 0: off.",
    )
    tidelog_retention_disk_percent: Int32 = option(
        "tidelog.retention.disk.percent",
        0,
        between(0, 100),
        "Percentage of the space on the disk that logs use or could use, above which the"
        " directory's oldest segments are deleted, regardless of topic retention; 0: off.",
    )
    tidelog_metrics_interval_ms: int = option(
        "tidelog.metrics.interval.ms",
        10 * SECOND_MS,
        at_least(100),
        "Interval in ms between writes of the file that tidelog metrics prints.",
    )
    tidelog_staged_retention_ms: int = option(
        "tidelog.staged.retention.ms",
        STAGED_RETENTION_MS,
        at_least(MINUTE_MS),
        "Time in ms since the last write after which a staged file is removed, and since its commit"
        " for which a transaction id is known.",
    )
    tidelog_max_joined_connections: Int32 = option(
        "tidelog.max.joined.connections",
        MOST_JOINED,
        at_least(1),
        "Connections of programs that have joined: each has one, and one for each of its readers of"
        " groups.",
    )
    tidelog_log_levels: tuple[str, ...] = option(
        "tidelog.log.levels",
        (),
        Check(f"a list of {LEVEL_FORM}", are_log_levels),
        "Lowest levels that a service logs, for all loggers or for one; of no level: INFO.",
    )
    tidelog_cut_retention_ms: int = option(
        "tidelog.cut.retention.ms",
        CUT_RETENTION_MS,
        at_least(-1),
        "Time in ms after which the files that keep what a recovery cut off a log are deleted;"
        " -1: never.",
    )
    tidelog_archive_uri: str = option(
        "tidelog.archive.uri",
        "",
        _uri_of_archive,
        "Where closed segments of topics with remote.storage.enable=true are copied, as"
        " s3://BUCKET/PREFIX; empty: nowhere.",
    )
    remote_log_manager_task_interval_ms: int = option(
        "remote.log.manager.task.interval.ms",
        30 * SECOND_MS,
        at_least(1),
        "Interval in ms between looks for segments that are to be archived, or deleted there.",
    )
    remote_log_manager_copier_thread_pool_size: Int32 = option(
        "remote.log.manager.copier.thread.pool.size",
        10,
        at_least(1),
        "Number of logs that are copied to the archive at the same time.",
    )
    remote_log_manager_copy_max_bytes_per_second: int = option(
        "remote.log.manager.copy.max.bytes.per.second",
        INT64_MAX,
        at_least(1),
        "Maximum rate, in bytes per second, at which all copies to the archive together are made.",
    )
    log_defaults: LogConfig = plain_field(default_factory=LogConfig)
    given: frozenset[str] = frozenset()
    """The settings of ``log_defaults`` that were given, by their topic-level names."""
    is_retention_in_file: bool = False
    """Whether a properties file names a retention: that of topics without a known one."""
    server_properties: dict[str, str] | None = None
    """The ``server.properties`` of the broker that wrote the directories; None: not known.

    It gives settings to topics that the broker wrote, and to no others."""

    def __post_init__(self) -> None:
        check_options(self, self._conflicts())

    @classmethod
    def parse(
        cls,
        properties: Mapping[str, str],
        directories: Sequence[str] = (),
        defaults: LogConfig = TIDELOG_DEFAULTS,
        others: Iterable[str] = (),
    ) -> BrokerConfig:
        """Parse Kafka-style properties; raise one InvalidConfig that names every bad key.

        Broker-level names of topic settings, such as ``log.retention.hours``, are accepted too;
        ``defaults`` stand for those that are absent. ``directories``, if there are any, replace
        ``log.dirs``. ``others`` are names that a mistyped one may mean, too.
        """
        own_names = {known.name for known in options_of(cls)}
        own = {n: t for n, t in properties.items() if n in own_names or n not in _SYNONYMS}
        values: dict[str, Any] = {}
        if directories:
            own.pop("log.dirs", None)
            values["log_dirs"] = tuple(directories)
        problems: tuple[str, ...] = ()
        try:
            defaults = parse_log_defaults(properties, defaults)
        except InvalidConfig as error:
            problems = error.problems
        try:
            config: BrokerConfig = parse_options(
                cls, own, others=(*_SYNONYMS, *others), log_defaults=defaults, **values
            )
        except InvalidConfig as error:
            raise InvalidConfig((*problems, *error.problems)) from None
        if problems:
            raise InvalidConfig(problems)
        idle = [name for name in WITHOUT_EFFECT if name in properties]
        if idle:
            _LOGGER.warning("settings-without-effect settings=%s", ",".join(idle))
        if not config.log_cleaner_enable or config.log_cleaner_threads < 1:
            _LOGGER.warning("cleaner-off threads=%d", config.log_cleaner_threads)
        return config

    def with_log_defaults(self, defaults: LogConfig, given: frozenset[str]) -> BrokerConfig:
        """Return a copy with these settings for topics without their own."""
        return replace(self, log_defaults=defaults, given=given)

    def with_server_properties(self, properties: dict[str, str] | None) -> BrokerConfig:
        """Return a copy for directories of a broker that had this ``server.properties``."""
        return replace(self, server_properties=properties)

    @property
    def data_directories(self) -> tuple[str, ...]:
        """The directories that hold logs."""
        return self.log_dir if self.log_dirs is None else self.log_dirs

    @property
    def recovery_threads(self) -> int:
        """Threads for each directory that load its logs and close them."""
        return min(self.num_recovery_threads_per_data_dir, MOST_THREADS)

    @property
    def scheduler_threads(self) -> int:
        """Threads for background tasks."""
        return min(self.background_threads, MOST_THREADS)

    @property
    def cleaner_threads(self) -> int:
        """Threads that compact logs."""
        return min(self.log_cleaner_threads, MOST_THREADS)

    def _conflicts(self) -> Iterator[str]:
        cordoned = set(self.cordoned_log_dirs)
        if ALL_DIRS in cordoned and len(cordoned) > 1:
            yield "cordoned.log.dirs: * stands for all directories and must be the only entry"
        elif unknown := cordoned - {ALL_DIRS, *self.data_directories}:
            yield f"cordoned.log.dirs: not in log.dirs: {', '.join(sorted(unknown))}"
        if self.log_cleaner_dedupe_buffer_size <= _MIB * self.log_cleaner_threads:
            yield "log.cleaner.dedupe.buffer.size: must be more than 1 MiB for each cleaner thread"


def parse_log_defaults(properties: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """Parse the defaults of topic settings from their broker-level names; ignore other names.

    If several names of one setting are present, the one with the highest precedence wins; if none
    is, the value is that of ``defaults``. Raises InvalidConfig.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for known in options_of(LogConfig):
        names = [synonym for synonym in known.synonyms if synonym.name in properties]
        if names:
            try:
                values[known.field] = default_of(known, names[0], properties[names[0].name])
            except ValueError as error:
                problems.append(f"{names[0].name}: {error}")
    try:
        defaults = replace(defaults, **values)
    except InvalidConfig as error:
        problems += error.problems
    if problems:
        raise InvalidConfig(tuple(problems))
    return defaults


def default_of(known: Option, synonym: Synonym, text: str) -> object:
    """Return the value of a topic setting from the text of a broker-level name of it.

    Raises ValueError if the text or the value is not valid.
    """
    value = read_value(known, text, synonym.factor)
    if known.name == "retention.ms":
        # At broker level, any negative value means no limit, and zero is not valid.
        if value == 0:
            raise ValueError("0 would expire every segment at once")
        value = max(value, -1)
    check_value(known, value)
    return value


_SYNONYMS: Final = frozenset(s.name for known in options_of(LogConfig) for s in known.synonyms)
