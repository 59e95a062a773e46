"""What remains after a power cut, a killed process or on a full disk."""

from __future__ import annotations

import errno
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tidelog.testing import CrashFileSystem, ManualClock, Operation, PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.testing.disk import Kept

SEEDS = range(300)


def remains(prepare: Callable[[CrashFileSystem], None], name: str = "/f") -> set[bytes | None]:
    """Return what a power cut after ``prepare`` may leave of a file; None: nothing."""
    found: set[bytes | None] = set()
    for seed in SEEDS:
        fs = CrashFileSystem(seed)
        prepare(fs)
        fs.power_cut()
        found.add(fs.read(name) if fs.exists(name) else None)
    return found


def durable(fs: CrashFileSystem, path: str, data: bytes) -> None:
    """Write a file durably."""
    fs.write(path, data)
    with closing(fs.open(path)) as file:
        file.sync()
    fs.sync_directory("/")


def test_synced_bytes_under_a_synced_name_survive() -> None:
    """Durable data survives every power cut."""
    assert remains(lambda fs: durable(fs, "/f", b"abcd")) == {b"abcd"}


def test_unsynced_bytes_may_be_kept_lost_torn_or_zero() -> None:
    """Every fate of an unsynced append occurs for some seed, and the synced part survives."""

    def prepare(fs: CrashFileSystem) -> None:
        durable(fs, "/f", b"ab")
        with closing(fs.open("/f", "w")) as file:
            file.pwrite(b"cd", 2)

    assert remains(prepare) == {b"ab", b"abc", b"abcd", b"ab\0\0", b"abc\0", b"ab\0d"}


def test_unsynced_writes_may_survive_out_of_order() -> None:
    """A later write may survive when an earlier one is lost."""

    def prepare(fs: CrashFileSystem) -> None:
        durable(fs, "/f", b"....")
        with closing(fs.open("/f", "w")) as file:
            file.pwrite(b"a", 0)
            file.pwrite(b"b", 2)

    assert remains(prepare) == {b"....", b"a...", b"..b.", b"a.b."}


def test_a_write_after_a_truncation_depends_on_it() -> None:
    """Bytes written after a truncation never appear among the truncated ones."""

    def prepare(fs: CrashFileSystem) -> None:
        durable(fs, "/f", b"abcd")
        with closing(fs.open("/f", "w")) as file:
            file.truncate(1)
            file.pwrite(b"X", 1)

    assert remains(prepare) == {b"abcd", b"a", b"aX", b"a\0"}


def test_an_unsynced_name_may_be_lost() -> None:
    """A synced file without a synced directory may be missing; if it exists, it has its bytes."""

    def prepare(fs: CrashFileSystem) -> None:
        fs.write("/f", b"ab")
        with closing(fs.open("/f")) as file:
            file.sync()

    assert remains(prepare) == {None, b"ab"}


def test_an_unsynced_delete_may_not_have_happened() -> None:
    """A deleted file may come back until its directory is synced."""

    def prepare(fs: CrashFileSystem) -> None:
        durable(fs, "/f", b"ab")
        fs.delete("/f")

    def prepare_synced(fs: CrashFileSystem) -> None:
        prepare(fs)
        fs.sync_directory("/")

    assert remains(prepare) == {None, b"ab"}
    assert remains(prepare_synced) == {None}


def test_a_rename_happens_whole_or_not_at_all() -> None:
    """A file replaced by rename is the old or the new one, never missing or doubled."""
    found = set()
    for seed in SEEDS:
        fs = CrashFileSystem(seed)
        durable(fs, "/f", b"old")
        durable(fs, "/f.tmp", b"new")
        fs.rename("/f.tmp", "/f")
        fs.power_cut()
        found.add((fs.read("/f"), fs.exists("/f.tmp")))

    assert found == {(b"old", True), (b"new", False)}


