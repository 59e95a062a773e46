"""A server that speaks as much of S3 as tests need, and fails in the ways that stores do.

It answers on 127.0.0.1 and keeps its objects in memory. Conditional creation, ranges, lists and
uploads in parts are as S3 documents them; ``moto`` and S3Proxy answer the same tests.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUCKET = "lake"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "a secret word"}


class Kept(NamedTuple):
    """An object."""

    data: bytes
    etag: str
    modified: float


class Fault(NamedTuple):
    """What happens to the next request of ``method`` whose path holds ``part``.

    ``kind``: ``503``, ``409``, ``403``, ``401``; ``500 after`` and ``drop after`` do what is asked
    and lose the answer; ``drop before`` does nothing; ``truncate`` sends half of the answer;
    ``stall`` sends none for ``seconds``; ``late`` loses the answer and does what is asked after
    ``seconds``.
    """

    kind: str
    method: str = ""
    part: str = ""
    seconds: float = 0.0


class ObjectServer:
    """The objects of one bucket, the requests that came, and the faults to come."""

    def __init__(self) -> None:
        self.objects: dict[str, Kept] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.lock = threading.RLock()
        self.choose: Callable[[str, str], Fault | None] | None = None
        self.endpoint = ""

    @property
    def options(self) -> dict[str, str]:
        """The options with which a client finds the bucket."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "allow_http": "true",
            "virtual_hosted_style_request": "false",
        }

    def next_fault(self, method: str, path: str) -> Fault | None:
        """Take the fault of a request."""
        with self.lock:
            if self.choose is not None:
                return self.choose(method, path)
            for fault in self.faults:
                if fault.method in {"", method} and fault.part in path:
                    self.faults.remove(fault)
                    return fault
        return None

    def put(self, name: str, data: bytes) -> str:
        """Keep an object."""
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        self.objects[name] = Kept(data, etag, time.time())
        return etag


def _row(key: str, kept: Kept) -> str:
    """Return an object's part of a list."""
    modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(kept.modified))
    return (
        f"<Contents><Key>{escape(key)}</Key><Size>{len(kept.data)}</Size>"
        f"<ETag>{escape(kept.etag)}</ETag><LastModified>{modified}</LastModified></Contents>"
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: ObjectServer

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def handle_one(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        parts = urlsplit(self.path)
        name = unquote(parts.path).removeprefix(f"/{BUCKET}").lstrip("/")
        query = {key: values[0] for key, values in parse_qs(parts.query, True).items()}
        self.store.requests.append(
            f"{self.command} {name}{'?' + parts.query if parts.query else ''}"
        )
        fault = self.store.next_fault(self.command, name)
        kind = "" if fault is None else fault.kind
        if kind in {"503", "409", "403", "401"}:
            self.send(int(kind), b"<Error><Code>Fault</Code></Error>")
            return
        if fault is not None and kind == "stall":
            threading.Event().wait(fault.seconds)
        if kind == "drop before":
            self.close_connection = True
            return
        if fault is not None and kind == "late":
            late = threading.Timer(fault.seconds, self.answer, (name, query, body))
            late.daemon = True
            late.start()
            self.close_connection = True
            return
        status, data, headers = self.answer(name, query, body)
        if kind == "drop after":
            self.close_connection = True
        elif kind == "500 after":
            self.send(500, b"")
        else:
            self.send(status, data, headers, is_cut=kind == "truncate")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one

    def send(
        self,
        status: int,
        data: bytes,
        headers: dict[str, str] | None = None,
        *,
        is_cut: bool = False,
    ) -> None:
        given = headers or {}
        self.send_response(status)
        for key, value in given.items():
            self.send_header(key, value)
        if "Content-Length" not in given:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if is_cut else data)
        if is_cut:
            self.close_connection = True

    def answer(
        self, name: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        store = self.store
        with store.lock:
            if self.command == "PUT" and "uploadId" in query:
                store.uploads[query["uploadId"]][int(query["partNumber"])] = body
                etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
                return 200, b"", {"ETag": f'"{etag}"'}
            if self.command == "PUT":
                if self.headers.get("If-None-Match") == "*" and name in store.objects:
                    return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
                return 200, b"", {"ETag": store.put(name, body)}
            if self.command == "POST":
                return self.posted(name, query, body)
            if self.command == "DELETE":
                store.objects.pop(name, None)
                store.uploads.pop(query.get("uploadId", ""), None)
                return 204, b"", {}
            if "list-type" in query:
                return 200, self.listed(query), {}
            return self.got(name)

    def posted(
        self, name: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        store = self.store
        if "delete" in query:
            keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", body.decode())]
            for key in keys:
                store.objects.pop(key, None)
            gone = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
            return 200, f"<DeleteResult>{gone}</DeleteResult>".encode(), {}
        if "uploads" in query:
            upload = f"u{len(store.requests)}"
            store.uploads[upload] = {}
            text = (
                "<InitiateMultipartUploadResult>"
                f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            )
            return 200, text.encode(), {}
        parts = store.uploads.pop(query["uploadId"])
        etag = store.put(name, b"".join(parts[number] for number in sorted(parts)))
        tag = f"<ETag>{escape(etag)}</ETag>"
        text = f"<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>"
        return 200, text.encode(), {}

    def listed(self, query: dict[str, str]) -> bytes:
        prefix, most = query.get("prefix", ""), int(query.get("max-keys", 1000))
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        found = sorted(key for key in self.store.objects if key.startswith(prefix) and key > after)
        if "delimiter" in query:
            names = {
                key.removeprefix(prefix).partition("/")[0]
                for key in found
                if "/" in key[len(prefix) :]
            }
            rows = "".join(
                f"<CommonPrefixes><Prefix>{escape(prefix + name)}/</Prefix></CommonPrefixes>"
                for name in sorted(names)
            )
            return f"<ListBucketResult>{rows}</ListBucketResult>".encode()
        page = found[:most]
        rows = "".join(_row(key, self.store.objects[key]) for key in page)
        more = (
            f"<NextContinuationToken>{escape(quote(page[-1]))}</NextContinuationToken>"
            if len(found) > most
            else ""
        )
        return f"<ListBucketResult>{rows}{more}</ListBucketResult>".encode()

    def got(self, name: str) -> tuple[int, bytes, dict[str, str]]:
        kept = self.store.objects.get(name)
        if kept is None:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        headers = {"ETag": kept.etag, "Last-Modified": formatdate(kept.modified, usegmt=True)}
        if self.command == "HEAD":
            return 200, b"", headers | {"Content-Length": str(len(kept.data))}
        wanted = self.headers.get("Range")
        if wanted is None:
            return 200, kept.data, headers
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(kept.data)) + 1, len(kept.data))
        if start >= len(kept.data):
            return 416, b"<Error><Code>InvalidRange</Code></Error>", {}
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(kept.data)}"
        return 206, kept.data[start:end], headers


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    """Run a server."""
    store = ObjectServer()
    handler = type("Handler", (_Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    store.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
