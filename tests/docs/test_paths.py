"""Paths that a page names exist, so that a page cannot outlive a move."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(ROOT.glob("benchmarks/*.md")),
    *sorted(ROOT.glob("deploy/**/*.md")),
    *sorted(ROOT.glob("dashboards/*.md")),
]
_FOLDERS = ("agent", "aggregation", "metrics", "dashboards", "deploy", "docs", "tests", "tools")
_NAMED = re.compile(
    rf"`((?:{'|'.join((*_FOLDERS, 'benchmarks'))})/[\w./{{}},*<>-]*)`", re.MULTILINE
)


def named_paths(page: Path) -> list[str]:
    """Return the paths in code type that hold no placeholder."""
    return [name for name in _NAMED.findall(page.read_text(encoding="utf-8")) if "<" not in name]


def alternatives(name: str) -> list[str]:
    """Return the paths that `a/{b,c}` stands for."""
    braces = re.search(r"\{([^}]*)\}", name)
    if braces is None:
        return [name]
    return [name.replace(braces[0], each) for each in braces[1].split(",")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    missing = [
        path
        for name in named_paths(page)
        for path in alternatives(name)
        if not list(ROOT.glob(path.rstrip("/")))
    ]

    assert missing == []


def test_paths_are_found_where_they_stand() -> None:
    named = {name for page in PAGES for name in named_paths(page)}

    assert {"metrics/tracking", "agent/wiring/capabilities.py"} <= named
