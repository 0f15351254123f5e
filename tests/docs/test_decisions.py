"""The decisions: each has its parts, and the index lists each."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent.parent / "docs" / "decisions"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
_STATUS = re.compile(
    r"Status: (?P<status>accepted|replaced by \d{4})\. Date: \d{4}-\d{2}-\d{2}\.", re.ASCII
)


def page_status(path: Path) -> str:
    found = _STATUS.search(path.read_text(encoding="utf-8"))
    assert found, f"{path.name} has no line with status and date"
    return found["status"]


def test_numbers_are_consecutive() -> None:
    assert [int(path.name[:4]) for path in PAGES] == list(range(1, len(PAGES) + 1))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_decision_has_context_choice_and_cost(path: Path) -> None:
    headings = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)

    assert headings[:3] == ["Context", "Choice", "Cost"]
    assert headings[3:] in ([], ["Not chosen"])


def test_the_index_lists_each_decision_with_title_and_status() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\((\S+)\) \| (.+?) \| (.+?) \| .+ \|$",
        (FOLDER / "index.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )

    titles = [path.read_text(encoding="utf-8").partition("\n")[0] for path in PAGES]
    assert listed == [
        (path.name[:4], path.name, title.removeprefix(f"# {path.name[:4]} "), page_status(path))
        for path, title in zip(PAGES, titles, strict=True)
    ]
