"""Damage that pages have seen, so that lists say it, too, until the files have changed.

A list looks at the ends of logs only. What another page has read in the middle of one stays known
here as long as the files that it lay in are as they were; appends do not change that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.segment.filenames import LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.env.files import FileStat, FileSystem
    from tidelog.segment.filenames import TopicPartition


class _Seen(NamedTuple):
    """Damage, the directory of the log, and its files when the damage was seen."""

    text: str
    path: str
    files: dict[str, FileStat]


class SeenDamage:
    """Remembers the damage of logs; used by one thread at a time."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs: Final = fs
        self._seen: Final[dict[TopicPartition, _Seen]] = {}

    def of(self, key: TopicPartition) -> str | None:
        """Return the damage of a partition that was seen first; None: none was."""
        seen = self._seen.get(key)
        return None if seen is None else seen.text

    def note(self, key: TopicPartition, path: str, text: str) -> None:
        """Remember damage of a partition, whose log lies in ``path``."""
        if key not in self._seen:
            try:
                self._seen[key] = _Seen(text, path, self._files(path))
            except OSError:
                return  # the log is going away: the next pass sees whether it has

    def forget(self, key: TopicPartition) -> None:
        """Forget the damage of a partition that was found sound, or is gone."""
        self._seen.pop(key, None)

    def forget_changed(self, key: TopicPartition, path: str) -> None:
        """Forget the damage of a partition if its files have changed other than by appends."""
        seen = self._seen.get(key)
        if seen is None:
            return
        try:
            files = self._files(path)
        except OSError:
            files = {}
        if seen.path == path and _is_same(seen.files, files):
            self._seen[key] = seen._replace(files=files)
        else:
            self.forget(key)

    def _files(self, path: str) -> dict[str, FileStat]:
        return {name: self._fs.stat(f"{path}/{name}") for name in self._fs.list(path)}


def _is_same(before: dict[str, FileStat], now: dict[str, FileStat]) -> bool:
    """Return whether all files are as they were, except the segment that was appended to."""
    active, last = _last_log(before), _last_log(now)
    grown: tuple[str, ...] = ()
    if active in before and active in now:
        added = now[active].size_bytes - before[active].size_bytes
        if added > 0 or (not added and last > active):
            grown = (active.removesuffix(LOG_SUFFIX),)  # its indexes grow, and are cut at its end
    return all(now.get(name) == stat for name, stat in before.items() if not name.startswith(grown))


def _last_log(names: Iterable[str]) -> str:
    return max((name for name in names if name.endswith(LOG_SUFFIX)), default="")
