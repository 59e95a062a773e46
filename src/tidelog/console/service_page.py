"""The page about the data directories and the service that has them: space, cleaner, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.uuid_text import format_uuid
from tidelog.console.desk import tried
from tidelog.console.paging import paged
from tidelog.console.rendering import Answer
from tidelog.datadir.lock_file import writer_of
from tidelog.explain.service_metrics import cleaner_of_service, cleaner_text, metrics_of_service
from tidelog.manager.compaction_plan import CleanerLines
from tidelog.manager.metrics.health import offline_directories
from tidelog.manager.metrics.metric import COUNTER_END, parse_prometheus
from tidelog.staging.journal_names import list_journals

if TYPE_CHECKING:
    from tidelog.console.asked import Asked
    from tidelog.console.desk import Desk, Tried
    from tidelog.console.history import Sparkline
    from tidelog.readonly.directory_files import DirectoryFiles


class DirectoryRow(NamedTuple):
    """A data directory; ``writer`` is the pid of the process that holds it, 0: not known."""

    path: str
    directory_id: str
    partitions: int
    size_bytes: int
    space: Tried
    writer: int | None
    pending: Tried
    cleaner: Tried
    failures: Tried


class MetricRow(NamedTuple):
    """One number of a service's metrics."""

    name: str
    tags: str
    value: float
    line: Sparkline | None = None


def service_page(desk: Desk, asked: Asked) -> Answer:
    """Show the data directories, and what a running service writes of itself."""
    directories = [_directory_row(desk, part) for part in desk.directory.parts]
    now_ms, found = desk.clock.now_ms(), asked.text("q").lower()
    text = tried(lambda: metrics_of_service(desk.fs, desk.paths, now_ms))
    rows = [
        MetricRow(name, ", ".join(f"{tag}={held}" for tag, held in tags.items()), value)
        for name, tags, value in (parse_prometheus(text.value) if text.value else ())
    ]
    shown = [row for row in rows if found in f"{row.name} {row.tags}".lower()]
    page = paged(shown, asked, "service")
    return Answer(
        "service.html",
        {
            "directories": directories,
            "offline": offline_directories(text.value) if text.value else [],
            "metrics": text,
            "page": page,
            "rows": [row._replace(line=_line(desk, row)) for row in page.rows],
            "q": asked.text("q"),
            "commands": [desk.command("describe", "--log-dirs"), desk.command("metrics")],
        },
    )


def _line(desk: Desk, row: MetricRow) -> Sparkline | None:
    is_counter = row.name.endswith(COUNTER_END)
    return desk.history.note(("metric", row.name, row.tags), row.value, is_counter=is_counter)


def _directory_row(desk: Desk, part: DirectoryFiles) -> DirectoryRow:
    keys = desk.directory.partitions_in(part)
    known = (desk.survey.of(key) for key in keys)

    def cleaner() -> str:
        found = cleaner_of_service(desk.fs, part.path, desk.clock.now_ms())
        return "" if found is None else cleaner_text(found)

    return DirectoryRow(
        part.path,
        "" if part.directory_id is None else format_uuid(part.directory_id),
        len(keys),
        sum(one.size_bytes for one in known if one is not None),
        tried(lambda: (desk.fs.free_bytes(part.path), desk.fs.total_bytes(part.path))),
        writer_of(part.path),
        tried(lambda: len(list_journals(desk.fs, part.path))),
        tried(cleaner),
        tried(lambda: sorted(CleanerLines.read(desk.fs, part.path).failures.items())),
    )