def test_independent_renames_may_be_reordered() -> None:
    """Of two unsynced renames, either may be the only one that survives."""
    found = set()
    for seed in SEEDS:
        fs = CrashFileSystem(seed)
        durable(fs, "/a", b"")
        durable(fs, "/b", b"")
        fs.rename("/a", "/a2")
        fs.rename("/b", "/b2")
        fs.power_cut()
        found.add(tuple(sorted(fs.list("/"))))

    assert found == {("a", "b"), ("a2", "b"), ("a", "b2"), ("a2", "b2")}


def test_changes_of_one_name_stay_in_order() -> None:
    """A name that was freed and reused is never found without both files."""

    def prepare(fs: CrashFileSystem) -> None:
        durable(fs, "/f", b"old")
        durable(fs, "/new", b"new")
        fs.rename("/f", "/saved")
        fs.rename("/new", "/f")

    assert remains(prepare) == {b"old", b"new", None}
    for seed in SEEDS:
        fs = CrashFileSystem(seed)
        prepare(fs)
        fs.power_cut()
        assert {fs.read(f"/{name}") for name in fs.list("/")} == {b"old", b"new"}


def test_a_move_between_directories_needs_both_synced() -> None:
    """After one sync the file is in one of the two places; after both it is in the new one."""
    found: dict[tuple[str, ...], set[object]] = {}
    for synced in (("/a",), ("/b",), ("/a", "/b")):
        found[synced] = set()
        for seed in SEEDS:
            fs = CrashFileSystem(seed)
            fs.make_directory("/a")
            fs.make_directory("/b")
            durable(fs, "/f", b"ab")
            fs.rename("/f", "/a/f")
            fs.sync_directory("/")
            fs.sync_directory("/a")
            fs.rename("/a/f", "/b/f")
            for directory in synced:
                fs.sync_directory(directory)
            fs.power_cut()
            found[synced].add((fs.exists("/a/f"), fs.exists("/b/f")))

    either = {(True, False), (False, True)}
    assert found == {("/a",): either, ("/b",): either, ("/a", "/b"): {(False, True)}}


def test_a_sync_includes_what_the_synced_change_depends_on() -> None:
    """A synced new file keeps the move that freed its name, even if that is not synced."""
    for seed in SEEDS:
        fs = CrashFileSystem(seed)
        fs.make_directory("/a")
        durable(fs, "/f", b"old")
        fs.rename("/f", "/a/f")
        durable(fs, "/f", b"new")

        fs.power_cut()

        assert (fs.read("/f"), fs.read("/a/f")) == (b"new", b"old")


def test_a_lost_directory_loses_its_files() -> None:
    """A file is only as durable as the names of the directories above it."""
    found = set()
    for seed in SEEDS:
        fs = CrashFileSystem(seed)
        fs.make_directory("/a/b")
        fs.sync_directory("/a")
        fs.power_cut()
        found.add((fs.exists("/a"), fs.exists("/a/b")))

    assert found == {(False, False), (True, True)}


def test_the_same_seed_gives_the_same_result() -> None:
    """A failing test can be repeated."""

    def survivors(seed: int) -> list[bytes]:
        fs = CrashFileSystem(seed)
        for n in range(20):
            fs.write(f"/{n}", b"abcdef")
        fs.power_cut()
        return [fs.read(f"/{name}") for name in sorted(fs.list("/"))]

    assert survivors(7) == survivors(7)
    assert "seed=7" in repr(CrashFileSystem(7))


def test_files_opened_before_a_power_cut_are_unusable() -> None:
    """Using them is an OSError, closing them is not, and the surviving file is not touched."""
    fs = CrashFileSystem()
    durable(fs, "/f", b"ab")
    file = fs.open("/f", "w")
    fs.power_cut()

    for use in (file.size, file.sync, lambda: file.pwrite(b"x", 0), lambda: file.pread(1, 0)):
        with pytest.raises(OSError) as caught:
            use()
        assert caught.value.errno == errno.EIO
    file.close()

    assert fs.read("/f") == b"ab"


@pytest.mark.parametrize("end", ["power_cut", "kill"])
def test_an_end_of_the_process_frees_its_locks(end: str) -> None:
    """After a restart the lock is free, and its old holder cannot release it."""
    fs = CrashFileSystem()
    durable(fs, "/.lock", b"")
    old = fs.lock("/.lock")
    getattr(fs, end)()

    new = fs.lock("/.lock")
    old.release()

    with pytest.raises(Exception, match="in use"):
        fs.lock("/.lock")
    new.release()


