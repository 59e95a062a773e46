"""Objects on a store: what is asked for is what comes, or a typed error."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.machinery.object_server import BUCKET, ENVIRONMENT, Fault, ObjectServer

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    ForkedProcess,
    InvalidArgument,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from tidelog.store import object_store
from tidelog.store.object_store import PART_BYTES, ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidelog.store.objects import ObjectInfo


def put_bytes(store: ObjectStore, name: str, data: bytes) -> ObjectInfo:
    """Put an object in pieces of some bytes."""
    pieces = (data[start : start + 1000] for start in range(0, len(data), 1000))
    return store.put(name, pieces, len(data))


def test_objects_are_put_read_listed_and_deleted(store: ObjectStore) -> None:
    """Names are relative to the prefix; lists are in the order of names."""
    for name in ("b/2", "b/10", "a", "b/1", "bc"):
        put = put_bytes(store, name, name.encode() * 10)
        assert (put.name, put.size_bytes) == (name, len(name) * 10)
        assert store.head(name) == put
        assert abs(put.modified_ms / 1000 - time.time()) < 100

    assert store.get("b/10") == b"b/10" * 10
    assert [found.name for found in store.list()] == ["a", "b/1", "b/10", "b/2", "bc"]
    assert [found.name for found in store.list("b")] == ["b/1", "b/10", "b/2"]
    assert [found.name for found in store.list("b", after="b/10")] == ["b/2"]
    assert [*store.list("none")] == []
    assert store.directories() == ["b"]
    assert store.directories("b") == store.directories("none") == []
    for _ in range(2):
        store.delete("b/1")
    assert store.head("b/1") is None
    with pytest.raises(ObjectNotFound, match="b/1"):
        store.get("b/1")


def test_long_lists_come_in_pages(s3: ObjectStore, server: ObjectServer) -> None:
    """A store gives at most a thousand names at a time."""
    for number in range(2_300):
        server.put(f"some/prefix/l/{number:05}", b"x")

    names = [found.name for found in s3.list("l")]

    assert names == [f"l/{number:05}" for number in range(2_300)]
    assert len(server.requests) == 3


def test_an_object_is_created_once(store: ObjectStore) -> None:
    """Of many that try at once one succeeds, and knows it."""
    outcomes: dict[int, bool] = {}

    def create(number: int) -> None:
        outcomes[number] = store.create("m/1", b"by %d" % number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = [number for number, is_ours in outcomes.items() if is_ours]
    assert store.get("m/1") == b"by %d" % winner
    assert store.create("m/1", b"late") is False


def test_ranges_are_exact(store: ObjectStore) -> None:
    """One beyond the end is an error, where the library returns less; so is one at the end."""
    data = os.urandom(5000)
    put_bytes(store, "x", data)

    assert store.get_ranges("x", [(0, 10), (40, 40), (4000, 5000)]) == [
        data[:10],
        b"",
        data[4000:],
    ]
    assert store.get_ranges("x", [(0, 5000)]) == [data]
    for start, end in ((4990, 5001), (5000, 5001), (9000, 9001)):
        with pytest.raises(StoreError, match="asked for"):
            store.get_ranges("x", [(start, end)])
    for start, end in ((-1, 5), (5, 4)):
        with pytest.raises(InvalidArgument):
            store.get_ranges("x", [(start, end)])
    with pytest.raises(ObjectNotFound):
        store.get_ranges("y", [(0, 1)])


def test_near_ranges_are_one_request(s3: ObjectStore, server: ObjectServer) -> None:
    """Those with a gap of less than a MiB."""
    put_bytes(s3, "x", bytes(5 << 20))
    server.requests.clear()

    s3.get_ranges("x", [(0, 10), (1000, 2000), (4 << 20, (4 << 20) + 5)])

    assert len(server.requests) == 2


def test_a_large_object_is_put_in_parts(
    s3: ObjectStore, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with the time of a request; no upload is left open."""
    monkeypatch.setattr(object_store, "PART_BYTES", 400_000)
    data = os.urandom(1_300_000)
    server.faults.append(Fault("503", "PUT", "large"))

    put_bytes(s3, "large", data)

    assert server.objects["some/prefix/large"].data == data
    assert sum("partNumber" in request for request in server.requests) == 5
    assert server.uploads == {}


LOST = ["drop after", "500 after", "503", "409", "drop before"]


@pytest.mark.parametrize("kind", LOST)
@pytest.mark.parametrize("times", [1, 3])
def test_a_creation_whose_answer_is_lost_is_known_to_be_ours(
    s3: ObjectStore, server: ObjectServer, kind: str, times: int
) -> None:
    """By reading it: the library would report it as existing, or give up."""
    server.faults += [Fault(kind, "PUT")] * times

    assert s3.create("m/1", b"ours") is True
    assert s3.create("m/1", b"theirs") is False
    assert s3.get("m/1") == b"ours"


