"""What a new topic, a new partition and a change of settings must hold.

Every way to create or change a topic uses these checks. Kafka: ``ReplicationControlManager`` and
``ConfigurationControlManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.given_values import checked_number
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of, unknown_setting
from tidelog.datadir.catalogue import METADATA_TOPIC, Topic
from tidelog.datadir.effective_config import TIERED, wants_archive
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    PolicyViolation,
    TopicAlreadyExists,
)
from tidelog.segment.filenames import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import SupportsIndex
    from uuid import UUID

MOST_PARTITIONS: Final = 10_000
"""As Kafka's controller allows: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH."""


def new_topic(
    name: str,
    topic_id: UUID,
    homes: Sequence[UUID],
    config: Mapping[str, str],
    birth: Mapping[str, str],
    *,
    defaults: LogConfig,
) -> Topic:
    """Return a topic whose partition ``n`` lies in the directory with id ``homes[n]``.

    One of Kafka's own has the settings that it cannot do without, too.

    Raises InvalidTopic, InvalidPartitions, PolicyViolation or InvalidConfig; see ``check_topic``.
    """
    check_topic(name, len(homes), config, birth, defaults=defaults)
    settings = {key: value.strip() for key, value in config.items()}
    own = {**INTERNAL_SETTINGS.get(name, {}), **settings}
    return Topic(name, topic_id, dict(enumerate(homes)), own, birth=dict(birth))


def check_topic(
    name: str,
    partitions: int,
    config: Mapping[str, str],
    birth: Mapping[str, str] | None = None,
    *,
    defaults: LogConfig,
) -> None:
    """Raise unless a topic may have this name, number of partitions, settings and birth values.

    Raises:
        InvalidArgument: the name is not text, or the number is not a whole one.
        InvalidTopic: not a name that Kafka allows, or its own one.
        InvalidPartitions: fewer than 1.
        PolicyViolation: more than Kafka makes at once.
        InvalidConfig: names every bad setting.
    """
    check_topic_name(name)
    if name == METADATA_TOPIC:
        raise InvalidTopic(f"{name} is Kafka's own")
    check_count(partitions)
    _check_internal(name, config)
    _check_settings(config, defaults.with_overrides(birth or {}))


def check_count(partitions: int) -> int:
    """Return a number of partitions that a topic may be made with; errors as ``check_topic``.

    To be asked before any work for a topic that is still to be made: it grows with the number.
    """
    partitions = check_count_type(partitions)
    if partitions < 1:
        raise InvalidPartitions(f"a topic has at least 1 partition, not {partitions}")
    if partitions > MOST_PARTITIONS:
        limit = f"more than {MOST_PARTITIONS:,} are not made at once"
        raise PolicyViolation(f"a topic of {partitions:,} partitions: {limit}")
    return partitions


def check_wider(topic: Topic, count: int, *, defaults: LogConfig) -> None:
    """Raise unless partitions may be added to a topic until it has ``count``.

    Raises InvalidPartitions also for a topic of Kafka's own; and errors as ``check_topic``.
    """
    check_count_type(count)
    present = max(topic.partitions) + 1
    if count <= present:
        raise InvalidPartitions(
            f"topic {topic.name} has {present} partitions; {count} is not an increase"
        )
    if topic.name in INTERNAL_SETTINGS:
        # A group, or a transactional id, is in the partition that its name and their number say.
        raise InvalidPartitions(
            f"{topic.name} keeps its {present} partitions: with others, groups and transactions"
            " would not be found where they are"
        )
    check_topic(topic.name, count, {}, defaults=defaults)


def check_count_type(partitions: SupportsIndex) -> int:
    """Return a number of partitions; raise InvalidArgument for what is none, such as text."""
    return checked_number(partitions, "a number of partitions")


