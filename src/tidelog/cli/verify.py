"""``tidelog verify``: check everything in partition directories; changes nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.places import find_places
from tidelog.cli.screen import Progress
from tidelog.config.log import LogConfig
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.explain.findings import Severity
from tidelog.explain.verify import LogVerifier
from tidelog.log.reader import open_read_only

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.places import Place
    from tidelog.explain.findings import Finding


def run(args: Namespace) -> int:
    """Print every finding; return 1 if one of them is damage."""
    settings = dict(args.options)
    is_compacted = "cleanup.policy" in settings and LogConfig.parse(settings).is_compacted
    places = find_places(SYSTEM_FILES, args.directory, args.topics)
    damaged = 0
    for place in places:
        found = _verify(place, is_compacted=is_compacted)
        damaged += any(finding.severity is Severity.DAMAGE for finding in found)
        for finding in found:
            _print(place, finding, as_json=args.json)
        if not args.json and not found:
            print(f"{place.topic}-{place.partition}: nothing found")
    if not args.json:
        print(f"{len(places):,} partitions, {damaged:,} damaged")
    return int(damaged > 0)


def _verify(place: Place, *, is_compacted: bool) -> list[Finding]:
    with open_read_only(place.path, fs=SYSTEM_FILES) as log:
        size_bytes = log.size_bytes
    with Progress(f"{place.topic}-{place.partition}", size_bytes, SYSTEM_CLOCK) as bar:
        verifier = LogVerifier(
            SYSTEM_FILES,
            place.path,
            clock=SYSTEM_CLOCK,
            is_compacted=is_compacted,
            on_progress=bar.show,
        )
        return list(verifier.findings())


def _print(place: Place, finding: Finding, *, as_json: bool) -> None:
    if as_json:
        row = {"topic": place.topic, "partition": place.partition, **finding.as_json()}
        print(json.dumps(row))
        return
    where = finding.path if finding.byte is None else f"{finding.path} byte {finding.byte:,}"
    print(f"{finding.severity}: {where}: {finding.what}\n  remedy: {finding.remedy}")
