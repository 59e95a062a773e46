"""The settings of a topic's logs, from the several places that may set them.

Kafka: ``LogConfig.fromProps`` and ``ConfigRepository``.
"""

from __future__ import annotations

import logging
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.one_line import Drawn
from tidelog.config.deletion_settings import DELETE, DELETION_SETTINGS, NEVER_DELETED
from tidelog.datadir.birth import birth_values, settings_of_birth
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.known_setting import KnownSetting

_log = logging.getLogger(__name__)

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})

_MIN_LAG: Final = "min.compaction.lag.ms"
_MAX_LAG: Final = "max.compaction.lag.ms"
POLICY: Final = "cleanup.policy"
TIERED: Final = "remote.storage.enable"
_ABOUT_TIERS: Final = ("remote.", "local.retention.")
_LOCAL_LIMITS: Final = ("local.retention.bytes", "local.retention.ms")


def is_about_tiers(name: str) -> bool:
    """Return whether a setting is one of tiered storage: here, of archives."""
    return name.startswith(_ABOUT_TIERS)


def wants_archive(settings: Mapping[str, str], *, by_default: bool = False) -> bool:
    """Return whether settings of a topic have it archived; their values need not be valid."""
    return settings.get(TIERED, str(by_default)).strip().lower() == "true"


def unknown_settings(*known: Container[str]) -> tuple[str, ...]:
    """Return the settings about deletion that none of the collections of names holds."""
    return tuple(name for name in DELETION_SETTINGS if not any(name in one for one in known))


def unknown_in_effect(
    own: Mapping[str, str], inherited: Mapping[str, KnownSetting]
) -> tuple[str, ...]:
    """Return the unknown settings that matter: a topic that is only compacted has no retention."""
    policy = own.get(POLICY) or (inherited[POLICY].value if POLICY in inherited else DELETE)
    return unknown_settings(own, inherited) if DELETE in policy else ()


