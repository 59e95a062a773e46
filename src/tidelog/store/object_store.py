"""Objects under one prefix of a store; the only importer of ``obstore``.

What was seen of that library, and is mended here: it repeats a creation whose answer was lost, and
then reports its own object as existing; a range past the end comes back short; it hangs in a child
of a process that used it; its stores carry credentials when pickled; and a signal is not handled
while it waits.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    ForkedProcess,
    InvalidArgument,
    ObjectNotFound,
    StoreError,
    StoreNotInstalled,
    StoreUnavailable,
)
from tidelog.lazy import lacking
from tidelog.store.objects import ObjectInfo
from tidelog.store.store_counts import STORE_COUNTS
from tidelog.store.store_uri import (
    AZURE,
    ENDPOINT_VARIABLES,
    FILES,
    FROM,
    S3,
    StoreUri,
    check_options,
    credentials_advice,
    local_path,
    options_of,
    parse_store_uri,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")

PART_BYTES: Final = 16 << 20
"""Larger objects are put in parts of this size."""
PARTS_AT_ONCE: Final = 4
DEFAULT_TIMEOUT_MS: Final = 30_000
"""Of one request, and so of one part."""
DEFAULT_RETRY_TIMEOUT_MS: Final = 60_000
"""From the first attempt of a request to the last one."""
MAX_RETRIES: Final = 10
"""Of one request: some seven seconds where the store refuses all of them."""
CREATE_ATTEMPTS: Final = 5
"""How often a creation is sent whose outcome is unknown."""
MAX_GAP_BYTES: Final = 1 << 20
"""Ranges with a smaller gap are read as one."""

_ROLES_HOST: Final = "169.254.169.254"
"""Asked for credentials where the environment has none; only machines of a cloud have it."""

_LISTED_AT_ONCE: Final = 1000
"""Names in the answer to a request, as stores send them."""
_NO_CREDENTIALS: Final = ("Missing AccessKeyId", "Missing SecretAccessKey")
"""What the library says of an environment with one half of them."""

_REFUSALS: Final = ("401 Unauthorized", "403 Forbidden")
"""Of a list these come as a general error, unlike those of an object."""

_used_by: dict[str, int] = {}


class ObjectStore:
    """The objects under a prefix; any thread may use it.

    Args:
        uri: as for ``parse_store_uri``.
        options: how to find the store, by name, without credentials: ``endpoint``, ``region`` and
            others of ``store_uri``; ``timeout_ms`` of one request and ``retry_timeout_ms`` of all
            its attempts; as ``access_key_id_from`` the variable of the environment that holds a
            credential. None: those of ``options_of``.

    Methods raise StoreUnavailable where the store does not answer in time, StoreError where it
    refuses, and ForkedProcess in a child of a process that used a store.
    """

    def __init__(self, uri: str | StoreUri, options: Mapping[str, str] | None = None) -> None:
        self.uri: Final = parse_store_uri(uri) if isinstance(uri, str) else uri
        known = options_of(self.uri, os.environ) if options is None else options
        self.options: Final = dict(known)
        check_options(self.uri.kind, self.options)
        self._store: Any = None
        self._is_given_up = False
        self._waiting: set[SimpleQueue[Any]] = set()
        """Where each request that was sent waits for its answer; ``_lock`` guards what enters."""
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Its URI."""
        return str(self.uri)

    def __repr__(self) -> str:
        return f"<ObjectStore {self.uri}>"

    def __reduce__(self) -> tuple[type[ObjectStore], tuple[str, dict[str, str]]]:
        return ObjectStore, (str(self.uri), self.options)

    def get(self, name: str) -> bytes:
        """Return a whole object; ObjectNotFound if there is none."""
        STORE_COUNTS.add("get")
        data = self._asked(name, lambda store, obstore: bytes(obstore.get(store, name).bytes()))
        STORE_COUNTS.add("get", len(data), requests=0)
        return data

    def head(self, name: str) -> ObjectInfo | None:
        """Return what is known of an object; None if there is none."""
        STORE_COUNTS.add("head")
        try:
            found = self._asked(name, lambda store, obstore: obstore.head(store, name))
        except ObjectNotFound:
            return None
        return _info(found)

    def get_ranges(
        self, name: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        """Return several ranges ``[start, end)``, those with small gaps by one request.

        They are views of the memory in which the library has received them.

        Raises ObjectNotFound, and StoreError if the object is shorter.
        """
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidArgument(f"bytes {start} to {end} are not a range")
        wanted = [(start, end) for start, end in ranges if start < end]
        if not wanted:
            return [b"" for _ in ranges]
        starts, ends = zip(*wanted, strict=True)
        STORE_COUNTS.add("get", sum(ends) - sum(starts), requests=_joined_ranges(wanted))
        try:
            answer = self._asked(
                name,
                lambda store, obstore: obstore.get_ranges(
                    store, name, starts=starts, ends=ends, coalesce=MAX_GAP_BYTES
                ),
            )
        except StoreUnavailable:
            self._check_size(name, max(ends))  # a range beyond the end has an error of ours
            raise
        found = iter(answer)
        pieces = [memoryview(next(found)) if start < end else b"" for start, end in ranges]
        for (start, end), piece in zip(ranges, pieces, strict=True):
            if len(piece) != end - start:
                raise StoreError(
                    f"{self._place(name)} has {len(piece)} bytes from byte {start} on, of"
                    f" {end - start} that were asked for"
                )
        return pieces

    def _check_size(self, name: str, end: int) -> None:
        found = self.head(name)
        if found is not None and found.size_bytes < end:
            raise StoreError(
                f"{self._place(name)} has {found.size_bytes} bytes, of {end} that were asked for"
            )

    def create(self, name: str, data: bytes) -> bool:
        """Create an object unless there is one of this name; return whether it is ours.

        Whether it was created is decided by reading it: ``data`` must be unlike that of anybody
        else, as with a random number in it. Nothing is given up whose outcome is unknown.

        Raises:
            StoreUnavailable: the store answered neither; the object may be there, or come later.
        """
        problem: StoreError | None = None
        for _ in range(CREATE_ATTEMPTS):
            STORE_COUNTS.add("put", len(data))
            try:
                self._asked(
                    name,
                    lambda store, obstore: obstore.put(
                        store, name, data, mode="create", use_multipart=False
                    ),
                    makes=True,
                )
            except _AlreadyThere:
                pass
            except ObjectNotFound:
                raise self._no_container() from None
            except StoreError as error:
                problem = self._as_doubt(error)
            else:
                self._make_durable(name)
                return True
            # The answer may have been lost, and the library have sent the object twice; or an
            # earlier attempt created it, and failed to make it durable.
            try:
                is_ours = self.get(name) == data
            except ObjectNotFound as gone:
                problem = problem or gone
            except StoreUnavailable as error:
                problem = error
                break  # it has been away for all attempts of a read
            else:
                if is_ours:
                    self._make_durable(name)
                return is_ours
        raise StoreUnavailable(f"whether {self._place(name)} was created is unknown: {problem}")

    def put(self, name: str, parts: Iterable[bytes], size_bytes: int) -> ObjectInfo:
        """Write an object of a name that nobody else uses; return it as the store has it.

        One of more than ``PART_BYTES`` is not held in memory as a whole: it is put in parts,
        each with the time of a request. ``parts`` are read once; after an error they are put under
        another name.

        Raises StoreError if the store then has an object of another size.
        """
        is_large = size_bytes > PART_BYTES
        data = self._until_given_up(parts) if is_large else b"".join(parts)
        # One of several parts is begun and completed by a request each.
        requests = -(-size_bytes // PART_BYTES) + 2 if is_large else 1
        STORE_COUNTS.add("put", size_bytes, requests)
        try:
            self._asked(
                name,
                lambda store, obstore: obstore.put(
                    store,
                    name,
                    data,
                    use_multipart=is_large,
                    chunk_size=PART_BYTES,
                    max_concurrency=PARTS_AT_ONCE,
                ),
                makes=True,
            )
        except ObjectNotFound:
            raise self._no_container() from None
        self._make_durable(name)
        found = self.head(name)
        if found is None or found.size_bytes != size_bytes:
            size = "no bytes" if found is None else f"{found.size_bytes} bytes"
            raise StoreError(f"{self._place(name)} has {size} after {size_bytes} were put")
        return found

    def delete(self, name: str) -> None:
        """Delete an object; nothing happens if there is none."""
        STORE_COUNTS.add("delete")
        with suppress(ObjectNotFound):
            self._asked(name, lambda store, obstore: obstore.delete(store, name))

    def directories(self, prefix: str = "") -> list[str]:
        """Return the names of the directories in a directory, in order."""
        STORE_COUNTS.add("list")
        try:
            found = self._asked(
                prefix, lambda store, obstore: obstore.list_with_delimiter(store, prefix or None)
            )
        except ObjectNotFound:  # of files
            return []
        return sorted(name.rstrip("/").rpartition("/")[2] for name in found["common_prefixes"])

    def list(self, prefix: str = "", after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield the objects whose names begin with a directory ``prefix``, in order of names.

        ``after``: only those with greater names.
        """

        def listed(store: Any, obstore: Any) -> Any:  # noqa: ANN401 - the library has no such types
            return iter(obstore.list(store, prefix or None, offset=after))

        try:
            pages = self._asked(prefix, listed)
        except ObjectNotFound:  # of files
            return
        found: list[ObjectInfo] = []
        count = 0
        while page := self._asked(prefix, lambda _store, _obstore: next(pages, None)):
            STORE_COUNTS.add("list", requests=_lists_of(count + len(page)) - _lists_of(count))
            count += len(page)
            found += map(_info, page)
            if self.uri.kind != FILES:  # whose names come in no order
                yield from found
                found = []
        yield from sorted(found)

    def _make_durable(self, name: str) -> None:
        """Sync a file and the directories above it: the library leaves that to the system."""
        if self.uri.kind != FILES:
            return
        path = os.path.join(local_path(self.uri), name)
        try:
            with closing(SYSTEM_FILES.open(path, "r+")) as file:
                file.sync()
            for _ in name.split("/"):
                path = os.path.dirname(path)
                SYSTEM_FILES.sync_directory(path)
        except OSError as error:
            raise StoreUnavailable(f"{self._place(name)}: {_reason(error)}") from error

    # How the library is called

    def _asked(self, name: str, ask: Callable[[Any, Any], T], *, makes: bool = False) -> T:
        """Return what the library answers, asked by another thread, which it may keep for long.

        ``makes``: make the directory of a store of files if it is missing.
        """
        self._check_name(name)
        self._check_process()
        answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

        def run() -> None:
            try:
                answers.put((self._answer(name, ask, makes=makes), None))
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
                answers.put((None, error))

        try:
            with self._lock:  # else ``give_up`` might come in between, and wake nobody
                if self._is_given_up:
                    raise self._given_up()
                self._waiting.add(answers)
            # Python handles a signal in the main thread, once the library returns: not in 30 s.
            threading.Thread(target=run, name="tidelog-store", daemon=True).start()  # noqa: TID251 - one that is left behind ends with its request
            answer, error = answers.get()
        finally:
            self._waiting.discard(answers)
        if error is not None:
            raise error
        return cast("T", answer)

    def give_up(self) -> None:
        """Let requests that have no answer yet, and all later ones, fail with StoreUnavailable.

        The store may still carry such a request out, as after a kill of the process: the error does
        not mean that it has not.
        """
        with self._lock:
            self._is_given_up = True
            for answers in list(self._waiting):
                answers.put((None, self._given_up()))

    def _until_given_up(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            if self._is_given_up:  # else the library would read and send all of them
                raise self._given_up()
            yield part

    def _given_up(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self.uri}: the request was given up, since the service stops")

    def _answer(self, name: str, ask: Callable[[Any, Any], T], *, makes: bool) -> T:
        try:
            import obstore  # noqa: PLC0415 - an extra, and its threads are for this process alone
        except ModuleNotFoundError as error:
            raise StoreNotInstalled(lacking(error, "store")) from None
        with self._lock:
            if self._store is None:
                self._store = self._opened(makes=makes)
        with self._typed(name):
            return ask(self._store, obstore)

    def _opened(self, *, makes: bool) -> Any:  # noqa: ANN401 - the library's stores have no common type
        from obstore import store as stores  # noqa: PLC0415 - as above
        from obstore.exceptions import BaseError  # noqa: PLC0415 - as above

        kind, container, prefix = self.uri
        plain = {name: one for name, one in self.options.items() if not name.endswith(FROM)}
        given = plain | self._credentials()
        timeout_ms = int(given.pop("timeout_ms", DEFAULT_TIMEOUT_MS))
        retry_ms = int(given.pop("retry_timeout_ms", DEFAULT_RETRY_TIMEOUT_MS))
        client = {
            "timeout": timedelta(milliseconds=timeout_ms),
            "connect_timeout": timedelta(milliseconds=min(timeout_ms, 5_000)),
            "allow_http": given.pop("allow_http", str(_is_plain(kind, given)).lower()) == "true",
        }
        retry = {
            "max_retries": MAX_RETRIES,
            "backoff": {
                # Each wait is drawn between the first one and twice the last one: they grow by
                # half the first one each. Shorter ones would not outlive a restart of the store.
                "init_backoff": timedelta(milliseconds=200),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
            "retry_timeout": timedelta(milliseconds=retry_ms),
        }
        try:
            if kind == FILES:
                path = local_path(self.uri)
                if not (makes or SYSTEM_FILES.exists(path)):
                    raise ObjectNotFound(f"{self.uri}: there is no such directory")
                return stores.LocalStore(path, mkdir=True)
            made = {S3: stores.S3Store, AZURE: stores.AzureStore}[kind]
            return made(
                container,
                prefix=prefix or None,
                config=given,
                client_options=client,
                retry_config=retry,
            )
        except (BaseError, OSError) as error:
            if any(what in str(error) for what in _NO_CREDENTIALS):
                raise self._no_credentials() from None
            raise StoreError(f"{self.uri}: {_reason(error)}") from None

    def _credentials(self) -> dict[str, str]:
        """Return the credentials that options name; StoreError for one that is not there."""
        found: dict[str, str] = {}
        for option in [name for name in self.options if name.endswith(FROM)]:
            variable = self.options[option]
            if variable not in os.environ:
                raise StoreError(f"{self.uri}: no credentials were found: {variable} is not set")
            found[option.removesuffix(FROM)] = os.environ[variable]
        return found

    @contextmanager
    def _typed(self, name: str) -> Iterator[None]:
        """Raise the library's errors as ours; their texts may hold whole requests."""
        from obstore import exceptions  # noqa: PLC0415 - as above

        place = self._place(name)
        try:
            yield
        except (exceptions.NotFoundError, FileNotFoundError):
            raise ObjectNotFound(f"{place}: there is no such object") from None
        except exceptions.AlreadyExistsError:
            raise _AlreadyThere(place) from None
        except (
            exceptions.PermissionDeniedError,
            exceptions.UnauthenticatedError,
            exceptions.InvalidPathError,
            exceptions.NotSupportedError,
        ) as error:
            raise StoreError(f"{place}: {_reason(error)}") from None
        except (exceptions.BaseError, OSError) as error:
            if _ROLES_HOST in str(error):
                raise self._no_credentials() from None
            if "404 Not Found" in str(error):
                raise self._no_container() from None
            if any(what in str(error) for what in _REFUSALS):
                raise StoreError(f"{place}: {_reason(error)}") from None
            raise StoreUnavailable(f"{place}: {_reason(error)}") from None

    def _no_credentials(self) -> StoreError:
        advice = credentials_advice(self.uri.kind)
        return StoreError(f"{self.uri}: no credentials were found: {advice}")

    def _as_doubt(self, error: StoreError) -> StoreError:
        """Return the error of a request; raise it if no store was opened that could have got it."""
        if self._store is None:
            raise error
        return error

    def _no_container(self) -> StoreError:
        what = "bucket" if self.uri.kind == S3 else "container"
        return StoreError(f"{self.uri}: there is no {what} {self.uri.container}")

    def _place(self, name: str) -> str:
        return f"{self.uri}/{name}" if name else str(self.uri)

    def _check_name(self, name: str) -> None:
        parts = name.split("/") if name else []
        if any(part in {"", ".", ".."} or not part.isprintable() for part in parts):
            raise InvalidArgument(f"{name!r} is not the name of an object")

    def _check_process(self) -> None:
        first = _used_by.setdefault("pid", os.getpid())
        if first != os.getpid():
            raise ForkedProcess("object store", first)


def _joined_ranges(ranges: Sequence[tuple[int, int]]) -> int:
    """Return by how many requests the library gets ranges of an object."""
    count, last = 0, -MAX_GAP_BYTES - 1
    for start, end in sorted(ranges):
        count += start - last > MAX_GAP_BYTES
        last = max(last, end)
    return count


def _lists_of(objects: int) -> int:
    """Return by how many requests some objects were listed."""
    return -(-objects // _LISTED_AT_ONCE)


def _is_plain(kind: str, options: Mapping[str, str]) -> bool:
    """Return whether an endpoint without TLS is named, which is then meant."""
    named = [options.get("endpoint"), *map(os.environ.get, ENDPOINT_VARIABLES[kind])]
    return next(filter(None, named), "").startswith("http://")


class _AlreadyThere(StoreError):
    """An object of this name exists; never leaves this module."""


def _info(found: Mapping[str, Any]) -> ObjectInfo:
    modified_ms = int(found["last_modified"].timestamp() * 1000)
    return ObjectInfo(found["path"], found["size"], found.get("e_tag") or "", modified_ms)


def _reason(error: BaseException) -> str:
    """Return the first line of an error's text, which says enough."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