def test_a_killed_process_loses_nothing() -> None:
    """The operating system keeps what a dead process wrote, synced or not."""
    fs = CrashFileSystem()
    fs.write("/f", b"ab")

    fs.kill()

    assert fs.read("/f") == b"ab"


def test_a_killed_process_makes_nothing_durable() -> None:
    """After a kill, a power cut can still lose unsynced bytes."""

    def prepare(fs: CrashFileSystem) -> None:
        fs.write("/f", b"ab")
        fs.kill()

    assert None in remains(prepare)


def test_a_full_disk_accepts_a_part() -> None:
    """A write that does not fit is ENOSPC, and the part that fits is kept; deleting frees space."""
    fs = CrashFileSystem()
    fs.write("/old", b"1234")
    fs.set_free_bytes(3)
    with closing(fs.open("/f", "w")) as file:
        with pytest.raises(OSError) as caught:
            file.pwrite(b"abcdef", 0)
        assert caught.value.errno == errno.ENOSPC
        assert (file.pread(9, 0), fs.free_bytes("/")) == (b"abc", 0)

        fs.delete("/old")
        file.pwrite(b"def", 3)
        with pytest.raises(OSError):
            file.truncate(8)

        assert (file.pread(9, 0), fs.free_bytes("/")) == (b"abcdef", 1)


def test_rewriting_needs_no_space() -> None:
    """Bytes replaced within a file fit on a full disk."""
    fs = CrashFileSystem()
    fs.write("/f", b"abcd")
    fs.set_free_bytes(0)

    with closing(fs.open("/f", "w")) as file:
        file.pwrite(b"XY", 2)

    assert fs.read("/f") == b"abXY"


def test_a_planned_error_is_raised_only_on_matching_paths() -> None:
    """It is raised as often as planned, for the given operation and path suffix."""
    fs = CrashFileSystem()
    fs.fail("pwrite", ".log", OSError(errno.EIO, "on purpose"), count=2)
    with closing(fs.open("/f.index", "w")) as index, closing(fs.open("/f.log", "w")) as log:
        index.pwrite(b"a", 0)
        for _ in range(2):
            with pytest.raises(OSError, match="on purpose"):
                log.pwrite(b"a", 0)
        log.pwrite(b"b", 0)

    assert (fs.read("/f.index"), fs.read("/f.log")) == (b"a", b"b")


@pytest.mark.parametrize(
    ("operation", "use"),
    [
        ("open", lambda fs: fs.open("/f")),
        ("read", lambda fs: fs.read("/f")),
        ("write", lambda fs: fs.write("/f", b"")),
        ("rename", lambda fs: fs.rename("/g", "/f")),
        ("link", lambda fs: fs.link("/g", "/f")),
        ("delete", lambda fs: fs.delete("/f")),
        ("list", lambda fs: fs.list("/f")),
        ("make_directory", lambda fs: fs.make_directory("/f")),
        ("delete_directory", lambda fs: fs.delete_directory("/f")),
        ("stat", lambda fs: fs.stat("/f")),
        ("exists", lambda fs: fs.exists("/f")),
        ("set_mtime_ms", lambda fs: fs.set_mtime_ms("/f", 0)),
        ("lock", lambda fs: fs.lock("/f")),
        ("free_bytes", lambda fs: fs.free_bytes("/f")),
        ("sync_directory", lambda fs: fs.sync_directory("/f")),
    ],
)
def test_every_operation_can_fail(operation: str, use: Callable[[CrashFileSystem], object]) -> None:
    """An error can be planned for each method by its name."""
    fs = CrashFileSystem()
    fs.fail(operation, "/f", OSError(errno.EIO, "on purpose"))

    with pytest.raises(OSError, match="on purpose"):
        use(fs)