def check_same(
    topic: Topic, partitions: int | None, config: Mapping[str, str], *, defaults: LogConfig
) -> None:
    """Raise unless a topic has these settings in force and ``partitions``, or more by now.

    Partitions are added to a topic as it grows, which must not stop the programs that created it.

    Raises:
        TopicAlreadyExists: names each difference.
        InvalidConfig: names every setting that is not valid.
        InvalidPartitions, PolicyViolation: no topic can be made with as many.
    """
    if partitions is not None:
        check_count(partitions)
    there = topic.config_in_force(defaults)
    wanted = there.with_overrides(config)
    differences = []
    count = len(topic.partitions)
    if partitions is not None and count < partitions:
        differences.append(f"{count} partition{'s' * (count != 1)}, not {partitions}")
    for known in options_of(LogConfig):
        values = getattr(there, known.field), getattr(wanted, known.field)
        if known.name in topic.unknown_settings and known.name in config:
            differences.append(f"{known.name} unknown")
        elif values[0] != values[1]:
            differences.append("{}={}, not {}".format(known.name, *map(known.kind.format, values)))
    if differences:
        raise TopicAlreadyExists(
            f"topic {topic.name} exists with {'; '.join(differences)}: leave out what it need not"
            " have, or change the topic with alter_topic or create_partitions"
        )


def altered_config(
    topic: Topic, settings: Mapping[str, str], unset: Collection[str], *, defaults: LogConfig
) -> dict[str, str]:
    """Return a topic's own settings with some changed and some taken away.

    Raises InvalidConfig for settings that do not hold, for ``unset`` ones that are not set, and for
    those that are to be set as well.
    """
    if both := sorted(settings.keys() & set(unset)):
        raise InvalidConfig(tuple(f"{name}: either set it or drop it" for name in both))
    absent = sorted(set(unset) - set(topic.config))
    if absent:
        raise InvalidConfig(tuple(f"{name}: topic {topic.name} does not set it" for name in absent))
    _check_internal(topic.name, settings, unset)
    kept = {name: value for name, value in topic.config.items() if name not in unset}
    is_archived = topic.config_in_force(defaults).remote_storage_enable
    _check_settings({**kept, **settings}, topic.defaults_of(defaults), is_archived=is_archived)
    return {**kept, **{name: value.strip() for name, value in settings.items()}}


def following(topic: Topic, names: Collection[str]) -> Mapping[str, str] | None:
    """Return a topic's birth values without some, which the process that opens it then decides.

    Raises InvalidConfig for names that are not among them.
    """
    born = {} if topic.is_adopted else {n: one.value for n, one in topic.inherited.items()}
    absent = sorted(set(names) - set(born))
    if absent:
        known = {one.name for one in options_of(LogConfig)}
        reason = f"topic {topic.name} has no birth value of it"
        raise InvalidConfig(
            tuple(f"{n}: {reason}" if n in known else unknown_setting(n, born) for n in absent)
        )
    return {name: value for name, value in born.items() if name not in names} if names else None


def _check_internal(name: str, config: Mapping[str, str], unset: Collection[str] = ()) -> None:
    """Raise InvalidConfig for settings by which a topic of Kafka's own would lose what it holds.

    ``unset`` are those that it is to have no longer.
    """
    own = INTERNAL_SETTINGS.get(name)
    if own is None:
        return
    if wants_archive(config):
        raise InvalidConfig((f"{TIERED}: a topic of Kafka's own is not archived",))
    others = {key: config[key].strip() for key in own if key in config}
    reason = f"{name} holds what groups or transactions are at, which"
    problems = [
        f"{key}: {reason} {value!r} would delete"
        for key, value in others.items()
        if value != own[key]
    ]
    problems += [f"{key}: {reason} it would lose without" for key in own if key in unset]
    if problems:
        raise InvalidConfig(tuple(problems))


def _check_settings(
    config: Mapping[str, str], defaults: LogConfig, *, is_archived: bool = False
) -> None:
    """Raise InvalidConfig for a topic's settings that do not hold.

    ``is_archived``: the topic was, until now.
    """
    known = defaults.with_overrides(config)
    if is_archived and not known.remote_storage_enable and not known.remote_log_delete_on_disable:
        reason = (
            "the archive may hold records that are no longer here: set remote.log.copy.disable=true"
            " to copy no more, or remote.log.delete.on.disable=true, too, to delete what only the"
            " archive has"
        )
        raise InvalidConfig((f"{TIERED}: {reason}",))
