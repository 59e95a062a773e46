"""What all pages work with: the directories, what is known of them, the commands that say the same.

A page reads the checkpoints again, and opens the logs that it shows; where partitions are is what
the survey has found last.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of
from tidelog.console.history import History
from tidelog.errors import CorruptMessage, TidelogError, UnknownTopicOrPartition
from tidelog.explain.setting_sources import PLACES
from tidelog.explain.tables.system_table import TableSource
from tidelog.readonly.read_again import read_again

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.console.group_survey import GroupSurvey
    from tidelog.console.partition_survey import PartitionSurvey
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.readonly.missing.damaged_range import DamagedRange, OnDamage
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition

T = TypeVar("T")


class Tried(NamedTuple):
    """What a part of a page shows, or why it cannot be known."""

    value: Any
    problem: str | None


class SettingRow(NamedTuple):
    """A setting of a topic with its value, and where that comes from; ``doc`` is what it does."""

    name: str
    value: str
    place: str
    is_own: bool
    doc: str


def tried(question: Callable[[], Any]) -> Tried:
    """Return the answer to ``question``, or its error; a partition that is gone is raised."""
    try:
        return Tried(question(), None)
    except UnknownTopicOrPartition:
        raise
    except (TidelogError, OSError) as error:
        return Tried(None, str(error))


class Desk:
    """The state behind the pages; used by one thread at a time, the one that holds its watch."""

    def __init__(
        self,
        fs: FileSystem,
        paths: Sequence[str],
        clock: Clock,
        survey: PartitionSurvey,
        groups: GroupSurvey,
    ) -> None:
        self.fs: Final = fs
        self.paths: Final = tuple(paths)
        self.clock: Final = clock
        self.survey: Final = survey
        self.groups: Final = groups
        self.history: Final = History(clock)
        self._noticed: str | None = None

    @property
    def directory(self) -> ReadOnlyDirectory:
        """The data directories as the survey has found them last."""
        found = self.survey.directory
        assert found is not None  # the first page has opened it
        return found

    @property
    def tables(self) -> TableSource:
        """The directories as system tables see them, at this time."""
        return TableSource(self.directory, clock=self.clock)

    def check_known(self, key: TopicPartition) -> None:
        """Raise UnknownTopicOrPartition for a partition that was not found.

        No path is ever made of a name that no directory has.
        """
        if not self.directory.has(*key):
            raise UnknownTopicOrPartition(f"no partition {key} in {self.directory.name}")

    def open(self, key: TopicPartition, on_damage: OnDamage | None = None) -> ReadOnlyLog:
        """Open the log of a partition; errors as ``ReadOnlyDirectory.open``.

        With ``on_damage`` it is read past damage, which is noticed, too.
        """
        self.check_known(key)
        if on_damage is None:
            return self.directory.open(*key)

        def note(span: DamagedRange) -> None:
            self.notice(str(span))
            on_damage(span)

        return self.directory.open(*key, on_damage=note)

    def notice(self, damage: str) -> None:
        """Take note of damage while a question is answered, whose answer may not be the last."""
        self._noticed = self._noticed or damage

    def note_damage(self, key: TopicPartition, damage: str) -> None:
        """Let lists say that a log is damaged, which their own look at its end may not show."""
        self.survey.seen.note(key, self.directory.partition_path(*key), damage)

    def ask(self, key: TopicPartition, question: Callable[[], T]) -> T:
        """Return what a question about a log finds, with the checkpoints of now.

        Asked again where a writer has changed the log meanwhile; errors as ``read_again``.
        """
        self.check_known(key)
        self.directory.read_checkpoints_again()
        path = self.directory.partition_path(*key)
        self.survey.seen.forget_changed(key, path)

        def attempt() -> T:
            self._noticed = None  # it was a writer's half-done change
            return question()

        try:
            answer = read_again(self.fs, path, attempt)
        except CorruptMessage as error:
            self.note_damage(key, str(error))
            raise
        if self._noticed is not None:
            self.note_damage(key, self._noticed)
        return answer

    def head(self, key: TopicPartition) -> dict[str, Any]:
        """Return what the head of each page about a partition shows, after all else was read."""
        self.check_known(key)
        return {"key": key, "is_damaged": self.survey.problem_of(key) is not None}

    def config(self, topic: str) -> Tried:
        """Return the settings in force of a topic's logs."""
        return tried(lambda: self.tables.config(topic))

    def settings(self, topic: str) -> Tried:
        """Return all settings of a topic with where each comes from, those first that are set."""
        return tried(lambda: self._settings(topic))

    def _settings(self, topic: str) -> list[SettingRow]:
        found = self.directory.topic(topic)
        config, unknown = self.tables.config(topic), found.unknown_settings
        rows = []
        for one in options_of(LogConfig):
            value, place, own = (
                one.kind.format(getattr(config, one.field)),
                "default of tidelog",
                False,
            )
            if one.name in found.config:
                value, place, own = found.config[one.name], "the topic's own", True
            elif one.name in found.inherited:
                setting = found.inherited[one.name]
                value, place = setting.value, PLACES[setting.source]
            elif one.name in unknown:
                value, place = "", "unknown: nothing is deleted by it"
            rows.append(SettingRow(one.name, value, place, own, one.doc))
        known = {row.name for row in rows}
        others = {**{name: one.value for name, one in found.inherited.items()}, **found.config}
        rows += [
            SettingRow(name, value, "stored with the topic", name in found.config, "")
            for name, value in others.items()
            if name not in known
        ]
        return sorted(
            rows, key=lambda row: (not row.is_own, row.place.startswith("default"), row.name)
        )

    def command(self, *words: str, key: TopicPartition | None = None) -> str:
        """Return the command line that prints the same numbers."""
        name, *others = words
        where = [word for path in self.paths for word in ("-d", path)]
        if key is not None:
            others += [key.topic, "-p", str(key.partition)]
        return shlex.join(["tidelog", *name.split(), *where, *others])

    def state(self) -> dict[str, Any]:
        """Return what lists say of themselves: how much is known, and what is wrong."""
        survey = self.survey
        return {
            "known": len(survey.partitions),
            "total": survey.total,
            "is_complete": survey.is_whole,
            "failures": [
                one
                for one in (
                    survey.failure,
                    self.groups.failure,
                    None
                    if self.directory.catalogue_error is None
                    else str(self.directory.catalogue_error),
                )
                if one is not None
            ],
        }
