"""A tag against the versions of everything that a release publishes.

``python -m tools.check_release v0.2.0`` prints the release's notes, the section of that version in
``CHANGELOG.md``. It ends with 1 where a version differs, and names the file.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
PROJECTS = ("pyproject.toml", "deploy/kafka_rebalance_events/pyproject.toml")
MODULES = ("agent/__init__.py", "deploy/kafka_rebalance_events/kafka_rebalance_events.py")
CHARTS = ("deploy/helm/kafka-rebalance-agent", "deploy/helm/rebalance-agent-sidecar")
_ASSIGNED = re.compile(r'^(?:__version__|VERSION) = "([^"]+)"$', re.MULTILINE)


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each place of a version, and the version there."""
    for name in PROJECTS:
        yield name, tomllib.loads((root / name).read_text())["project"]["version"]
    for name in MODULES:
        for version in _ASSIGNED.findall((root / name).read_text()):
            yield name, version
    for folder in CHARTS:
        name = f"{folder}/Chart.yaml"
        chart = yaml.safe_load((root / name).read_text())
        yield f"{name}: version", chart["version"]
        yield f"{name}: appVersion", str(chart["appVersion"])


def notes(root: Path, version: str) -> str | None:
    """Return the changelog's section of a version, without its heading."""
    changelog = (root / "CHANGELOG.md").read_text()
    heading = rf"^## \[?{re.escape(version)}\]?(?: [^\n]*)?$\n"
    section = re.search(rf"{heading}(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return section[1].strip() if section else None


def faults(root: Path, tag: str) -> Iterator[str]:
    """Yield what keeps the tag from being released."""
    wanted = tag.removeprefix("v")
    for place, version in versions(root):
        if version != wanted:
            yield f"{place}: {version}, wanted {wanted}"
    if not notes(root, wanted):
        yield f"CHANGELOG.md: no section '## {wanted}'"


def main() -> int:
    """Check the tag of the command line."""
    (tag,) = sys.argv[1:]
    found = list(faults(ROOT, tag))
    sys.stderr.writelines(f"{fault}\n" for fault in found)
    if not found:
        sys.stdout.write(f"{notes(ROOT, tag.removeprefix('v'))}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
