"""Writes the project's addresses into the metadata of what is built.

They are those of the repository that is built: of git's remote ``origin`` or, in an unpacked source
archive, of the archive's own metadata. So a fork never names somebody else's repository.
"""

from __future__ import annotations

import re
import subprocess
from email import message_from_string
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_REMOTE = re.compile(
    r"(?:(?:https?|ssh)://(?:[^@/]*@)?|[\w.-]+@)(?P<host>[\w.-]+)(?::\d+)?[:/](?P<path>.+?)(?:\.git)?/?"
)


class ProjectUrls(MetadataHookInterface):
    """Fills ``[project.urls]``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the addresses; none where the repository has no address on a network."""
        root = Path(self.root)
        unpacked = root / "PKG-INFO"
        if unpacked.exists():
            metadata["urls"] = urls_of_archive(unpacked.read_text("utf-8"))
        else:
            metadata["urls"] = urls_of_remote(remote(root))


def remote(root: Path) -> str:
    """Return the address of git's remote ``origin``, or an empty string."""
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:  # git is not installed
        return ""
    return done.stdout.strip()


def urls_of_remote(address: str) -> dict[str, str]:
    """Return the addresses of a repository's pages, without the user of the remote's address."""
    found = _REMOTE.fullmatch(address)
    if found is None:
        return {}
    home = f"https://{found['host']}/{found['path']}"
    return {
        "Documentation": f"{home}/tree/main/docs",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
        "Source": home,
    }


def urls_of_archive(pkg_info: str) -> dict[str, str]:
    """Return the addresses that an archive's metadata holds."""
    lines = message_from_string(pkg_info).get_all("Project-URL", [])
    return dict(line.split(", ", 1) for line in lines)
