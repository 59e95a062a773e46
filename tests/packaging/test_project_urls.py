"""The addresses in the metadata of what is built."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
HOME = "https://host.example/owner/project"
PAGES = {
    "Documentation": f"{HOME}/tree/main/docs",
    "Changelog": f"{HOME}/blob/main/CHANGELOG.md",
    "Issues": f"{HOME}/issues",
    "Source": HOME,
}


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The build hook, loaded as the build backend loads it."""
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "address",
    [
        "https://host.example/owner/project.git",
        "https://host.example/owner/project/",
        "https://x-access-token:secret@host.example/owner/project",
        "git@host.example:owner/project.git",
        "ssh://git@host.example:22/owner/project.git",
    ],
)
def test_a_build_names_the_repository_it_is_of(hook: ModuleType, address: str) -> None:
    """Whatever the form of git's remote; the user and the password in it are left out."""
    assert hook.urls_of_remote(address) == PAGES


@pytest.mark.parametrize("address", ["", "/srv/git/project", "file:///srv/git/project", "../up"])
def test_a_repository_without_an_address_has_no_pages(hook: ModuleType, address: str) -> None:
    """A path on this machine means nothing to those who install the package."""
    assert hook.urls_of_remote(address) == {}


def test_a_build_from_a_source_archive_keeps_its_addresses(hook: ModuleType) -> None:
    """There is no repository around an unpacked archive; its metadata has the addresses."""
    lines = [f"Project-URL: {name}, {url}" for name, url in PAGES.items()]

    assert hook.urls_of_archive("\n".join(["Name: tidelog", *lines, "", "README"])) == PAGES
    assert hook.urls_of_archive("Name: tidelog\n\nREADME") == {}
