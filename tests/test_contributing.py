"""CONTRIBUTING.md is true: the files of each kind of addition, and the tour's definitions."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGES = ("agent", "aggregation", "metrics")


class Addition(NamedTuple):
    name: str
    examples: list[str]
    product: list[str]
    others: list[str]


class Stop(NamedTuple):
    """One place of the tour."""

    question: str
    path: str
    names: list[str]


def table_rows(heading: str) -> list[list[str]]:
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def code_names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


ADDITIONS = [
    Addition(name, *map(code_names, cells)) for name, *cells in table_rows("Files of an addition")
]
TOUR = [
    Stop(question, code_names(path)[0], code_names(names))
    for question, path, names in table_rows("A tour in four questions")
]


def is_mentioned(examples: list[str], path: Path) -> bool:
    """Whether a file, or one below a folder, has an example in its path or its text."""
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return any(
        example in file.relative_to(ROOT).as_posix() or example in file.read_text(errors="replace")
        for file in files
        for example in examples
        if file.suffix != ".pyc"
    )


def defined_names(path: Path) -> set[str]:
    """Return the names at the top of a module, or the keys at the top of a YAML file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        return set(re.findall(r"^(\w+):", text, re.MULTILINE))
    names: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Assign):
            names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_each_kind_of_addition_has_a_row() -> None:
    kinds = ["log dialect", "broker's line", "source", "output", "metric", "section", "command"]

    assert [kind for kind in kinds if not any(kind in row.name for row in ADDITIONS)] == []


@pytest.mark.parametrize("row", ADDITIONS, ids=lambda row: row.name)
def test_each_file_of_a_row_mentions_its_example(row: Addition) -> None:
    assert row.examples
    assert row.product

    silent = [
        path for path in (*row.product, *row.others) if not is_mentioned(row.examples, ROOT / path)
    ]
    assert silent == []


@pytest.mark.parametrize("row", ADDITIONS, ids=lambda row: row.name)
def test_no_other_module_has_to_be_touched(row: Addition) -> None:
    mentioning = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(
            re.search(rf"(?<!\w){re.escape(example)}", path.read_text(encoding="utf-8"))
            for example in row.examples
        )
    }

    assert {path for path in mentioning if not path.startswith(tuple(row.product))} == set()


def test_the_tour_asks_four_questions() -> None:
    assert len([stop for stop in TOUR if stop.question]) == 4


@pytest.mark.parametrize("stop", TOUR, ids=lambda stop: stop.path)
def test_every_definition_of_the_tour_exists(stop: Stop) -> None:
    assert stop.names
    assert set(stop.names) - defined_names(ROOT / stop.path) == set()
