"""The documentation's site with all its versions: `make site`.

Each tag of a release is built from its own tree, and the present tree is the newest version. The
theme shows a choice of versions from ``versions.json``. A page without a version in its address
leads to the newest one, so addresses in alerts stay valid.
"""

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
NEWEST, NOT_FOUND = "latest", "404.html"
_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_VERSION = re.compile(r'^version = "(.+)"$', re.MULTILINE)
_LEADS_ON = (
    '<!doctype html><meta charset="utf-8"><title>Moved</title>'
    '<link rel="canonical" href="{url}"><meta http-equiv="refresh" content="0; url={url}">'
    '<a href="{url}">{url}</a>\n'
)


def build_site(project: Path, site: Path) -> list[str]:
    """Build all versions of a project into an empty folder; return them, the newest first."""
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir(parents=True)
    newest = read_version(project)
    versions = [newest, *(each for each in find_releases(project) if each != newest)]
    _build(project, site / newest)
    with tempfile.TemporaryDirectory() as name:
        for version in versions[1:]:
            tree = Path(name) / version
            extract_release(project, version, tree)
            _build(tree, site / version)
    shutil.copytree(site / newest, site / NEWEST)
    _write_list(site, {version: [NEWEST] if version == newest else [] for version in versions})
    shutil.copy(site / NEWEST / NOT_FOUND, site)
    for page in sorted((site / NEWEST).rglob("*.html")):
        if page.name != NOT_FOUND:
            _lead_on(site, page.relative_to(site / NEWEST))
    return versions


def read_version(project: Path) -> str:
    """Return the version of a project's tree."""
    found = _VERSION.search((project / "pyproject.toml").read_text())
    if found is None:
        raise ValueError(f"no version in {project / 'pyproject.toml'}")
    return found[1]


def find_releases(project: Path) -> list[str]:
    """Return the versions that have a tag, the newest first; without git none."""
    if not (project / ".git").exists():
        return []
    tags = _git(project, "tag").decode().split()
    numbers = [tuple(map(int, found.groups())) for found in map(_TAG.fullmatch, tags) if found]
    return [".".join(map(str, each)) for each in sorted(numbers, reverse=True)]


def extract_release(project: Path, version: str, folder: Path) -> None:
    """Write the tree of a version's tag into a folder."""
    archive = _git(project, "archive", f"v{version}")
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def _git(project: Path, *arguments: str) -> bytes:
    command = [shutil.which("git") or "git", "-C", str(project), *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603 - ours


def _build(tree: Path, site: Path) -> None:
    mkdocs = Path(sys.executable).with_name("mkdocs")
    command = [str(mkdocs), "build", "--quiet", "--strict", "--site-dir", str(site.resolve())]
    subprocess.run(command, cwd=tree, check=True)  # noqa: S603 - ours


def _write_list(site: Path, versions: Mapping[str, list[str]]) -> None:
    """Write the list that the theme reads."""
    listed = [
        {"version": version, "title": version, "aliases": aliases}
        for version, aliases in versions.items()
    ]
    (site / "versions.json").write_text(json.dumps(listed, indent=2) + "\n")


def _lead_on(site: Path, page: Path) -> None:
    """Write a page without a version, which leads to the newest one."""
    target = page.parent if page.name == "index.html" else page
    url = os.path.relpath(Path(NEWEST) / target, page.parent)
    url += "/" if page.name == "index.html" else ""
    file = site / page
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_LEADS_ON.format(url=html.escape(url)))


def main() -> None:
    """Build the site of this checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site")
    versions = build_site(ROOT, parser.parse_args().site)
    sys.stdout.write(f"versions: {', '.join(versions)}\n")


if __name__ == "__main__":
    main()