@pytest.mark.parametrize(
    ("code", "raised"), [(errno.EMFILE, errno.EMFILE), (errno.ENOSPC, errno.EIO)]
)
def test_a_sync_of_a_directory_may_lack_a_descriptor(code: int, raised: int) -> None:
    """Nothing was synced then; any other error is EIO, since the disk's content is unknown."""
    fs = CrashFileSystem()
    fs.write("/f", b"")
    fs.fail("sync_directory", "/", OSError(code, "on purpose"))

    with pytest.raises(OSError, match="on purpose") as caught:
        fs.sync_directory("/")
    assert caught.value.errno == raised
    fs.power_cut("none")
    assert not fs.exists("/f")


def test_bytes_of_a_failed_sync_are_lost() -> None:
    """After a failed sync the bytes are visible, but a later sync does not save them."""
    found = set()
    for seed in SEEDS:
        fs = CrashFileSystem(seed)
        durable(fs, "/f", b"ab")
        fs.fail("sync", "/f", OSError(errno.EIO, "on purpose"))
        with closing(fs.open("/f", "w")) as file:
            file.pwrite(b"cd", 2)
            with pytest.raises(OSError, match="on purpose"):
                file.sync()
            file.pwrite(b"ef", 4)
            file.sync()
            assert file.pread(9, 0) == b"abcdef"
        fs.power_cut()
        found.add(fs.read("/f"))

    assert found == {b"ab\0\0ef"}


def test_operations_are_listed() -> None:
    """Each operation that changed something, or made it durable, is listed in order."""
    fs = CrashFileSystem()
    with closing(fs.open("/f", "w")) as file:
        file.pwrite(b"a", 0)
        file.pread(1, 0)
        file.sync()
    fs.open("/f").close()
    fs.sync_directory("/")

    assert fs.operations == [
        Operation("open", "/f"),
        Operation("pwrite", "/f"),
        Operation("sync", "/f"),
        Operation("sync_directory", "/"),
    ]


def save(fs: CrashFileSystem) -> None:
    """Replace a file durably."""
    with closing(fs.open("/f.tmp", "w")) as file:
        file.pwrite(b"new", 0)
        file.sync()
    fs.rename("/f.tmp", "/f")
    fs.sync_directory("/")


def test_the_power_can_fail_in_every_operation() -> None:
    """Each operation can be the last; a correct save leaves the old or the new file."""
    fs = CrashFileSystem()
    durable(fs, "/f", b"old")
    before = len(fs.operations)
    save(fs)
    count = len(fs.operations) - before

    found = set()
    for cut in range(count):
        for seed in range(20):
            fs = CrashFileSystem(seed)
            durable(fs, "/f", b"old")
            fs.crash_after(cut)
            with pytest.raises(PowerCut):
                save(fs)
            fs.power_cut()
            found.add((cut, fs.read("/f")))

    assert count == 5
    assert {cut for cut, data in found if data == b"new"} == {3, 4}
    assert {cut for cut, data in found if data == b"old"} == {0, 1, 2, 3, 4}


def contents(fs: CrashFileSystem) -> dict[str, bytes | None]:
    """Return the files at the root, and its directories as None."""
    paths = sorted(f"/{name}" for name in fs.list("/"))
    return {path: None if fs.stat(path).is_directory else fs.read(path) for path in paths}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda fs: fs.write("/new", b"ab"), id="write"),
        pytest.param(lambda fs: fs.open("/new", "x"), id="open"),
        pytest.param(lambda fs: fs.open("/f", "w").pwrite(b"ab", 0), id="pwrite"),
        pytest.param(lambda fs: fs.open("/f", "w").truncate(1), id="truncate"),
        pytest.param(lambda fs: fs.rename("/f", "/new"), id="rename"),
        pytest.param(lambda fs: fs.make_directory("/new"), id="make_directory"),
        pytest.param(lambda fs: fs.lock("/new"), id="lock"),
        pytest.param(lambda fs: fs.delete("/f"), id="delete"),
    ],
)
def test_the_power_fails_in_the_operation_that_is_planned(
    change: Callable[[CrashFileSystem], object],
) -> None:
    """It has its effect on the disk, and its caller never learns of it."""
    fs, without = CrashFileSystem(), CrashFileSystem()
    for each in (fs, without):
        durable(each, "/f", b"old")
    change(without)

    fs.crash_after(0)
    with pytest.raises(PowerCut):
        change(fs)
    fs.power_cut("all")

    assert contents(fs) == contents(without)


