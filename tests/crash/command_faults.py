"""Runs command lines of ``command_acts`` with a fault or an interrupt, and looks at what is left.

Each step of a case runs in a forked child, as a process of its own. The file is a program, since a
store that was used before a fork cannot be used after it: it reads cases to draw, as JSON, from its
standard input, a list of an act, a kind of fault or ``interrupt``, and a number of cases, and
prints what is wrong.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from fnmatch import fnmatch
from functools import cache, cached_property, partial
from os.path import basename
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.crash.children import in_child
from tests.crash.command_acts import ACTS, Ran, make_home, run
from tests.crash.fault_kinds import KINDS
from tests.crash.interrupts import Site, Tracer, sites_of
from tests.crash.planned_faults import PlannedFault

from tidelog.embedded.doors import open_to_change
from tidelog.embedded.logs import Logs
from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Seen = dict[str, "Facts | None"]

INTERRUPT: Final = "interrupt"
FINE: Final = (ExitCode.OK, ExitCode.DAMAGED)
LEFT: Final = (".tmp", ".staged", ".intent", ".claimed", ".ready", ".cleaned", ".swap", ".deleted")
NOT_COMPARED: Final = (
    *("*.sock", ".lock", ".kafka_cleanshutdown", "tidelog.transactions.json", "tidelog.restoring"),
    *("tidelog.least-epoch.json", "tidelog.disk-failed"),
    # What the next command that writes takes away.
    *("*-delete", "*.intent", "*.staged"),
    # A recovery that is repeated may keep once more what it cuts.
    "*.cut",
)
RANDOM: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f-]{36}")
HUNG_S: Final = 120


class LogFacts(NamedTuple):
    """What a log holds."""

    start: int
    end: int
    stable: int
    records: frozenset[tuple[Any, ...]]


class Facts(NamedTuple):
    """What a data directory holds: settings by topic, logs by partition, positions, files."""

    topics: Mapping[str, Any]
    logs: Mapping[str, Any]
    groups: Mapping[str, Any]
    names: Mapping[str, Any]


def facts_of(home: Path, seen: tuple[str, ...]) -> Seen:
    """Return what data directories and archives hold, looked at in copies."""
    return {place: _facts_of(home, place) for place in seen}


def _facts_of(home: Path, place: str) -> Facts | None:
    copies = home.parent / "copies"
    shutil.rmtree(copies, ignore_errors=True)
    names = place.split()
    if place.startswith("file:"):
        names = ["restored"]
        ran = run(home, "restore", place, "--to", str(copies / "restored"))
        assert ran.code in {ExitCode.OK, ExitCode.BAD_USAGE}, ran
    else:
        ignored = shutil.ignore_patterns("*.sock", ".lock")
        for name in names:
            if (home / name).is_dir():
                shutil.copytree(home / name, copies / name, ignore=ignored)
    there = [copies / name for name in names if (copies / name / "meta.properties").exists()]
    if not there:
        return None
    left = {RANDOM.sub("#", path.name) for folder in there for path in folder.iterdir()}
    left = {name for name in left if not any(fnmatch(name, one) for one in NOT_COMPARED)}
    with Logs(open_to_change(*map(str, there))) as logs:
        topics, found = _logs_of(logs)
    groups = _positions(home, there) if "__consumer_offsets-0" in left else {}
    return Facts(topics, found, groups, dict.fromkeys(left))


def _logs_of(logs: Logs) -> tuple[dict[str, dict[str, str]], dict[str, LogFacts]]:
    known = {name: topic for name, topic in logs.topics().items() if not name.startswith("__")}
    found = {
        f"{name}-{number}": logs.partition(name, number).log
        for name, topic in known.items()
        for number in topic.partitions
    }
    facts = {
        name: LogFacts(
            log.log_start_offset,
            log.log_end_offset,
            log.last_stable_offset,
            frozenset((each.offset, each.key, each.value) for each in log.records()),
        )
        for name, log in found.items()
    }
    return {name: dict(topic.config) for name, topic in known.items()}, facts


def _positions(home: Path, folders: list[Path]) -> dict[str, int]:
    where = [word for folder in folders for word in ("-d", str(folder))]
    rows = map(json.loads, run(home, "groups", *where, "--json").out.splitlines())
    return {
        f"{row['group']} {row['topic']}-{row['partition']}": row["offset"]
        for row in rows
        if "group" in row
    }


class Case(NamedTuple):
    """An act, and what hits it: the number of an operation that a kind can hit, or a line."""

    act: str
    kind: str
    at: int | Site


@cache
def template(top: Path) -> Path:
    """Make what every case begins with, once."""
    home = top / "template"
    told = in_child(partial(make_home, home))
    assert told is None, told
    return home


class Sweep:
    """The cases of one act, all of them in the folder ``top``."""

    def __init__(self, top: Path, name: str) -> None:
        self.name = name
        self.act = ACTS[name]
        self.home = top / "home"
        self._ready = top / f"ready {name}"
        self._begin(template(top))
        told = in_child(self._prepare)
        assert told == [], told
        shutil.copytree(self.home, self._ready)
        self.before: Seen = self._in_child(partial(facts_of, self.home, self.act.seen))
        told = self._in_child(self._reference)
        self.usual, self.counts = told
        assert self.usual.code in FINE, self.usual
        self.after: Seen = self._in_child(partial(facts_of, self.home, self.act.seen))

    def _begin(self, source: Path | None = None) -> None:
        """Make the folder of a case."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(source or self._ready, self.home)

    @staticmethod
    def _in_child(work: Any) -> Any:
        told = in_child(work, timeout_s=HUNG_S)
        assert not isinstance(told, str), told
        return told

    def _run(self) -> Ran:
        return run(self.home, *self.act.words)

    def _prepare(self) -> list[Ran]:
        """Return which of the command lines that prepare the act were not fine."""
        self.act.prepare(self.home)
        ran = [run(self.home, *words) for words in self.act.before]
        return [one for one in ran if one.code]

    def _reference(self) -> tuple[Ran, dict[str, int]]:
        """Run without a fault; return what the operations are."""
        fault = PlannedFault(str(self.home))
        with fault.installed():
            ran = self._run()
        return ran, dict(fault.counts)

    @cached_property
    def sites(self) -> list[Site]:
        """The lines of the act. Only interrupts need them, and a run that is traced is slow."""
        self._begin()
        found: list[Site] = self._in_child(partial(sites_of, self._run))
        return found

    def cases(self, kind: str, count: int, rng: Random) -> list[Case]:
        """Draw cases of a kind."""
        if kind == INTERRUPT:
            every = [Case(self.name, kind, site) for site in self.sites]
        else:
            numbers = range(1, self.counts.get(kind, 0) + 1)
            every = [Case(self.name, kind, number) for number in numbers]
        return rng.sample(every, min(count, len(every)))

    def problems(self, case: Case) -> list[str]:
        """Run a case; return what is wrong."""
        self._begin()
        try:
            ran, path, cause = self._in_child(partial(self._run_with, case))
            now, again, end = self._in_child(self._repeat)
        except AssertionError as error:
            return [str(error)]
        found = [one.err for one in (ran, again) if "Traceback" in one.err]
        found += self._wrong_end(case, ran, path, cause)
        found += self._lost(now)
        if self.act.reads_around and ran.code == self.usual.code:
            return [*found, *self._left()]
        # What is done may be refused the second time, but not what is not complete yet.
        if again.code not in FINE and self._difference(now):
            found.append(f"the repetition ends with {again.code}: {again.err}")
        if different := self._difference(end):
            found.append(f"ends otherwise: {different}")
        return [*found, *self._left()]

    def _run_with(self, case: Case) -> tuple[Ran, str, str]:
        """Run the act with what hits it; return how it ended, the path that it hit, and the cause.

        The cause is empty if nothing was hit.
        """
        if isinstance(case.at, Site):
            tracer, told = Tracer(case.at), list[Ran]()
            tracer.run(lambda: told.append(self._run()))
            return told[0], "", INTERRUPT if tracer.is_raised else ""
        kind = next(kind for kind in KINDS if kind.name == case.kind)
        fault = PlannedFault(str(self.home), kind, case.at)
        with fault.installed():
            ran = self._run()
        if fault.hit is None:
            return ran, "", ""
        return ran, fault.hit.path, str(kind.error("").strerror)

    def _repeat(self) -> tuple[Seen, Ran, Seen]:
        """Look, repeat the act and look again; then let a command finish what waits for one."""
        now = facts_of(self.home, self.act.seen)
        again = self._run()
        end = facts_of(self.home, self.act.seen)
        for path in self.home.iterdir():
            if (path / "tidelog.topics.json").exists():
                run(self.home, "staged", "commit", "-d", str(path))
        return now, again, end

    def _wrong_end(self, case: Case, ran: Ran, path: str, cause: str) -> Iterator[str]:
        said = ran.out + ran.err
        if not cause:
            return
        if case.kind == INTERRUPT:
            if ran.code != ExitCode.INTERRUPTED:
                yield f"the interrupt is lost: {ran}"
        elif ran.code == ExitCode.BAD_USAGE:
            yield f"it is called wrong usage: {ran.err}"
        elif ran.code == ExitCode.FAILED:
            if cause not in said:
                yield f"names no cause: {said}"
            if basename(path) not in said and str(self.home) not in said:
                yield f"names no file ({path}): {said}"

    def _lost(self, now: Seen) -> Iterator[str]:
        """Yield the logs that lack records which were there before."""
        for place, facts in self.before.items():
            if facts is None or place.startswith("file:"):
                continue
            held = now[place]
            for name, log in facts.logs.items():
                there = held.logs[name].records if held and name in held.logs else frozenset()
                if name.rpartition("-")[0] not in self.act.drops and not log.records <= there:
                    yield f"lost of {name} in {place}: {set(log.records - there)}"

    def _left(self) -> Iterator[str]:
        left = [str(path) for path in self.home.rglob("*") if path.name.endswith(LEFT)]
        if left:
            yield f"left behind: {left}"

    def _difference(self, found: Seen) -> str:
        """Say in what a folder is otherwise than without a fault."""
        said = []
        for place, wanted in self.after.items():
            facts = found[place]
            if wanted is None or facts is None:
                said += [f"{place}: {facts}, not {wanted}"[:600]] * (facts is not wanted)
                continue
            for name, ours, theirs in zip(Facts._fields, wanted, facts, strict=True):
                keys = ours.keys() | theirs.keys()
                if name == "names":
                    keys = {key for key in keys if not self._is_left(key)}
                said += [
                    f"{place}: {name}: {key}: {theirs.get(key)}, not {ours.get(key)}"[:600]
                    for key in sorted(keys)
                    if (key in ours) != (key in theirs)
                    or not self._is_same(ours.get(key), theirs.get(key))
                ]
        return "\n".join(said)

    def _is_left(self, name: str) -> bool:
        return any(fnmatch(name, one) for one in self.act.leaves)

    def _is_same(self, ours: object, theirs: object) -> bool:
        if self.act.grows and isinstance(ours, LogFacts) and isinstance(theirs, LogFacts):
            return ours.records <= theirs.records
        return ours == theirs


def main() -> None:
    """Run the cases that are asked for."""
    asked = json.load(sys.stdin)
    top = Path(asked["top"])
    in_child(partial(run, top, "warm"))
    run(top, "schema", "list")  # so that no child has to load that much
    tried: dict[str, int] = {}
    wrong: dict[str, list[str]] = {}
    sweeps: dict[str, Sweep] = {}
    for name, kind, count in asked["cases"]:
        if name not in sweeps:
            sweeps[name] = Sweep(top, name)
        sweep = sweeps[name]
        chosen = sweep.cases(kind, count, Random(f"{asked['seed']} {name} {kind}"))
        tried[f"{name}: {kind}"] = len(chosen)
        wrong |= {str(case): problems for case in chosen if (problems := sweep.problems(case))}
    json.dump({"tried": tried, "wrong": wrong}, sys.stdout)


if __name__ == "__main__":
    main()
