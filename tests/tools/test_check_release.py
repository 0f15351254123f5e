"""The check of a release's tag."""

import shutil
from pathlib import Path

import pytest

from tools.check_release import CHARTS, MODULES, PROJECTS, ROOT, faults, notes, versions

FILES = (*PROJECTS, *MODULES, *(f"{folder}/Chart.yaml" for folder in CHARTS))
VERSION = "0.1.0"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy the files that have the version, with a changelog that has it too."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    sections = ("Unreleased\n\n- later", f"{VERSION} - 2026-12-01\n\n- first", "0.0.9\n\n- before")
    text = "\n\n".join(("# Changelog", *(f"## {section}" for section in sections)))
    (tmp_path / "CHANGELOG.md").write_text(text)
    return tmp_path


def test_everything_that_is_published_has_one_version() -> None:
    assert {version for _, version in versions(ROOT)} == {VERSION}


def test_a_tag_of_that_version_has_its_notes(tree: Path) -> None:
    assert list(faults(tree, f"v{VERSION}")) == []
    assert notes(tree, VERSION) == "- first"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_left_behind_is_named(tree: Path, name: str) -> None:
    text = (tree / name).read_text()
    (tree / name).write_text(text.replace(VERSION, "0.0.9"))

    found = list(faults(tree, f"v{VERSION}"))

    assert found
    assert [fault for fault in found if not fault.startswith(name)] == []


def test_a_version_without_a_section_is_no_release(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- later\n")

    assert list(faults(tree, f"v{VERSION}")) == [f"CHANGELOG.md: no section '## {VERSION}'"]