def test_after_a_power_failure_nothing_works() -> None:
    """Clean-up code of the dead program can neither read nor change anything."""
    fs = CrashFileSystem()
    fs.write("/f", b"ab")
    file = fs.open("/f", "w")
    fs.crash_after(0)
    with pytest.raises(PowerCut):
        fs.sync_directory("/")

    for use in (lambda: fs.delete("/f"), lambda: fs.exists("/f"), file.size, file.close):
        with pytest.raises(PowerCut):
            use()

    fs.power_cut()
    fs.write("/f", b"cd")
    assert fs.read("/f") == b"cd"


def test_no_except_clause_of_a_program_catches_a_power_cut() -> None:
    """A power cut is not an Exception."""
    assert not issubclass(PowerCut, Exception)


def test_a_listing_has_no_order() -> None:
    """A program that relies on sorted names is exposed."""
    fs = CrashFileSystem(1)
    for n in range(9):
        fs.write(f"/{n}", b"")

    assert sorted(fs.list("/")) == [str(n) for n in range(9)]
    assert fs.list("/") != sorted(fs.list("/"))


def test_modification_times_come_from_the_clock() -> None:
    """A write sets the file's time to that of the clock."""
    clock = ManualClock(start_ms=1_000)
    fs = CrashFileSystem(clock=clock)
    fs.write("/f", b"")
    clock.advance(5)

    with closing(fs.open("/f", "w")) as file:
        file.pwrite(b"a", 0)

    assert fs.stat("/f").mtime_ms == 1_005


@pytest.mark.parametrize(("kept", "expected"), [("all", b"synced, not"), ("none", b"synced")])
def test_a_test_can_choose_what_a_power_cut_leaves(kept: Kept, expected: bytes) -> None:
    """Everything, as when only the process ends, or only what was synced."""
    fs = CrashFileSystem()
    file = fs.open("/file", "x")
    file.pwrite(b"synced", 0)
    file.sync()
    fs.sync_directory("/")
    file.pwrite(b", not", 6)
    fs.write("/other", b"")

    fs.power_cut(kept)

    assert fs.read("/file") == expected
    assert fs.exists("/other") == (kept == "all")


def test_a_fault_can_skip_operations() -> None:
    """A test can thus make each of many similar operations fail."""
    fs = CrashFileSystem()
    fs.fail("write", "/file", OSError(errno.EIO, "broken"), skipped=1)

    fs.write("/file", b"first")

    with pytest.raises(OSError, match="broken"):
        fs.write("/file", b"second")
    fs.write("/file", b"third")


def test_a_copy_has_a_disk_of_its_own() -> None:
    """With the bytes, names and unsynced changes of the original, and nothing of what follows."""
    fs = CrashFileSystem()
    durable(fs, "/f", b"synced")
    fs.write("/g", b"not synced")
    copy = fs.copied(1, clock=ManualClock())
    fs.write("/h", b"later")
    seen = copy.read("/f"), copy.read("/g"), copy.exists("/h")
    copy.power_cut("none")

    assert seen == (b"synced", b"not synced", False)
    assert (copy.read("/f"), copy.exists("/g"), fs.exists("/g")) == (b"synced", False, True)


def test_zeros_at_the_end_of_a_file_take_no_memory() -> None:
    """A preallocated index ends in zeros, and each of a thousand partitions has two."""
    fs, size = CrashFileSystem(), 1 << 50
    with closing(fs.open("/f", "w")) as file:
        file.pwrite(b"ab", 0)
        file.truncate(size)
        file.sync()
    fs.sync_directory("/")
    fs.power_cut()

    with closing(fs.open("/f")) as file:
        assert (file.size(), file.pread(4, 0), file.pread(4, size - 2)) == (
            size,
            b"ab\0\0",
            b"\0\0",
        )