@pytest.mark.parametrize("kind", LOST)
def test_a_creation_that_is_too_late_is_known_to_be_theirs(
    s3: ObjectStore, server: ObjectServer, kind: str
) -> None:
    """Also where its answer is lost."""
    s3.create("m/1", b"theirs")
    server.faults.append(Fault(kind, "PUT"))

    assert s3.create("m/1", b"ours") is False


def test_a_creation_that_the_store_carries_out_late_is_ours(
    s3: ObjectStore, server: ObjectServer
) -> None:
    """Its answer is lost, the repeat is first, and the late one changes nothing."""
    server.faults.append(Fault("late", "PUT", seconds=0.4))

    assert s3.create("m/1", b"ours") is True
    wait = threading.Timer(0.5, lambda: None)
    wait.start()
    wait.join()
    assert s3.get("m/1") == b"ours"


def test_an_unknown_outcome_is_an_error(s3: ObjectStore, server: ObjectServer) -> None:
    """Never a creation given up without a word."""
    server.choose = lambda *_: Fault("503")

    with pytest.raises(
        StoreUnavailable, match=f"whether s3://{BUCKET}/some/prefix/m/1 was created"
    ):
        s3.create("m/1", b"ours")


@pytest.mark.parametrize("kind", ["503", "truncate", "drop after", "drop before"])
def test_reads_are_tried_again(s3: ObjectStore, server: ObjectServer, kind: str) -> None:
    """A short answer is none."""
    data = os.urandom(10_000)
    put_bytes(s3, "x", data)
    server.faults.append(Fault(kind, "GET"))

    assert s3.get("x") == data
    server.faults.append(Fault(kind, "GET"))
    assert s3.get_ranges("x", [(5, 9_000)]) == [data[5:9_000]]


def test_a_store_that_is_away_for_a_moment_is_waited_for(server: ObjectServer) -> None:
    """As while it is restarted: it refuses more than a few attempts."""
    store = ObjectStore(f"s3://{BUCKET}/some/prefix", server.options)
    put_bytes(store, "x", b"1")
    server.faults += [Fault("503", "GET")] * 7

    assert store.get("x") == b"1"
    assert not server.faults


def test_a_store_that_does_not_answer_is_an_error_in_time(
    s3: ObjectStore, server: ObjectServer
) -> None:
    """After the time of its attempts."""
    put_bytes(s3, "x", b"1")
    server.choose = lambda *_: Fault("stall", seconds=1)
    start = time.monotonic()

    with pytest.raises(StoreUnavailable):
        s3.get("x")
    assert time.monotonic() - start < 20


def test_a_refusal_is_not_tried_again(s3: ObjectStore, server: ObjectServer) -> None:
    """It names the object, and no credentials."""
    server.choose = lambda *_: Fault("403")

    with pytest.raises(StoreError, match=f"s3://{BUCKET}/some/prefix/x") as caught:
        s3.get("x")
    assert not isinstance(caught.value, StoreUnavailable)
    assert len(server.requests) == 1
    assert not any(word in str(caught.value) for word in ENVIRONMENT.values())


@pytest.mark.parametrize("kind", ["401", "403"])
def test_a_refused_list_is_no_store_that_is_away(
    s3: ObjectStore, server: ObjectServer, kind: str
) -> None:
    """The library raises the same error as for a store that fails."""
    for look in (s3.directories, lambda: [*s3.list()]):
        server.requests.clear()
        server.faults.append(Fault(kind))

        with pytest.raises(StoreError, match=kind) as caught:
            look()

        assert type(caught.value) is StoreError
        assert len(server.requests) == 1


