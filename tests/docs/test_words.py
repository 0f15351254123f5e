"""Pages use the field's words: sources report, brokers respond, nobody tells."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
GENERATED = (DOCS / "reference", DOCS / "benchmarks.md")
PAGES = [
    path
    for path in [*sorted(DOCS.rglob("*.md")), DOCS.parent / "CONTRIBUTING.md"]
    if not any(path.is_relative_to(each) for each in GENERATED)
]
_AVOIDED = re.compile(
    r"\b(tells?|told|telling|says?|said|anew|graver|gravest|voices?|speaks?|hears?|heard)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?```|`[^`]*`|^    .*$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS.parent).as_posix())
def test_a_page_avoids_words_that_the_glossary_replaces(path: Path) -> None:
    prose = _CODE.sub("", path.read_text(encoding="utf-8"))

    assert _AVOIDED.findall(prose) == []
