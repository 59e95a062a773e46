"""Long random histories of data directories on a failing machine, held against a model.

A step is something that a program does to topics, records, transactions and groups of one or two
directories. A fault may hit any step, and any opening: an error of one or several operations of the
disk, a full disk, a power cut. After each step the directories hold what the model holds before the
step or after it, and after it if the step returned; after a power cut all that was durable, and
of what was appended since any part. Transactions, topics and positions of groups are there whole
or not at all, and durable once they are acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.crash.random_faults import CUTS, plant
from tests.machinery.directory_home import DataHome
from tests.machinery.lost_segment import but_for_losses
from tests.machinery.manager_home import ManagerHome

from tidelog.config.log_config import LogConfig
from tidelog.embedded.logs import Logs
from tidelog.errors import TidelogError
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.segment.filenames import TopicPartition

    Key = tuple[str, int]
    """A topic and the number of a partition; a TopicPartition is one."""

PATHS: Final = ("/a", "/b")
SETTINGS: Final[dict[str, Any]] = {
    "internal_segment_bytes": 600,
    "segment_index_bytes": 1200,
    "index_interval_bytes": 100,
    "retention_ms": -1,
}
GROUP: Final = "g"
FIXED: Final = ("in", "out")
"""Topics that exist from the start on: of a reader of the group, and of its results."""
NAMES: Final = ("t0", "t1", "t2", "t3")
TRIES: Final = 4
"""Openings in a row that faults may hit."""


@dataclass(frozen=True)
class Part:
    """What a partition holds: records by offset; ``end`` and ``durable`` are exclusive."""

    records: Mapping[int, bytes] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    durable: int = 0

    def plus(self, values: Iterable[bytes], *, is_durable: bool = False) -> Part:
        """Return this with values appended."""
        added = dict(enumerate(values, self.end))
        end = self.end + len(added)
        durable = end if is_durable else self.durable
        return replace(self, records={**self.records, **added}, end=end, durable=durable)

    def allows(self, seen: Part, *, is_cut: bool) -> bool:
        """Whether a partition that should hold this may hold what is seen."""
        records = {at: value for at, value in self.records.items() if at >= seen.start}
        if not is_cut:
            return seen == replace(self, records=records, durable=seen.durable)
        there = {at: value for at, value in records.items() if at in seen.records}
        has_durable = all(at in there for at in records if at < self.durable)
        is_in_range = seen.start <= self.start and self.durable <= seen.end <= self.end
        return has_durable and is_in_range and there == seen.records


@dataclass(frozen=True)
class Held:
    """What the directories hold, by partition, and the group's positions."""

    parts: Mapping[Key, Part]
    positions: Mapping[Key, int] = field(default_factory=dict)

    def appended(self, added: Mapping[Key, list[bytes]], *, is_durable: bool = False) -> Held:
        """Return this with values appended to some partitions."""
        parts = {
            key: self.parts.get(key, Part()).plus(values, is_durable=is_durable)
            for key, values in added.items()
        }
        return replace(self, parts={**self.parts, **parts})

    def moved(self, places: Mapping[TopicPartition, int]) -> Held:
        """Return this with the group at some places."""
        return replace(self, positions=dict(self.positions) | dict(places))

    def allows(self, seen: Held, *, is_cut: bool) -> bool:
        """Whether directories that should hold this may hold what is seen."""
        if self.parts.keys() != seen.parts.keys() or self.positions != seen.positions:
            return False
        pairs = ((part, seen.parts[key]) for key, part in self.parts.items())
        return all(part.allows(found, is_cut=is_cut) for part, found in pairs)

    def adopted(self, seen: Held, *, is_cut: bool) -> Held:
        """Return what is seen; after a start that followed a power cut all of it is durable."""
        parts = {
            key: replace(part, durable=part.end if is_cut else self.parts[key].durable)
            for key, part in seen.parts.items()
        }
        return replace(seen, parts=parts)


