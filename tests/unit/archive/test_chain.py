"""The chain of an archive: versions, runs, claims, and what contradicts itself."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machinery.object_model import ObjectModel
from tests.machinery.scale import examples

from tidelog.archive.chain import MAX_RUN, RUN, Chain, run_name, runs_to, version_name
from tidelog.archive.chain_state import ChainState
from tidelog.archive.deltas import (
    DELETED_BEFORE,
    FORMAT,
    NOT_ON_DISK,
    SECTIONS,
    Add,
    Claim,
    Deleted,
    Delta,
    Drop,
    Entry,
    Operation,
    Remove,
    Skip,
    Start,
    Truncate,
    parse_line,
)
from tidelog.errors import (
    ArchiveOvertaken,
    CorruptArchive,
    NewerArchive,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Enumerated

TOPIC = UUID(int=7)
NONCE = "0" * 32
CLAIM = Claim(NONCE, "flights", {"retention.ms": "5"})


def entry(base: int, end: int, epoch: int = 1, number: int = 0) -> Entry:
    name = f"s/{base:020}-{epoch}-{number:032x}"
    sections = (100, *range(len(SECTIONS) - 1))
    return Entry(name, base, end, 17, 100, 5, '"tag"', sections, ((0, base),), ((9, base),))


def chain(store: ObjectModel) -> Chain:
    return Chain(store, TOPIC, 0, store.rng)


def test_what_is_committed_is_read_at_any_version() -> None:
    """Also by another program; a version does not change any more."""
    store = ObjectModel(Random(0))
    one, state = chain(store), ChainState()
    steps: list[tuple[Operation, ...]] = [
        (CLAIM, Start(10, "delete-records")),
        (Add(entry(5, 20)),),
        (Skip(20, 30, "retention"), Add(entry(30, 40))),
        (Start(30, "retention"), Remove(entry(5, 20).name)),
        (Drop(entry(5, 20).name),),
        (Deleted(),),
    ]
    seen = []
    for step in steps:
        one.commit(state, step, 1)
        seen.append((state.version, state.start, state.end, [*state.entries], [*state.removed]))

    assert [each[:3] for each in seen] == [
        (1, 10, 10),
        (2, 10, 20),
        (3, 10, 40),
        (4, 30, 40),
        (5, 30, 40),
        (6, 30, 40),
    ]
    for version, start, end, entries, removed in seen:
        found = chain(store).read(version)
        assert (found.version, found.start, found.end) == (version, start, end)
        assert (found.entries, [*found.removed]) == (entries, removed)
    last = chain(store).read()
    assert (last.is_deleted, last.entries, last.config) == (True, [], {"retention.ms": "5"})
    assert [*last.removed] == [entry(30, 40).name]
    assert chain(store).read(2, chain(store).read(1)).entry_at(19) == entry(5, 20)
    assert chain(store).read(3).entry_at(25) is None


@given(st.integers(0, 3 * MAX_RUN), st.integers(0, 2 * RUN * 64))
def test_runs_cover_all_versions_once(version: int, after: int) -> None:
    """At multiples of their size, and few of them."""
    parts = [*runs_to(version, after)]

    assert [first for first, _ in parts[1:]] == [last + 1 for _, last in parts[:-1]]
    assert (not parts) is (after >= version)
    if parts:
        assert (parts[0][0], parts[-1][1]) == (after + 1, version)
    for first, last in parts:
        size = last - first + 1
        assert size == 1 or (size >= RUN and (first - 1) % size == 0)
    if after == 0 and version <= MAX_RUN:
        assert len(parts) <= RUN + 4 * 8


def long_chain(versions: int) -> tuple[ObjectModel, ChainState]:
    store = ObjectModel(Random(0))
    one, state = chain(store), ChainState()
    one.commit(state, (CLAIM,), 1)
    for number in range(versions - 1):
        one.commit(state, (Add(entry(number, number + 1)),), 1)
        one.write_runs(state.version)
    return store, state


def test_a_long_chain_is_read_by_few_requests() -> None:
    """Runs written on the way; what they cost grows with n log n."""
    store, state = long_chain(2_500)
    store.requests = 0

    found = chain(store).read()

    assert found == state
    assert store.requests <= 60
    runs = [name for name in store.objects if "/c/" in name]
    stored = sum(len(store.objects[name]) for name in runs)
    versions = sum(len(data) for name, data in store.objects.items() if "/m/" in name)
    assert stored <= 3 * versions
    known = chain(store).newest(2_400)
    assert known == 2_500


def test_a_run_that_is_missing_is_read_from_its_parts() -> None:
    """And written again to the same bytes."""
    store, state = long_chain(300)
    name = f"{TOPIC}/0/{run_name(1, 256)}"
    run = store.objects.pop(name)
    store.objects.pop(f"{TOPIC}/0/{run_name(33, 64)}")

    assert chain(store).read() == state
    chain(store).write_runs(256)
    assert store.objects[name] == run


def test_of_two_writers_one_commits_a_version() -> None:
    """The other one reads it, and finds its claim gone."""
    store = ObjectModel(Random(0))
    one, two = ChainState(), ChainState()
    chain(store).commit(one, (CLAIM,), 1)
    with pytest.raises(ArchiveOvertaken):
        chain(store).commit(two, (CLAIM,), 1)
    assert two == ChainState()
    chain(store).read(state=two)
    chain(store).commit(two, (Claim("1" * 32, "flights", {}),), 2)
    with pytest.raises(ArchiveOvertaken):
        chain(store).commit(one, (Add(entry(0, 5)),), 1)
    chain(store).read(state=one)
    with pytest.raises(CorruptArchive, match="of claim 1"):
        chain(store).commit(one, (Add(entry(0, 5)),), 1)


BEFORE: list[Operation] = [CLAIM, Add(entry(0, 10)), Add(entry(10, 20))]


@pytest.mark.parametrize(
    ("operations", "epoch", "words"),
    [
        ([Add(entry(25, 30))], 1, "begins at 25"),
        ([Add(entry(15, 30))], 1, "begins at 15"),
        ([Add(entry(20, 30, epoch=2))], 1, "of another claim"),
        ([Skip(21, 22, "retention")], 1, "a skip begins at 21"),
        ([Start(5, "x"), Start(4, "x")], 1, "the start falls to 4"),
        ([Remove(entry(0, 10).name)], 1, "holds offsets from the start on"),
        ([Start(20, "x"), Remove(entry(10, 20).name)], 1, "not the first segment"),
        ([Drop(entry(0, 10).name)], 1, "was not removed"),
        ([Deleted(), Add(entry(20, 30))], 1, "follows the deletion"),
        ([CLAIM], 1, "claim 1 follows"),
        ([CLAIM], 3, "claim 3 follows"),
        ([Start(5, "x")], 2, "of claim 2"),
    ],
)
def test_what_contradicts_itself_is_not_committed(
    operations: list[Operation], epoch: int, words: str
) -> None:
    """Nor taken, if another program has."""
    store = ObjectModel(Random(0))
    state = ChainState()
    chain(store).commit(state, BEFORE, 1)
    objects = dict(store.objects)

    with pytest.raises(CorruptArchive, match=words):
        chain(store).commit(state, operations, epoch)
    assert store.objects == objects
    line = Delta(2, NONCE, epoch, tuple(operations)).to_line()
    store.objects[f"{TOPIC}/0/{version_name(2)}"] = line
    with pytest.raises(CorruptArchive, match=words):
        chain(store).read()
    assert chain(store).read(1).version == 1


def test_versions_under_other_names_are_refused() -> None:
    """As after a copy of objects by hand."""
    store, _ = long_chain(70)
    prefix = f"{TOPIC}/0/"
    store.objects[prefix + version_name(70)] = store.objects[prefix + version_name(69)]
    with pytest.raises(CorruptArchive, match="holds version 69, not 70"):
        chain(store).read()
    run = store.objects[prefix + run_name(1, 32)]
    store.objects[prefix + run_name(33, 64)] = run
    with pytest.raises(CorruptArchive, match="holds version 1, not 33"):
        chain(store).read(64)
    store.objects[prefix + run_name(1, 32)] = run + run
    with pytest.raises(CorruptArchive, match="has 64 versions, not 32"):
        chain(store).read(32)
    store, _ = long_chain(3)
    with pytest.raises(ObjectNotFound):
        chain(store).read(4)


LINE = Delta(1, NONCE, 1, (*BEFORE, Skip(20, 30, "why"), Start(3, "why"), Deleted()), 15).to_line()


def test_a_line_is_read_as_it_was_written() -> None:
    """And written again to the same bytes."""
    assert parse_line(LINE, "here").to_line() == LINE


@pytest.mark.parametrize(
    ("cleaned", "operations", "end"),
    [
        (10, [], 15),
        (15, [], 15),
        (25, [], 20),  # what follows may be of another copy of the log
        (0, [Add(entry(20, 30))], 15),
        (5, [Add(entry(20, 30))], 15),
        (25, [Add(entry(20, 30))], 25),
        (0, [Truncate(10), Add(entry(10, 20, number=1))], 10),
        (25, [Skip(20, 22, DELETED_BEFORE), Add(entry(22, 30))], 25),
        (25, [Skip(20, 22, NOT_ON_DISK), Add(entry(22, 30))], 20),
        (25, [Skip(20, 22, NOT_ON_DISK), Add(entry(22, 30)), Start(22, "x")], 25),
        (0, [Start(14, "x")], 15),
        (0, [Start(15, "x")], 0),
    ],
)
def test_compaction_explains_what_was_cleaned_before_it_was_archived(
    cleaned: int, operations: list[Operation], end: int
) -> None:
    """Not what the disk has lost, nor what another history had there."""
    state = ChainState()
    state.apply(Delta(1, NONCE, 1, tuple(BEFORE), 15))

    state.apply(Delta(2, NONCE, 1, tuple(operations), cleaned))

    assert state.cleaned_end == end


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 0),
        (("format",), True),
        (("version",), 0),
        (("version",), 2**63),
        (("version",), "1"),
        (("nonce",), "../../x"),
        (("claim",), 2**31),
        (("operations",), {}),
        (("operations", 0, 0), "grant"),
        (("operations", 0, 1), "short"),
        (("operations", 0, 2), "../flights"),
        (("operations", 0, 3), {"a": 1}),
        (("operations", 1, 1, 0), "../../etc/passwd"),
        (("operations", 1, 1, 0), f"s/{1:020}-1-{NONCE}"),
        (("operations", 1, 1, 1), -1),
        (("operations", 1, 1, 2), 0),
        (("operations", 1, 1, 3), -2),
        (("operations", 1, 1, 4), 2**31),
        (("operations", 1, 1, 4), 99),
        (("operations", 1, 1, 5), 2**32),
        (("operations", 1, 1, 6), "a\nb"),
        (("operations", 1, 1, 7), [1]),
        (("operations", 1, 1, 8), [[1]]),
        (("operations", 1, 1, 9), [[1, 2**63]]),
        (("operations", 3), ["skip", 20, 20, "why"]),
        (("operations", 4), ["start", 20]),
        (("cleaned",), -1),
        (("cleaned",), 2**63),
        (("cleaned",), None),
    ],
)
def test_values_of_others_are_refused(path: tuple[Any, ...], value: object) -> None:
    """Names that lead elsewhere, numbers too large, other types."""
    fields = json.loads(LINE)
    at = fields
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value

    with pytest.raises(CorruptArchive, match="here"):
        parse_line(json.dumps(fields).encode(), "here")


@pytest.mark.parametrize(
    "line", [b"", b"null", b"[1]", b"\xff", b"{", b"[" * 100_000, b" " * (5 << 20)]
)
def test_lines_that_are_none_are_refused(line: bytes) -> None:
    """Whatever bytes they are."""
    with pytest.raises(CorruptArchive):
        parse_line(line, "here")


def test_what_a_newer_release_wrote_is_refused() -> None:
    """It may mean what this one does not know."""
    fields = json.loads(LINE) | {"format": FORMAT + 1, "operations": "new"}

    with pytest.raises(NewerArchive, match="this release reads up to 1"):
        parse_line(json.dumps(fields).encode(), "here")


class Writer:
    """One of two that archive the same log, or copies of it."""

    def __init__(self, store: ObjectModel, log: list[bytes], number: int) -> None:
        self.store, self.log, self.number = store, log, number
        self.epoch = 0
        self.objects = 0

    def steps(self) -> Iterator[None]:
        """Claim, then copy, raise the start, remove and sweep; stop when fenced or in doubt."""
        rng, one = self.store.rng, chain(self.store)
        state = one.read()
        yield
        for held in state.entries:
            bytes_here = b"".join(self.log[held.base_offset : held.end_offset])
            if held.end_offset > len(self.log) or self.bytes_of(held) != bytes_here:
                return  # another history
        one.commit(state, (Claim(f"{self.number:032x}", "t", {}),), state.claim_epoch + 1)
        self.epoch = state.claim_epoch
        while True:
            yield
            one.read(state=state)
            if state.claim_epoch != self.epoch:
                return
            what = rng.random()
            if what < 0.5 and state.end + 3 <= len(self.log):
                yield from self.copy(one, state)
            elif what < 0.65 and state.entries:
                first = state.entries[0]
                one.commit(
                    state, (Start(first.end_offset, "retention"), Remove(first.name)), self.epoch
                )
            elif what < 0.75:
                one.write_runs(
                    state.version - state.version % RUN or RUN
                ) if state.version >= RUN else None
            elif what < 0.9:
                yield from self.sweep(one, state)
            else:
                self.log.append(b"%d of %d;" % (len(self.log), self.number))

    def bytes_of(self, held: Entry) -> bytes:
        return self.store.objects[f"{TOPIC}/0/{held.name}"]

    def copy(self, one: Chain, state: ChainState) -> Iterator[None]:
        base, end = state.end, state.end + 3
        data = b"".join(self.log[base:end])
        self.objects += 1
        name = f"s/{base:020}-{self.epoch}-{self.number * 10_000 + self.objects:032x}"
        self.store.put(one.name(name), [data], len(data))
        yield
        size = len(data)
        sections = (size, *[0] * (len(SECTIONS) - 1))
        one.commit(state, (Add(Entry(name, base, end, -1, size, 0, "", sections)),), self.epoch)

    def sweep(self, one: Chain, state: ChainState) -> Iterator[None]:
        listed = [found.name for found in self.store.list(one.name("s"))]
        yield
        one.read(state=state)
        if state.claim_epoch != self.epoch:
            return
        kept = {one.name(held.name) for held in (*state.entries, *state.removed.values())}
        for name in listed:
            epoch = int(name.split("-")[-2])
            if name not in kept and epoch < self.epoch:
                self.store.delete(name)
                yield


def check_trial(seed: int) -> tuple[int, int]:
    """Run two writers, who crash; return how many versions and segments there are."""
    rng = Random(seed)
    store = ObjectModel(rng, chance=0.25)
    base = [b"%d;" % number for number in range(12)]
    writers = [Writer(store, list(base), number) for number in (1, 2)]
    running = [writer.steps() for writer in writers]
    last = 0
    for _ in range(300):
        number = rng.randrange(2)
        store.tick()
        if rng.random() < 0.04:
            running[number] = writers[number].steps()  # it crashed
        try:
            next(running[number])
        except (StoreUnavailable, ArchiveOvertaken, StopIteration):
            running[number] = writers[number].steps()
        state = chain(store).read()
        assert state.version >= last
        last = state.version
        for before, after in zip(state.entries, state.entries[1:], strict=False):
            assert before.end_offset == after.base_offset
        for held in state.entries:
            assert len(store.objects[f"{TOPIC}/0/{held.name}"]) == held.size_bytes
        pinned = chain(store).read(rng.randint(0, last))
        assert pinned.version <= last
    store.settle()
    state = chain(store).read()
    for held in state.entries:
        assert f"{TOPIC}/0/{held.name}" in store.objects
    return state.version, state.end


def test_two_writers_lose_nothing_and_add_nothing_twice(enumerated: Enumerated) -> None:
    """With answers lost, requests that come late, and crashes at every step."""
    trials = examples(12)
    versions = segments = 0
    for seed in range(trials):
        found = check_trial(seed)
        versions, segments = versions + found[0], segments + found[1]

    enumerated("versions", versions, at_least=10 * trials)
    enumerated("offsets archived", segments, at_least=5 * trials)


def test_an_unknown_commit_leaves_the_state(enumerated: Enumerated) -> None:
    """It is read again: there it is, or another commit takes its version."""
    store = ObjectModel(Random(1), chance=1.0)
    state, unknown = ChainState(), 0
    for _ in range(200):
        before = state.version
        try:
            chain(store).commit(state, (CLAIM._replace(),), state.claim_epoch + 1)
        except StoreError:
            unknown += 1
            assert state.version == before
            chain(store).read(state=state)
        assert state.version >= before

    enumerated("unknown outcomes", unknown, at_least=10)
