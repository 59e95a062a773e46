"""Acts of programs on data directories, and what must hold after an interrupt of each.

The result is the whole act or none; nothing acknowledged is lost; the next acts, of another thread
too, work; no file and no claim of a group stays behind; the directory is sound, after a kill at
that moment, too, and once it was closed and opened again.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.crash.children import in_child
from tests.crash.interrupts import Site, Tracer, on_another_thread, sites_of

import tidelog
from tidelog.cli.main import main
from tidelog.embedded.doors import open_briefly
from tidelog.env.locks import is_locked
from tidelog.errors import TidelogError
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Value = tuple[str, bytes | None]

SETTINGS: Final = {
    "log.cleaner.enable": "false",
    "log.flush.scheduler.interval.ms": "3600000",
    "log.initial.task.delay.ms": "3600000",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
}
BIG: Final = b"r" * 900_000
"""Two of these fill a segment."""
ADOPTED: Final = b"a" * 200_000
"""More than an eighth of a segment, so that a transaction's file becomes one."""
TIMEOUT_S: Final = 120


@dataclass
class Program:
    """A program that works on a directory; ``kept`` is what it knows to be appended."""

    top: Path
    is_service: bool = False
    logs: tidelog.Logs = field(init=False)
    kept: Counter[Value] = field(default_factory=Counter)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """The data directories."""
        return [self.top / "a", self.top / "b"] if self.is_service else [self.top / "a"]

    def open(self) -> tidelog.Logs:
        """Open the directories."""
        if self.is_service:
            self.logs = tidelog.open(*self.paths, config=SETTINGS)
        else:
            self.logs = open_briefly(self.paths[0])
        return self.logs

    def append(self, topic: str, value: bytes, partition: int | None = None) -> None:
        """Append a record, from then on acknowledged."""
        self.logs.append(topic, value, partition=partition)
        self.kept[topic, value] += 1

    def values(self, logs: tidelog.Logs) -> Counter[Value]:
        """Return all values of all topics, in which none may come twice."""
        return Counter(
            (topic, record.value)
            for topic, known in logs.topics().items()
            if not topic.startswith("__")
            for number in known.partitions
            for record in logs.partition(topic, number).log.records()
        )


@dataclass(frozen=True)
class Act:
    """``run`` is what is interrupted. ``check`` yields what is wrong after it, now or reopened.

    ``units`` are values that are all there or none of them; ``again`` repeats the act, after which
    they are. ``drops`` are values that the act may delete. ``onward`` is what the program does
    next after an interrupt, before anything else.
    """

    name: str
    run: Callable[[Program], object]
    prepare: Callable[[Program], object] = lambda program: program.logs.flush()
    units: tuple[frozenset[Value], ...] = ()
    again: Callable[[Program], object] | None = None
    onward: Callable[[Program], object] = lambda _: None
    check: Callable[[Program, tidelog.Logs], Iterator[str]] = lambda *_: iter(())
    drops: Callable[[Value], bool] = lambda _: False
    is_service: bool = False
    may_be_closed: bool = False


