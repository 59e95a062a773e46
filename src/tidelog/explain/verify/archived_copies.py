"""What brings records back from the archive of a log, as the claim file beside it knows that."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidelog.archive.claim_file import archives_named, claim_file, claim_or_copy
from tidelog.codec.crc32c import crc32c_of
from tidelog.errors import KafkaStorageError
from tidelog.explain.verify.findings import CUT, Finding
from tidelog.log.topic_id import topic_id_or_none
from tidelog.segment.filenames import log_file, parse_topic_partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.archive.claim_file import Digest
    from tidelog.env.files import FileSystem
    from tidelog.segment.filenames import TopicPartition

_READ_BYTES: Final = 1 << 20


def restoring(uris: Sequence[str], key: TopicPartition, data_dir: str) -> str:
    """Return the command that restores a lost partition, and which other archives hold it."""
    command = f"tidelog restore {uris[0]} {key.topic} -p {key.partition} --to {data_dir}"
    return command + (f" (or from {', '.join(uris[1:])})" if uris[1:] else "")


def with_archived_copies(fs: FileSystem, directory: str, found: list[Finding]) -> list[Finding]:
    """Return findings whose remedy is the archive's copy, where it has a segment as it was.

    A restoration puts back whole partitions only, so what is there is moved away first; a mirror
    of that adds the records which are not archived.
    """
    cut = {finding.path for finding in found if finding.remedy == CUT}
    if not cut:
        return found
    data_dir, name = os.path.split(directory)
    key, topic_id = parse_topic_partition(name), topic_id_or_none(fs, directory)
    if topic_id is None:
        return found
    path = claim_file(data_dir, topic_id, key.partition)
    try:
        digests, uris = claim_or_copy(fs, path).digests, archives_named(fs, path)
    except KafkaStorageError:  # the next writer of the claim says why
        return found
    archived = {log_file(directory, base): digest for base, digest in digests.items()}
    sound = {one for one in cut & archived.keys() if _has_changed(fs, one, archived[one])}
    if not (sound and uris):
        return found
    remedy = (
        "the archive has this segment as it was. Stop what has the data directory open, move"
        f" {directory} to ASIDE/{name}, where ASIDE is a new directory elsewhere, and run"
        f" `{restoring(uris[:1], key, data_dir)}`; `tidelog mirror ASIDE --to {data_dir}` then"
        " adds the records after the end of the archive"
    )
    return [
        replace(one, remedy=remedy) if one.remedy == CUT and one.path in sound else one
        for one in found
    ]


def _has_changed(fs: FileSystem, path: str, digest: Digest) -> bool:
    """Return whether a segment has other bytes than were archived: else they were damaged then."""
    try:
        with closing(fs.open(path)) as file:
            if file.size() != digest.size_bytes:
                return True
            starts = range(0, digest.size_bytes, _READ_BYTES)
            return crc32c_of(file.pread(_READ_BYTES, at) for at in starts) != digest.crc32c
    except KafkaStorageError:  # a part of it cannot be read, which was archived
        return True