def test_an_object_of_another_size_than_was_put_is_an_error(
    s3: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a store has kept is looked at again."""
    keep = ObjectServer.put
    monkeypatch.setattr(ObjectServer, "put", lambda it, name, data: keep(it, name, data[:-1]))

    with pytest.raises(StoreError, match="has 4 bytes after 5 were put"):
        put_bytes(s3, "x", b"12345")


def test_a_library_that_is_not_installed_is_named(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extra that installs it."""
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(StoreError, match=r"tidelog\[store\]"):
        store.get("x")


def test_credentials_do_not_travel(s3: ObjectStore) -> None:
    """Neither in pickles nor in texts; each process finds them itself."""
    put_bytes(s3, "x", b"1")
    pickled = pickle.dumps(s3)

    assert pickle.loads(pickled).get("x") == b"1"
    for value in ENVIRONMENT.values():
        assert value.encode() not in pickled
        assert value not in repr(s3) + str(s3.uri) + str(s3.options)


def test_a_store_is_found_by_options_in_the_environment(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is, and which variables hold its credentials; an error names one that is missing."""
    options = {"access_key_id_from": "LAKE_ID", "secret_access_key_from": "LAKE_WORD"}
    stores = {f"s3://{BUCKET}": {**server.options, **options}}
    monkeypatch.setenv("TIDELOG_STORES", json.dumps(stores))
    for name in ENVIRONMENT:
        monkeypatch.delenv(name)
    with pytest.raises(StoreError, match="LAKE_ID is not set"):
        ObjectStore(f"s3://{BUCKET}/x").get("a")
    monkeypatch.setenv("LAKE_ID", "an id")
    monkeypatch.setenv("LAKE_WORD", "a hidden word")

    store = ObjectStore(f"s3://{BUCKET}/x")
    store.put("a", [b"data"], 4)

    assert store.get("a") == b"data"
    assert b"hidden" not in pickle.dumps(store)
    assert pickle.loads(pickle.dumps(store)).get("a") == b"data"


def test_an_interrupt_ends_a_wait_at_once(s3: ObjectStore, server: ObjectServer) -> None:
    """The library would hear it only after its time-out."""
    server.choose = lambda *_: Fault("stall", seconds=5)
    wait = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    wait.start()
    start = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        s3.get("x")
    assert time.monotonic() - start < 3
    wait.join()


def test_requests_that_are_given_up_end_at_once(s3: ObjectStore, server: ObjectServer) -> None:
    """The later ones, too, and the parts of an object; the store may still do what was asked."""
    server.faults = [Fault("stall", seconds=1.0)]
    threading.Timer(0.2, s3.give_up).start()
    start = time.monotonic()

    with pytest.raises(StoreUnavailable, match=r"whether .*x was created is unknown: .* given up"):
        s3.create("x", b"1")
    with pytest.raises(StoreUnavailable, match="was given up, since the service stops"):
        s3.head("x")
    assert time.monotonic() - start < 0.9
    while not server.objects:
        threading.Event().wait(0.01)
    assert [kept.data for kept in server.objects.values()] == [b"1"]


def test_no_further_part_is_read_of_an_object_that_is_given_up(
    s3: ObjectStore, server: ObjectServer
) -> None:
    """Else the library would send a whole segment after all is closed."""
    read: list[int] = []

    def parts() -> Iterator[bytes]:
        for number in range(20):
            if number == 1:
                s3.give_up()
            read.append(number)
            yield bytes(PART_BYTES)

    with pytest.raises(StoreUnavailable, match="given up"):
        s3.put("x", parts(), 20 * PART_BYTES)
    threading.Event().wait(0.3)
    assert read == [0, 1]
    assert not server.objects


def test_a_forked_child_is_refused(store: ObjectStore) -> None:
    """The library hangs there, even with a store of its own."""
    put_bytes(store, "x", b"1")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        for again in (store, ObjectStore(store.uri, store.options)):
            try:
                again.get("x")
            except ForkedProcess as error:
                os.write(write, str(error.pid).encode() + b"\n")
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 100).split() == [str(os.getpid()).encode()] * 2
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("name", ["../x", "a/../b", "/a", "a//b", "a/", "a\n", ".", "\x00"])
def test_names_that_lead_elsewhere_are_refused(store: ObjectStore, name: str) -> None:
    """Before anything is asked; names may come from a store."""
    for ask in (store.get, store.delete, store.head, lambda one: put_bytes(store, one, b"")):
        with pytest.raises(InvalidArgument):
            ask(name)


def test_a_creation_that_was_not_made_durable_is_when_it_is_repeated(tmp_path: Path) -> None:
    """It is found to be ours; the sync that failed is still owed."""
    store = ObjectStore(tmp_path.as_uri())
    synced: list[str] = []

    def fail(_: object, path: str) -> None:
        raise OSError(errno.EIO, "the disk failed", path)

    files = type(SYSTEM_FILES)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "sync_directory", fail)
        with pytest.raises(StoreUnavailable, match="the disk failed"):
            store.create("a", b"1")
        patched.setattr(files, "sync_directory", lambda _, path: synced.append(path))
        assert store.create("a", b"1") is True

    assert synced == [str(tmp_path)]


def test_what_is_put_into_a_directory_is_durable(tmp_path: Path) -> None:
    """The library syncs nothing."""
    store = ObjectStore(tmp_path.as_uri())
    synced: list[str] = []
    files = SYSTEM_FILES
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(files), "sync_directory", lambda _, path: synced.append(path))
        store.create("a/b", b"1")
        put_bytes(store, "a/c", b"1")

    assert synced == [str(tmp_path / "a"), str(tmp_path)] * 2
