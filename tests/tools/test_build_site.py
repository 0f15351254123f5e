"""A site has the versions of a project's tags, and addresses without a version stay valid."""

import json
import subprocess
from pathlib import Path

import pytest

from tools.build_site import build_site, find_releases

pytestmark = pytest.mark.process

CONFIG = "site_name: small\ntheme: {name: mkdocs}\nuse_directory_urls: true\n"
IDENTITY = ("-c", "user.name=small", "-c", "user.email=small@example.org")


def git(project: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(project), *IDENTITY, *arguments], check=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a project with two releases, and a third version that has no tag yet."""
    folder = tmp_path / "project"
    (folder / "docs" / "runbooks").mkdir(parents=True)
    (folder / "mkdocs.yml").write_text(CONFIG)
    git(folder.parent, "init", "--quiet", str(folder))
    for version in ("0.2.0", "0.10.0", "0.11.0"):
        (folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
        (folder / "docs" / "index.md").write_text(f"# Home of {version}\n")
        (folder / "docs" / "runbooks" / "Down.md").write_text("# Down\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", version)
        if version != "0.11.0":
            git(folder, "tag", f"v{version}")
    git(folder, "tag", "nightly")
    return folder


def test_each_release_is_a_version_and_the_tree_is_the_newest(
    project: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"

    assert build_site(project, site) == ["0.11.0", "0.10.0", "0.2.0"]

    listed = json.loads((site / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["0.11.0", "0.10.0", "0.2.0"]
    assert [each["aliases"] for each in listed] == [["latest"], [], []]
    for version in ("0.11.0", "0.10.0", "0.2.0"):
        assert f"Home of {version}" in (site / version / "index.html").read_text()
    assert "Home of 0.11.0" in (site / "latest" / "index.html").read_text()


def test_an_address_without_a_version_leads_to_the_newest(project: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    build_site(project, site)

    for page, target in (
        ("index.html", "latest/"),
        ("runbooks/Down/index.html", "../../latest/runbooks/Down/"),
    ):
        assert f'content="0; url={target}"' in (site / page).read_text()
        assert ((site / page).parent / target / "index.html").is_file()
    assert (site / "404.html").is_file()


def test_a_tag_of_the_present_version_is_built_once(project: Path, tmp_path: Path) -> None:
    git(project, "tag", "v0.11.0")

    assert build_site(project, tmp_path / "site") == ["0.11.0", "0.10.0", "0.2.0"]


def test_a_folder_without_git_has_no_releases(tmp_path: Path) -> None:
    assert find_releases(tmp_path) == []