def without_tiers(settings: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return settings for a topic that has no archive, and the names, sorted, of those left out.

    Of one that is not archived all stay.
    """
    left_out: tuple[str, ...] = ()
    if wants_archive(settings):
        left_out = tuple(sorted(name for name in settings if is_about_tiers(name)))
    return {name: value for name, value in settings.items() if name not in left_out}, left_out


class CopiedSettings(NamedTuple):
    """The settings for a copy of a topic: its own, and its birth values.

    ``left_out``: the names, sorted, of those of tiered storage that the topic has and the copy
    cannot have.
    """

    config: dict[str, str]
    birth: dict[str, str]
    left_out: tuple[str, ...]


class TopicSettings(Drawn):
    """What follows from a topic's own settings and those that it has from elsewhere.

    The base of the classes that have these. ``config``: its own, under Kafka's names. ``birth``:
    its birth values; None where no catalogue holds them. ``is_adopted``: Kafka wrote the topic, so
    what neither ``config`` nor ``inherited`` names about deletion is unknown.
    """

    __slots__ = ()

    name: str
    config: Mapping[str, str]
    birth: Mapping[str, str] | None
    is_adopted: bool
    if TYPE_CHECKING:

        @property
        def given(self) -> Mapping[str, KnownSetting]:
            """What the broker that wrote the topic had, as far as it is known.

            Of a topic without birth values: the retention of the file of this service.
            """

    @property
    def inherited(self) -> Mapping[str, KnownSetting]:
        """The settings that come right after the topic's own."""
        if self.is_adopted:
            return self.given
        born = settings_of_birth(self.birth)
        return {**born, **self.given} if self.birth is None else born

    @property
    def unknown_settings(self) -> tuple[str, ...]:
        """The settings about deletion that matter and are not set anywhere, by Kafka's names."""
        return unknown_in_effect(self.config, self.inherited) if self.is_adopted else ()

    def settings_of_copy(self) -> CopiedSettings:
        """Return the settings for a copy of the topic: those that are known.

        What is unknown about deletion deletes nothing; under an unknown policy no limit does. The
        process that copies brings nothing: a broker's topic was born with Kafka's defaults.
        """
        from tidelog.config.log_config import LogConfig  # noqa: PLC0415 - for copies only

        inherited = {name: one.value for name, one in self.inherited.items()}
        birth = birth_values(LogConfig.of_kafka()) if self.is_adopted else inherited
        known = {**(inherited if self.is_adopted else {}), **self.config}
        unknown = self.unknown_settings
        if POLICY in unknown:
            unknown = DELETION_SETTINGS
        known |= {name: NEVER_DELETED[name] for name in unknown}
        known |= INTERNAL_SETTINGS.get(self.name, NO_SETTINGS)
        config, left_out = without_tiers(known)
        return CopiedSettings(config, birth, left_out)

    def config_in_force(
        self, defaults: LogConfig, overrides: Mapping[str, str] = NO_SETTINGS
    ) -> LogConfig:
        """Return the settings of the topic's logs.

        ``defaults`` stand for what the topic does not set, but never for an unknown setting about
        deletion. ``overrides`` take precedence over the topic's own. See ``effective_config``.
        """
        return effective_config(
            self.name,
            defaults,
            own=self.config,
            inherited=self.inherited,
            overrides=overrides,
            is_adopted=self.is_adopted,
        )


def effective_config(
    topic: str,
    defaults: LogConfig,
    *,
    own: Mapping[str, str],
    inherited: Mapping[str, KnownSetting],
    overrides: Mapping[str, str],
    is_adopted: bool,
) -> LogConfig:
    """Return the settings of a topic's logs.

    Args:
        topic: its name, for errors.
        defaults: stand for what nobody sets, but never for a setting about deletion of an adopted
            topic.
        own: the topic's own settings in the catalogue; they take precedence over ``inherited``.
        inherited: the topic's birth values, or what the broker had that wrote it.
        overrides: take precedence over all others, except what keeps a topic of Kafka's own whole.
        is_adopted: what none of these sets about deletion is unknown.

    Settings that are valid but do not go together are reconciled so that less is deleted, and
    logged: where they come from several places, no check was possible when each was set. Raises
    InvalidConfig, naming the topic, for other settings that are not valid.
    """
    kept = {name: setting.value for name, setting in inherited.items()} | {**own}
    given = kept | {**overrides}
    is_archived = partial(wants_archive, by_default=defaults.remote_storage_enable)
    if is_archived(kept) and not is_archived(given):
        # Else segments would be deleted, after others that only the archive has.
        given[TIERED] = "true"
        reason = f"{TIERED}=false counts only where tidelog alter sets it"
        _log.warning("topic-settings-reconciled topic=%s reason=%s", topic, reason)
    # Last: a limit that is given for all topics would delete the positions of groups.
    given |= INTERNAL_SETTINGS.get(topic, NO_SETTINGS)
    try:
        config = defaults.with_overrides(given)
    except InvalidConfig as error:
        try:
            config = defaults.with_overrides(given | _reconciled(defaults, given, kept))
        except InvalidConfig:
            raise InvalidConfig(tuple(f"topic {topic}: {one}" for one in error.problems)) from None
        _log.warning("topic-settings-reconciled topic=%s reason=%s", topic, error)
    return config.without(unknown_settings(own, inherited, overrides) if is_adopted else ())


def _reconciled(
    defaults: LogConfig, given: Mapping[str, str], kept: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings to change: compact later, and keep as much locally as in all.

    A log that is compacted is not archived; but an override does not make an archived one
    compacted: it would lose records, and its archive have others. ``kept``: without overrides.
    """
    from tidelog.config.log_config import AS_TOTAL  # noqa: PLC0415 - most settings go together

    least = given.get(_MIN_LAG, str(defaults.min_compaction_lag_ms)).strip()
    most = given.get(_MAX_LAG, str(defaults.max_compaction_lag_ms)).strip()
    changed = {}
    if least.isdecimal() and most.isdecimal() and int(least) > int(most):
        changed[_MAX_LAG] = least
    if wants_archive(given, by_default=defaults.remote_storage_enable):
        changed |= dict.fromkeys(_LOCAL_LIMITS, str(AS_TOTAL))
        if "compact" in given.get(POLICY, ",".join(defaults.cleanup_policy)):
            policy = kept.get(POLICY, "compact")
            changed |= {TIERED: "false"} if "compact" in policy else {POLICY: policy}
    return changed