def make_template(top: Path, *, is_service: bool) -> Counter[Value]:
    """Make the directory in which each case begins; return what it holds."""
    program = Program(top, is_service)
    with program.open() as logs:
        path = str(program.paths[0])
        small = {"segment.bytes": "1048576", "max.message.bytes": "1048588"}
        for name, partitions in (("t", 1), ("u", 2), ("in", 1), ("d", 2)):
            logs.manager.create_topic(name, partitions, small, path=path)
        compacted = {**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
        logs.manager.create_topic("c", 1, compacted, path=path)
        for name in ("t", "u", "in", "d"):
            for number in range(3):
                program.append(name, b"before%d" % number, 0)
        for number in range(6):
            logs.append("c", b"%d" % number, key=b"%d" % (number % 3))
            if number % 2:
                logs.partition("c", 0).log.roll()
        program.kept.update({("c", b"%d" % number): 1 for number in range(3, 6)})
    return program.kept


def _units(*values: Value) -> tuple[frozenset[Value], ...]:
    return (frozenset(values),)


def _alone(topic: str, *values: bytes) -> tuple[frozenset[Value], ...]:
    return tuple(frozenset([(topic, value)]) for value in values)


# Acts


def _append(program: Program) -> None:
    program.logs.append("t", b"X", partition=0)


def _append_once(program: Program) -> None:
    program.append("t", b"once", 0)


def _roll_by_append(program: Program) -> None:
    program.logs.append("t", BIG, partition=0)


def _before_roll(program: Program) -> None:
    program.append("t", b"b" + BIG[1:], 0)


def _append_all(program: Program) -> None:
    program.logs.append_all("u", [(b"%d" % n, b"X%d" % n) for n in range(4)])


def _write(program: Program) -> None:
    with program.logs.writer("u") as writer:
        for n in range(4):
            writer.append(b"X%d" % n, partition=n % 2)


def _transact(program: Program) -> None:
    with program.logs.transaction("id", str(program.paths[0])) as txn:
        txn.append("t", b"X0")
        txn.append("u", b"X1", partition=1)


def _transact_anew(program: Program) -> None:
    with program.logs.transaction("id", str(program.paths[0])) as txn:
        txn.create_topic("new", 2)
        txn.append("new", b"X0", partition=0)
        txn.append("t", b"X1")


def _adopt(program: Program) -> None:
    with program.logs.transaction("id", str(program.paths[0])) as txn:
        txn.append("t", ADOPTED)
        txn.append("u", b"X1", partition=1)


def _open_reader(program: Program) -> None:
    _read_some(program)
    program.extra["reader"] = reader = program.logs.reader("in", group="g")
    next(reader.read())


def _read_some(program: Program) -> None:
    with program.logs.reader("in", group="g") as reader:
        next(reader.read())
        reader.commit()


def _commit_group(program: Program) -> None:
    program.extra["reader"].commit()


def _transform(program: Program) -> None:
    reader = program.extra["reader"]
    with program.logs.transaction(None, str(program.paths[0])) as txn:
        for record in reader.read():
            txn.append("t", b"X" + record.value)
        reader.commit(txn)


def _open_first_reader(program: Program) -> None:
    program.extra["reader"] = program.logs.reader("in", group="g")


def _transform_again(program: Program) -> None:
    program.extra["reader"].rewind()
    _transform(program)


def _positions(program: Program, logs: tidelog.Logs) -> Iterator[str]:
    """After the transform, the results and the position agree."""
    with suppress(KeyError):
        program.extra.pop("reader").close()
    with logs.reader("in", group="g") as reader:
        position = sum(reader.committed.values())
    found = program.values(logs)
    has_results = ("t", b"Xbefore2") in found
    if position not in (0, 1, 3) or has_results != (position == 3):
        yield f"position {position}, results {has_results}"


def _committed(program: Program, logs: tidelog.Logs) -> Iterator[str]:
    with suppress(KeyError):
        program.extra.pop("reader").close()
    with logs.reader("in", group="g") as reader:
        if sum(reader.committed.values()) not in (1, 2):
            yield f"committed {reader.committed}"


def _claim(_program: Program, logs: tidelog.Logs) -> Iterator[str]:
    with logs.reader("in", group="g") as reader:
        if sum(reader.committed.values()) not in (0, 1):
            yield f"committed {reader.committed}"


def _create(program: Program) -> None:
    program.logs.create_topic("new", 2)


def _create_again(program: Program) -> None:
    program.logs.create_topic("new", 2, exist_ok=True)
    program.append("new", b"of two", 1)


def _extend(program: Program) -> None:
    program.logs.create_partitions("u", 3)


def _extend_again(program: Program) -> None:
    if len(program.logs.topic("u").partitions) < 3:
        _extend(program)
    program.append("u", b"in the third", 2)


def _alter(program: Program) -> None:
    program.logs.alter_topic("t", {"retention.bytes": "77"})


def _altered(_program: Program, logs: tidelog.Logs) -> Iterator[str]:
    said = logs.topic("t").config.get("retention.bytes", "-1")
    used = str(logs.partition("t", 0).log.config.retention_bytes)
    if said not in ("77", "-1") or said != used:
        yield f"retention.bytes is {said}, used is {used}"


def _delete(program: Program) -> None:
    program.logs.delete_topic("d")


def _delete_again(program: Program) -> None:
    if "d" in program.logs.topics():
        _delete(program)
    program.kept -= Counter({value: 1 for value in program.kept if value[0] == "d"})
    _create_after_deletion(program)


def _create_after_deletion(program: Program) -> None:
    program.logs.manager.create_topic("d", 1, path=str(program.paths[0]))
    program.append("d", b"another", 0)


def _delete_records(program: Program) -> None:
    program.logs.delete_records("t", 0, 2)


def _started(_program: Program, logs: tidelog.Logs) -> Iterator[str]:
    start = logs.partition("t", 0).log.log_start_offset
    if start not in (0, 2):
        yield f"the log start is {start}"


def _prepare_retention(program: Program) -> None:
    for number in range(3):
        program.append("t", b"%d" % number + BIG, 0)
    program.logs.alter_topic("t", {"retention.bytes": "1000000"})
    program.logs.flush()


def _retain(program: Program) -> None:
    program.logs.retain("t")


def _compact(program: Program) -> None:
    program.logs.compact("c")


def _truncate(program: Program) -> None:
    program.logs.manager.truncation.truncate_to({("t", 0): 1})


def _truncate_fully(program: Program) -> None:
    program.logs.manager.truncation.truncate_fully_and_start_at(TopicPartition("t", 0), 7)


def _prefix(_program: Program, logs: tidelog.Logs) -> Iterator[str]:
    records = [(one.offset, one.value) for one in logs.partition("t", 0).log.records()]
    offsets = [offset for offset, _ in records]
    if offsets != list(range(min(offsets, default=0), min(offsets, default=0) + len(offsets))):
        yield f"offsets {offsets}"


def _roll(program: Program) -> None:
    program.logs.partition("t", 0).log.roll()


def _flush(program: Program) -> None:
    program.logs.flush()


def _move(program: Program) -> None:
    program.logs.move_partition("t", 0, program.paths[1])


def _move_back(program: Program) -> None:
    target = str(program.paths[1])
    if program.logs.partition("t", 0).log.directory != f"{target}/t-0":
        program.logs.move_partition("t", 0, target)


def _close(program: Program) -> None:
    program.logs.close()


def _close_reader(program: Program) -> None:
    with program.logs.reader("in", group="g") as reader:
        next(reader.read())


def _reopen(program: Program) -> None:
    program.extra["opened"] = None
    opened = program.open()
    program.extra["opened"] = opened


async def _use_async(program: Program) -> None:
    logs = tidelog.AsyncLogs(program.logs)
    await logs.append("t", b"X", partition=0)
    await logs.append_all("u", [b"X1", b"X2"])


def _asyncio(program: Program) -> None:
    asyncio.run(_use_async(program))


def _configure(program: Program) -> None:
    program.logs.manager.update_config(program.logs.manager.config)


def _of_t(value: Value) -> bool:
    return value[0] == "t"


def _first_use(_program: Program) -> None:
    """Leave all logs unloaded."""


TXN: Final = _units(("t", b"X0"), ("u", b"X1"))
GROUP: Final = _units(("t", b"Xbefore2"))
FIRST_OF_GROUP: Final = _units(*(("t", b"Xbefore%d" % n) for n in range(3)))
WRITTEN: Final = _alone("u", *(b"X%d" % n for n in range(4)))

ACTS: Final = {
    act.name: act
    for act in (
        Act("append", _append, _append_once, _alone("t", b"X")),
        Act("first append", _append, _first_use, _alone("t", b"X")),
        Act("append of a service", _append, _append_once, _alone("t", b"X"), is_service=True),
        Act("append that rolls", _roll_by_append, _before_roll, _alone("t", BIG)),
        Act("append_all", _append_all, units=WRITTEN),
        Act("writer", _write, units=WRITTEN),
        Act("flush", _flush, _append_once),
        Act("roll", _roll, _append_once),
        Act("transaction", _transact, units=TXN, again=_transact),
        Act("transaction of a service", _transact, units=TXN, again=_transact, is_service=True),
        Act(
            "transaction with a new topic",
            _transact_anew,
            units=_units(("new", b"X0"), ("t", b"X1")),
            again=_transact_anew,
        ),
        Act("adoption", _adopt, units=_units(("t", ADOPTED), ("u", b"X1")), again=_adopt),
        Act("group commit", _commit_group, _open_reader, check=_committed),
        Act("first group commit", _read_some, check=_claim),
        Act("group transaction", _transform, _open_reader, GROUP, check=_positions),
        Act(
            "group transaction, again",
            *(_transform, _open_reader, GROUP),
            onward=_transform_again,
            check=_positions,
        ),
        Act(
            "first group transaction, again",
            *(_transform, _open_first_reader, FIRST_OF_GROUP),
            onward=_transform_again,
            check=_positions,
        ),
        Act("reader", _close_reader, check=_claim),
        Act("create", _create, again=_create_again),
        Act("create in a service", _create, again=_create_again, is_service=True),
        Act("create partitions", _extend, again=_extend_again),
        Act("alter", _alter, check=_altered),
        Act("delete", _delete, again=_delete_again, drops=lambda value: value[0] == "d"),
        Act(
            "delete in a service",
            _delete,
            again=_delete_again,
            drops=lambda value: value[0] == "d",
            is_service=True,
        ),
        Act("delete records", _delete_records, check=_started, drops=_of_t),
        Act("retain", _retain, _prepare_retention, check=_prefix, drops=_of_t),
        Act("compact", _compact),
        Act("truncate", _truncate, _append_once, check=_prefix, drops=_of_t),
        Act("truncate fully", _truncate_fully, _append_once, check=_prefix, drops=_of_t),
        Act("move", _move, _append_once, again=_move_back, is_service=True),
        Act("close", _close, _append_once, may_be_closed=True),
        Act("close of a service", _close, _append_once, may_be_closed=True, is_service=True),
        Act("open", _reopen, _close, may_be_closed=True),
        Act("open of a service", _reopen, _close, may_be_closed=True, is_service=True),
        Act("asyncio", _asyncio, units=_alone("t", b"X") + _alone("u", b"X1", b"X2")),
        Act("update_config", _configure, is_service=True),
    )
}


# The rules


def warm(act: Act, template: Path, kept: Counter[Value]) -> None:
    """Run an act and all checks here, so that no case waits for code to be loaded."""
    assert list(_case(act, Site("none", 0), template, kept)) == []


def find_sites(act: Act, template: Path, kept: Counter[Value]) -> list[Site]:
    """Return where an act can be interrupted."""

    def find() -> list[Site]:
        program = _begin(act, template, kept, "sites")
        return sites_of(lambda: act.run(program))

    found = in_child(find, timeout_s=TIMEOUT_S)
    assert isinstance(found, list), found
    return found


def problems_of(
    act: Act,
    site: Site,
    template: Path,
    kept: Counter[Value],
    error: type[BaseException] = KeyboardInterrupt,
) -> list[str]:
    """Interrupt an act at a line, by this error; return what is wrong afterwards."""
    home = template.parent / f"case {act.name}"
    try:
        found = in_child(lambda: list(_case(act, site, template, kept, error)), timeout_s=TIMEOUT_S)
    finally:
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(f"{home} killed", ignore_errors=True)
    return found if isinstance(found, list) else [str(found)[-1500:]]


def _begin(act: Act, template: Path, kept: Counter[Value], name: str = "") -> Program:
    home = template.parent / f"case {name or act.name}"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(template, home)
    program = Program(home, act.is_service, kept=Counter(kept))
    program.open()
    act.prepare(program)
    return program


def _case(
    act: Act,
    site: Site,
    template: Path,
    kept: Counter[Value],
    error: type[BaseException] = KeyboardInterrupt,
) -> Iterator[str]:
    program = _begin(act, template, kept)
    tracer = Tracer(site, error)
    try:
        tracer.run(lambda: act.run(program))
    except (KeyboardInterrupt, TimeoutError):
        # The exception is alive, and so are the frames that it went through.
        yield from _go_on(act, program)
    except Exception as raised:  # noqa: BLE001 - it is the result
        if error is KeyboardInterrupt:
            yield f"the act raises {type(raised).__name__} instead: {raised}"
        yield from _go_on(act, program)
    else:
        if tracer.is_raised:
            # An OSError without a number may be taken for one of the disk, where that does no harm.
            yield from ["the interrupt is lost"] if error is KeyboardInterrupt else []
            yield from _go_on(act, program)
    yield from _end(act, program)


def _go_on(act: Act, program: Program) -> Iterator[str]:
    """Act on another thread, then look, and look at what a kill would leave."""
    if act.may_be_closed:
        return
    offline = set(map(str, program.paths)) - set(program.logs.manager.live_dirs)
    if offline:
        yield f"offline: {offline}"
    try:
        act.onward(program)
    except Exception as error:  # noqa: BLE001 - it is the result
        yield f"the program's next act: {type(error).__name__} {error}"

    def act_on() -> None:
        program.append("t", b"after", 0)
        program.append("u", b"after", 1)
        program.logs.flush()

    problem = on_another_thread(act_on)
    if problem:
        yield f"next act: {problem}"
    yield from _look(act, program, program.logs, "live")
    if act.name == "move":
        return  # it continues in background, and renames what is being copied here
    killed = Path(f"{program.top} killed")
    shutil.copytree(program.top, killed, ignore=shutil.ignore_patterns("*.sock"))
    yield from _opened(act, Program(killed, act.is_service, kept=program.kept), "after a kill")


def _end(act: Act, program: Program) -> Iterator[str]:
    """Repeat the act where it can be, close, and open again."""
    if not act.may_be_closed and act.again is not None:
        try:
            act.again(program)
        except (TidelogError, OSError) as error:
            yield f"repeat: {type(error).__name__} {error}"
        else:
            found = program.values(program.logs)
            for missing in frozenset().union(*act.units) - set(found):
                yield f"repeat: {missing} is missing"
    problem = on_another_thread(program.logs.close)
    if problem:
        yield f"close: {problem}"
    left = [
        name
        for path in program.paths
        for name in os.listdir(path)
        if name.endswith((".staged", ".intent", ".claimed", ".ready", ".tmp"))
        or (name.endswith("-delete") and not act.is_service)
    ]
    if left:
        yield f"left behind: {left}"
    if any(is_locked(str(path / ".lock")) for path in program.paths):
        yield "the lock stays"
    yield from _opened(act, program, "reopened")


def _opened(act: Act, program: Program, when: str) -> Iterator[str]:
    try:
        with program.open() as logs:
            yield from _look(act, program, logs, when)
            yield from (f"{when}: {what}" for what in act.check(program, logs))
    except Exception as error:  # noqa: BLE001 - it is the result
        yield f"{when}: {type(error).__name__} {error}"
        return
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = main(["verify", *map(str, program.paths)])
    if code != 0:
        yield f"{when}: verify ends with {code}: {said.getvalue()[:400]}"


def _look(act: Act, program: Program, logs: tidelog.Logs, when: str) -> Iterator[str]:
    try:
        found = program.values(logs)
    except Exception as error:  # noqa: BLE001 - it is the result
        yield f"{when}: {type(error).__name__} {error}"
        return
    lost = [_short(value) for value in program.kept if not found[value] and not act.drops(value)]
    if lost:
        yield f"{when}: lost {lost}"
    twice = [_short(value) for value, count in found.items() if count > 1]
    if twice:
        yield f"{when}: twice {twice}"
    for unit in act.units:
        there = {value for value in unit if found[value]}
        if there and there != unit:
            yield f"{when}: only {[_short(value) for value in there]}"


def _short(value: Value) -> str:
    return f"{value[0]} {(value[1] or b'')[:20]!r}"
