"""The partitions a command line selects, of data directories or by directories of their own."""

from __future__ import annotations

import os
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.cli.progress import current_line
from tidelog.cli.terminal import print_counts, print_message
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.partition_directories import is_directory, is_partition_directory
from tidelog.env.paths import absolute_path, absolute_place
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    InvalidArgument,
    KafkaStorageError,
    PartitionsElsewhere,
    StoreError,
    TidelogError,
    UnknownTopicOrPartition,
)
from tidelog.exit_codes import exit_code_of, is_damage
from tidelog.readonly.absent_partitions import BY_FLAG
from tidelog.readonly.read_again import MAY_PASS, read_again, was_deleted
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.readonly.read_only_log import open_read_only
from tidelog.segment.filenames import (
    TopicPartition,
    check_topic_name,
    parse_topic_partition,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.readonly.missing.damaged_range import OnDamage
    from tidelog.readonly.missing.holes import Hole
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_topic import MissingPartition

_MOST_NAMED: Final = 20
"""How many topics an error lists."""

T = TypeVar("T")
K = TypeVar("K", "Place", TopicPartition)


class Place(NamedTuple):
    """One partition directory; sorts by topic, then by number."""

    topic: str
    partition: int
    path: str

    @property
    def key(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)


class Named(NamedTuple):
    """The topics and the number of a partition that a command line names; none: all of them."""

    topics: Sequence[str]
    partition: int | None

    def has(self, topic: str | None, partition: int) -> bool:
        """Return whether a partition is one of these."""
        is_topic = not self.topics or topic in self.topics
        return is_topic and self.partition in {None, partition}


class ChosenPartitions(NamedTuple):
    """The partitions that a command reads, of data directories that are opened to be read only.

    ``missing`` are those chosen that the catalogue lists and whose directories are not there.
    ``unreadable`` says why ``look_past_damage`` has left out some.
    """

    directory: ReadOnlyDirectory
    places: list[Place]
    missing: list[MissingPartition]
    unreadable: list[TidelogError]

    def open(
        self, place: Place, on_damage: OnDamage | None = None, *, below_start: bool = False
    ) -> ReadOnlyLog:
        """Open the log of a place, with the checkpoints that were read once for all."""
        return open_read_only(
            place.path,
            fs=self.directory.fs,
            checkpoints=self.directory.part_at(os.path.dirname(place.path)).checkpoints,
            on_damage=on_damage,
            below_start=below_start,
        )

    def beside(self, read: Callable[[str], T]) -> Callable[[Place], T]:
        """Return a function from a place to what ``read`` returns for its data directory's path.

        Each directory is read once.
        """
        answer = cache(read)
        return lambda place: answer(os.path.dirname(place.path))

    def look(self, command: str, question: Callable[[Place], T]) -> Iterator[tuple[Place, T]]:
        """Yield each place with the answer to ``question``, which opens its log.

        Beside a writer a partition may be deleted, or deleted and created again, before or while it
        is read. One that is gone is named on stderr and left out.
        """
        line, total = current_line(), len(self.places)
        with line.task("reading", total, "partition") as task:
            for number, place in enumerate(self.places):
                task.show(number, what=f"reading {place.key}")
                answers = self.ask(command, place, question)
                line.erase()  # for what the caller prints
                yield from ((place, answer) for answer in answers)

    def look_past_damage(
        self, command: str, question: Callable[[Place], T]
    ) -> Iterator[tuple[Place, T]]:
        """Yield as ``look``; a partition is left out whose damage, or store, gives no answer.

        It is named on stderr, and counts in ``exit_code`` from then on.
        """
        for place, answers in self.look(command, self.past_damage(command, question)):
            yield from ((place, answer) for answer in answers)

    def past_damage(
        self, command: str, question: Callable[[Place], T]
    ) -> Callable[[Place], list[T]]:
        """Return ``question`` as ``look_past_damage`` asks it: no answer is an empty one."""

        def answered(place: Place) -> list[T]:
            try:
                return [question(place)]
            except TidelogError as error:
                if not (is_damage(error) or isinstance(error, StoreError)):
                    raise
                print_message(command, f"{place.key}: {error}")
                self.unreadable.append(error)
                return []

        return answered

    def look_into(
        self, command: str, question: Callable[[ReadOnlyLog], T]
    ) -> Iterator[tuple[Place, T]]:
        """Yield each place with the answer to ``question`` on its log: ``look_past_damage``."""

        def opened(place: Place) -> T:
            with self.open(place) as log:
                return question(log)

        return self.look_past_damage(command, opened)

    def show_each(
        self, args: Namespace, answers: Iterable[tuple[Place, T]], show: Callable[[Place, T], bool]
    ) -> int:
        """Show each answer, which returns whether damage hides some of it; return the exit code.

        The counts follow the last answer.
        """
        damaged = [show(place, answer) for place, answer in answers]
        damaged += map(is_damage, self.unreadable)
        numbers = {"damaged": sum(damaged), "missing": len(self.missing)}
        print_counts(args, partitions=len(damaged), **numbers, unanswered=self.unanswered)
        return self.exit_code(has_loss=any(numbers.values()))

    @property
    def unanswered(self) -> int:
        """How many partitions are unreadable because a store gave no answer."""
        return sum(not is_damage(error) for error in self.unreadable)

    def exit_code(self, *, has_loss: bool) -> int:
        """Return 3 if a store gave no answer, else 1 if ``has_loss`` or a partition is damaged.

        ``has_loss`` says that something is missing, or that an answer shows damage.
        """
        return max([int(has_loss), *map(exit_code_of, self.unreadable)])

    def ask(self, command: str, place: Place, question: Callable[[Place], T]) -> list[T]:
        """Return the answer about one place; nothing if it was deleted, which is printed."""
        fs = self.directory.fs
        try:
            return [read_again(fs, place.path, partial(question, place))]
        except MAY_PASS as error:
            if not was_deleted(fs, place.path, error):
                raise
            moved = self.moved(place)
            if moved is not None:
                return [read_again(fs, moved.path, partial(question, moved))]
            print_message(command, f"{place.key} was deleted while it was read")
            return []

    def moved(self, place: Place) -> Place | None:
        """Return where a partition is now that is gone from its place; None: it was deleted."""
        path = self.directory.path_of_moved(*place.key, place.path)
        return None if path is None else place._replace(path=path)

    def report_holes(self, command: str, place: Place, holes: Iterable[Hole]) -> bool:
        """Print holes between the segments of a log on stderr; return whether there are any."""
        found = list(holes)
        for hole in found:
            print_message(command, f"{place.key}: {hole}")
        return bool(found)

    def report_missing(self, command: str, then: str = "") -> bool:
        """Print each missing partition on stderr, and ``then``; return whether there is one.

        If the catalogue is unreadable, it prints that too: which partitions it lists is unknown
        then. And it prints if a data directory has no partitions.
        """
        if not (self.places or self.missing):
            print_message(command, f"{self.directory.name} has no partitions")
        if self.directory.catalogue_error is not None:
            print_message(command, str(self.directory.catalogue_error))
        for partition in self.missing:
            print_message(command, f"{partition}{then}")
        return bool(self.missing)

    def report_pending(self, command: str) -> None:
        """Print on stderr that transactions are committed and not applied yet, if any are.

        Readers do not see their records; Kafka would show those that are in the logs already.
        """
        from tidelog.staging.journal_names import list_journals

        try:
            count = sum(len(list_journals(part.fs, part.path)) for part in self.directory.parts)
        except (OSError, KafkaStorageError):  # the command has reported it
            return
        if count:
            are = "transaction is" if count == 1 else "transactions are"
            print_message(
                command,
                f"{count} {are} committed and not applied yet; list them with tidelog staged list,"
                " and apply them before Kafka opens the directory",
            )


def choose_partitions(
    fs: FileSystem,
    directories: Sequence[str],
    topics: Sequence[str] = (),
    partition: int | None = None,
    *,
    server_properties: Mapping[str, str] | None = None,
    may_be_empty: bool = False,
    allow_partial: bool = False,
    takes_copies: bool = False,
    only_named: bool = False,
) -> ChosenPartitions:
    """Return the partitions of ``topics`` (all, if none is named) in ``directories``, sorted.

    ``server_properties`` are those of the broker that wrote them, if they are known. With
    ``may_be_empty`` data directories may have no partitions, if no topic is named. With
    ``allow_partial`` partitions that are in other data directories are left out. ``takes_copies``:
    see ``ReadOnlyDirectory.check_present``. ``only_named``: a topic that is not named may be in
    part in other directories, as for what acts on directories.

    Raises:
        UnknownTopicOrPartition: there are no partitions, or none of a topic that is named.
        PartitionsElsewhere: some of the partitions are in other data directories.
        InvalidArgument: one of ``directories`` is not a directory.
        InvalidTopic: a partition directory is not named ``<topic>-<partition>``.
        KafkaStorageError: the disk failed.
    """
    # One look at each archive, and only at what is chosen: each partition takes several requests.
    fs = reading(fs, topics or None, partition if topics else None)
    paths, places = data_directories(fs, directories)
    opened = open_directory_read_only(
        *paths,
        fs=fs,
        server_properties=server_properties,
        accept=None if allow_partial else BY_FLAG,
        asks_holder=True,
    )
    shown = ", ".join(place.path for place in places) or opened.name
    named = Named(topics, partition)
    if places:
        return ChosenPartitions(opened, _chosen(shown, places, (), named), [], [])
    numbers = None if partition is None else [partition]
    names = topics if topics or only_named else opened.topic_names
    opened.check_present(dict.fromkeys(names, numbers), takes_copies=takes_copies)
    keys = [*opened.partitions]
    if METADATA_TOPIC in topics:
        metadata = opened.topic(METADATA_TOPIC).partitions
        keys += [TopicPartition(METADATA_TOPIC, number) for number in metadata]
    missing = [gone for gone in opened.missing if named.has(*gone.key)]
    known = {gone.topic for gone in missing}
    if may_be_empty and not (keys or missing or topics) and opened.has_files_of_its_own():
        return ChosenPartitions(opened, [], [], [])
    chosen = _chosen(shown, sorted(keys), known, named)
    places = [Place(*key, opened.partition_path(*key)) for key in chosen]
    return ChosenPartitions(opened, places, missing, [])


def data_directories(fs: FileSystem, given: Sequence[str]) -> tuple[list[str], list[Place]]:
    """Return the data directories that are given; with directories of partitions, those, too.

    The data directories are then those above. Raises InvalidArgument where both are given, and
    InvalidTopic, KafkaStorageError as ``choose_partitions``.
    """
    paths = [absolute_place(one) for one in given]
    of_partitions = [path for path in paths if _is_partition(fs, path)]
    if not of_partitions:
        return paths, []
    if len(of_partitions) < len(paths):
        raise InvalidArgument(
            f"{of_partitions[0]} is the directory of one partition, and others are not: give data"
            " directories, or only directories of partitions"
        )
    places = [_place_of(path) for path in dict.fromkeys(of_partitions)]
    return [os.path.dirname(place.path) for place in places], sorted(places)


def chosen_by(
    args: Namespace,
    topics: Sequence[str] | None = None,
    *,
    may_be_empty: bool = True,
    takes_copies: bool = False,
    only_named: bool = False,
) -> ChosenPartitions:
    """Return the partitions that a command line names; see ``choose_partitions``.

    ``topics``: by default the ones that the command line names. Where partitions are elsewhere, it
    prints which directories a service has taken offline.
    """
    properties = None
    if getattr(args, "server_properties", None) is not None:
        from tidelog.cli.server_properties import broker_properties  # few command lines name one

        properties = broker_properties(args)
    try:
        return choose_partitions(
            *(SYSTEM_FILES, args.directories, args.topics if topics is None else topics),
            getattr(args, "partition", None),
            server_properties=properties,
            may_be_empty=may_be_empty,
            allow_partial=args.allow_partial,
            takes_copies=takes_copies,
            only_named=only_named,
        )
    except PartitionsElsewhere:  # on a disk that failed, which has no directory.id to be found by
        from tidelog.cli.serving.service_directories import offline_directories, report_offline

        report_offline(args.command, offline_directories(args.directories))
        raise


def chosen_to_change(
    args: Namespace, topics: Sequence[str] | None = None, *, may_be_empty: bool = True
) -> ChosenPartitions:
    """Return the partitions that a command is to change, as ``chosen_by``.

    Raises KafkaStorageError also for a catalogue that cannot be read; other errors as there.
    """
    for path in args.directories:
        absolute_path(path)
    chosen = chosen_by(args, topics, may_be_empty=may_be_empty, only_named=True)
    chosen.directory.check_catalogue()
    return chosen


def _place_of(path: str) -> Place:
    """Return the place of one partition directory; InvalidTopic for a name that none has."""
    key = parse_topic_partition(os.path.basename(path))
    check_topic_name(key.topic)
    return Place(*key, path)


def _is_partition(fs: FileSystem, path: str) -> bool:
    try:
        return is_directory(fs, path) and is_partition_directory(fs.list(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise KafkaStorageError(f"{path}: {error.strerror}") from error


def _chosen(directory: str, places: list[K], known: Iterable[str], named: Named) -> list[K]:
    """Return the places chosen; ``known`` are topics of which everything chosen is missing."""
    chosen = [place for place in places if named.has(place.topic, place.partition)]
    there = {place.topic for place in chosen} | set(known)
    unknown = [name for name in named.topics if name not in there]
    if unknown or not there:
        raise UnknownTopicOrPartition(_explain(directory, places, unknown, named.partition))
    return chosen


def _explain(
    directory: str,
    places: Sequence[Place | TopicPartition],
    unknown: list[str],
    partition: int | None,
) -> str:
    if not places:
        text = f"{directory} has no partitions, which are directories named <topic>-<partition>"
        is_one = os.path.isabs(directory) and ", /" not in directory
        return f"{text}; if it is an archive, name file://{directory}" if is_one else text
    there = sorted(place.partition for place in places if place.topic in unknown)
    if partition is not None and len(unknown) == 1 and there:
        numbers = ", ".join(map(str, there[:_MOST_NAMED]))
        more = f" and {len(there) - _MOST_NAMED} more" if len(there) > _MOST_NAMED else ""
        text = f"topic {unknown[0]} in {directory} has no partition {partition}"
        return f"{text}; it has {numbers}{more}"
    what = f"topic {', '.join(unknown)}" if unknown else "topic"
    number = "" if partition is None else f" with a partition {partition}"
    known = sorted({place.topic for place in places})
    return f"no {what}{number} in {directory}; {_meant(unknown, known)}"


def _meant(unknown: Sequence[str], known: Sequence[str]) -> str:
    """Return which topic, or which partition, an unknown name may mean; else the known topics."""
    from difflib import get_close_matches  # slow to import, and only mistakes need it

    for name in unknown:
        topic, _, number = name.rpartition("-")
        if topic in known and number.isdecimal():
            return f"did you mean {topic} -p {number}?"
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    close = [found for name in unknown for found in get_close_matches(name, known, 1)]
    if more and close:
        return f"did you mean {', '.join(close)}?"
    return f"it has {', '.join(known[:_MOST_NAMED])}{more}"