class DirectoryHistory:
    """Data directories on a fake machine, and the model of them."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.events: list[tuple[object, ...]] = []
        self.faults = 0
        self._is_service = self.rng.random() < 0.4
        self._paths = PATHS if self._is_service else PATHS[:1]
        self._machine = DataHome(seed)
        self._service = ManagerHome(*PATHS, seed=seed, **SETTINGS)
        self._values = 0
        self._repeatable: tuple[str, dict[Key, list[bytes]]] | None = None
        self._logs = self._open_once()
        for name in FIXED:
            self._logs.create_topic(name, 2 if name == "in" else 1)
        self._held = self._after = Held({("in", 0): Part(), ("in", 1): Part(), ("out", 0): Part()})

    @property
    def _home(self) -> DataHome | ManagerHome:
        return self._service if self._is_service else self._machine

    def _open_once(self) -> Logs:
        """Open the directories as a service does, or as a short-lived writer."""
        if self._is_service:
            return Logs(self._service.open())
        return self._machine.open(defaults=LogConfig(**SETTINGS), paths=self._paths)

    def _kill(self) -> None:
        self._home.fs.kill()
        self._service.scheduler.forget()

    # What happens

    def step(self) -> None:
        """Do one thing, perhaps with a fault; the directories then hold what they may."""
        acts, fs = self._acts(), self._home.fs
        names = list(acts)
        name = self.rng.choices(names, [acts[each][0] for each in names])[0]
        self._after = self._held
        fault = plant(self.rng, fs)
        self.faults += fault is not None
        self.events.append((name, fault))
        try:
            acts[name][1]()
        except PowerCut:
            self._cut_power()
        except (TidelogError, OSError) as error:
            _expect(name, fault, error)
            fs.mend()
            self._refused(name)
        else:
            fs.mend()
            if name in {"close", "kill"}:
                self._open([self._after])
            elif not self._are_online():  # a background task failed
                self._end_process([self._after])
            else:
                self._check([self._after])

    def _refused(self, name: str) -> None:
        """Continue after an error: in this process, if all logs work, or in another one."""
        allowed = [self._after, self._held]
        # A transaction may be committed and not applied yet; the next start does that.
        is_over = name in {"transaction", "repeat", "process", "close"}
        works = self._are_online() and not self._home.fs.has_lost_bytes
        if not is_over and works and self.rng.random() < 0.5:
            try:
                self._check(allowed)
            except TidelogError:
                self.events.append(("a log is offline",))
            else:
                return
        self._end_process(allowed)

    def _end_process(self, allowed: list[Held]) -> None:
        """Start another process, or machine if the disk has lost bytes."""
        is_cut = self._home.fs.has_lost_bytes
        (self._lose_power if is_cut else self._kill)()
        self._home.fs.mend()
        self._open(allowed, is_cut=is_cut)

    def _are_online(self) -> bool:
        return tuple(self._logs.manager.live_dirs) == self._paths

    def _cut_power(self) -> None:
        self._lose_power()
        self._home.fs.mend()
        self._open([self._after, self._held], is_cut=True)

    def _lose_power(self) -> None:
        self._home.fs.power_cut(self.rng.choice(CUTS))
        self._service.scheduler.forget()

    def _open(self, allowed: list[Held], *, is_cut: bool = False) -> None:
        """Open the directories until no fault hits that; then compare what they hold."""
        fs = self._home.fs
        for attempt in range(2 * TRIES):
            fault = plant(self.rng, fs) if attempt < TRIES else None
            self.faults += fault is not None
            self.events.append(("open", fault))
            has_power = True
            try:
                self._logs = self._open_once()
            except PowerCut:
                has_power = False
            except (TidelogError, OSError) as error:
                _expect("opening", fault, error)
            if fault is None:
                self._check(allowed, is_cut=is_cut)
                return
            # What the fault has put off, such as the rest of a commit, is done by the next start.
            if fs.has_lost_bytes or not has_power:
                is_cut = True
                self._lose_power()
            else:
                self._kill()
            fs.mend()

    # What is compared

    def _check(self, allowed: Iterable[Held], *, is_cut: bool = False) -> None:
        """Assert that the directories hold what one of the models does, and adopt that."""
        seen = self._seen()
        held = next((each for each in allowed if each.allows(seen, is_cut=is_cut)), None)
        assert held is not None, f"{seen} is none of {list(allowed)}"
        self._held = held.adopted(seen, is_cut=is_cut)

    def _seen(self) -> Held:
        logs, parts = self._logs, {}
        for topic in logs.topics().values():
            for number in () if topic.name.startswith("__") else topic.partitions:
                found = but_for_losses(logs.read(topic.name, number))
                records = {each.offset: each.value or b"" for each in found}
                ends = logs.offsets(topic.name, number)
                part = Part(records, ends.log_start_offset, ends.log_end_offset)
                parts[topic.name, number] = part
        positions = logs.group_positions().get(GROUP, {})
        return Held(parts, {key: place.offset for key, place in positions.items()})

    # Acts

    def _acts(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Return the acts with their weights."""
        return {
            "append": (30, self._append),
            "append durably": (6, self._append_durably),
            "transaction": (12, self._transaction),
            "repeat": (4, self._repeat),
            "process": (8, self._process),
            "read on": (4, self._read_on),
            "create": (5, self._create),
            "add partitions": (2, self._add_partitions),
            "delete": (3, self._delete),
            "alter": (2, self._alter),
            "move": (4, self._move),
            "flush": (5, self._flush),
            "close": (5, self._close),
            "kill": (4, self._kill),
            "tasks": (3, self._run_tasks),
        }

    def _new(self) -> bytes:
        self._values += 1
        return b"%d" % self._values

    def _any_key(self) -> Key:
        return self.rng.choice(sorted(self._held.parts))

    def _append(self) -> None:
        for key in (self._any_key() for _ in range(self.rng.choice([1, 1, 3]))):
            value = self._new()
            before = self._after
            self._after = before.appended({key: [value]})
            try:
                self._logs.append(key[0], value, partition=key[1])
            except (TidelogError, OSError):
                self._held = before  # those before it were appended
                raise

    def _append_durably(self) -> None:
        topic, number = self._any_key()
        value = self._new()
        self._after = self._held.appended({(topic, number): [value]})
        self._logs.append(topic, value, partition=number)
        self._flush()

    def _transaction(self) -> None:
        """Append to several topics of a directory, and perhaps to one that it creates."""
        path = self.rng.choice(self._paths)
        there = [key for key in sorted(self._held.parts) if self._path_of(key) == path]
        chosen = self.rng.sample(there, min(len(there), self.rng.choice([1, 2, 3])))
        added = {key: [self._new() for _ in range(self.rng.choice([1, 2]))] for key in chosen}
        free = [name for name in NAMES if (name, 0) not in self._held.parts]
        if free and self.rng.random() < 0.3 and len(self._paths) == 1:
            added[self.rng.choice(free), 0] = [self._new()]
        name = f"txn {self._values}"
        self._repeatable = (name, added) if added and self.rng.random() < 0.5 else None
        self._commit(name if self._repeatable else None, path, added)

    def _commit(self, name: str | None, path: str, added: dict[Key, list[bytes]]) -> None:
        with self._logs.transaction(name, path) as txn:
            for (topic, number), values in added.items():
                if (topic, number) not in self._held.parts and not txn.is_repeat:
                    txn.create_topic(topic)
                for value in values:
                    txn.append(topic, value, partition=number)
            if not txn.is_repeat:
                self._after = self._held.appended(added, is_durable=True)

    def _repeat(self) -> None:
        """Repeat a transaction: it is skipped if it was committed."""
        if self._repeatable is None:
            return
        name, added = self._repeatable
        keys = [key for key in added if key in self._held.parts]
        paths = {self._path_of(key) for key in keys}
        has_values = all(
            value in self._held.parts[key].records.values() for key in keys for value in added[key]
        )
        if not keys or len(paths) > 1 or (len(keys) < len(added) and has_values):
            return
        self._commit(name, paths.pop(), added)

    def _path_of(self, key: Key) -> str:
        return self._logs.partition(*key).log.directory.rpartition("/")[0]

    def _process(self) -> None:
        """Write a result for each of some records, with the group's position after them."""
        if len(self._paths) > 1:
            return
        with self._logs.reader("in", group=GROUP) as reader, self._logs.transaction() as txn:
            read = list(islice(reader.read(), self.rng.randint(1, 6)))
            for record in read:
                txn.append("out", record.value, partition=0)
            reader.commit(txn)
            places = dict(reader.positions)
            results = {("out", 0): [record.value or b"" for record in read]}
            self._after = self._held.appended(results, is_durable=True).moved(places)

    def _read_on(self) -> None:
        """Commit a position without results."""
        with self._logs.reader("in", group=GROUP) as reader:
            list(islice(reader.read(), self.rng.randint(1, 3)))
            places = dict(reader.positions)
            self._after = self._held.moved(places)
            reader.commit()

    def _create(self) -> None:
        name = self.rng.choice(NAMES)
        if (name, 0) in self._held.parts:
            return
        count = self.rng.choice([1, 2, 3])
        self._after = self._held.appended({(name, number): [] for number in range(count)})
        self._logs.create_topic(name, count, is_spread=self.rng.random() < 0.5)

    def _add_partitions(self) -> None:
        name = self._any_key()[0]
        count = 1 + max(number for topic, number in self._held.parts if topic == name)
        if name in FIXED or count > 3:
            return
        self._after = self._held.appended({(name, count): []})
        self._logs.create_partitions(name, count + 1)

    def _delete(self) -> None:
        name = self._any_key()[0]
        if name in FIXED:
            return
        parts = {key: part for key, part in self._held.parts.items() if key[0] != name}
        self._after = replace(self._held, parts=parts)
        self._logs.delete_topic(name)

    def _alter(self) -> None:
        """Change a setting that changes no records."""
        value = str(self.rng.choice([300, 600, 5000]))
        self._logs.alter_topic(self._any_key()[0], {"internal.segment.bytes": value})

    def _move(self) -> None:
        if len(self._paths) > 1:
            self._logs.move_partition(*self._any_key(), self.rng.choice(self._paths), wait=False)
            self._home.clock.advance(self.rng.choice([0, 1000, 10_000]))

    def _run_tasks(self) -> None:
        """Let time pass, so that background tasks run."""
        self._home.clock.advance(self.rng.choice([0, 1000, 60_000]))

    def _flush(self) -> None:
        self._logs.flush()
        self._made_durable()

    def _close(self) -> None:
        self._logs.close()
        self._made_durable()

    def _made_durable(self) -> None:
        parts = {key: replace(part, durable=part.end) for key, part in self._after.parts.items()}
        self._after = replace(self._after, parts=parts)


def _expect(name: str, fault: object, error: Exception) -> None:
    """Assert that a refusal has a cause."""
    assert fault is not None, f"{name} was refused without a fault: {error!r}"
